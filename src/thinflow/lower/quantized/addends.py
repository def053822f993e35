"""The real values that TensorFlow's kernels add up for 8-bit quantized values.

QuantizedAdd and QuantizedBiasAdd requantize both operands to 32 bits before they add them. That scale is none
of theirs, and float32 cannot even tell its zero point. So what a value adds is not quite the real value that
it stands for: up to 1/64 of the wider range beside it, and more than that in steps of a narrow result. Both
operands count by themselves, so a table of 256 real values for each says all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from thinflow.analysis.quant_params import QuantParams
from thinflow.errors import UnsupportedOp
from thinflow.lower.quantized.accumulators import NEGLIGIBLE
from thinflow.ops._quantized import F32, code_of, codes_of, decode, encode
from thinflow.ops.quantized_math import widened
from thinflow.typing import Array

BIAS_FACTOR, SUM_FACTOR = 2.0**17, 2.0**14
"""Reach of the 32-bit ranges of QuantizedBiasAdd and QuantizedAdd, in ends of the operands' ranges: the
kernels' own constants, which leave room for sums."""
STRAIGHT = 0.3
"""Steps of the result that an operand's line may be off: both together stay well below TOLERANCE."""


class Expression(Protocol):
    """A tensor under construction, as a target's formulas have it."""

    def __add__(self: E, other: float) -> E: ...

    def __mul__(self: E, other: float) -> E: ...

    def rounded(self: E) -> E: ...


E = TypeVar("E", bound=Expression)


@dataclass(frozen=True)
class Addend:
    """One operand of a sum.

    Attributes:
        params: its quantization parameters.
        reals: what the kernel adds for each quantized value, float64 [256], the lowest one first.
        step: the real value that a 32-bit step stands for.
    """

    params: QuantParams
    reals: Array
    step: float

    @property
    def excess(self) -> Array:
        """`reals` less the exact real values, float64 [256]."""
        return self.reals - self.exact

    @property
    def exact(self) -> Array:
        """The exact real values, float64 [256]."""
        return (np.arange(256) - self.zero_point) * self.params.scale

    @property
    def zero_point(self) -> int:
        """Counted from the lowest value."""
        return self.params.zero_point - codes_of(self.params.dtype.numpy()).low

    def line(self) -> tuple[float, float, float]:
        """Slope and intercept of the line through `reals` over `exact`, and how far that is off."""
        # Through both ends, then moved to the middle of what is left: that halves the worst distance.
        first, last = self.exact[[0, -1]]
        # Both are straight but for roundings, which the greatest distance makes least of.
        slope = float((self.reals[-1] - self.reals[0]) / (last - first))
        rest = self.reals - slope * self.exact
        intercept = float(rest.max() + rest.min()) / 2
        return slope, intercept, float(np.abs(rest - intercept).max())

    def expressed(self, real: Callable[[], E], values: Callable[[], E], step: float) -> E:
        """The kernel's addends as a formula: a line over the exact real values, or rounded as it rounds.

        Args:
            real: emits what the quantized values stand for.
            values: emits these as float, in the range of their own type (-128 ... 127 for qint8).
            step: of the result.

        Raises:
            UnsupportedOp: the kernel computes it in another way than the formula.
        """
        slope, intercept, rest = self.line()
        if rest > STRAIGHT * step:
            return self._as_rounded(values())
        found = real()
        # What a slope moves is greatest at the end of the range, at most 255 steps from 0.
        if abs(slope - 1) * 255 * self.params.scale > NEGLIGIBLE * step:
            found = found * slope
        return found + intercept if abs(intercept) > NEGLIGIBLE * step else found

    def _as_rounded(self, values: E) -> E:
        """In the operations and the precision of the kernel."""
        steps = _steps_of(self)
        if steps is None:
            raise UnsupportedOp(
                "its result is so much finer than its operands that TensorFlow's roundings would show",
                hint="give the result a wider range",
            )
        return ((values * steps.width + steps.base) * steps.per).rounded() * self.step + steps.more


def middle_of(addends: Sequence[Addend]) -> tuple[float, float]:
    """The middle and half of the spread by which sums lie above those of exact real values."""
    highest = sum(float(a.excess.max()) for a in addends)
    lowest = sum(float(a.excess.min()) for a in addends)
    return (highest + lowest) / 2, (highest - lowest) / 2


@dataclass(frozen=True)
class _Steps:
    """QuantizedBiasAdd's requantization in float32: round((value * width + base) * per).

    Attributes:
        width: of a value.
        base: the real value of 0.
        per: 32-bit steps in a real value of 1.
        more: what is added to all sums, in real values.
    """

    width: float
    base: float
    per: float
    more: float


