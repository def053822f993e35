"""The search for the smallest graph that still fails: bisection, then everything one by one."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from thinflow.compare.reducing.candidate import (
    Candidate,
    bypassed,
    cut,
    first,
    is_source,
    passing_input,
    with_constant,
    without_control_input,
    without_trimmings,
)
from thinflow.compare.reducing.properties import Property, outcome_of_file
from thinflow.engines import _child
from thinflow.errors import EngineCrashed, FeedError, ParameterError
from thinflow.errors.plain_text import one_line, shown
from thinflow.formats import graphdef
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Node
from thinflow.ir.notebook import text_html
from thinflow.typing import Array, Progress

T = TypeVar("T")
logger = logging.getLogger(__name__)

TRIMMINGS = ("control edges", "devices", "annotations")


class _Enough(Exception):
    """The trials or the time are used up."""


@brief_repr
@dataclass
class Search:
    """Tries candidates and remembers the smallest that fails as the first one did.

    Attributes:
        what: the failure.
        timeout_seconds: for one trial.
        most_trials, most_seconds: after which the search stops with what it has.
        progress: called with (trials, most trials, label).
        wanted: the outcome to keep.
        trials: made so far.
    """

    what: Property
    timeout_seconds: float = 60.0
    most_trials: int = 1000
    most_seconds: float = 600.0
    progress: Progress | None = None
    wanted: str = ""
    trials: int = 0
    _seen: set[bytes] = field(default_factory=set)
    _started: float = field(default_factory=time.monotonic)

    def outcome(self, candidate: Candidate) -> str:
        """The failure of a candidate, found out in a process of its own; "" if it works."""
        graph = candidate.graph
        if self.what.own_process:
            return self.what.outcome(graph, candidate.feeds, self.timeout_seconds)
        names = [v.name for v in graph.inputs], [v.name for v in graph.outputs]
        # As bytes: a graph shall not share memory with the process that may crash.
        arguments = (self.what, graphdef.to_bytes(graph), *names, candidate.feeds, self.timeout_seconds)
        try:
            return _child.call(
                outcome_of_file, arguments, "trial", "trying a graph", timeout_seconds=self.timeout_seconds
            )
        except EngineCrashed as error:
            return "it gives no answer" if error.is_slow else "it crashes"

    def fails(self, candidate: Candidate | None) -> bool:
        """True if a candidate fails in the wanted way.

        Raises:
            _Enough: no more trials.
        """
        if candidate is None:
            return False
        # The same graph comes up by many ways, and a trial costs a process.
        mark = _mark(candidate)
        if mark in self._seen:
            return False
        self._seen.add(mark)
        if self.trials >= self.most_trials or time.monotonic() - self._started > self.most_seconds:
            raise _Enough
        self.trials += 1
        if self.progress is not None:
            # One more than the most, so that the bar is full only when the search is done.
            self.progress(self.trials, self.most_trials + 1, f"{len(candidate.graph)} nodes")
        found = self.outcome(candidate)
        logger.debug("%d nodes: %s", len(candidate.graph), found or "works")
        return found == self.wanted

    def run(self, start: Candidate) -> Candidate:
        """The smallest candidate found."""
        best = start
        try:
            for step in self._steps(start):
                best = step
        except _Enough:
            logger.info("the trials are used up")
        if self.progress is not None:
            self.progress(1, 1, "done")
        return best

    def _steps(self, best: Candidate) -> Iterator[Candidate]:
        """Smaller and smaller candidates, until no edit helps."""
        size = None
        # Again from the start: one edit opens the way for another.
        while size != _size(best):
            size = _size(best)
            # Cheap and coarse edits first: bisections leave little for those that try node after node.
            for edit in (earlier_end, fewer_outputs, later_start, single_cuts, fewer_nodes, plainer):
                for smaller in edit(best, self):
                    best = smaller
                    yield best


def _size(candidate: Candidate) -> tuple[int, int]:
    return len(candidate.graph), sum(n.tensor.size_bytes for n in candidate.graph if n.tensor is not None)


def _mark(candidate: Candidate) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for chunk in graphdef.to_chunks(candidate.graph):
        digest.update(chunk)
    digest.update(repr([v.name for v in candidate.graph.outputs]).encode())
    return digest.digest()


def earlier_end(best: Candidate, search: Search) -> Iterator[Candidate]:
    """Stop after the first k nodes: what later nodes would read of them becomes the output. Bisects k."""
    work = best.work
    outputs = {v.name for v in best.graph.outputs}
    low, high = 0, len(work)
    # Failing is taken for monotonic in k; where it is not, the other edits come after.
    while high - low > 1:
        middle = (low + high) // 2
        names = _live(work[:middle], set(work[:middle]), outputs)
        smaller = cut(best, names) if names else None
        if search.fails(smaller):
            assert smaller is not None
            yield smaller
            high = middle
        else:
            low = middle


def later_start(best: Candidate, search: Search) -> Iterator[Candidate]:
    """Leave out the first k nodes: what later nodes read of them is fed, as recorded. Bisects k."""
    work = best.work
    values = best.recorded()
    low, high = 0, len(work)
    while high - low > 1:
        middle = (low + high) // 2
        head = set(work[:middle])
        live = _live(work[:middle], head, set())
        smaller = cut(best, None, {n: values[n] for n in live}) if all(n in values for n in live) else None
        # With recorded values ahead of the cut it still fails, so that the cause lies behind it.
        if search.fails(smaller):
            assert smaller is not None
            yield smaller
            low = middle
        else:
            high = middle


def _live(nodes: Sequence[Node], inside: set[Node], outputs: set[str]) -> list[str]:
    """Names of the values of some nodes that are outputs, or read by other nodes."""
    return [
        value.name
        for node in nodes
        for value in node.outputs or (node.output(),)
        if value.name in outputs or any(use.node not in inside for use in value.uses)
    ]


def fewer_outputs(best: Candidate, search: Search) -> Iterator[Candidate]:
    names = [v.name for v in best.graph.outputs]
    # One output alone is tried first: most failures show in one.
    if len(names) > 1:
        for name in names:
            single = cut(best, [name])
            if search.fails(single):
                assert single is not None
                yield single
                return
    kept: Sequence[str] = names
    for left in _thinned(names, lambda rest: bool(rest) and search.fails(cut(best, rest))):
        kept = left
    smaller = cut(best, kept) if kept != names else None
    if smaller is not None:
        yield smaller


def single_cuts(best: Candidate, search: Search) -> Iterator[Candidate]:
    """Feed the values between nodes one by one, those next to the outputs first."""
    values = best.recorded()
    # Near the outputs first: a cut there drops the most.
    for name in [v.name for n in reversed(best.work) for v in (n.outputs or (n.output(),))]:
        node = best.graph.find(name.partition(":")[0])
        if node is None or name not in values or not best.graph.value(name).uses:
            continue
        smaller = cut(best, None, {name: values[name]})
        if smaller is not None and len(smaller.work) < len(best.work) and search.fails(smaller):
            best = smaller
            yield best


def fewer_nodes(best: Candidate, search: Search) -> Iterator[Candidate]:
    """Take nodes out that have an input like their output: many at once, then fewer."""
    values = {**best.recorded(), **best.feeds}
    values |= {n.name: n.tensor.numpy() for n in best.graph if n.tensor is not None}
    names = [n.name for n in best.work if passing_input(n, values) is not None]
    size = len(names)
    # Halves, quarters, ... as in delta debugging.
    while size >= 1:
        for start in range(0, len(names), size):
            smaller = bypassed(best, names[start : start + size], values)
            if search.fails(smaller):
                assert smaller is not None
                best = smaller
                yield best
        size //= 2


def plainer(best: Candidate, search: Search) -> Iterator[Candidate]:
    """Without control edges, devices and annotations; constants of ones, or of few digits."""
    for what in TRIMMINGS:
        smaller = without_trimmings(best, what)
        if search.fails(smaller):
            best = smaller
            yield best
    # Where one edge is needed the others are not, and each keeps alive all that it waits for.
    for reader, source in [(n.name, other.name) for n in best.graph for other in n.control_inputs]:
        if best.graph.find(reader) is None or best.graph.find(source) is None:
            continue
        freed = without_control_input(best, reader, source)
        if search.fails(freed):
            assert freed is not None
            best = freed
            yield best
    for node in [n for n in best.graph if n.tensor is not None]:
        tensor = node.tensor
        assert tensor is not None
        # Splats are plain already, and integers are often sizes and axes.
        if tensor.size < 2 or tensor.is_splat or not tensor.dtype.is_floating:
            continue
        for array in _plainer_arrays(tensor.numpy()):
            smaller = with_constant(best, node.name, array)
            if search.fails(smaller):
                best = smaller
                yield best
                break


def _plainer_arrays(array: Array) -> Iterator[Array]:
    # Not zeros, behind which most failures would vanish.
    yield np.broadcast_to(np.ones((), array.dtype), array.shape)
    rounded = np.asarray(np.round(array.astype(np.float64), 1), array.dtype)
    if not np.array_equal(rounded, array):
        yield rounded


def _thinned(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Iterable[Sequence[T]]:
    """Delta debugging by leaving out: half of the items, a quarter, ... one; what still fails."""
    kept = list(items)
    size = len(kept) // 2
    while size >= 1:
        start = 0
        while start < len(kept):
            rest = kept[:start] + kept[start + size :]
            if rest and fails(rest):
                kept = rest
                yield kept
            else:
                start += size
        size //= 2


@brief_repr
@dataclass
class Reduction:
    """A failing graph made small.

    Attributes:
        graph: with inputs and outputs declared.
        feeds: input name -> array.
        what: the failure, and
        outcome: how it shows.
        nodes: before and after.
        trials: how many graphs were tried.
    """

    graph: Graph
    feeds: dict[str, Array]
    what: Property
    outcome: str
    nodes: tuple[int, int]
    trials: int

    @property
    def verdict(self) -> str:
        """One line."""
        ops = ", ".join(dict.fromkeys(n.op for n in self.graph if not is_source(n)))
        size = f"{self.nodes[0]} nodes reduced to {self.nodes[1]} ({ops})"
        return f"{size} in {self.trials} trials: {self.outcome}"

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def __str__(self) -> str:
        from thinflow.ir.text import graph_text

        return f"{one_line(self.verdict)}\n{shown(graph_text(self.graph).rstrip())}"


def start_of(graph: Graph, feeds: Mapping[str, Any]) -> Candidate:
    """The candidate to start with, from arrays or lists for all inputs under any of their names.

    Raises:
        FeedError: an input is missing, or the graph computes nothing.
    """
    arrays = {graph.value(n).name: np.asarray(x) for n, x in feeds.items()}
    missing = [v.name for v in graph.inputs if v.name not in arrays]
    if missing:
        raise FeedError(f"nothing was fed for the input '{missing[0]}'", hint="feed every input")
    return first(graph, arrays)


def reduce_graph(graph: Graph, feeds: Mapping[str, Any], search: Search) -> Reduction:
    """Make a failing graph small.

    Args:
        graph: with inputs and outputs; is not changed.
        feeds: an array for each input, by name.
        search: with the failure in it.

    Raises:
        ParameterError: the graph does not fail.
        FeedError: it computes nothing.
    """
    start = start_of(graph, feeds)
    # The first outcome is what every smaller graph has to show.
    search.wanted = search.outcome(start)
    if not search.wanted:
        raise ParameterError(
            "the graph does not fail: there is nothing to reduce",
            graph.path,
            "try other feeds or another seed",
        )
    best = search.run(start)
    size = len(graph), len(best.graph)
    return Reduction(best.graph, best.feeds, search.what, search.wanted, size, search.trials)
