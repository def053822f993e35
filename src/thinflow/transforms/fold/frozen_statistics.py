"""Fixed statistics for batch norms in training mode: those that keep closest to what each batch's own give.

Such a norm divides each batch by a deviation of its own, so no constants compute the same. What comes closest
is found norm by norm, with two runs of the same batches side by side: one as the graph stands, one with the
norms before already frozen.

    t = what the norm makes of a batch in the one run, before gamma and beta
    x = what the norm would read in the other
    t ~ a x + b,  least squares per channel:  a = cov(x, t) / var(x),  b = mean(t) - a mean(x)

    stored:  variance = 1 / a^2 - epsilon,  mean = -b / a

So a later norm makes up for what freezing the earlier ones changed. For a single batch these are its mean and
its variance. On a pose network of 39 such norms, of 36 pictures, cosine 0.99 to the original on others; 0.96
with the mean and variance of all pictures, 0.95 with means of their statistics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from thinflow.analysis.training_mode import is_sample_norm
from thinflow.errors import ParameterError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors
from thinflow.ops.traits import Trait, has
from thinflow.transforms.fold.steps import DEFAULT_EPSILON, channels_first, is_training
from thinflow.transforms.shared.constants import side_outputs
from thinflow.typing import Array

Statistics = dict[str, tuple[Array, Array]]
"""Node name -> (mean [C], variance [C])."""

Feed = Mapping[Value, Array]

MOST_BATCHES = 64
"""Batches that are looked at: two numbers per channel are fitted to all pixels of each."""
_MEMORY = 1 << 29
"""Bytes of activations that may be kept between two norms; larger batches are looked at in smaller number."""
_LEAST = 1 / 16
"""Of 1 / deviation: what a factor is at least. Numbers that have nothing to do with the original ones would
give 0, which no variance stands for, or turn their sign."""


def measure_batch_norms(graph: Graph, feeds: Iterable[Feed]) -> Statistics:
    """Statistics for every norm in training mode that `freeze_batch_norms` can freeze.

    O(norms) plans, two runs of the graph for each of up to 64 batches, which are taken evenly from all.
    Memory does not grow with the number of batches.

    Args:
        graph: with norms in training mode.
        feeds: one or more batches, each an array for every input of the graph.

    Raises:
        ParameterError: no feeds.
        NodeError: a node cannot be run.
    """
    norms = [n for n in graph if is_training(n) and n.inputs and not is_sample_norm(n)]
    # Without outputs, run as far as the norms; no more is looked at.
    outputs = list(graph.outputs) or [n.output() for n in norms]
    needed = ancestors(v.node for v in outputs)
    norms = [n for n in norms if n in needed]
    wanted = [v for n in norms for v in n.inputs[:3]]
    steered = any(
        has(n.op, Trait.SWITCH | Trait.MERGE | Trait.ENTER) for n in ancestors(v.node for v in wanted)
    )
    walk = iter(feeds)
    first = next(walk, None)
    if first is None:
        raise ParameterError("there are no inputs to measure on", hint="give at least one batch")
    if not norms:
        return {}
    if steered:
        # Inside of loops and branches there is no place between one norm and the next.
        return _observed(graph, norms, [first, *_evenly(walk, MOST_BATCHES - 1)])
    segments = _segments(graph, norms, list(first))
    room = int(np.clip(_MEMORY // max(_kept_bytes(segments, first), 1), 1, MOST_BATCHES))
    batches = [_Batch(dict(feed)) for feed in _evenly(_chained(first, walk), room)]
    return _fitted(segments, batches)


def _chained(first: Feed, rest: Iterable[Feed]) -> Iterable[Feed]:
    yield first
    yield from rest


def _evenly(feeds: Iterable[Feed], most: int) -> list[Feed]:
    """At most so many feeds, at even distances; walks them once and holds no more than that."""
    kept: list[Feed] = []
    stride = 1
    for number, feed in enumerate(feeds):
        if number % stride:
            continue
        if len(kept) == most:
            kept, stride = kept[::2], 2 * stride
            if number % stride:
                continue
        if len(kept) < most:
            kept.append({value: np.asarray(array) for value, array in feed.items()})
    return kept


# --- one norm after the other -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Segment:
    """What runs from one norm to the next.

    Attributes:
        norm: at its end.
        plan: makes what the norm reads, and what is read behind it.
        handed_on: outputs of the plan behind the norm's three.
        freezes: whether the norm gets statistics; one whose own are read does not.
    """

    norm: Node
    plan: Plan
    handed_on: tuple[Value, ...]
    freezes: bool


@dataclass
class _Batch:
    """Values at the place that two runs of a batch have come to; one run as long as nothing is frozen."""

    original: dict[Value, Array]
    frozen: dict[Value, Array] = field(default_factory=dict)


def _segments(graph: Graph, norms: Sequence[Node], inputs: Sequence[Value]) -> list[_Segment]:
    order = [n for n in Plan(graph, [n.output() for n in norms], inputs).nodes if n in set(norms)]
    freezing = {n for n in order if not side_outputs(n)}
    whole = ancestors(v.node for n in order for v in n.inputs[:3])
    fed_nodes = {v.node for v in inputs}
    varies = _downstream(whole, fed_nodes)
    done: set[Node] = set(fed_nodes)
    live = tuple(inputs)
    segments = []
    for norm in order:
        before = set(done)
        done |= ancestors([norm])
        later = [n for n in whole if n not in done]
        read = dict.fromkeys(v for n in later for v in n.inputs if v.node in done and v.node in varies)
        # Its output follows from the statistics; other ports of it are as good as any other node's.
        own = norm.output() if norm in freezing else None
        handed_on = tuple(v for v in read if v is not own)
        plan = Plan(graph, [*norm.inputs[:3], *handed_on], live, within=whole - before)
        segments.append(_Segment(norm, plan, handed_on, norm in freezing))
        live = tuple(read)
    return segments


def _downstream(whole: Collection[Node], fed: Collection[Node]) -> set[Node]:
    """The nodes whose results follow from what is fed; the others are constants, made anew where needed."""
    found = set(fed)
    waiting = list(fed)
    while waiting:
        for reader in (use.node for v in waiting.pop().outputs for use in v.uses):
            if reader in whole and reader not in found:
                found.add(reader)
                waiting.append(reader)
    return found


def _kept_bytes(segments: Sequence[_Segment], feed: Feed) -> int:
    """The most that a batch keeps between two norms, of both its runs."""
    batch, most = _Batch(dict(feed)), 0
    for segment in segments:
        x, gamma, beta, *others = segment.plan.run(batch.original)
        batch.original = _after(segment, x, _moments(x, segment.norm), gamma, beta, others)
        most = max(most, 2 * sum(a.nbytes for a in (x, *batch.original.values())))
    return most + sum(np.asarray(a).nbytes for a in feed.values())


def _fitted(segments: Sequence[_Segment], batches: Sequence[_Batch]) -> Statistics:
    statistics: Statistics = {}
    for segment in segments:
        sums = _Moments()
        waiting = []
        for batch in batches:
            x, gamma, beta, *others = segment.plan.run(batch.original)
            own = _moments(x, segment.norm)
            given, behind = (x, others)
            if batch.frozen:
                given, _, _, *behind = segment.plan.run(batch.frozen)
            if segment.freezes:
                sums.add(_columns(given, segment.norm), _columns(_normal(x, own, segment.norm), segment.norm))
            batch.original = _after(segment, x, own, gamma, beta, others)
            waiting.append((given, gamma, beta, behind))
        found = sums.statistics(_epsilon(segment.norm)) if segment.freezes else None
        if found is not None:
            statistics[segment.norm.name] = found
        for batch, (given, gamma, beta, behind) in zip(batches, waiting, strict=True):
            used = found or _moments(given, segment.norm)
            batch.frozen = _after(segment, given, used, gamma, beta, behind)
    return statistics


def _after(
    segment: _Segment,
    x: Array,
    statistics: tuple[Array, Array],
    gamma: Array,
    beta: Array,
    others: Sequence[Array],
) -> dict[Value, Array]:
    """The values behind a norm."""
    values = dict(zip(segment.handed_on, others, strict=True))
    if segment.freezes:
        wide = _normal(x, statistics, segment.norm) * _along(gamma, x, segment.norm)
        values[segment.norm.output()] = (wide + _along(beta, x, segment.norm)).astype(x.dtype)
    return values


def _observed(graph: Graph, norms: Sequence[Node], feeds: Sequence[Feed]) -> Statistics:
    """The mean and the variance over all batches, of one run as the graph stands."""
    readers: dict[Value, list[Node]] = {}
    for norm in norms:
        # What the norm reads is observed: the variance that it gives out itself is over N - 1 values.
        readers.setdefault(norm.inputs[0], []).append(norm)
    found: dict[str, _Moments] = {}

    def observe(value: Value, array: Array) -> None:
        for norm in readers.get(value, ()):
            columns = _columns(array, norm)
            found.setdefault(norm.name, _Moments()).add(columns, columns)

    plan = Plan(graph, list(graph.outputs) or [n.output() for n in norms], list(feeds[0]))
    for feed in feeds:
        # Inputs are no results of a run, and a norm may read one directly.
        for value, array in feed.items():
            observe(value, array)
        plan.run(feed, observe)
    return {name: (moments.x, moments.xx / moments.count) for name, moments in found.items()}


# --- moments ------------------------------------------------------------------------------------------------


@dataclass
class _Moments:
    """Means of two series of columns, their products about them, merged batch by batch (Chan et al.)."""

    count: int = 0
    x: Array = field(default_factory=lambda: np.zeros(1))
    t: Array = field(default_factory=lambda: np.zeros(1))
    xx: Array = field(default_factory=lambda: np.zeros(1))
    xt: Array = field(default_factory=lambda: np.zeros(1))

    def add(self, x: Array, t: Array) -> None:
        """Merge rows of [N,C]."""
        if not len(x):
            return
        mean_x, mean_t = x.mean(axis=0), t.mean(axis=0)
        centred = x - mean_x
        total = self.count + len(x)
        weight = self.count * len(x) / total
        to_x, to_t = mean_x - self.x, mean_t - self.t
        self.xx = self.xx + (centred * centred).sum(axis=0) + weight * to_x * to_x
        self.xt = self.xt + (centred * (t - mean_t)).sum(axis=0) + weight * to_x * to_t
        self.x = self.x + to_x * len(x) / total
        self.t = self.t + to_t * len(x) / total
        self.count = total

    def statistics(self, epsilon: float) -> tuple[Array, Array] | None:
        """Mean and variance whose norm is the line through the columns; None if there were no rows."""
        if not self.count:
            return None
        variance = self.xx / self.count
        least = _LEAST / np.sqrt(variance + epsilon)
        with np.errstate(all="ignore"):
            factor = np.maximum(np.nan_to_num(self.xt / self.xx, posinf=0.0, neginf=0.0), least)
        # A channel that is always the same has no line.
        factor = np.where(variance > 0, factor, 1 / np.sqrt(variance + epsilon))
        return self.x - self.t / factor, np.maximum(1 / factor**2 - epsilon, 0.0)


def _epsilon(norm: Node) -> float:
    return float(norm.get("epsilon", DEFAULT_EPSILON))


def _channel(array: Array, norm: Node) -> int:
    return 1 if channels_first(norm) else array.ndim - 1


def _columns(array: Array, norm: Node) -> Array:
    """[N,C] in double: a mean over millions of values would lose digits in float32."""
    wide = np.moveaxis(array, _channel(array, norm), -1)
    return wide.reshape(-1, wide.shape[-1]).astype(np.float64)


def _moments(array: Array, norm: Node) -> tuple[Array, Array]:
    columns = _columns(array, norm)
    return columns.mean(axis=0), columns.var(axis=0)


def _along(vector: Array, like: Array, norm: Node) -> Array:
    shape = [1] * like.ndim
    shape[_channel(like, norm)] = -1
    return vector.reshape(shape).astype(np.float64)


def _normal(x: Array, statistics: tuple[Array, Array], norm: Node) -> Array:
    """x with a mean of 0 and a deviation of 1, as far as the statistics are its own."""
    mean, variance = statistics
    return (x - _along(mean, x, norm)) / np.sqrt(_along(variance, x, norm) + _epsilon(norm))
