"""Quality of smaller models beside the original graph: equal answers, right answers, and noise."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from thinflow.errors import VerificationError
from thinflow.ir.brief import brief_repr
from thinflow.ir.notebook import text_html
from thinflow.optimize.chance import CHANCE, difference_interval, split_chance, tail_chance, wilson
from thinflow.optimize.detections import Detections, Found, Places, found
from thinflow.optimize.exact_sum import ExactSum
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
        shift: of outputs [batch, classes], the sum of squares of what noise adds to the distance between
            float's two best answers.
    """

    signal: float = 0.0
    noise: float = 0.0
    same: int = 0
    tops: int = 0
    shift: float = 0.0

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
        return Score(
            self.signal + other.signal,
            self.noise + other.noise,
            self.same + other.same,
            self.tops + other.tops,
            self.shift + other.shift,
        )


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
    shift = _shift(wide, found, axis) if wide.ndim == 2 else 0.0
    return Score(signal, noise, int(same.sum()), same.size, shift)


def _shift(expected: Array, found: Array, axis: int) -> float:
    """The sum of squares of what noise adds to the distance between the two best of some classes."""
    best = np.argpartition(expected, -2, axis=axis).take([-2, -1], axis)
    # What is infinite or no number on both sides has no distance, and is no fault of the one who asks.
    with np.errstate(invalid="ignore"):
        gap = np.take_along_axis(found - expected, best, axis)
        moved = np.diff(gap, axis=axis)
    moved = np.nan_to_num(moved, nan=_DEAFENING, posinf=_DEAFENING, neginf=_DEAFENING)
    return float(np.square(moved).sum())


class Judged(NamedTuple):
    """The answers to one sample, as places in a row of scores.

    Attributes:
        number: of the sample.
        before, after: of the original and of the candidate.
        label: the right one; None if nobody knows.
    """

    number: int
    before: int
    after: int
    label: int | None = None

    @property
    def is_wrong(self) -> bool:
        """True if the candidate's answer is wrong or, where nobody knows what is right, another one."""
        return self.after != (self.before if self.label is None else self.label)

    @property
    def is_lost(self) -> bool:
        """True if the original alone is right; or if nobody knows, and the answers differ."""
        return self.is_wrong and self.before != self.after and self.label in (None, self.before)

    @property
    def kind(self) -> str:
        """Of which so many are kept: lost, wrong, gained, right."""
        right = "right" if self.before == self.after else "gained"
        return "lost" if self.is_lost else "wrong" if self.is_wrong else right

    @property
    def mistake(self) -> tuple[int, int]:
        """What was taken for what."""
        return (self.before if self.label is None else self.label, self.after)


