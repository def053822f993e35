"""Quality of smaller models beside the original graph: equal answers, right answers, and noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from thinflow.analysis.interface import is_class_scores
from thinflow.engines._child import run_file
from thinflow.errors import VerificationError
from thinflow.interpreter import Plan
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.interface import counterparts, without_states
from thinflow.ir.notebook import text_html
from thinflow.optimize.converted import ConvertedModel
from thinflow.optimize.samples import Samples, as_declared
from thinflow.typing import Array, Progress

# Finite, since JSON has no infinity and margins cannot be added to one. No rounding comes near it: the 24
# bits of float32 are worth about 145 dB.
LOUDEST = 999.0
"""Decibels that stand for no noise at all."""
_INTERPRETED, _AT_ITS_ENDS = "the part with the rest interpreted", "the part at its own ends"


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
    def may_be_chance(self) -> bool:
        """True if models that are equally often right would show such a difference, too.

        By McNemar's exact test: each then wins half of the samples that only one of them answers rightly.
        """
        # Equal numbers have a chance of 1, which is no doubt about a difference that is not there.
        return self.lost != self.gained and split_chance(self.lost, self.gained) > CHANCE

    def surely_drops(self, points: float) -> bool:
        """True if more than so many points are lost, and not by the chance of which samples there are."""
        if self.drop is None or self.drop <= points:
            return False
        if self.accuracy is not None:
            # McNemar's test tells a loss from none at all; that
            # it is larger than `points` is the estimate alone.
            return not self.may_be_chance
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


# The usual level of significance: one comparison in twenty of equally good models is called a difference.
CHANCE = 0.05
"""A difference that equally good models show more often than this is none."""


def split_chance(lost: int, gained: int) -> float:
    """The probability of so uneven a split where each side is as likely, from 0 to 1 (two-sided, exact)."""
    # In integers up to the division: 2**1024 is no float64
    # any more, and a quotient of integers is rounded once.
    count, fewer = lost + gained, min(lost, gained)
    # Twice one tail; for an even split both tails share the middle, which is why it may exceed 1.
    return float(min(1.0, 2 * sum(math.comb(count, i) for i in range(fewer + 1)) / 2**count))


# Of the normal distribution: 95 % lie within so many standard deviations.
_Z = 1.959964


def wilson(found: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a share in percent, after so many of so many samples (Wilson's score interval)."""
    share, z2 = found / count, _Z * _Z
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = _Z / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count * count))
    return 100 * max(0.0, middle - half), 100 * min(1.0, middle + half)


def tail_chance(found: int, count: int, share: float) -> float:
    """The probability of finding as many or more in so many samples, if each is one with this probability."""
    if not found or share >= 1:
        return 1.0
    if share <= 0:
        return 0.0
    # Logarithms: binomial coefficients of thousands of samples overflow a float.
    # log1p, as 1 - share would lose the last digits of a small share.
    log_share, log_rest = math.log(share), math.log1p(-share)

    def log_ways(i: int) -> float:
        return math.lgamma(count + 1) - math.lgamma(i + 1) - math.lgamma(count - i + 1)

    fewer = (math.exp(log_ways(i) + i * log_share + (count - i) * log_rest) for i in range(found))
    # fsum, and a floor: 1 less a sum near 1 may come out a little below 0.
    return max(0.0, 1 - math.fsum(fewer))


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


def compare_models(
    model: ConvertedModel[Any],
    contents: Mapping[str, bytes],
    original: Graph,
    samples: Samples,
    *,
    threads: int = 2,
    progress: Progress | None = None,
    end_to_end: bool = True,
) -> dict[str, Quality]:
    """Quality of models (by name) for a runtime beside the original graph in the interpreter, end to end on
    all samples; or at the models' own ends, where the rest of the graph cannot run.

    Where the original has the same core inputs, what stands before the core runs once per sample.

    Raises:
        EngineCrashed: the runtime crashed or hung on the first sample, which a child process tries first.
    """
    for name, content in contents.items():
        # In a child process: a crash of the runtime would take this one along.
        first = [model.core.before(feed) for feed in islice(samples, 1)]
        run_file(content, model.engine, first, threads=threads, name=f"the {name} model")
    runtimes = {name: model.open(content, threads=threads) for name, content in contents.items()}
    core = model.core
    judged = original if end_to_end else core.graph
    read = original.outputs if end_to_end else core.outputs
    plan = Plan(judged, read, original.inputs if end_to_end else judged.inputs)
    matches = counterparts(core.graph.inputs, judged.inputs, judged)
    fed = dict(zip(core.graph.inputs, matches, strict=True))
    meters: dict[str, QualityMeter] = {}
    # States are handed on to the next call, and are no answers of this one.
    shown = [i for i, v in enumerate(read) if v in without_states(judged, read)]
    for number, feed in enumerate(samples):
        # The original may want types that the runtime's graph had widened.
        before = plan.run({(to := fed.get(v, v)): as_declared(to, a) for v, a in feed.items()})
        arrays = core.before(feed)
        for name, runtime in runtimes.items():
            results = runtime.run(arrays)
            after = core.after(results, feed) if end_to_end else results
            if name not in meters:
                # Only the first answers tell whether there is a vector of scores.
                meters[name] = QualityMeter(samples.labels, ranked=_is_ranked(read, before, samples))
            meters[name].add([before[i] for i in shown], [after[i] for i in shown])
        if progress is not None:
            progress(number + 1, samples.count or 0, "comparing answers")
    qualities = {name: meter.result() for name, meter in meters.items()}
    for quality in qualities.values():
        quality.outputs = tuple(read[i].name for i in shown)
        if model.coverage.is_part:
            quality.part = _INTERPRETED if end_to_end else _AT_ITS_ENDS
    return qualities


def _is_ranked(values: Sequence[Value], outputs: Sequence[Array], samples: Samples) -> bool:
    """True if the first output has a top answer: a vector that labels or the graph say holds scores."""
    if not outputs or not is_ranked(outputs[0]):
        return False
    return samples.labels is not None or is_class_scores(values[0])
