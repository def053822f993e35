"""Runs a list of transforms, each one checked, compared, and rolled back if it broke something."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from thinflow.errors import GraphError, ThinflowError, TransformError, VerificationError
from thinflow.ir.brief import brief_repr
from thinflow.ir.check import PortCount, find_problems, interface_problems
from thinflow.ir.clones import is_unedited
from thinflow.ir.graph import Graph, Problem
from thinflow.rewrite.rule import Trace, Transform
from thinflow.typing import Progress

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Rounds:
    """Steps that belong together and run again, in their order, until a whole round changes nothing.

    Attributes:
        name: of the group.
        limit: rounds after which it ends in any case.
    """

    name: str
    limit: int = 10


@dataclass(frozen=True)
class Step:
    """One transform of a pipeline, and whether its failure is to be survived.

    Attributes:
        transform: what to apply.
        ignore_errors: undo it if it fails and go on.
        rounds: the group it repeats with; steps of one group stand next to each other.
    """

    transform: Transform
    ignore_errors: bool = False
    rounds: Rounds | None = None


class Comparer(Protocol):
    """Decides whether a graph still computes what it did."""

    def compare(self, before: Graph, after: Graph, transform: Transform) -> float | None:
        """The largest relative difference; None if it could not be told.

        Raises:
            VerificationError: the difference is above the transform's tolerance.
        """
        ...


@brief_repr
@dataclass
class StepReport:
    """The ledger line of one step: what became of it.

    Attributes:
        transform: as written.
        trace: changes, refusals, warnings.
        nodes, size_bytes: (before, after); size counts the serialized graph.
        difference: largest difference to the graph before, relative to the largest output; None if not
            compared.
        error: why the step was undone; empty if it was not.
        seconds: time for the transform and its checks.
        exact: whether the transform must not change numbers.
        nothing: why there was nothing to change and nothing to leave; empty if there was.
    """

    transform: str
    trace: Trace = field(default_factory=Trace)
    nodes: tuple[int, int] = (0, 0)
    size_bytes: tuple[int, int] = (0, 0)
    difference: float | None = None
    error: str = ""
    seconds: float = 0.0
    exact: bool = True
    nothing: str = ""

    @property
    def name(self) -> str:
        """The transform without its parameters."""
        return self.transform.partition("(")[0]

    def add(self, later: StepReport) -> None:
        """Take in what the same step did in a later round."""
        self.trace.changes += later.trace.changes
        # Refusals of the last round only: what an earlier one left may have been changed since.
        self.trace.left = later.trace.left
        self.trace.warnings += [w for w in later.trace.warnings if w not in self.trace.warnings]
        self.trace.notes += [n for n in later.trace.notes if n not in self.trace.notes]
        # Only what this step itself did: between its rounds other steps changed the graph as well.
        self.nodes = (self.nodes[0], self.nodes[1] + later.nodes[1] - later.nodes[0])
        self.size_bytes = (self.size_bytes[0], self.size_bytes[1] + later.size_bytes[1] - later.size_bytes[0])
        known = [d for d in (self.difference, later.difference) if d is not None]
        self.difference = max(known, default=None)
        self.error = later.error
        self.nothing = later.nothing if self.nothing else ""
        self.seconds += later.seconds

    @property
    def changes(self) -> int:
        return len(self.trace.changes)


@brief_repr
@dataclass
class Result:
    """The transformed graph and its ledger.

    Attributes:
        note: a sentence on all of it.
        proposed: transforms that would go on where these stopped; "" if nothing is known to.
    """

    graph: Graph
    steps: list[StepReport]
    note: str = ""
    proposed: str = ""

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
    fails either is undone: with `ignore_errors` the run goes on, otherwise it stops.

    Raises:
        GraphError: the graph is broken before the first step.
        TransformError: a step failed; names it and the steps before it.
        VerificationError: a step changed the numbers; the message names it.
    """
    known = find_problems(graph, port_count)
    # These leave no graph to reason about; illegal names and bad ports do not stand in the way.
    fatal = [p for p in known if p.kind in {"missing input", "cycle", "duplicate name"}]
    if fatal:
        raise GraphError(
            f"the graph is broken: {fatal[0]}" + (f" (and {len(fatal) - 1} more)" if len(fatal) > 1 else ""),
            graph.path,
            hint=f"`thinflow inspect {graph.path or 'MODEL'}` lists everything wrong",
        )
    work = _Run(graph.clone(), known, comparer, port_count, size_of or (lambda _: 0))
    for number, group in _groups(steps):
        work.group(number, group, len(steps), progress)
    if progress is not None:
        progress(len(steps), len(steps), "done")
    return Result(work.current, work.reports)


def _groups(steps: Sequence[Step]) -> Iterator[tuple[int, Sequence[Step]]]:
    """The number of the first step, and the steps that repeat together; others by themselves."""
    start = 0
    for end in range(1, len(steps) + 1):
        # By identity: two groups of the same name and limit are still two.
        if end == len(steps) or steps[end].rounds is None or steps[end].rounds is not steps[start].rounds:
            yield start, steps[start:end]
            start = end


