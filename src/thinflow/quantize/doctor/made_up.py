"""Samples that were made up."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.quantize.doctor import check
from thinflow.quantize.doctor.exam import Exam
from thinflow.quantize.doctor.findings import Finding


@check(order=0)
def made_up(exam: Exam) -> Iterator[Finding]:
    """Told elsewhere in the report; here for machines."""
    if exam.synthetic and exam.noise is not None:
        yield Finding(
            "inputs were made up, and ranges fit them", "give real samples with --calibration", warns=False
        )
