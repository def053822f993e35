"""What TensorFlow's kernels add for eight-bit codes of known ranges, where the codes alone are too coarse."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import FLOAT
from thinflow.lower.code_sums import Addend, steps_of
from thinflow.lower.onnx.builder import Builder
from thinflow.lower.onnx.eight_bit import Coded, decoded
from thinflow.lower.onnx.terms import Term
from thinflow.onnx.program import Tensor
from thinflow.typing import Array

STRAIGHT = 0.3
"""Codes that a result may move by because of what float computes of one operand."""
_UNSEEN = 0.05
"""Codes that a result may move by unheeded."""


def middle_of(addends: Sequence[Addend]) -> tuple[float, float]:
    """What sums are above those of what codes stand for, and by how much more or less, in reals."""
    highest = sum(float(a.excess.max()) for a in addends)
    lowest = sum(float(a.excess.min()) for a in addends)
    return (highest + lowest) / 2, (highest - lowest) / 2


def addend_reals(b: Builder, x: Coded, addend: Addend, step: float) -> Tensor:
    """What the kernel adds for codes, float.

    Args:
        step: of the result, in reals.
    """
    if x.codes.is_constant:
        return b.const(constant_addend(x, addend).astype(np.float32), "addend")
    slope, intercept, rest = addend.line()
    if rest > STRAIGHT * step:
        return _in_steps(b, x, addend)
    real = Term(b, decoded(b, x))
    if abs(slope - 1) * 255 * addend.grid.scale > _UNSEEN * step:
        real = real * slope
    return (real + intercept if abs(intercept) > _UNSEEN * step else real).tensor


def constant_addend(x: Coded, addend: Addend) -> Array:
    """The same for constant codes, float64."""
    reals: Array = addend.reals[x.codes.array().astype(np.int16)]
    return reals


def _in_steps(b: Builder, x: Coded, addend: Addend) -> Tensor:
    """The same rounded to steps of the 32-bit grid, in the operations and the precision of the kernel."""
    steps = steps_of(addend)
    if steps is None:
        raise UnsupportedOp(
            "its result is so much finer than its operands that TensorFlow's roundings would show",
            hint="give the result a wider range",
        )
    first = addend.grid.zero_point - addend.zero_code
    codes = Term(b, b.cast(x.codes, FLOAT)) + float(first)
    made = ((codes * steps.width + steps.base) * steps.per).rounded()
    return (made * addend.step + steps.more).tensor
