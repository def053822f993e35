"""Eight-bit codes on a range that is found while the model runs, computed in float.

LiteRT's integer kernels want ranges that are constants. Codes are whole numbers that float holds exactly, so
everything is computed in float with the same roundings as TensorFlow's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from thinflow.ir.graph import Value
from thinflow.ir.types import QINT32, QUINT8, DType
from thinflow.lower.building import Dims
from thinflow.lower.code_sums import BIAS_FACTOR, SUM_FACTOR
from thinflow.lower.tflite.coding import not_fixed
from thinflow.lower.tflite.formulas import Float
from thinflow.lower.tflite.program import Tensor
from thinflow.ops._quantized import is_native

if TYPE_CHECKING:
    from thinflow.lower.tflite.builder import Builder

_LAST = 255.0
_UP = 0.5 + 2.0**-16
"""Rounds halves up, and what float32 cannot tell from a half."""
_SPLIT = 4097.0
_ONE_LESS = 2.0**-32
"""Part of a range by which 2**32 - 1 steps are shorter than 2**32."""


@dataclass(frozen=True, eq=False)
class Reals:
    """32-bit codes by the reals that they stand for.

    Attributes:
        tensor: float.
    """

    tensor: Tensor

    is_constant = False
    dtype = QINT32
    element = QINT32

    @property
    def shape(self) -> Dims:
        return self.tensor.shape

    def stored(self, b: Builder, value: Value) -> NoReturn:
        """Refuse to hand the codes out.

        Raises:
            UnsupportedOp: always.
        """
        raise not_fixed(value)


@dataclass(frozen=True, eq=False)
class Measured:
    """Eight-bit codes.

    Attributes:
        tensor: float, whole numbers counted from the lowest code: 0 to 255.
        low, high: the ends of the range as they are handed on, float [].
        dtype: of the codes.
    """

    tensor: Tensor
    low: Tensor
    high: Tensor
    dtype: DType = QUINT8

    is_constant = False
    element = QUINT8

    @property
    def shape(self) -> Dims:
        return self.tensor.shape

    def stored(self, b: Builder, value: Value) -> NoReturn:
        """Refuse to hand the codes out.

        Raises:
            UnsupportedOp: always.
        """
        raise not_fixed(value)

    def with_codes(self, codes: Float) -> Measured:
        """Other codes on the same range."""
        return replace(self, tensor=codes.tensor)

    def centred(self, b: Builder) -> Tensor:
        """The reals of the codes as products take them, float: 0 is one of them."""
        made = b.coding.floats.get((self.tensor, "centred"))
        if made is None:
            made = ((Float(b, self.tensor) - self.zero(b)) * self.step(b)).tensor
            b.coding.floats[self.tensor, "centred"] = made
        return made

    def decoded(self, b: Builder) -> Tensor:
        """The reals of the codes as Dequantize and sums take them, float."""
        made = b.coding.floats.get((self.tensor, "decoded"))
        if made is None:
            made = (Float(b, self.tensor) * self.step(b) + self.least(b)).tensor
            b.coding.floats[self.tensor, "decoded"] = made
        return made

    def step(self, b: Builder) -> Float:
        """The width of one code, []."""
        return (Float(b, self.high) - self.low) / _LAST

    def least(self, b: Builder) -> Float:
        """The real of the lowest code, [], on a grid that holds 0."""
        step = self.step(b)
        return -(-Float(b, self.low) / step + 0.5).floor() * step

    def zero(self, b: Builder) -> Float:
        """The code of 0, []."""
        return (-Float(b, self.low) * per_step(Float(b, self.low), Float(b, self.high)) + _UP).floor()

    def code_of(self, b: Builder, real: float) -> Float:
        """The code of a real of at least 0, []."""
        per = per_step(Float(b, self.low), Float(b, self.high))
        return ((per * real + _UP).floor() + self.zero(b)).least(_LAST)


def per_step(low: Float, high: Float) -> Float:
    """Steps in a real of 1, []."""
    return _LAST / (high - low)


def measured(
    b: Builder, x: Tensor, low: Tensor, high: Tensor, dtype: DType, least_width: float, *, is_within: bool
) -> Measured:
    """Reals as QuantizeV2 rounds them in the mode MIN_FIRST.

    Args:
        b: emits.
        x: float.
        low, high: the range that is asked for, of one element each.
        dtype: of the codes, quint8 or qint8.
        least_width: the op's `ensure_minimum_range`.
        is_within: whether x is known to lie between low and high.
    """
    asked, top = Float(b, b.reshaped(low, ())), Float(b, b.reshaped(high, ()))
    first = asked.least(0.0)
    margin = asked.magnitude().most(top.magnitude()).most(1.0) * least_width
    last = top.most(0.0).most(first + margin)
    per = per_step(first, last)
    scaled = Float(b, x) * per
    if dtype is QUINT8 and not is_native():
        codes = (scaled + -first * per).rounded()  # oneDNN's kernel, whose grid need not hold 0
    else:
        codes = scaled.rounded_away() + (-first * per + 0.5).floor()
    codes = codes if is_within else codes.most(0.0).least(_LAST)
    return Measured(codes.tensor, first.tensor, last.tensor, dtype)


# --- sums ---------------------------------------------------------------------------------------------------


def sum_of(b: Builder, op: str, x: Measured, y: Measured, shape: Dims) -> Tensor:
    """What QuantizedAdd or QuantizedBiasAdd makes of two operands, as reals of a shape."""
    if op == "QuantizedBiasAdd":
        addend = Float(b, y.decoded(b)) - _lost(_farthest(b, x, y))
        return b.step("ADD", x.decoded(b), addend.tensor, shape=shape)
    lows, highs = (Float(b, x.low), Float(b, y.low)), (Float(b, x.high), Float(b, y.high))
    most = lows[0].least(lows[1]).magnitude().most(highs[0].most(highs[1]).magnitude())
    return b.step("ADD", _moved(b, x, most).tensor, _moved(b, y, most).tensor, shape=shape)


def _farthest(b: Builder, x: Measured, y: Measured) -> Float:
    """The greatest magnitude of the ends of both ranges, [], where low <= high."""
    ends = [end for m in (x, y) for end in (Float(b, m.high), -Float(b, m.low))]
    found = ends[0]
    for end in ends[1:]:
        found = found.most(end)
    return found


def _lost(most: Float) -> Float:
    """What QuantizedBiasAdd takes off each sum: float32 cannot tell the middle code of its 32-bit grid.

    That is most / 64 if the steps in a real of 1, as float32, times the end of the range are not half of all
    steps, else 0.
    """
    half = 2.0**31 / BIAS_FACTOR
    per = half / most
    # The kernel divides one step less than that, in double. What the quotient above has lost by rounding
    # tells whether that is another float.
    per = per + (_remainder(half, per, most) - half * _ONE_LESS) / most
    return (half - per * most) * most * (2 * BIAS_FACTOR**2 / 2.0**31)


def _remainder(whole: float, x: Float, y: Float) -> Float:
    """whole - x * y without rounding, for x * y that is nearly `whole` (Dekker's product)."""
    (high, low), (top, rest) = _halves(x), _halves(y)
    return whole - high * top - high * rest - low * top - low * rest


def _halves(x: Float) -> tuple[Float, Float]:
    """x as the sum of two numbers of 12 bits (Veltkamp's splitting)."""
    far = x * _SPLIT
    high = far - (far - x)
    return high, x - high


def _moved(b: Builder, x: Measured, most: Float) -> Float:
    """What QuantizedAdd adds for codes: those of its 32-bit grid are counted from that of the lowest one."""
    per = 2.0**31 / SUM_FACTOR / most
    least = x.least(b)
    first = (least * per).rounded()
    each = ((least + x.step(b)) * per).rounded() - first
    return Float(b, x.tensor) * (each / per) + first / per