def _steps_of(addend: Addend) -> _Steps | None:
    """The numbers of that formula; None if the kernel does something else with these values."""
    own, low = addend.params, codes_of(addend.params.dtype.numpy()).low
    zero = np.zeros(1, own.dtype.numpy())
    # Not own.low: decoding moves the low end to a multiple of the scale, so that 0 is exact.
    base = decode(zero, F32(own.low), F32(own.high))[0]
    width = F32(np.float64(F32(own.high) - F32(own.low)) / 255)
    # The kernel's own quotient: 2**32 - 1 steps over a range of 2**32 of them.
    exact = F32((2.0**32 - 1) / (addend.step * 2.0**32))
    values = np.arange(low, low + 256).astype(F32)
    # The kernel rounds halves away from 0, this to the even number: a slightly greater factor helps.
    for per in (exact, np.nextafter(exact, F32(np.inf))):
        steps = np.rint((values * width + base) * per).astype(np.float64)
        # What the kernel adds to all values alike, as float32 has lost digits of its 32-bit zero point. With
        # half a 32-bit step as the tolerance all 256 values are the kernel's own, or this is not its formula.
        more = (addend.reals - steps * addend.step)[addend.zero_point]
        if np.allclose(steps * addend.step + more, addend.reals, rtol=0, atol=addend.step / 2):
            return _Steps(float(width), float(base), float(per), float(more))
    return None


def addends(op: str, parameters: Sequence[QuantParams], alone: Sequence[bool]) -> tuple[Addend, Addend]:
    """Both operands of QuantizedAdd or QuantizedBiasAdd.

    Args:
        op: which of them.
        params: of both.
        alone: whether each has a single element, which QuantizedAdd requantizes in another way (the first
            one, if both have).
    """
    most = _most(op, parameters)
    step = float(most) * 2.0**-31  # the range is -most ... most in 2**32 steps
    single = bool(alone[0]), bool(alone[1]) and not alone[0]
    tables = [_in_32_bits(op, params, most, a) * step for params, a in zip(parameters, single, strict=True)]
    if op == "QuantizedBiasAdd":
        # The kernel adds the 32-bit value of 0 to each sum once; here it belongs to the first operand.
        tables[0] = tables[0] + float(code_of(0.0, -most, most, np.int32)) * step
    first, second = (Addend(g, t, step) for g, t in zip(parameters, tables, strict=True))
    return first, second


def decoding_excess(params: QuantParams) -> float:
    """The excess of kernels that decode whole tensors over the exact real values.

    The beginning of the range is rounded to whole steps in float32. Where 0 lies half way between two values,
    as in -1 ... 1, that may be the other one than the value of 0: all reals are a step off then.
    """
    limits = codes_of(params.dtype.numpy())
    values = np.arange(limits.low, limits.high + 1)
    exact = (values - params.zero_point) * params.scale
    reals = decode(values.astype(params.dtype.numpy()), F32(params.low), F32(params.high))
    return float(np.mean(reals.astype(np.float64) - exact))


def is_single(shape: Sequence[int | None] | None) -> bool:
    """True if a tensor is known to have one element."""
    return shape is not None and all(n == 1 for n in shape)


def _most(op: str, parameters: Sequence[QuantParams]) -> np.float32:
    """The end of the 32-bit range."""
    lows, highs = zip(*((F32(g.low), F32(g.high)) for g in parameters), strict=True)
    most: np.float32
    if op == "QuantizedBiasAdd":
        # In float32 as in the kernel: another last bit here would be another scale of all sums.
        most = F32(max(*highs, *(-low for low in lows)) * F32(BIAS_FACTOR))
    else:
        most = F32(max(abs(min(lows)), abs(max(highs))) * F32(SUM_FACTOR))
    return most


def _in_32_bits(op: str, params: QuantParams, most: np.float32, alone: bool) -> Array:
    """The 32-bit values of all 8-bit ones, float64 [256]."""
    limits, low, high = codes_of(params.dtype.numpy()), F32(params.low), F32(params.high)
    values = np.arange(limits.low, limits.high + 1).astype(params.dtype.numpy())
    if op == "QuantizedBiasAdd":
        # Kernels have different helpers: this one decodes and encodes whole tensors in float32, QuantizedAdd
        # draws a line through the 32-bit values of 0 and 1.
        return encode(decode(values, low, high), -most, most, np.int32).astype(np.float64)
    return widened(values, low, high, most, alone).astype(np.float64)
