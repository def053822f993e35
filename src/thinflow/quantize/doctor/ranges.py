"""Ranges that one sample sets alone, that others go beyond, or that hold channels which are always 0."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from thinflow.quantize.doctor import check
from thinflow.quantize.doctor.exam import Exam, Extremes
from thinflow.quantize.doctor.findings import Finding
from thinflow.typing import Array

# The largest of 64 well-behaved samples is less than this times the next in all nets of benchmarks/ptq.
_ALONE, _FAR_ALONE = 3.0, 10.0
"""Times as large as in any other sample: a range of which the other samples use a third; a tenth, which warns
whatever can be measured."""
_WORTH_DB = 1.0
"""What a finding has to cost to warn."""
_BEYOND = 2.0
"""Times as wide as the range of calibration that a sample is to be told of."""
_SHARE_DEAD = 0.5
"""Share of channels of the first clamp that may be 0 for all samples."""


@check(order=50)
def outliers(exam: Exam) -> Iterator[Finding]:
    """One sample that makes a range several times as wide as all others do."""
    seen = exam.extremes if exam.is_enough else None
    if seen is None:
        return
    sizes = np.nan_to_num(np.maximum(np.abs(seen.low), np.abs(seen.high)))
    order = np.sort(sizes, axis=1)
    ratios = order[:, -1] / np.maximum(order[:, -2], 1e-12) * (order[:, -2] > 0)
    if not ratios.size or ratios.max() < _ALONE:
        return
    # The tensor that is computed first is the cause, if it is nearly as bad as the worst.
    tensor = int(np.flatnonzero(ratios >= max(_ALONE, 0.5 * ratios.max()))[0])
    sample = int(sizes[tensor].argmax())
    others = [feed for number, feed in enumerate(exam.feeds) if number != sample]
    cost = exam.loss(exam.feeds, others, others[:16])
    yield Finding(
        f"{exam.places[sample]} sets the range of '{seen.names[tensor]}' alone: {sizes[tensor, sample]:.4g},"
        f" where the other samples reach {order[tensor, -2]:.4g}",
        "take it out if it is no real sample, or clip with --observer 'percentile(percent=99.99)'",
        cost,
        measured=cost is not None,
        warns=cost is None or cost >= _WORTH_DB or ratios.max() > _FAR_ALONE,
    )


@check(order=51)
def clipping(exam: Exam) -> Iterator[Finding]:
    """Samples to judge on that go beyond the ranges of calibration."""
    seen = exam.extremes if exam.is_enough and exam.judges else None
    if seen is None or exam.extremes_of is None:
        return
    judged = exam.extremes_of(exam.judges)
    (low, high), (lower, higher) = _ends(seen), _ends(judged)
    width, wider = high - low, np.maximum(high, higher) - np.minimum(low, lower)
    times = np.where(width > 0, wider / np.where(width > 0, width, 1), 1.0)
    if not times.size or not times.max() > _BEYOND:
        return
    worst = int(np.argmax(times))
    cost = exam.loss(exam.feeds, [*exam.feeds, *exam.judges], exam.judges)
    yield Finding(
        f"samples to judge on reach {times[worst]:.1f} times as far as those of calibration, first in"
        f" '{seen.names[int(np.flatnonzero(times > _BEYOND)[0])]}', and are cut off there",
        "calibrate with more samples, of all kinds that the model will see",
        cost,
        measured=cost is not None,
        warns=cost is None or cost >= _WORTH_DB,
    )


def _ends(seen: Extremes) -> tuple[Array, Array]:
    """The lowest and highest number of each tensor; 0 where it never had a finite one."""
    return np.nan_to_num(seen.low).min(1), np.nan_to_num(seen.high).max(1)


@check(order=60)
def dead_channels(exam: Exam) -> Iterator[Finding]:
    """Channels that are 0 for all samples."""
    seen = exam.extremes if exam.is_enough else None
    # What is 0 throughout, such as the first state of a loop, is no layer.
    layers = {} if seen is None else {name: found for name, found in seen.dead.items() if found < 1}
    if not layers:
        return
    first, share = next(iter(layers.items()))
    many = [name for name, found in layers.items() if found > _SHARE_DEAD]
    if share > _SHARE_DEAD:
        yield Finding(
            f"{share:.0%} of the channels of '{first}', the first that are clamped, are 0 for all samples",
            "look at whether samples are scaled as in training",
            3.0,
        )
    elif many:
        yield Finding(
            f"more than half of the channels of '{many[0]}' are 0 for all samples",
            "nothing, if the network was trained so; pruning them costs nothing",
            0.0,
            warns=False,
        )


@check(order=70)
def few_samples(exam: Exam) -> Iterator[Finding]:
    """Samples so few that others go beyond their ranges; a warning of calibration counts them."""
    if exam.synthetic or exam.count is None or exam.count >= 32 or len(exam.feeds) < 2:
        return
    held_out, others = exam.feeds[::2], exam.feeds[1::2]
    cost = exam.loss(others, exam.feeds, held_out)
    yield Finding(
        f"there are {exam.count} samples; half of them leave ranges that cut off the others",
        "give more: 200 are usual",
        cost,
        measured=cost is not None,
        warns=False,
    )
