"""Colours in another order than in training."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from thinflow.quantize.doctor import check
from thinflow.quantize.doctor.exam import Exam, information
from thinflow.quantize.doctor.findings import Finding
from thinflow.typing import Array

_SURER, _TELLS = 0.05, 1.1
"""How much surer answers are with red and blue exchanged, and how many times they tell, to be suspected."""


@check(order=40, group="answers")
def colours(exam: Exam) -> Iterator[Finding]:
    """A suspicion, where answers to pictures are surer with red and blue changed."""
    if not exam.is_enough or not exam.ranked or not exam.inputs:
        return
    shapes = [arrays[0].shape for arrays in exam.inputs.values()]
    axes = [colour_axis(shape) for shape in shapes]
    if None in axes:
        return
    axis = axes[0] or 0

    def swapped(x: Array) -> Array:
        return np.flip(x, axis)

    given, other = exam.scores, exam.scores_of(swapped)
    sure, surer = float(given.max(1).mean()), float(other.max(1).mean())
    if surer > sure + _SURER and information(other) > _TELLS * information(given):
        yield Finding(
            f"red and blue may be exchanged: the model is surer with them changed ({surer:.0%} instead of"
            f" {sure:.0%} for its top answer)",
            "compare with the training code, and exchange the channels if it read BGR",
        )


def colour_axis(shape: tuple[int, ...]) -> int | None:
    """The axis of three colours in a picture; None if it is none."""
    if len(shape) not in (3, 4):
        return None
    if shape[-1] == 3:
        return -1
    return len(shape) - 3 if shape[-3] == 3 else None
