"""Function libraries: carried through, not looked into."""

from __future__ import annotations

from thinflow.ir.graph import Graph
from thinflow.rewrite.trace import Trace


def note_functions(graph: Graph, trace: Trace, what: str) -> None:
    """Say so if the model has a function library, since this transform does not reach into it."""
    if graph.functions:
        trace.notes.append(f"the model has a function library ({len(graph.functions)} in it); {what}")
