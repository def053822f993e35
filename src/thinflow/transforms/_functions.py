"""Function libraries: carried through, not looked into."""

from __future__ import annotations

from thinflow.ir.graph import Graph
from thinflow.rewrite.trace import Trace

_LIBRARY_FIELD = 2


def note_functions(graph: Graph, trace: Trace, what: str = "functions are left as they are") -> None:
    """Say so if the file has a function library, since this transform does not reach into it."""
    if any(number == _LIBRARY_FIELD for number, _ in graph.passenger.fields):
        trace.notes.append(f"the model has a function library; {what}")
