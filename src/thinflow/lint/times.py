"""What the nodes of findings take in a run, by an engine's own profiler."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from thinflow.bench.profile import profile
from thinflow.compare.inner_values import names_of
from thinflow.engines._files import engine_of
from thinflow.errors import ParameterError, closest
from thinflow.ir.graph import Graph, Node
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding

_LAYER = re.compile(r"conv|fully|gemm|matmul|lstm|gru|rnn", re.IGNORECASE)
"""What layers are called in any vocabulary."""
_LONGEST = 8
"""Nodes that an engine takes into a layer, at most: a bias, a norm, an activation, and what lies between."""


ENGINES = ("auto", "litert", "onnxruntime", "reference")


def require_engine(name: str) -> None:
    """Refuse what is no engine with a profiler.

    Raises:
        ParameterError: there is none of that name.
    """
    if name not in ENGINES:
        hint = closest(name, ENGINES) or f"it is one of {', '.join(ENGINES)}"
        raise ParameterError(f"there is no profile of '{name}'", hint=hint)


@dataclass(frozen=True)
class RunTimes:
    """What a model's nodes take.

    Attributes:
        engine, threads, method: as in a profile of `benchmark`.
        runs: how many were measured.
        run_ms: mean of them, from start to end.
        nodes: name -> ms a run; missing for what the engine fused into others, or does not run at all.
    """

    engine: str
    threads: int
    method: str
    runs: int
    run_ms: float
    nodes: dict[str, float] = field(repr=False)

    @property
    def sentence(self) -> str:
        """How the times were come by."""
        return (
            f"a run takes {self.run_ms:.3g} ms (mean of {self.runs} on {self.engine}, {self.threads} "
            "thread); what it fuses into other operators has no time of its own"
        )

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {key: value for key, value in asdict(self).items() if key != "nodes"}


def measured(context: Context, engine: str = "auto", *, runs: int = 20) -> RunTimes:
    """Run a model under a profiler: a file of a runtime as it is, others as the linter sees them.

    Args:
        engine: one of `ENGINES`; "auto" for the file's own, else LiteRT.
        runs: how many count.

    Raises:
        EngineUnavailable: it is not installed, or does not run the model.
    """
    own = engine_of(context.source)
    chosen = (own or "litert") if engine == "auto" else engine
    # A file runs as it is in its own runtime only; elsewhere it is the graph that it was opened as.
    is_own = bool(own) and chosen == own
    source, graph = (context.source, context.file) if is_own else (context.graph, context.graph)
    shapes = context.shapes if is_own else None
    found = profile(source, engine=chosen, runs=runs, shapes=shapes, feeds=context.in_turns)
    count = max(found.stats.micros.count, 1)
    finder, nodes = _Finder(graph), dict[str, float]()
    for row in found.stats.rows.values():
        node = finder.find(row.name, row.op)
        if node is not None:
            nodes[node.name] = nodes.get(node.name, 0.0) + row.micros.total / count / 1000
    whole = sum(found.whole_micros) / max(len(found.whole_micros), 1) / 1000
    return RunTimes(found.engine, found.threads, found.method, count, whole, nodes)


def timed(findings: Iterable[LintFinding], times: RunTimes) -> Iterator[LintFinding]:
    """The findings with what their nodes take, where that is known of any."""
    for finding in findings:
        known = [times.nodes[name] for name in dict.fromkeys(finding.nodes) if name in times.nodes]
        yield replace(finding, ms=sum(known)) if known else finding


class _Finder:
    """Nodes by the names that engines know them by."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = {node.name: node for node in graph}
        for node in graph:
            for value in node.outputs:
                for name in names_of(value):
                    self._nodes.setdefault(name, node)

    def find(self, name: str, op: str) -> Node | None:
        """The node whose time an operator's is.

        Args:
            name: of the operator; of several names joined by ";" the first that there is.
            op: the engine's.
        """
        parts = (part.strip().removesuffix(":0") for part in (name, *name.split(";")))
        node = next((self._nodes[part] for part in parts if part in self._nodes), None)
        # Other operators are called by the node that they are.
        if node is None or not _LAYER.search(op):
            return node
        # An engine calls a layer by the last node that it took in, whose time it is not.
        for _ in range(_LONGEST):
            if _LAYER.search(node.op) or not node.inputs:
                break
            node = node.inputs[0].node
        return node if _LAYER.search(node.op) else None
