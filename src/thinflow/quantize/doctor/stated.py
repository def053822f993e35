"""Samples beside what the model's file says of its inputs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from thinflow.ir.usage import InputUsage
from thinflow.quantize.doctor import check
from thinflow.quantize.doctor.exam import Exam
from thinflow.quantize.doctor.findings import Finding

_BEYOND, _WITHIN = 3.0, 20.0
"""Times as wide, or as narrow, as pixels 0..255 would be: what no picture does."""
_PIXELS = np.array([0.0, 255.0])


@check(order=19, group="answers")
def stated_scaling(exam: Exam) -> Iterator[Finding]:
    """Numbers that are not scaled as the model's file says."""
    for name in exam.inputs if exam.is_enough else ():
        found = exam.usage.input(name)
        limits = None if found is None or found.assumed else _limits(found)
        if limits is None:
            continue
        low, high = exam.spans(name)
        times = (high - low) / (limits[1] - limits[0])
        if 1 / _WITHIN < times < _BEYOND:
            continue
        yield Finding(
            f"'{name}' spans {low:.4g} to {high:.4g}, and the model's file says {limits[0]:.4g} to"
            f" {limits[1]:.4g}",
            "scale samples as the file says; --mean and --std do that with pictures",
            # 20 and not 10: a factor of sizes, not of powers.
            abs(20 * np.log10(max(times, 1e-6))),
        )


def _limits(usage: InputUsage) -> tuple[float, float] | None:
    """The lowest and highest number that is fed, as stated; None if nothing is."""
    if usage.low and usage.high and min(usage.low) < max(usage.high):
        return min(usage.low), max(usage.high)
    if not usage.is_scaled or usage.own:
        return None
    pairs = np.broadcast_arrays(np.array(usage.mean), np.array(usage.std))
    ends = [(_PIXELS - mean) / std for mean, std in zip(*pairs, strict=True)]
    return float(np.min(ends)), float(np.max(ends))
