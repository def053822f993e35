"""Quantized values whose range is measured while the model runs, computed in float.

LiteRT's integer kernels want constant quantization parameters. Quantized values are whole numbers that float
holds exactly, so everything is computed in float with the same roundings as TensorFlow's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from thinflow.ir.graph import Value
from thinflow.ir.types import QINT32, QUINT8, DType
from thinflow.lower.quantized.addends import BIAS_FACTOR, SUM_FACTOR
from thinflow.lower.tflite.builder import Builder, Float
from thinflow.lower.tflite.quantized_context import unfixed_range
from thinflow.ops._quantized import is_native
from thinflow.program.model import Dims
from thinflow.tflite.model import Tensor

_LAST = 255.0
_UP = 0.5 + 2.0**-16
"""Rounds halves up, and what float32 cannot tell from a half: up to 255 its numbers are 2**-16 apart."""
_SPLIT = 4097.0
"""2**12 + 1: Veltkamp's factor for halves of 12 bits, of float32's 24."""
_ONE_LESS = 2.0**-32
"""Part of a range by which 2**32 - 1 steps are shorter than 2**32."""


@dataclass(frozen=True, eq=False)
class FloatAccumulators:
    """32-bit accumulators by the real values that they stand for.

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
        """Refuse to hand the quantized values out.

        Raises:
            UnsupportedOp: always.
        """
        raise unfixed_range(value)


