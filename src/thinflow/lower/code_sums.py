"""What TensorFlow's kernels add up for eight-bit codes.

QuantizedAdd and QuantizedBiasAdd move the codes of both operands to a 32-bit grid before they add them. Its
steps are none of theirs, and float32 cannot even tell its middle code. So what a code adds is not quite the
real that it stands for: up to 1/64 of the wider range beside it, and more than that in steps of a narrow
result. Both operands count by themselves, so a table of 256 reals for each says all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.analysis.grids import Grid
from thinflow.ops._quantized import F32, code_of, codes_of, decode, encode
from thinflow.ops.quantized_math import _widened
from thinflow.typing import Array

BIAS_FACTOR, SUM_FACTOR = 2.0**17, 2.0**14
"""How far the 32-bit ranges of QuantizedBiasAdd and QuantizedAdd reach, in ends of the operands' ranges."""


@dataclass(frozen=True)
class Addend:
    """One operand of a sum.

    Attributes:
        grid: of its codes.
        reals: what the kernel adds for each code, float64 [256], the lowest code first.
        step: the real that a 32-bit code of 1 stands for.
    """

    grid: Grid
    reals: Array
    step: float

    @property
    def excess(self) -> Array:
        """How much more that is than what the codes stand for, float64 [256]."""
        return self.reals - self.exact

    @property
    def exact(self) -> Array:
        """What the codes stand for, float64 [256]."""
        return (np.arange(256) - self.zero_code) * self.grid.scale

    @property
    def zero_code(self) -> int:
        """The code of 0, counted from the lowest."""
        return self.grid.zero_point - codes_of(self.grid.dtype.numpy()).low

    def line(self) -> tuple[float, float, float]:
        """Slope and intercept of the line through `reals` over `exact`, and how far that is off."""
        first, last = self.exact[[0, -1]]
        slope = float((self.reals[-1] - self.reals[0]) / (last - first))
        rest = self.reals - slope * self.exact
        intercept = float(rest.max() + rest.min()) / 2
        return slope, intercept, float(np.abs(rest - intercept).max())


@dataclass(frozen=True)
class Steps:
    """How QuantizedBiasAdd moves codes, in float32: round((code * width + base) * per).

    Attributes:
        width: of a code.
        base: the real of code 0.
        per: steps of the 32-bit grid in a real of 1.
        more: what is added to all sums, in reals.
    """

    width: float
    base: float
    per: float
    more: float


def steps_of(addend: Addend) -> Steps | None:
    """The same in numbers; None if the kernel does something else with these codes."""
    own, low = addend.grid, codes_of(addend.grid.dtype.numpy()).low
    zero = np.zeros(1, own.dtype.numpy())
    base = decode(zero, F32(own.low), F32(own.high))[0]
    width = F32(np.float64(F32(own.high) - F32(own.low)) / 255)
    exact = F32((2.0**32 - 1) / (addend.step * 2.0**32))
    codes = np.arange(low, low + 256).astype(F32)
    # The kernel rounds halves away from 0, this to the even number: a slightly greater factor helps.
    for per in (exact, np.nextafter(exact, F32(np.inf))):
        steps = np.rint((codes * width + base) * per).astype(np.float64)
        more = (addend.reals - steps * addend.step)[addend.zero_code]
        if np.allclose(steps * addend.step + more, addend.reals, rtol=0, atol=addend.step / 2):
            return Steps(float(width), float(base), float(per), float(more))
    return None


def addends(op: str, grids: Sequence[Grid], alone: Sequence[bool]) -> tuple[Addend, Addend]:
    """Both operands of QuantizedAdd or QuantizedBiasAdd.

    Args:
        op: which of them.
        grids: of both.
        alone: whether each has a single element, which QuantizedAdd moves in another way (the first one, if
            both have).
    """
    most = _most(op, grids)
    step = float(most) * 2.0**-31
    single = bool(alone[0]), bool(alone[1]) and not alone[0]
    tables = [_codes(op, grid, most, a) * step for grid, a in zip(grids, single, strict=True)]
    if op == "QuantizedBiasAdd":
        tables[0] = tables[0] + float(code_of(0.0, -most, most, np.int32)) * step
    first, second = (Addend(g, t, step) for g, t in zip(grids, tables, strict=True))
    return first, second


def is_single(shape: Sequence[int | None] | None) -> bool:
    """Whether a tensor is known to have one element."""
    return shape is not None and all(n == 1 for n in shape)


def _most(op: str, grids: Sequence[Grid]) -> np.float32:
    lows, highs = zip(*((F32(g.low), F32(g.high)) for g in grids), strict=True)
    if op == "QuantizedBiasAdd":
        return F32(max(*highs, *(-low for low in lows)) * F32(BIAS_FACTOR))
    return F32(max(abs(min(lows)), abs(max(highs))) * F32(SUM_FACTOR))


def _codes(op: str, grid: Grid, most: np.float32, alone: bool) -> Array:
    """The 32-bit codes of all eight-bit ones, float64 [256]."""
    limits, low, high = codes_of(grid.dtype.numpy()), F32(grid.low), F32(grid.high)
    codes = np.arange(limits.low, limits.high + 1).astype(grid.dtype.numpy())
    if op == "QuantizedBiasAdd":
        return encode(decode(codes, low, high), -most, most, np.int32).astype(np.float64)
    return _widened(codes, low, high, most, alone).astype(np.float64)
