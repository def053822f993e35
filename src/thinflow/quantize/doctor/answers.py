"""Answers that do not tell samples apart: one class only, or samples that the model does not know."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from thinflow.quantize.doctor import check
from thinflow.quantize.doctor.exam import Exam, information, top_share
from thinflow.quantize.doctor.findings import Finding
from thinflow.quantize.doctor.scale import DULL

ALL, ALL_OF_MANY = 0.97, 0.8
"""Share of samples with the same answer that is as good as all; where there are four classes or more."""
_CLIPPED_DB = 3.0
"""A class that shows no samples brings activations of its own, half as large again: 20 lg 1.5 dB."""


@check(order=30, group="answers")
def one_class(exam: Exam) -> Iterator[Finding]:
    """Samples of one class, by their labels or by the answers."""
    if not exam.is_enough:
        return
    mend = "take samples of every class; --samples N draws evenly over class folders and files"
    if exam.labels is not None and len({str(label) for label in exam.labels}) == 1:
        yield Finding(f"all samples are labelled '{exam.labels[0]}'", mend, _CLIPPED_DB)
        return
    if not exam.ranked:
        return
    share, told, most = top_share(exam.scores), information(exam.scores), np.log(min(exam.scores.shape))
    if share >= (ALL if exam.scores.shape[1] < 4 else ALL_OF_MANY):
        number = int(np.bincount(exam.scores.argmax(1)).argmax())
        yield Finding(
            f"{share:.0%} of {len(exam.feeds)} samples are answered with class {number}: they are of one"
            " class, or not prepared as in training",
            mend,
            _CLIPPED_DB,
        )
    elif told < DULL * most:
        yield Finding(
            f"the float model's answers hardly depend on the sample ({told:.2f} of {most:.2f} nats): samples"
            " are of one class, or not prepared as in training",
            "look at what the training code did to its samples, and do the same",
            _CLIPPED_DB,
        )
