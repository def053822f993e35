"""Numbers of another size than those that a model was trained on: scaled twice, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from thinflow.quantize.doctor import check
from thinflow.quantize.doctor.colours import colour_axis
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
SHIFTED = (
    Rescaling(
        "of 0 to 1 where -1 to 1 is expected",
        lambda x: x * 2 - 1,
        "scale them as 2 x - 1 (pictures: --mean 127.5 --std 127.5)",
    ),
    Rescaling(
        "of -1 to 1 where 0 to 1 is expected",
        lambda x: (x + 1) / 2,
        "scale them as (x + 1) / 2 (pictures: --std 255)",
    ),
)
# Mean and deviation of the pictures of ImageNet, red first, as torchvision's models are fed.
_MEAN, _STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
# Inputs that are scaled right lie around 1; spectra and the like reach 100. Below this nothing can be 255
# times too large.
_MAY_BE_LARGE = 8.0
# Trained classifiers (benchmarks/ptq and keyword nets) tell 1.6 to 2.3 nats of their samples, and those of
# benchmarks/ptq 0.000 of samples divided by 255: there the biases alone are left.
ALIVE, DULL = 0.3, 0.1
"""Nats that answers to right samples tell at least; share of what they could tell, that wrong ones reach."""
# A norm or a logarithm in front takes any scale: such a model is alive at the next smaller scale, too.
_STILL_ALIVE = 0.5
# What right samples tell is at most 1.1 times as much with another scaling.
_SHARPER = 1.3
"""Times as much that answers have to tell with another scaling."""
# 1 / 127.5 is 0.008.
_AROUND = 0.01
# Right samples of benchmarks/ptq are 0.00 to 0.01 nats from training, those of one class up to 0.09; 0..1 in
# place of -1..1 is 0.3 to 1.0, the other way round 0.8 to 3.5.
_APART, _MENDED = 0.2, 0.25
"""Nats from which on the first batch norm's input is not that of training; share of them that is left with
what mends it, at most."""


@check(order=20, group="answers")
def scale(exam: Exam) -> Iterator[Finding]:
    """Numbers too large or too small, by the answers and by the first batch norm."""
    if not exam.is_enough or not exam.inputs:
        return
    name = max(exam.inputs, key=lambda n: exam.inputs[n][0].size)
    gap = None if exam.norm_gap is None else exam.norm_gap(lambda x: x)
    # A norm that sees what it saw in training leaves no doubt, whatever the answers are.
    if gap is not None and gap[1] < _APART:
        return
    found = _by_span(exam.spans(name)) or (None if gap is None else _by_norm(exam, name, *gap))
    found = found or (_by_answers(exam, name) if exam.ranked else None)
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
    # Answers cannot tell apart more than there are samples, nor more than there are classes.
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
    ways = tuple(way for way in _possible(exam, name) if way in SHIFTED)
    if ways and exam.norm_gap is None:
        told, right = _best(exam, ways)
        if told >= max(_SHARPER * given, 0.6 * most):
            return right, f"its answers tell less than they could ({given:.2f} nats, so scaled {told:.2f})"
    return None


def _best(exam: Exam, ways: tuple[Rescaling, ...]) -> tuple[float, Rescaling]:
    """The most that answers tell with one of some scalings, and which it is."""
    told = [information(exam.scores_of(way.change)) for way in ways]
    best = int(np.argmax(told))
    return told[best], ways[best]


def _by_norm(exam: Exam, name: str, times: float, nats: float) -> tuple[Rescaling, str] | None:
    """The scaling that gives the first batch norm what it saw in training, and the evidence.

    Args:
        times, nats: how what it sees differs.
    """
    if exam.norm_gap is None:
        return None
    ways = [*_possible(exam, name), *LARGE, *SMALL]
    tried = [(found[1], number) for number, way in enumerate(ways) if (found := exam.norm_gap(way.change))]
    least, best = min(tried, default=(np.inf, 0))
    # Of one loud sample less is left, too: right is what comes near to training.
    if least > min(_MENDED * nats, _APART):
        return None
    how = ""
    if not 0.5 < times < 2:
        how = f"{times:.0f} times as large" if times > 1 else f"{1 / times:.0f} times as small"
        how = f"numbers {how} as in training, "
    return ways[best], (
        f"the first batch norm sees {how}{nats:.2g} nats from those of training"
        f" (scaled otherwise {least:.2g})"
    )


def _possible(exam: Exam, name: str) -> list[Rescaling]:
    """The scalings that samples may lack whose size gives nothing away."""
    low, high = exam.spans(name)
    found = []
    if high <= 1 + _AROUND and low >= -1 - _AROUND:
        found = [SHIFTED[0] if low >= -_AROUND else SHIFTED[1]]
    shape = exam.inputs[name][0].shape
    axis = colour_axis(shape)
    if axis is None:
        return found
    sizes = [3 if number == axis % len(shape) else 1 for number in range(len(shape))]
    mean, std = _MEAN.reshape(sizes), _STD.reshape(sizes)
    torch = "(x - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225) of 0 to 1"
    return [
        *found,
        Rescaling("not normalised", lambda x: (x - mean) / std, f"scale them as {torch}"),
        Rescaling("normalised twice", lambda x: x * std + mean, f"scale them as {torch} once, or not at all"),
        Rescaling(
            "normalised as those of ImageNet where -1 to 1 is expected",
            lambda x: (x * std + mean) * 2 - 1,
            "scale them as 2 x - 1 of 0 to 1 (pictures: --mean 127.5 --std 127.5)",
        ),
    ]
