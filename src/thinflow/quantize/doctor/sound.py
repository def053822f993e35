"""Sounds that are too loud, too quiet, or cut off."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from thinflow.quantize.doctor import check
from thinflow.quantize.doctor.exam import Exam
from thinflow.quantize.doctor.findings import Finding

_LENGTH = 4000
"""Numbers of the shortest row that is taken for a sound: a quarter of a second at 16 kHz."""
# Sounds are -1..1, or 16-bit numbers; music at its loudest goes a little beyond 1.
_LOUD, _WHOLE = 2.0, 1000.0
_QUIET = 0.005
"""Largest number of a middling sound, 46 dB below full scale."""
_CUT = 0.05
"""Share of a sound that may lie at its largest number, or just below."""
_LOST_DB = 6.0


@check(order=15, group="answers")
def loudness(exam: Exam) -> Iterator[Finding]:
    """Sounds, where an input is a long row of numbers."""
    for name, arrays in exam.inputs.items() if exam.is_enough else ():
        shape = arrays[0].shape
        if sum(n > 1 for n in shape) != 1 or max(shape) < _LENGTH:
            continue
        peaks = np.array([np.abs(a).max() for a in arrays])
        middle = float(np.median(peaks))
        cut = np.mean(
            [np.mean(np.abs(a) >= 0.98 * p) if p else 0 for a, p in zip(arrays, peaks, strict=True)]
        )
        problem = ""
        if _LOUD < middle < _WHOLE:
            problem = f"reach {middle:.3g}, where sounds reach 1 or are 16-bit numbers"
        elif middle < _QUIET:
            problem = f"reach {middle:.2g} only, where sounds reach 1"
        elif cut > _CUT:
            problem = f"lie at their largest number for {cut:.0%} of the time: they were cut off"
        if problem:
            mend = "scale sounds once, to -1..1, as training did"
            yield Finding(f"the sounds in '{name}' {problem}", mend, _LOST_DB)
