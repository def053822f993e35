"""Numbers of another size than those that a model was trained on: scaled twice, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from thinflow.quantize.doctor import check
from thinflow.quantize.doctor.exam import Exam, information
from thinflow.quantize.doctor.findings import Finding
from thinflow.typing import Array


class Rescaling(NamedTuple):
    """A scaling that somebody may have forgotten, or done twice.

    Attributes:
        what: is wrong with the samples if this mends them.
        change: what mends them.
        mend: the same in words.
    """

    what: str
    change: Callable[[Array], Array]
    mend: str


LARGE = (
    Rescaling(
        "not scaled",
        lambda x: x / 255,
        "divide them by 255 (pictures: --std 255)",
    ),
    Rescaling(
        "not scaled",
        lambda x: x / 127.5 - 1,
        "scale them as x / 127.5 - 1 (pictures: --mean 127.5 --std 127.5)",
    ),
)
SMALL = (
    Rescaling(
        "scaled twice",
        lambda x: x * 255,
        "divide them by 255 once, or not at all (pictures: leave out --std)",
    ),
    Rescaling(
        "scaled twice",
        lambda x: x * 127.5 + 127.5,
        "scale them as x / 127.5 - 1 once, or not at all (pictures: leave out --mean and --std)",
    ),
)
# Inputs that are scaled right lie around 1; spectra and the like reach 100. Below this nothing can be 255
# times too large.
_MAY_BE_LARGE = 8.0
# Trained classifiers (benchmarks/ptq and keyword nets) tell 1.6 to 2.3 nats of their samples, and those of
# benchmarks/ptq 0.000 of samples divided by 255: there the biases alone are left.
ALIVE, DULL = 0.3, 0.1
"""Nats that answers to right samples tell at least; share of what they could tell, that wrong ones reach."""
# A norm or a logarithm in front takes any scale: such a model is alive at the next smaller scale, too.
_STILL_ALIVE = 0.5
# 1 / 127.5 is 0.008.
_AROUND = 0.01
_FAR = 8.0
"""Times as large or small as in training: what other samples do not do, and a wrong scale does."""


@check(order=20, group="answers")
def scale(exam: Exam) -> Iterator[Finding]:
    """Numbers too large or too small, by the answers and by the first batch norm."""
    if not exam.is_enough or not exam.inputs:
        return
    name = max(exam.inputs, key=lambda n: exam.inputs[n][0].size)
    found = _by_span(exam.spans(name)) or (_by_answers(exam, name) if exam.ranked else None)
    if found is None and exam.norm_times is not None and not 1 / _FAR < exam.norm_times < _FAR:
        found = _by_norm(exam.norm_times, exam.spans(name))
    if found is None:
        return
    right, evidence = found
    low, high = exam.spans(name)
    mended = exam.changed(right.change)
    yield Finding(
        f"the samples seem to be {right.what}: '{name}' spans {low:.4g} to {high:.4g}, and {evidence}",
        right.mend,
        exam.loss(exam.feeds, mended, mended),
        measured=exam.noise is not None,
    )


def _by_span(spans: tuple[float, float]) -> tuple[Rescaling, str] | None:
    """What becomes of -1..1 or 0..1 by x / 127.5 - 1: next to nothing around -1."""
    if max(abs(end + 1) for end in spans) > _AROUND or spans[0] == spans[1]:
        return None
    return SMALL[1], "numbers of -1 to 1 that are scaled as pixels are all lie there"


def _by_answers(exam: Exam, name: str) -> tuple[Rescaling, str] | None:
    """The scaling with which answers tell samples apart where they should not, and the evidence."""
    given = information(exam.scores)
    most = np.log(min(exam.scores.shape))
    if max(map(abs, exam.spans(name))) >= _MAY_BE_LARGE:
        told, right = _best(exam, LARGE)
        # On right samples nothing is left at a 255th, unless the model takes any scale.
        smaller = information(exam.scores_of(lambda x: right.change(x) / 255))
        if told >= max(ALIVE, 0.75 * given) and smaller < _STILL_ALIVE * told:
            return right, f"scaled down its answers still differ ({told:.2f} nats, as given {given:.2f})"
    if given < DULL * most:
        told, right = _best(exam, SMALL)
        if told >= 0.6 * most:
            return right, f"its answers hardly differ ({given:.2f} nats, scaled up {told:.2f})"
    return None


def _best(exam: Exam, ways: tuple[Rescaling, ...]) -> tuple[float, Rescaling]:
    """The most that answers tell with one of some scalings, and which it is."""
    told = [information(exam.scores_of(way.change)) for way in ways]
    best = int(np.argmax(told))
    return told[best], ways[best]


def _by_norm(times: float, spans: tuple[float, float]) -> tuple[Rescaling, str]:
    how = f"{times:.0f} times as large" if times > 1 else f"{1 / times:.0f} times as small"
    evidence = f"the first batch norm sees numbers {how} as in training"
    ways = LARGE if times > 1 else SMALL
    # The second way of each moves zero, and is for numbers that lie on one side of it.
    return ways[1 if times < 1 and spans[1] < 0 else 0], evidence