class _Run:
    """A graph on its way through the steps.

    Attributes:
        current: the graph by now.
        reports: one for each step that was begun.
        version: counts the changes of the graph.
    """

    def __init__(
        self,
        graph: Graph,
        known: list[Problem],
        comparer: Comparer | None,
        port_count: PortCount | None,
        size_of: Callable[[Graph], int],
    ) -> None:
        self.current = graph
        self.reports: list[StepReport] = []
        self.version = 0
        self._known, self._comparer = known, comparer
        self._port_count, self._size_of = port_count, size_of
        # Most steps of a pipeline find nothing to do, and cloning costs more than looking.
        self._spare: Graph | None = None
        self._size = size_of(graph)

    def group(self, first: int, steps: Sequence[Step], total: int, progress: Progress | None) -> None:
        """Run steps once, or as often as they change something if they repeat.

        A step that was the last to change the graph has nothing to do when its turn comes again.
        """
        settled: dict[int, int] = {}
        rounds = steps[0].rounds
        for turn in range(rounds.limit if rounds is not None else 1):
            before = self.version
            for offset, step in enumerate(steps):
                number = first + offset
                if settled.get(number) == self.version:
                    # Nobody has changed anything since it last ran, itself included.
                    continue
                if progress is not None:
                    progress(number, total, step.transform.name)
                report = self.step(step, again=self.reports[number] if turn else None)
                if turn:
                    self.reports[number].add(report)
                # Of one that is not repeatable, a second run on its own result may well change something.
                if step.transform.repeatable:
                    settled[number] = self.version
            # A whole round without a change: the next one would do the same.
            if self.version == before:
                return
        if rounds is not None:
            text = f"'{rounds.name}' still changed something in round {rounds.limit}, which was the last"
            self.reports[first].trace.warnings.append(text)

    def step(self, step: Step, *, again: StepReport | None) -> StepReport:
        """Run one step; `again` is what is known of it from an earlier round.

        Raises:
            TransformError, VerificationError: it failed, and that is not to be survived.
        """
        logger.info("Applying %s", step.transform.name)
        nodes = len(self.current)
        report = StepReport(str(step.transform), nodes=(nodes, nodes), size_bytes=(self._size, self._size))
        report.exact = step.transform.exact
        if again is None:
            self.reports.append(report)
        started = time.perf_counter()
        # Steps work on a copy, so that undoing one is to drop the copy.
        attempt = self.current.clone() if self._spare is None else self._spare
        self._spare = None
        try:
            _apply(
                step.transform, self.current, attempt, report, self._known, self._port_count, self._comparer
            )
        except ThinflowError as error:
            report.error = error.message
            report.seconds = time.perf_counter() - started
            if not step.ignore_errors:
                raise _located(error, step.transform, self.reports) from error
            # They did not happen, as the graph shows.
            report.trace.changes.clear()
            logger.warning("%s failed and was undone: %s", step.transform.name, error.message)
            return report
        if report.changes:
            self.version += 1
            self.current = attempt
            self._size = self._size_of(attempt)
        else:
            # A copy that is not as it was goes: what the ledger does not tell did not happen.
            self._spare = attempt if is_unedited(attempt, self.current) else None
            report.nothing = "" if report.trace.left else step.transform.why_nothing(self.current)
        report.nodes = (nodes, len(self.current))
        report.size_bytes = (report.size_bytes[0], self._size)
        report.seconds = time.perf_counter() - started
        return report


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
    _change(transform, graph, report.trace)
    # A copy that nothing is told of goes unseen, whatever it became.
    if not report.changes:
        return
    # By kind and node; what was wrong in the file is not this step's fault.
    new = [p for p in find_problems(graph, port_count) if p not in known]
    if not transform.renames:
        new += interface_problems(graph, *names)
    if new:
        raise TransformError(f"it left an invalid graph: {new[0]}", hint="please report this with the model")
    if comparer is not None:
        report.difference = comparer.compare(before, graph, transform)


def _change(transform: Transform, graph: Graph, trace: Trace) -> None:
    """Run the transform; whatever it raises becomes an error of ours, so that the step can be undone.

    Raises:
        TransformError: it raised what no transform should.
    """
    try:
        transform.run(graph, trace)
    except (ThinflowError, MemoryError):
        raise
    except Exception as error:
        raise TransformError(
            f"it raised {type(error).__name__}: {error}", hint="please report this with the model"
        ) from error


def _located(error: ThinflowError, transform: Transform, reports: list[StepReport]) -> ThinflowError:
    before = ", ".join(r.transform for r in reports[:-1])
    where = f"transform '{transform.name}'" + (f" (after {before})" if before else "")
    if isinstance(error, (VerificationError, TransformError)):
        return error.at(where)
    return TransformError(
        error.message, where, error.hint or f"{transform.name}(ignore_errors=true) goes on without it"
    )
