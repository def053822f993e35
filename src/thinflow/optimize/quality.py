"""Quality of smaller models beside the original graph: equal answers, right answers, and noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from thinflow.errors import VerificationError
from thinflow.ir.brief import brief_repr
from thinflow.ir.notebook import text_html
from thinflow.optimize.chance import CHANCE, difference_interval, split_chance, tail_chance, wilson
from thinflow.typing import Array

# Finite, since JSON has no infinity and margins cannot be added to one. No rounding comes near it: the 24
# bits of float32 are worth about 145 dB.
LOUDEST = 999.0
"""Decibels that stand for no noise at all."""
# Above what float answers of a working model differ by; its square, 1e60, is a float64 with room for a sum.
_DEAFENING = 1e30


class Score(NamedTuple):
    """How near a program's answers are to those in float; scores of other samples can be added.

    Attributes:
        signal, noise: sums of squares over float outputs.
        same, tops: how many top answers are the same, of how many.
    """

    signal: float = 0.0
    noise: float = 0.0
    same: int = 0
    tops: int = 0

    @property
    def sqnr_db(self) -> float:
        """Signal to quantization noise in decibels."""
        # No infinity, which would be as good as itself plus any margin.
        if not self.noise:
            return LOUDEST
        return 10 * math.log10(self.signal / self.noise) if self.signal else -LOUDEST

    @property
    def agreement(self) -> float | None:
        """The share of top answers that are the same; None where there are no classes."""
        return self.same / self.tops if self.tops else None

    def plus(self, other: Score) -> Score:
        """Both together."""
        signal, noise = self.signal + other.signal, self.noise + other.noise
        return Score(signal, noise, self.same + other.same, self.tops + other.tops)


def score_of(expected: Sequence[Array], found: Sequence[Array], axes: Sequence[int] | None = None) -> Score:
    """How near the float ones of some outputs are to those in float.

    Args:
        axes: of the classes in each; default: the last ones.
    """
    total = Score()
    for a, b, axis in zip(expected, found, axes or [-1] * len(expected), strict=True):
        if a.dtype.kind == "f":
            total = total.plus(_score(a, b.reshape(a.shape), axis))
    return total


def _score(expected: Array, found: Array, axis: int) -> Score:
    wide = expected.astype(np.float64)
    finite = np.isfinite(wide)
    # What is no number counts as very loud noise; its square must stay finite, or no trial could be better
    # than another.
    gap = (wide - found)[finite]
    gap = np.nan_to_num(gap, nan=_DEAFENING, posinf=_DEAFENING, neginf=_DEAFENING)
    signal, noise = float(np.square(wide[finite]).sum()), float(np.square(gap).sum())
    # Of pictures and sequences each place has its own top answer; of single numbers there is none.
    if expected.ndim < 2 or expected.shape[axis] < 2:
        return Score(signal, noise)
    same = expected.argmax(axis) == found.argmax(axis)
    return Score(signal, noise, int(same.sum()), same.size)


@brief_repr
@dataclass
class Quality:
    """A candidate's answers beside the original's, over the same samples.

    Attributes:
        samples: how many.
        same_answer: samples whose largest output is the same one; None if the output is no vector of scores.
        correct, correct_before: right answers of the candidate and of the original; None without labels.
        sqnr_db: signal to quantization noise over all samples and outputs, in decibels; infinite if equal,
            minus infinity if there is nothing but noise.
        largest: largest |difference| relative to the largest |value|; infinite as `sqnr_db` is.
        worst_samples: numbers of the samples with another answer, first ones only.
        outputs: names of what was compared.
        part: in words, what of the model was compared if the candidate is a part of it; "" if it is all.
        lost, gained: samples that only the original, and only the candidate, answers rightly.
        not_finite: samples where the candidate gives NaN or infinity and the original a number.
        is_exact: whether no output holds floats: an answer is the same if all numbers are equal.
        taken: of one model alone, what was taken from its file: labels, how pixels are scaled.
        logits: of what stands before a last softmax or sigmoid, beside the float model of the same runtime;
            None where no output is such, or this is that model.
    """

    samples: int = 0
    same_answer: int | None = None
    correct: int | None = None
    correct_before: int | None = None
    sqnr_db: float = math.inf
    largest: float = 0.0
    worst_samples: list[int] = field(default_factory=list)
    outputs: tuple[str, ...] = ()
    part: str = ""
    lost: int = 0
    gained: int = 0
    not_finite: int = 0
    is_exact: bool = False
    taken: str = ""
    logits: Score | None = None

    @property
    def accuracy(self) -> float | None:
        """Right answers of the candidate, in percent."""
        return None if self.correct is None or not self.samples else 100 * self.correct / self.samples

    @property
    def accuracy_before(self) -> float | None:
        """Right answers of the original, in percent."""
        return (
            None
            if self.correct_before is None or not self.samples
            else 100 * self.correct_before / self.samples
        )

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """95 % intervals in percent of what is counted, by its name: what other samples of the same kind may
        give.
        """
        counts = {
            "accuracy": self.correct,
            "accuracy_before": self.correct_before,
            "same_answer": self.same_answer,
        }
        return {name: wilson(n, self.samples) for name, n in counts.items() if n is not None and self.samples}

    @property
    def drop(self) -> float | None:
        """The loss, in points of percent: right answers if there are labels, else equal answers.

        None if neither is known.
        """
        if self.accuracy is not None and self.accuracy_before is not None:
            return self.accuracy_before - self.accuracy
        if self.same_answer is not None and self.samples:
            return 100 * (1 - self.same_answer / self.samples)
        return None

    @property
    def chance(self) -> float | None:
        """The probability that models that are equally often right split so unevenly where one of them is;
        None without labels.

        By McNemar's exact test: each then wins half of the samples that only one of them answers rightly.
        """
        return None if self.accuracy is None else split_chance(self.lost, self.gained)

    @property
    def may_be_chance(self) -> bool:
        """True if models that are equally often right would show such a difference, too."""
        # Equal numbers have a chance of 1, which is no doubt about a difference that is not there.
        if self.chance is None or self.lost == self.gained:
            return False
        low, high = difference_interval(self.lost, self.gained, self.samples)
        return self.chance > CHANCE or low <= 0 <= high

    @property
    def drop_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of `drop`; None if that is not known."""
        if self.drop is None:
            return None
        if self.accuracy is not None:
            return difference_interval(self.lost, self.gained, self.samples)
        low, high = wilson(self.same_answer or 0, self.samples)
        return 100 - high, 100 - low

    def surely_drops(self, points: float) -> bool:
        """True if more than so many points are lost, and not by the chance of which samples there are."""
        if self.drop is None or self.drop <= points:
            return False
        if self.accuracy is not None:
            return (
                not self.may_be_chance
                and difference_interval(self.lost, self.gained, self.samples)[0] > points
            )
        # Without labels each sample is a trial of its own, and the number of changed answers binomial.
        changed = self.samples - (self.same_answer or 0)
        # How probable are so many changed answers, if `points` of percent were the truth?
        return tail_chance(changed, self.samples, points / 100) <= CHANCE

    def _repr_html_(self) -> str:
        return text_html(self.sentence(detailed=True))

    def sentence(self, *, detailed: bool = False) -> str:
        """The verdict in words, the strongest evidence first; `detailed` adds the noise."""
        count = f"{self.samples} sample{'s' if self.samples != 1 else ''}"
        noise = f"SQNR {decibels(self.sqnr_db)}"
        if self.accuracy is not None and self.accuracy_before is not None:
            text = f"accuracy {self.accuracy:.2f}% against {self.accuracy_before:.2f}% on {count}"
            text += ", which may be chance" if self.may_be_chance else ""
        elif self.is_exact:
            text, detailed = f"equal outputs on {self.same_answer} of {count}", False
        elif self.same_answer is not None and not self.part:
            which = f" in '{self.outputs[0]}'" if len(self.outputs) > 1 else ""
            text = f"same top answer{which} on {self.same_answer} of {count}"
        else:
            text, detailed = f"output {noise} over {count}", False
        text = f"{text}, {noise}" if detailed else text
        if self.not_finite:
            text += f", NaN or infinity instead of numbers on {self.not_finite}"
        return f"{self.part}: {text}" if self.part else text


