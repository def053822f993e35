"""Does a graph still compute what another one computes?

Two uses: `OutputComparer` after every transform of a pipeline, and `verify` for any two graphs, which also finds the first
value that differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thinflow.engines.session import Session
from thinflow.errors import FeedError, GraphError, ThinflowError, UnsupportedOp, VerificationError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Value
from thinflow.rewrite.rule import Transform
from thinflow.synthetic import synthetic_feeds

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]

NO_CHANGE = 1e-6
"""Relative differences below this are what reordering float additions makes; nothing is reported as differing."""
NOISE_FACTOR = 16
"""How many times its own rounding noise a graph may move: weights are rounded anew in every layer, the input only once."""
MOST_NOISE = 1e-2
"""No graph is so noisy that a larger difference would pass."""


@dataclass(frozen=True)
class Difference:
    """How far two arrays are apart.

    Attributes:
        largest: largest |a - b|.
        relative: that, over the largest |a|.
        index: where, as a tuple.
        before, after: the two values there.
    """

    largest: float
    relative: float
    index: tuple[int, ...] = ()
    before: Any = None
    after: Any = None


def difference(before: Array, after: Array) -> Difference:
    """The largest difference of two arrays; NaN equals NaN, and infinity the same infinity. Other shapes: infinite."""
    if before.shape != after.shape or (before.dtype.kind in "OSU") != (after.dtype.kind in "OSU"):
        return Difference(math.inf, math.inf, (), f"shape {list(before.shape)}", f"shape {list(after.shape)}")
    if before.size == 0:
        return Difference(0.0, 0.0)
    if before.dtype.kind in "OSU":
        unequal = np.asarray(before != after)
        if not unequal.any():
            return Difference(0.0, 0.0)
        index = np.unravel_index(int(np.argmax(unequal)), before.shape) if before.ndim else ()
        return Difference(math.inf, math.inf, tuple(map(int, index)), before[index], after[index])
    wide = np.complex128 if before.dtype.kind == "c" else np.float64
    a, b = before.astype(wide), after.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(a - b)
        gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, gap)
    gap = np.where(np.isnan(gap), math.inf, gap)
    place = int(np.argmax(gap))
    index = tuple(int(i) for i in np.unravel_index(place, gap.shape)) if gap.ndim else ()
    finite = np.abs(a[np.isfinite(a)])
    scale = float(finite.max()) if finite.size else 0.0
    largest = float(gap.max())
    relative = 0.0 if largest == 0 else largest / scale if scale > 0 else math.inf
    return Difference(largest, relative, index, before[index], after[index])


class OutputComparer:
    """Runs a graph before and after each transform on the same seeded inputs.

    Args:
        graph: the graph before the first transform, with its inputs and outputs set.
        feeds: what to run it on; made up if None.
        seed: for made-up inputs.
    """

    def __init__(self, graph: Graph, feeds: Sequence[Mapping[Value, Array]] | None = None, *, seed: int = 0) -> None:
        self.skipped = ""
        """Why nothing can be compared, if so."""
        self._names = [v.name for v in graph.outputs]
        self._feeds: list[dict[str, Array]] = []
        self._before: list[list[Array]] = []
        self._graph = graph
        self._ran = False
        self._noise: float | None = None
        try:
            chosen = list(feeds) if feeds is not None else list(synthetic_feeds(graph.inputs, 1, seed))
            self._feeds = [{v.name: a for v, a in f.items()} for f in chosen]
        except FeedError as error:
            self.skipped = error.message

    def compare(self, after: Graph, transform: Transform) -> float | None:
        """The largest relative difference to the graph before the transform; None if it cannot be run.

        Raises:
            VerificationError: larger than the transform's tolerance, for one that must not change numbers.
        """
        if not self._baseline():
            return None
        results = [self._run(after, feeds) for feeds in self._feeds]
        worst = 0.0
        for before, now in zip(self._before, results, strict=True):
            for name, a, b in zip(self._names, before, now, strict=True):
                found = difference(a, b)
                if transform.exact and found.relative > max(transform.tolerance, NO_CHANGE) and self._exceeds_noise(found):
                    raise VerificationError(
                        f"output '{name}'{list(found.index)} was {found.before} and is {found.after} now",
                        hint="the step was undone; leave the transform out, or use --no-verify to keep its result",
                    )
                worst = max(worst, found.relative)
        self._before = results
        return worst

    def _baseline(self) -> bool:
        """Run the graph before everything, once; whether that worked."""
        if not self._ran and not self.skipped:
            try:
                self._before = [self._run(self._graph, feeds) for feeds in self._feeds]
            except ThinflowError as error:
                self.skipped = error.message
            self._ran = True
        return not self.skipped

    def _exceeds_noise(self, found: Difference) -> bool:
        """Whether a difference is more than what rounding alone does to this graph.

        Deep graphs amplify rounding errors. How much is measured once, when it matters: the original graph runs again
        with every input number off by about one unit in its last place.
        """
        if self._noise is None:
            rng = np.random.default_rng(1)
            self._noise = 0.0
            for feeds in self._feeds:
                shaken = {name: _shaken(array, rng) for name, array in feeds.items()}
                for a, b in zip(self._run(self._graph, feeds), self._run(self._graph, shaken), strict=True):
                    self._noise = max(self._noise, difference(a, b).relative)
        return found.relative > min(NOISE_FACTOR * self._noise, MOST_NOISE)

    def _run(self, graph: Graph, feeds: Mapping[str, Array]) -> list[Array]:
        return run_by_name(graph, feeds, self._names)


def _shaken(array: Array, rng: np.random.Generator) -> Array:
    """Floats times 1 ± their machine epsilon; anything else as it is."""
    if array.dtype.kind != "f":
        return array
    signs = rng.integers(0, 2, array.shape) * 2 - 1
    return (array * (1 + signs * np.finfo(array.dtype).eps)).astype(array.dtype)


def run_by_name(graph: Graph, feeds: Mapping[str, Array], names: Sequence[str]) -> list[Array]:
    """Outputs by name on the reference interpreter; feeds that the graph no longer has are left out."""
    fed = {graph.value(n): a for n, a in feeds.items() if n.partition(":")[0] in graph}
    return Plan(graph, [graph.value(n) for n in names], list(fed)).run(fed)


@dataclass
class OutputReport:
    """One output of both graphs, over all feeds."""

    name: str
    largest: float = 0.0
    relative: float = 0.0
    index: tuple[int, ...] = ()
    before: Any = None
    after: Any = None


@dataclass
class Verification:
    """What comparing two graphs gave.

    Attributes:
        outputs: per output the worst difference.
        tolerance: relative difference up to which they agree.
        first_divergence: the first value (in running order) that both graphs have and that differs; "" if none.
        runs: how many feeds were compared.
    """

    outputs: list[OutputReport]
    tolerance: float
    first_divergence: str = ""
    runs: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(o.relative <= self.tolerance for o in self.outputs)

    @property
    def worst(self) -> float:
        """Largest relative difference of any output."""
        return max((o.relative for o in self.outputs), default=0.0)

    def __str__(self) -> str:
        verdict = "the graphs agree" if self.ok else "the graphs DIFFER"
        lines = [f"{verdict}: largest relative difference {self.worst:.3g} over {self.runs} runs (tolerance {self.tolerance:g})"]
        lines += [f"  {o.name}: {o.largest:.3g} absolute, {o.relative:.3g} relative" for o in self.outputs]
        if self.first_divergence:
            lines.append(f"first value that differs: {self.first_divergence}")
        return "\n".join(lines + self.notes)


def verify(
    a: Graph,
    b: Graph,
    feeds: Iterable[Mapping[str, Any]] | Mapping[str, Any] | None = None,
    *,
    engine: str = "reference",
    tolerance: float = 1e-4,
    runs: int = 2,
    seed: int = 0,
) -> Verification:
    """Run both graphs on the same inputs and compare every output of `a` that `b` has too.

    Args:
        a, b: graphs with inputs and outputs set; values are paired by name.
        feeds: one feed (name -> array) or several; made up from `seed` if None.
        engine: what runs them.
        tolerance: relative difference up to which they agree.
        runs: how many made-up feeds.
        seed: for made-up feeds.

    Raises:
        GraphError: the graphs share no output.
    """
    names = [v.name for v in a.outputs if v.name.partition(":")[0] in b]
    if not names:
        raise GraphError("the graphs have no output in common", hint="name the outputs: outputs=[...] when loading")
    if feeds is None:
        chosen = [{v.name: x for v, x in f.items()} for f in synthetic_feeds(a.inputs, runs, seed)]
    else:
        chosen = [dict(feeds)] if isinstance(feeds, Mapping) else [dict(f) for f in feeds]
    reports = {name: OutputReport(name) for name in names}
    sessions = Session(a, engine), Session(b, engine)
    divergence = ""
    for feed in chosen:
        shared = {k: v for k, v in feed.items() if k.partition(":")[0] in b}
        before, after = sessions[0].run(names, feed), sessions[1].run(names, shared)
        for name, x, y in zip(names, before, after, strict=True):
            found, report = difference(x, y), reports[name]
            if found.relative >= report.relative:
                report.largest, report.relative = found.largest, found.relative
                report.index, report.before, report.after = found.index, found.before, found.after
        if not divergence and any(r.relative > tolerance for r in reports.values()):
            divergence = first_divergence(a, b, feed, names, tolerance)
    return Verification(list(reports.values()), tolerance, divergence, len(chosen))


def first_divergence(a: Graph, b: Graph, feed: Mapping[str, Any], outputs: Sequence[str], tolerance: float) -> str:
    """Name of the first value, in running order, that both graphs compute and that differs; "" if none is found."""
    seen: dict[str, Array] = {}
    found: list[str] = []

    def remember(value: Value, array: Array) -> None:
        if value.name.partition(":")[0] in b and isinstance(array, np.ndarray):
            seen[value.name] = array

    def check(value: Value, array: Array) -> None:
        known = seen.get(value.name)
        if not found and known is not None and isinstance(array, np.ndarray) and difference(known, array).relative > tolerance:
            found.append(value.name)

    for graph, watch in ((a, remember), (b, check)):
        _observe(graph, feed, outputs, watch)
    return found[0] if found else ""


def _observe(
    graph: Graph, feed: Mapping[str, Any], outputs: Sequence[str], watch: Callable[[Value, Array], None]
) -> None:
    fed = {graph.value(n): np.asarray(x) for n, x in feed.items() if n.partition(":")[0] in graph}
    try:
        Plan(graph, [graph.value(n) for n in outputs], list(fed)).run(fed, watch)
    except (UnsupportedOp, FeedError):
        return  # the outputs were compared on another engine; without kernels there is no inside view
