"""What the calibration doctor looks at: samples, the float model's answers, and what its tensors hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from thinflow.ir.usage import Usage
from thinflow.quantize.runners import Feed
from thinflow.typing import Array

ENOUGH = 8
"""Samples below which nothing is said of what they have in common."""
_A_TENSOR = 16
"""Numbers below which an input is a parameter, such as a rate or a size."""


Change = Callable[[Array], Array]
"""What is tried with an input."""


@dataclass(frozen=True)
class Extremes:
    """The extremes of each tensor for each sample.

    Attributes:
        low, high: float64 [tensors, samples]; NaN where a tensor had no finite value.
        names: of the tensors, in the order in which they are computed.
        dead: tensors that clamps write -> share of their channels that were 0 for all samples.
    """

    low: Array
    high: Array
    names: Sequence[str]
    dead: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Exam:
    """Samples and a float model.

    Attributes:
        feeds: some of the calibration samples, as the model takes them.
        run: gives the model's first output for samples.
        places: file or number of each sample.
        count: of all calibration samples; None if nobody knows.
        labels: of each sample in `feeds`; None without.
        judges: some of the samples that are judged on; empty if they are the same.
        ranked: whether the first output is a vector of scores, of which the largest is the answer.
        extremes_of: gives the extremes of all tensors for samples.
        noise: gives the signal to quantization noise in decibels with ranges from the first samples, judged
            on the second; None where no ranges are needed.
        norm_gap: gives, with something done to inputs of many numbers, how what the first batch norm sees
            differs from training: its spread over that of training, and a divergence in nats; None if nothing
            tells.
        usage: what the model's file says of its use.
        synthetic: whether samples were made up.
    """

    feeds: Sequence[Feed]
    run: Callable[[Sequence[Feed]], list[Array]]
    places: Sequence[str] = ()
    count: int | None = None
    labels: Sequence[Any] | None = None
    judges: Sequence[Feed] = ()
    ranked: bool = False
    extremes_of: Callable[[Sequence[Feed]], Extremes] | None = None
    noise: Callable[[Sequence[Feed], Sequence[Feed]], float] | None = None
    norm_gap: Callable[[Change], tuple[float, float] | None] | None = None
    usage: Usage = field(default_factory=Usage)
    synthetic: bool = False

    @property
    def is_enough(self) -> bool:
        """True if real samples are as many as tell what they have in common."""
        return len(self.feeds) >= ENOUGH and not self.synthetic

    @cached_property
    def inputs(self) -> dict[str, list[Array]]:
        """Inputs of floats that hold more than a few numbers -> their array for each sample."""
        first = self.feeds[0] if self.feeds else {}
        names = [n for n, a in first.items() if holds_numbers(a)]
        return {name: [np.asarray(feed[name]) for feed in self.feeds] for name in names}

    def spans(self, name: str) -> tuple[float, float]:
        """The lowest and highest number of an input."""
        arrays = [a for a in self.inputs[name] if a.size]
        return min(float(a.min()) for a in arrays), max(float(a.max()) for a in arrays)

    @cached_property
    def scores(self) -> Array:
        """float64 [samples, classes] probabilities of the answers as samples are."""
        return probabilities(self.run(self.feeds))

    def scores_of(self, change: Change) -> Array:
        """The same with inputs of many numbers changed."""
        return probabilities(self.run(self.changed(change)))

    def changed(self, change: Change) -> list[dict[str, Array]]:
        """The samples with inputs of many numbers changed."""
        return [
            {n: changed_input(a, change) if n in self.inputs else a for n, a in feed.items()}
            for feed in self.feeds
        ]

    @cached_property
    def extremes(self) -> Extremes | None:
        """Of all tensors for the calibration samples; None where the model cannot be looked into."""
        return None if self.extremes_of is None else self.extremes_of(self.feeds)

    def loss(self, given: Sequence[Feed], right: Sequence[Feed], judged: Sequence[Feed]) -> float | None:
        """Decibels lost on some samples by ranges of given ones beside those of right ones; None if nothing
        can be measured.
        """
        if self.noise is None or not given or not right or not judged:
            return None
        lost = self.noise(right, judged) - self.noise(given, judged)
        return lost if math.isfinite(lost) else None


def holds_numbers(array: Array) -> bool:
    """True for an input of floats that holds more than a few numbers."""
    return array.dtype.kind == "f" and array.size >= _A_TENSOR


def changed_input(array: Array, change: Change) -> Array:
    """An input with something done to it, in its own type."""
    return np.asarray(change(array), array.dtype)


def probabilities(outputs: Sequence[Array]) -> Array:
    """float64 [samples, classes] of scores: as they are if they add up to 1, else their softmax."""
    rows = np.stack([np.ravel(y) for y in outputs]).astype(np.float64)
    # Two infinities have no difference; 1e30 is as sure an answer, and sums of it stay finite.
    rows = np.nan_to_num(rows, posinf=1e30, neginf=-1e30)
    if (rows >= 0).all() and np.allclose(rows.sum(1), 1, atol=0.02):
        return rows
    shifted = np.exp(rows - rows.max(1, keepdims=True))
    return np.asarray(shifted / shifted.sum(1, keepdims=True))


def information(scores: Array) -> float:
    """Nats that answers tell of their samples, from 0 to the logarithm of the number of classes: the entropy
    of all answers together without that of each alone.

    Both sure and varied answers have much of it. A model that is fed what it was not trained on has little.
    """
    return max(0.0, _entropy(scores.mean(0)) - float(np.mean([_entropy(row) for row in scores])))


def _entropy(row: Array) -> float:
    # 0 log 0 is 0: whatever stands for the logarithm there is multiplied by 0.
    return float(-(row * np.log(np.maximum(row, 1e-300))).sum())


def top_share(scores: Array) -> float:
    """The share of samples that have the most frequent answer."""
    return float(np.bincount(scores.argmax(1)).max() / len(scores))