_FEW_WORST = 10
_ALWAYS = 20
"""Samples of which all give the same answer by no chance."""
_COUNTED = (
    *("samples", "same_answer", "correct", "correct_before", "worst_samples", "lost", "gained"),
    *("not_finite", "is_exact"),
)
_FEW_WRONG, _FEW_RIGHT = 12, 6
"""Samples whose answers are kept to be shown: of those that are wrong and of those that are not."""


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
        answer: number of the one among them that top answers are of.
        part: in words, what of the model was compared if the candidate is a part of it; "" if it is all.
        lost, gained: samples that only the original, and only the candidate, answers rightly.
        not_finite: samples where the candidate gives NaN or infinity and the original a number.
        is_exact: whether no output holds floats: an answer is the same if all numbers are equal.
        taken: of one model alone, what was taken from its file: labels, how pixels are scaled.
        logits: of what stands before a last softmax or sigmoid, beside the float model of the same runtime;
            None where no output is such, or this is that model.
        judged: the answers to some of the samples, in order: those lost, gained, wrong, and others.
        detections: the boxes that a detector found; None for other models.
    """

    samples: int = 0
    same_answer: int | None = None
    correct: int | None = None
    correct_before: int | None = None
    sqnr_db: float = math.inf
    largest: float = 0.0
    worst_samples: list[int] = field(default_factory=list)
    outputs: tuple[str, ...] = ()
    answer: int = 0
    part: str = ""
    lost: int = 0
    gained: int = 0
    not_finite: int = 0
    is_exact: bool = False
    taken: str = ""
    logits: Score | None = None
    judged: list[Judged] = field(default_factory=list, repr=False, compare=False)
    detections: Detections | None = field(default=None, compare=False)

    @property
    def told(self) -> list[Judged | Found]:
        """What is known of single samples."""
        return [*self.judged, *(self.detections.judged if self.detections is not None else ())]

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
        elif (boxes := self.detections) is not None and boxes.before and not self.part:
            others = boxes.after - boxes.same
            text = f"{boxes.same} of {boxes.before} boxes found again and {others} others on {count}"
        elif self.same_answer is not None and not self.part:
            which = f" in '{self.outputs[self.answer]}'" if len(self.outputs) > 1 else ""
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
    if abs(value) >= LOUDEST:
        return "without noise" if value > 0 else "of nothing but noise"
    return f"{value:.1f} dB"


class QualityMeter:
    """Collects answers sample by sample; memory does not grow with their number.

    Meters of parts of the samples can be merged, in order: the result is that of one meter, bit for bit.

    Args:
        labels: class number per sample, or None.
        ranked: whether an output is a vector of scores, so that there is a top answer.
        answer: the number of that output.
        places: where a detector's boxes are among the outputs; None for other models.
    """

    def __init__(
        self,
        labels: Sequence[int] | None = None,
        *,
        ranked: bool = True,
        answer: int = 0,
        places: Places | None = None,
    ) -> None:
        self.labels = labels
        self.ranked, self.answer = ranked, answer
        self.places = places
        self._quality = Quality(answer=answer, detections=None if places is None else Detections())
        self._signal = ExactSum()
        self._noise = ExactSum()
        self._largest_value = 0.0
        self._largest_gap = 0.0
        # Of the original's first output: places of the largest number, two at most, and how far each reaches.
        self._tops: set[int] = set()
        self._reach: Array = np.zeros(0)

    def add(self, before: Sequence[Array], after: Sequence[Array], label: int | None = None) -> None:
        """One sample: the original's outputs and the candidate's.

        Args:
            label: of the sample; default: the one that was given before.

        Raises:
            VerificationError: they have other sizes.
        """
        number = self._quality.samples
        if label is None and self.labels is not None:
            label = self.labels[number]
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
            self._signal.add(float(np.square(wide[finite]).sum()))
            self._noise.add(float(np.square(gap).sum()))
            self._largest_value = max(self._largest_value, float(np.abs(wide[finite]).max(initial=0.0)))
            self._largest_gap = max(self._largest_gap, float(np.abs(gap).max(initial=0.0)))
        # Also where scores are ranked: which box is the best tells nothing of the others.
        if self.places is not None and self._quality.detections is not None:
            self._quality.detections.add(found(number, self.places, before, after))
        if is_lost:
            self._quality.not_finite += 1
            self._largest_gap = math.inf
        if before and not any(a.dtype.kind == "f" for a in before):
            # Such as the number of a class: nothing between right and wrong.
            self._quality.is_exact = True
            is_same = all(map(np.array_equal, before, after))
            self._count(number, is_same=is_same)
        elif self.ranked:
            # One output alone is ranked: others may be boxes or counts.
            one, other = before[self.answer], after[self.answer]
            self._rank(Judged(number, top_answer(one), top_answer(other), label))
            self._look([top_answer(one)], np.abs(one.astype(np.float64)).ravel())

    def _look(self, tops: Iterable[int], reach: Array) -> None:
        from thinflow.quantize.rescale import KINDS

        self._tops = {*sorted({*self._tops, *tops})[:2]}
        if reach.size > KINDS:
            return
        is_known = self._reach.shape == reach.shape
        self._reach = np.maximum(self._reach, reach) if is_known else reach

    @property
    def _tells_kinds(self) -> bool:
        """True if numbers are of several kinds, of which one is always the largest: no scores of classes."""
        from thinflow.quantize.rescale import UNEQUAL, unlikeness

        is_always_one = len(self._tops) == 1 and self._quality.samples >= _ALWAYS
        # Shares of a softmax are unlike, too, and are none of them above 1.
        is_labelled = self._quality.correct is not None
        return (
            is_always_one
            and not is_labelled
            and float(self._reach.max(initial=0)) > 1.001
            and unlikeness(self._reach) > UNEQUAL
        )

    def _rank(self, one: Judged) -> None:
        quality, (number, before, after, label) = self._quality, one
        self._count(number, is_same=before == after)
        self._remember(one)
        if label is not None:
            quality.correct = (quality.correct or 0) + (after == label)
            quality.correct_before = (quality.correct_before or 0) + (before == label)
            quality.lost += before == label != after
            quality.gained += after == label != before

    def _remember(self, one: Judged) -> None:
        kept = [other for other in self._quality.judged if other.kind == one.kind]
        # A list of all would grow with the samples.
        if len(kept) < (_FEW_WRONG if one.is_wrong else _FEW_RIGHT):
            self._quality.judged.append(one)
        elif one.is_wrong:
            # Files come class by class: the first mistakes would all be the same one.
            often, count = Counter(other.mistake for other in kept).most_common(1)[0]
            if count > 1 + sum(other.mistake == one.mistake for other in kept):
                self._quality.judged.remove([other for other in kept if other.mistake == often][-1])
                self._quality.judged.append(one)

    def _count(self, number: int, *, is_same: bool) -> None:
        quality = self._quality
        quality.same_answer = (quality.same_answer or 0) + is_same
        # Examples to look at: a list of all would grow with the samples.
        if not is_same and len(quality.worst_samples) < _FEW_WORST:
            quality.worst_samples.append(number)

    def merge(self, later: QualityMeter) -> None:
        """All that another meter has seen, of the samples that come next; neither looks for boxes."""
        ours, theirs = self._quality, later._quality
        for one in theirs.judged:
            self._remember(one._replace(number=one.number + ours.samples))
        shifted = [number + ours.samples for number in theirs.worst_samples]
        ours.worst_samples = [*ours.worst_samples, *shifted][:_FEW_WORST]
        for name in ("samples", "lost", "gained", "not_finite"):
            setattr(ours, name, getattr(ours, name) + getattr(theirs, name))
        for name in ("same_answer", "correct", "correct_before"):
            counted = [n for n in (getattr(ours, name), getattr(theirs, name)) if n is not None]
            setattr(ours, name, sum(counted) if counted else None)
        ours.is_exact = ours.is_exact or theirs.is_exact
        self._signal.merge(later._signal)
        self._noise.merge(later._noise)
        self._largest_value = max(self._largest_value, later._largest_value)
        self._largest_gap = max(self._largest_gap, later._largest_gap)
        if later._tops:
            self._look(later._tops, later._reach)

    def state(self) -> dict[str, Any]:
        """All that it knows, as JSON holds it."""
        quality = self._quality
        return {
            "counts": {name: getattr(quality, name) for name in _COUNTED},
            "judged": [list(one) for one in quality.judged],
            "sums": [str(self._signal), str(self._noise)],
            "largest": [self._largest_value, self._largest_gap],
            "tops": sorted(self._tops),
            "reach": self._reach.tolist(),
        }

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> QualityMeter:
        """The meter whose state this is."""
        meter = cls()
        for name in _COUNTED:
            setattr(meter._quality, name, state["counts"][name])
        for one in state["judged"]:
            meter._remember(Judged(*one))
        meter._signal, meter._noise = map(ExactSum, state["sums"])
        meter._largest_value, meter._largest_gap = state["largest"]
        meter._tops, meter._reach = set(state.get("tops", ())), np.array(state.get("reach", ()), np.float64)
        return meter

    def result(self) -> Quality:
        """The sums so far."""
        quality = self._quality
        # No number of good answers outweighs one that is none.
        noise = math.inf if quality.not_finite else self._noise.total
        quality.sqnr_db = _decibels_of(self._signal.total, noise)
        if self._largest_value:
            quality.largest = self._largest_gap / self._largest_value
        else:
            quality.largest = math.inf if self._largest_gap else 0.0
        return replace(quality, same_answer=None) if self._tells_kinds else quality


def _decibels_of(signal: float, noise: float) -> float:
    """Signal to noise in decibels, infinite without noise, minus infinity without a signal."""
    if not noise:
        return math.inf
    # One ratio over all samples: a mean of decibels would let quiet samples weigh as much as loud ones.
    ratio = 0.0 if math.isinf(noise) else signal / noise
    return 10 * math.log10(ratio) if ratio else -math.inf


def top_answer(scores: Array) -> int:
    """The place of the largest score; -1, which is no label, if some are NaN and there is no order."""
    # argmax would name the first NaN, which may even be the right answer.
    return -1 if bool(np.isnan(scores).any()) else int(np.argmax(scores))


def is_ranked(output: Array) -> bool:
    """True if an output looks like one vector of scores: [n] or [1, ..., 1, n] with n >= 2 floats."""
    # Size equal to the last axis: all other axes are 1.
    return output.dtype.kind == "f" and output.size >= 2 and output.size == output.shape[-1]