@dataclass(frozen=True, eq=False)
class DynamicallyQuantized:
    """8-bit quantized values.

    Attributes:
        tensor: float, whole numbers counted from the lowest value: 0 to 255.
        low, high: the ends of the range as they are handed on, float [].
        dtype: quint8 or qint8.
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
        """Refuse to hand the quantized values out.

        Raises:
            UnsupportedOp: always.
        """
        raise unfixed_range(value)

    def with_values(self, values: Float) -> DynamicallyQuantized:
        """Other values with the same range."""
        return replace(self, tensor=values.tensor)

    def centred(self, b: Builder) -> Tensor:
        """Real values as products take them, float: 0 is one of them."""
        made = b.quantized.floats.get((self.tensor, "centred"))
        if made is None:
            made = ((Float(b, self.tensor) - self.zero(b)) * self.step(b)).tensor
            b.quantized.floats[self.tensor, "centred"] = made
        return made

    def decoded(self, b: Builder) -> Tensor:
        """Real values as Dequantize and sums take them, float."""
        made = b.quantized.floats.get((self.tensor, "decoded"))
        if made is None:
            made = (Float(b, self.tensor) * self.step(b) + self.least(b)).tensor
            b.quantized.floats[self.tensor, "decoded"] = made
        return made

    def step(self, b: Builder) -> Float:
        """The scale, []."""
        return (Float(b, self.high) - self.low) / _LAST

    def least(self, b: Builder) -> Float:
        """The real value of the lowest one, [], by parameters for which 0 is exact."""
        step = self.step(b)
        # The low end moves to a whole number of steps below 0, so that 0 is exact; low <= 0 always, so halves
        # of -low / step are rounded away from 0 as the kernel does.
        return -(-Float(b, self.low) / step + 0.5).floor() * step

    def zero(self, b: Builder) -> Float:
        """The zero point, []."""
        # Kernels compute this in double: what is a half there may be a little less in float32, so _UP is a
        # little more.
        return (-Float(b, self.low) * per_step(Float(b, self.low), Float(b, self.high)) + _UP).floor()

    def quantized(self, b: Builder, real: float) -> Float:
        """A real value of at least 0, quantized, []."""
        per = per_step(Float(b, self.low), Float(b, self.high))
        return ((per * real + _UP).floor() + self.zero(b)).least(_LAST)


def per_step(low: Float, high: Float) -> Float:
    """Steps in a real of 1, []."""
    return _LAST / (high - low)


def quantize_dynamically(
    b: Builder, x: Tensor, low: Tensor, high: Tensor, dtype: DType, least_width: float, *, is_within: bool
) -> DynamicallyQuantized:
    """Real values as QuantizeV2 rounds them in the mode MIN_FIRST.

    Args:
        b: emits.
        x: float.
        low, high: the range that is asked for, of one element each.
        dtype: of the result, quint8 or qint8.
        least_width: the op's `ensure_minimum_range`.
        is_within: whether x is known to lie between low and high.
    """
    asked, top = Float(b, b.reshaped(low, ())), Float(b, b.reshaped(high, ()))
    # As QuantizeV2 does: the range is made to hold 0, and is at least this part of its farthest end wide.
    first = asked.least(0.0)
    margin = asked.magnitude().most(top.magnitude()).most(1.0) * least_width
    last = top.most(0.0).most(first + margin)
    per = per_step(first, last)
    scaled = Float(b, x) * per
    if dtype is QUINT8 and not is_native():
        values = (scaled + -first * per).rounded()  # oneDNN's kernel, for which 0 need not be exact
    else:
        # x and the low end are rounded one by one, so that real 0 is one of the values.
        away = (scaled.magnitude() + 0.5).floor() * scaled.sign()
        values = away + (-first * per + 0.5).floor()
    # Values within the measured range cannot leave 0 ... 255: two operators less for each tensor.
    values = values if is_within else values.most(0.0).least(_LAST)
    return DynamicallyQuantized(values.tensor, first.tensor, last.tensor, dtype)


# --- sums ---------------------------------------------------------------------------------------------------


def sum_of(b: Builder, op: str, x: DynamicallyQuantized, y: DynamicallyQuantized, shape: Dims) -> Tensor:
    """The sum by QuantizedAdd or QuantizedBiasAdd of two operands, as real values of a shape."""
    if op == "QuantizedBiasAdd":
        # Taken off the second operand, usually a bias of a few numbers, instead of the whole sum.
        addend = Float(b, y.decoded(b)) - _lost(_farthest(b, x, y))
        return b.step("ADD", x.decoded(b), addend.tensor, shape=shape)
    lows, highs = (Float(b, x.low), Float(b, y.low)), (Float(b, x.high), Float(b, y.high))
    most = lows[0].least(lows[1]).magnitude().most(highs[0].most(highs[1]).magnitude())
    return b.step("ADD", _moved(b, x, most).tensor, _moved(b, y, most).tensor, shape=shape)


def _farthest(b: Builder, x: DynamicallyQuantized, y: DynamicallyQuantized) -> Float:
    """The greatest magnitude of the ends of both ranges, [], where low <= high."""
    ends = [end for m in (x, y) for end in (Float(b, m.high), -Float(b, m.low))]
    found = ends[0]
    for end in ends[1:]:
        found = found.most(end)
    return found


def _lost(most: Float) -> Float:
    """The constant that QuantizedBiasAdd takes off each sum: float32 cannot tell its 32-bit zero point.

    That is most / 64 if the steps in a real of 1, as float32, times the end of the range are not half of all
    steps, else 0.
    """
    half = 2.0**31 / BIAS_FACTOR
    per = half / most
    # The kernel divides one step less than that, in double. What the quotient above has lost by rounding
    # tells whether that is another float.
    per = per + (_remainder(half, per, most) - half * _ONE_LESS) / most
    # half = 2**14, below which float32 numbers are 2**-10 apart: half - per * most is 0 or 2**-10. In 32-bit
    # steps, most * 2**-14 each, that is 2**7 for each of the two operands: 2 * 2**7 * 2**-14 * most = most /
    # 64.
    return (half - per * most) * most * (2 * BIAS_FACTOR**2 / 2.0**31)


def _remainder(whole: float, x: Float, y: Float) -> Float:
    """whole - x * y without rounding, for x * y that is nearly `whole` (Dekker's product)."""
    (high, low), (top, rest) = _halves(x), _halves(y)
    # Products of 12-bit halves have 24 bits: exact. The largest goes first, as it nearly cancels `whole`, and
    # differences of numbers that close are exact, too.
    return whole - high * top - high * rest - low * top - low * rest


def _halves(x: Float) -> tuple[Float, Float]:
    """x as the sum of two numbers of 12 bits (Veltkamp's splitting)."""
    far = x * _SPLIT
    high = far - (far - x)
    return high, x - high


def _moved(b: Builder, x: DynamicallyQuantized, most: Float) -> Float:
    """QuantizedAdd's addends for values: 32-bit ones are counted from that of the lowest one."""
    per = 2.0**31 / SUM_FACTOR / most
    least = x.least(b)
    # The kernel computes the 32-bit values of 0 and 1 and draws a line through them, so an error of the
    # step's rounding grows with the value.
    first = (least * per).rounded()
    each = ((least + x.step(b)) * per).rounded() - first
    return Float(b, x.tensor) * (each / per) + first / per
