"""Batch norms frozen at the statistics of samples, and how near the graph stays to what it was.

Some of the samples make no statistics: on these, the graph is run as it was and frozen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Value
from thinflow.rewrite.runner import Step, run
from thinflow.transforms.fold.batch_norms import FreezeBatchNorms, save_statistics
from thinflow.transforms.fold.frozen_statistics import measure_batch_norms
from thinflow.typing import Array

Feed = Mapping[Value, Array]

ALIKE = 0.995
"""Cosine above which a frozen graph is said to do as before."""
_HELD_OUT = 4
"""Every so manieth sample judges."""
_FEWEST = 8
"""Samples of which some can be held out; with fewer, all make statistics and judge as well."""
_MOST_JUDGES = 16
_AS_HIGH = 0.9
_PEAK = 0.5
"""Of an output's largest number: how large the top of a map is at least that counts as a peak."""


@dataclass
class FrozenQuality:
    """Outputs of a frozen graph beside those of the graph as it was.

    Attributes:
        norms: how many were measured.
        samples: how many judged.
        held_out: whether these made no statistics.
        cosine: over all numbers of an output, of the worst output; NaN without float outputs.
        peaks: maps (a channel of a picture) with a peak, or vectors of scores.
        same: of these, how many have it in the same place.
        high: and how many where the original is at most a tenth lower than at its top.
    """

    norms: int
    samples: int = 0
    held_out: bool = False
    cosine: float = math.nan
    peaks: int = 0
    same: int = 0
    high: int = 0

    @property
    def is_alike(self) -> bool:
        """True if nothing speaks for another function."""
        return not self.samples or (self.cosine >= ALIKE and self.high == self.peaks)

    def sentence(self) -> str:
        """What was found; "" if nothing was compared."""
        if not self.samples:
            return ""
        by = (
            "that made no statistics"
            if self.held_out
            else "that made the statistics, too few to hold some out"
        )
        text = f"on {self.samples} samples {by}, cosine {self.cosine:.4f} to the graph as it was"
        if self.peaks:
            text += f", {self.same} of {self.peaks} peaks in the same place"
            if self.high > self.same:
                text += f" ({self.high} where the original is a tenth lower at most)"
        if self.is_alike:
            return text
        return (
            f"{text}: it is another function now; where that is too far, leave these norms in training mode"
        )


def measure_and_judge(graph: Graph, feeds: Iterable[Feed], count: int | None, path: str) -> FrozenQuality:
    """Write the statistics of a graph's norms in training mode, and judge what freezing them does.

    Args:
        feeds: walkable twice.
        count: of these; None if not known.
        path: the .npz file to write.

    Raises:
        ParameterError: no feeds.
        NodeError: a node cannot be run.
    """
    is_enough = count is not None and count >= _FEWEST
    statistics = measure_batch_norms(graph, _some(feeds, judging=False) if is_enough else feeds)
    save_statistics(path, statistics)
    quality = FrozenQuality(len(statistics), held_out=is_enough)
    if not statistics:
        return quality
    frozen = run(graph, [Step(FreezeBatchNorms(statistics=path))]).graph
    return _judged(quality, graph, frozen, _some(feeds, judging=True) if is_enough else feeds)


def _some(feeds: Iterable[Feed], *, judging: bool) -> Iterator[Feed]:
    """The samples that judge, or the others."""
    return (f for n, f in enumerate(feeds) if (n % _HELD_OUT == _HELD_OUT - 1) is judging)


@dataclass
class _Products:
    """Of two series of numbers: sums of squares, and of products."""

    before: float = 0.0
    after: float = 0.0
    both: float = 0.0

    @property
    def cosine(self) -> float:
        size = math.sqrt(self.before) * math.sqrt(self.after)
        return self.both / size if size else float(self.before == self.after)


def _judged(quality: FrozenQuality, before: Graph, after: Graph, feeds: Iterable[Feed]) -> FrozenQuality:
    plans = [Plan(g, list(g.outputs), list(g.inputs)) for g in (before, after)]
    names = [v.name for v in before.inputs]
    sums: dict[int, _Products] = {}
    peaks = _Peaks()
    samples = 0
    for feed in feeds:
        if samples == _MOST_JUDGES:
            break
        by_name = {v.name: a for v, a in feed.items()}
        results = (
            plan.run({v: by_name[n] for v, n in zip(plan.inputs, names, strict=True)}) for plan in plans
        )
        for number, (old, new) in enumerate(zip(*results, strict=True)):
            if old.dtype.kind != "f" or old.shape != new.shape:
                continue
            x, y = old.astype(np.float64).ravel(), new.astype(np.float64).ravel()
            found = sums.setdefault(number, _Products())
            found.before += float(x @ x)
            found.after += float(y @ y)
            found.both += float(x @ y)
            peaks.add(old, new)
        samples += 1
    cosine = min((s.cosine for s in sums.values()), default=math.nan)
    return replace(
        quality,
        samples=samples if sums else 0,
        cosine=cosine,
        peaks=peaks.count,
        same=peaks.same,
        high=peaks.high,
    )


@dataclass
class _Peaks:
    """Places of the largest numbers of maps [1,H,W,C] and of scores [1,C], before and after."""

    count: int = 0
    same: int = 0
    high: int = 0

    def add(self, old: Array, new: Array) -> None:
        """Compare the peaks of one output."""
        if old.ndim not in (2, 4) or old.size < 2 or not np.isfinite(old).all():
            return
        # Scores are a map of one line.
        maps = [a if old.ndim == 4 else a[:, None, :, None] for a in (old, new)]
        tops = maps[0].max(axis=(1, 2))
        for n, c in zip(*np.nonzero(tops >= _PEAK * max(float(tops.max()), 0.0)), strict=True):
            was, now = (int(m[n, ..., c].argmax()) for m in maps)
            self.count += 1
            self.same += was == now
            # The top of a ridge, or of a map that is high everywhere, is at no place in particular.
            self.high += bool(maps[0][n, ..., c].reshape(-1)[now] >= _AS_HIGH * tops[n, c])
