"""Runs a list of transforms, each one checked, compared, and rolled back if it broke something."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from thinflow.errors import GraphError, ThinflowError, TransformError, VerificationError
from thinflow.ir.check import PortCount, find_problems, interface_problems
from thinflow.ir.graph import Graph, Problem
from thinflow.rewrite.rule import Transform
from thinflow.rewrite.trace import Trace

logger = logging.getLogger(__name__)

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Step:
    """One transform of a pipeline, and whether its failure is to be survived."""

    transform: Transform
    ignore_errors: bool = False


class Comparer(Protocol):
    """Decides whether a graph still computes what it did."""

    def compare(self, before: Graph, after: Graph, transform: Transform) -> float | None:
        """The largest relative difference; None if it could not be told.

        Raises:
            VerificationError: the difference is above the transform's tolerance.
        """
        ...


@dataclass
class StepReport:
    """What became of one step: the ledger line.

    Attributes:
        transform: as written.
        trace: changes, refusals, warnings.
        nodes, size_bytes: (before, after); size counts the serialized graph.
        difference: largest difference to the graph before, relative to the largest output; None if not
            compared.
        error: why the step was undone; empty if it was not.
        seconds: time for the transform and its checks.
        exact: whether the transform must not change numbers.
    """

    transform: str
    trace: Trace = field(default_factory=Trace)
    nodes: tuple[int, int] = (0, 0)
    size_bytes: tuple[int, int] = (0, 0)
    difference: float | None = None
    error: str = ""
    seconds: float = 0.0
    exact: bool = True

    @property
    def changes(self) -> int:
        return len(self.trace.changes)


@dataclass
class Result:
    """The transformed graph and its ledger."""

    graph: Graph
    steps: list[StepReport]
    note: str = ""

    @property
    def changes(self) -> int:
        return sum(step.changes for step in self.steps)


def run(
    graph: Graph,
    steps: Sequence[Step],
    *,
    comparer: Comparer | None = None,
    port_count: PortCount | None = None,
    size_of: Callable[[Graph], int] | None = None,
    progress: Progress | None = None,
) -> Result:
    """Apply the steps to a copy of the graph; the argument is not changed.

    After each step the structure is checked, and the numbers are compared if there is a comparer. A step that
    fails either
    is undone: with `ignore_errors` the run goes on, otherwise it stops.

    Raises:
        GraphError: the graph is broken before the first step.
        TransformError: a step failed; names it and the steps before it.
        VerificationError: a step changed the numbers; the message names it.
    """
    known = find_problems(graph, port_count)
    fatal = [p for p in known if p.kind in {"missing input", "cycle", "duplicate name"}]
    if fatal:
        raise GraphError(
            f"the graph is broken: {fatal[0]}" + (f" (and {len(fatal) - 1} more)" if len(fatal) > 1 else ""),
            graph.path,
            hint=f"`thinflow inspect {graph.path or 'MODEL'}` lists everything wrong",
        )
    current = graph.clone()
    reports: list[StepReport] = []
    measure = size_of or (lambda _: 0)
    size = measure(current)
    spare: Graph | None = None
    for number, step in enumerate(steps):
        if progress is not None:
            progress(number, len(steps), step.transform.name)
        logger.info("Applying %s", step.transform.name)
        report = StepReport(str(step.transform), nodes=(len(current), len(current)), size_bytes=(size, size))
        report.exact = step.transform.exact
        reports.append(report)
        started = time.perf_counter()
        attempt = current.clone() if spare is None else spare
        spare = None
        try:
            _apply(step.transform, current, attempt, report, known, port_count, comparer)
        except ThinflowError as error:
            report.error = error.message
            report.seconds = time.perf_counter() - started
            if not step.ignore_errors:
                raise _located(error, step.transform, reports) from error
            report.trace.changes.clear()
            logger.warning("%s failed and was undone: %s", step.transform.name, error.message)
            continue
        if report.changes:
            current = attempt
        else:
            spare = attempt  # still a copy of the current graph
        size = measure(current) if report.changes else size
        report.nodes = (report.nodes[0], len(current))
        report.size_bytes = (report.size_bytes[0], size)
        report.seconds = time.perf_counter() - started
    if progress is not None:
        progress(len(steps), len(steps), "done")
    return Result(current, reports)


def _apply(
    transform: Transform,
    before: Graph,
    graph: Graph,
    report: StepReport,
    known: list[Problem],
    port_count: PortCount | None,
    comparer: Comparer | None,
) -> None:
    names = [v.name for v in graph.inputs], [v.name for v in graph.outputs]
    transform.apply(graph, report.trace)
    new = [p for p in find_problems(graph, port_count) if p not in known]
    if not transform.renames:
        new += interface_problems(graph, *names)
    if new:
        raise TransformError(f"it left an invalid graph: {new[0]}", hint="please report this with the model")
    if report.changes and comparer is not None:
        report.difference = comparer.compare(before, graph, transform)


def _located(error: ThinflowError, transform: Transform, reports: list[StepReport]) -> ThinflowError:
    before = ", ".join(r.transform for r in reports[:-1])
    where = f"transform '{transform.name}'" + (f" (after {before})" if before else "")
    if isinstance(error, (VerificationError, TransformError)):
        return error.at(where)
    return TransformError(
        error.message, where, error.hint or f"{transform.name}(ignore_errors=true) goes on without it"
    )