def finite_decibels(value: float) -> float | None:
    """For JSON, which has no infinity: None without noise, and a bound where there is nothing else."""
    return None if value == math.inf else round(max(value, -LOUDEST), 2)


def decibels(value: float) -> str:
    """`29.5 dB`, or words for no noise at all and for nothing else."""
    if math.isinf(value):
        return "without noise" if value > 0 else "of nothing but noise"
    return f"{value:.1f} dB"


class QualityMeter:
    """Collects answers sample by sample; memory does not grow with their number.

    Args:
        labels: class number per sample, or None.
        ranked: whether the first output is a vector of scores, so that there is a top answer.
    """

    def __init__(self, labels: Sequence[int] | None = None, *, ranked: bool = True) -> None:
        self.labels = labels
        self.ranked = ranked
        self._quality = Quality()
        self._signal = 0.0
        self._noise = 0.0
        self._largest_value = 0.0
        self._largest_gap = 0.0

    def add(self, before: Sequence[Array], after: Sequence[Array]) -> None:
        """One sample: the original's outputs and the candidate's.

        Raises:
            VerificationError: they have other sizes.
        """
        number = self._quality.samples
        self._quality.samples += 1
        is_lost = False
        for a, b in zip(before, after, strict=True):
            if a.dtype.kind != "f":
                continue
            if a.size != b.size:  # such as boxes, of which rounding leaves one more or fewer
                raise VerificationError(f"the model gives {b.size} numbers where the graph gives {a.size}")
            # Squares of large float32 numbers overflow float32, and a
            # sum of millions of small ones would stand still.
            wide = a.astype(np.float64)
            other = b.astype(np.float64).reshape(a.shape)
            # What the original itself overflows at tells nothing about the candidate.
            judged = np.isfinite(wide)
            finite = judged & np.isfinite(other)
            is_lost = is_lost or not np.array_equal(judged, finite)
            gap = wide[finite] - other[finite]
            self._signal += float(np.square(wide[finite]).sum())
            self._noise += float(np.square(gap).sum())
            self._largest_value = max(self._largest_value, float(np.abs(wide[finite]).max(initial=0.0)))
            self._largest_gap = max(self._largest_gap, float(np.abs(gap).max(initial=0.0)))
        if is_lost:
            # No number of good answers outweighs one that is none.
            self._quality.not_finite += 1
            self._noise = self._largest_gap = math.inf
        if before and not any(a.dtype.kind == "f" for a in before):
            # Such as the number of a class: nothing between right and wrong.
            self._quality.is_exact = True
            is_same = all(map(np.array_equal, before, after))
            self._count(number, is_same=is_same)
        elif self.ranked:
            # The first output alone is ranked: others may be boxes or counts.
            self._rank(number, _top(before[0]), _top(after[0]))

    def _rank(self, number: int, before: int, after: int) -> None:
        quality = self._quality
        self._count(number, is_same=before == after)
        if self.labels is not None:
            label = self.labels[number]
            quality.correct = (quality.correct or 0) + (after == label)
            quality.correct_before = (quality.correct_before or 0) + (before == label)
            quality.lost += before == label != after
            quality.gained += after == label != before

    def _count(self, number: int, *, is_same: bool) -> None:
        quality = self._quality
        quality.same_answer = (quality.same_answer or 0) + is_same
        # Examples to look at: a list of all would grow with the samples.
        if not is_same and len(quality.worst_samples) < 10:
            quality.worst_samples.append(number)

    def result(self) -> Quality:
        """The sums so far."""
        quality = self._quality
        quality.sqnr_db = _decibels_of(self._signal, self._noise)
        if self._largest_value:
            quality.largest = self._largest_gap / self._largest_value
        else:
            quality.largest = math.inf if self._largest_gap else 0.0
        return quality


def _decibels_of(signal: float, noise: float) -> float:
    """Signal to noise in decibels, infinite without noise, minus infinity without a signal."""
    if not noise:
        return math.inf
    # One ratio over all samples: a mean of decibels would let quiet samples weigh as much as loud ones.
    ratio = 0.0 if math.isinf(noise) else signal / noise
    return 10 * math.log10(ratio) if ratio else -math.inf


def _top(scores: Array) -> int:
    """The place of the largest score; -1, which is no label, if some are NaN and there is no order."""
    # argmax would name the first NaN, which may even be the right answer.
    return -1 if bool(np.isnan(scores).any()) else int(np.argmax(scores))


def is_ranked(output: Array) -> bool:
    """True if an output looks like one vector of scores: [n] or [1, ..., 1, n] with n >= 2 floats."""
    # Size equal to the last axis: all other axes are 1.
    return output.dtype.kind == "f" and output.size >= 2 and output.size == output.shape[-1]
