"""Arithmetic shared by the eight-bit ops: how codes and real numbers become one another.

A quantized tensor is codes plus two float32 scalars, the reals that the lowest and highest code roughly stand
for. Two families of helpers turn them into slightly different grids, and every op uses a certain one: the
scalar helpers (`code_of`, `real_of`), in double, and the vectorised ones (`encode`, `decode`), in float32.
All results match TensorFlow's CPU kernels bit for bit, flushed subnormals included.

TensorFlow has two sets of kernels. On x86 a stock build replaces some of its own by oneDNN's, which round
differently; `kernels("native")` selects TensorFlow's own, which other processors run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, QUINT8, DType, TensorSpec
from thinflow.ops.registry import OpDef
from thinflow.typing import Array

F32 = np.float32
_BLOCK = 1 << 15
"""Elements a function of many passes works on at a time."""
_TINY = np.finfo(np.float32).tiny
RANGE = TensorSpec(FLOAT, ())
"""The spec of one end of a range."""


class QuantizedOperand(NamedTuple):
    """A quantized operand of a node: where its values and the ends of its range are among the inputs."""

    values: int
    low: int
    high: int


ONE_OPERAND = (QuantizedOperand(0, 1, 2),)
SECOND_INPUT_IS_PLAIN = (QuantizedOperand(0, 2, 3),)
TWO_OPERANDS = (QuantizedOperand(0, 2, 3), QuantizedOperand(1, 4, 5))


class QuantizedReader(OpDef):
    """Base of the ops that read quantized values, each with the two ends of its range."""

    operands: ClassVar[tuple[QuantizedOperand, ...]] = ONE_OPERAND


class QuantizedOp(QuantizedReader):
    """Base of the ops that give quantized values and the two ends of their range."""

    num_outputs = 3
    result_type: ClassVar[tuple[str, DType]] = ("T", QUINT8)
    """The attribute that names the type of the resulting values, and its default."""
    operand_ranks: ClassVar[tuple[int, ...]] = ()
    """The ranks that the operands have at least. () if more than their ranges decides on the range of the
    result, so that a run of the kernel on single elements does not tell it."""


# A context variable: threads must not see each other's choice.
_kernels: ContextVar[str] = ContextVar("quantized_kernels", default="onednn")


@contextmanager
def kernels(which: Literal["onednn", "native"]) -> Iterator[None]:
    """Within the block quantized ops compute as this set of TensorFlow's kernels does; else as onednn."""
    token = _kernels.set(which)
    try:
        yield
    finally:
        _kernels.reset(token)


def is_native() -> bool:
    """True if TensorFlow's own kernels are wanted."""
    return _kernels.get() == "native"


@dataclass(frozen=True)
class Codes:
    """The codes of one quantized type.

    Attributes:
        low, high: extreme codes.
        steps: number of codes, 2 ** bits.
    """

    low: int
    high: int
    steps: int

    @property
    def half(self) -> int:
        """Distance of the lowest code from 0."""
        return -self.low


def codes_of(dtype: np.dtype[Any] | type[Any]) -> Codes:
    """The codes stored in a numpy integer type."""
    if np.dtype(dtype).kind not in "iu":
        raise ShapeError(f"{np.dtype(dtype)} is no type of quantized codes")
    info = np.iinfo(dtype)
    return Codes(int(info.min), int(info.max), 1 << info.bits)


def scalar(x: Array) -> np.float32:
    """The single element of a range input."""
    if x.size != 1:
        raise ShapeError(f"a range has shape {list(x.shape)}, a scalar is needed")
    value: np.float32 = F32(x.reshape(()))
    return value


def flush(x: Any) -> Any:
    """Subnormals as 0, as TensorFlow's kernels run the processor."""
    return np.where(np.abs(x) < _TINY, np.asarray(x).dtype.type(0), x)[()]


def round_away(x: Any) -> Any:
    """Nearest integer, halves away from zero, in the type of x.

    Away from zero by the largest number below a half, then towards zero: so a half reaches the next integer
    and nothing less does.
    """
    x = np.asarray(x)
    # Adding 0.5 itself would round the largest number below a half up to 1.
    nearly_half = np.nextafter(x.dtype.type(0.5), x.dtype.type(0))
    whole = np.asarray(np.copysign(nearly_half, x))
    whole += x
    np.trunc(whole, out=whole)
    whole += 0  # -0 becomes 0
    return whole[()]


def to_int32(x: Any) -> Array:
    """Float to int32 as x86 does it: truncated, NaN and anything out of range give the lowest."""
    x = np.asarray(x)
    # The usual case in two passes without temporary arrays.
    if x.size and x.min() >= -(2.0**31) and x.max() < 2.0**31:  # neither holds of NaN
        return np.asarray(x.astype(np.int32))
    # cvttss2si gives 0x80000000 for NaN and overflow; numpy's own cast is undefined there.
    fits = (x >= -(2.0**31)) & (x < 2.0**31)
    return np.where(fits, x, -(2.0**31)).astype(np.int64).astype(np.int32)


def to_int64(x: Any) -> Array:
    """Double to int64, likewise."""
    x = np.asarray(x, np.float64)
    fits = (x >= -(2.0**63)) & (x < 2.0**63)
    return np.where(fits, x, -(2.0**63)).astype(np.int64)


def by_blocks(function: Callable[[Array], Array], x: Array, dtype: Any) -> Array:
    """An elementwise function of many passes over x, a stretch at a time that stays in the cache."""
    y = np.empty(x.shape, dtype)
    source, target = x.reshape(-1), y.reshape(-1)
    for start in range(0, x.size, _BLOCK):
        target[start : start + _BLOCK] = function(source[start : start + _BLOCK])
    return y


def number(q: Any) -> Any:
    """Codes as numbers in double. As in TensorFlow, 32-bit codes lose their low bits to float32."""
    q = np.asarray(q)
    return (q.astype(F32) if q.dtype == np.int32 else q).astype(np.float64)


def _width(a: np.float32, b: np.float32) -> np.float64:
    with np.errstate(all="ignore"):
        # The difference is rounded to float32 first, as TensorFlow takes it of two floats.
        width: np.float64 = np.float64(F32(b - a))
        return width


def unclamped_code(x: Any, a: np.float32, b: np.float32, dtype: Any) -> Array:
    """The code of real x before saturation, int64."""
    t = codes_of(dtype)
    x = np.asarray(x, np.float64)
    if a == b:
        return np.full(x.shape, t.low, np.int64)
    with np.errstate(all="ignore"):
        # FloatToQuantizedUnclamped: the range is widened by steps / (steps - 1), so that `steps` codes of
        # that width fit into it; both roundings are taken apart, so that 0 has a code of its own.
        k = t.steps / (_width(a, b) * (t.steps / (t.steps - 1.0)))
        return to_int64(round_away(x * k) - round_away(np.float64(a) * k)) + t.low


def code_of(x: Any, a: np.float32, b: np.float32, dtype: Any) -> Array:
    """The code of real x in the range a..b, int64."""
    t = codes_of(dtype)
    return np.clip(unclamped_code(x, a, b, dtype), t.low, t.high)


def real_of(q: Any, a: np.float32, b: np.float32, dtype: Any) -> Array:
    """The real that a code stands for, float32 (scalar helper family)."""
    t = codes_of(dtype)
    q = np.asarray(q, dtype)
    if a == b:
        return np.full(q.shape, a, F32)
    with np.errstate(all="ignore"):
        w = _width(a, b) * (t.steps / (t.steps - 1.0)) / t.steps
        # QuantizedToFloat moves the range's beginning onto a multiple of the width, in float32, then counts
        # in double.
        w32 = F32(w)
        least = F32(round_away(F32(a / w32)) * w32)
        return np.asarray(np.float64(least) + (number(q) - t.low) * w).astype(F32)


def decode(q: Array, a: np.float32, b: np.float32) -> Array:
    """Codes as reals, float32 (vectorised family, the MIN_FIRST grid)."""
    t = codes_of(q.dtype)
    with np.errstate(all="ignore"):
        # A step below the normal floats is flushed to 0, and the codes then decode to NaN; so do
        # TensorFlow's.
        w = F32(flush(F32(_width(a, b) / (t.steps - 1))))
        least = a if a == b else F32(round_away(F32(a / w)) * w)
        base = F32(least - F32(F32(t.low) * w))
        reals = np.asarray(q, F32) * w
        reals += base
        return np.asarray(reals)


def encode(x: Array, a: np.float32, b: np.float32, dtype: Any) -> Array:
    """Reals as codes (vectorised family)."""
    t = codes_of(dtype)
    with np.errstate(all="ignore"):
        k = F32(0) if a == b else F32((t.steps - 1) / _width(a, b))
        zero = F32(round_away(F32(a * k)))
        v = np.asarray(round_away(np.asarray(x, F32) * k))
        # x and a are rounded apart, so that real 0 has a code of its own.
        v -= F32(zero - F32(t.low))
        np.maximum(v, F32(t.low), out=v)
        # 2147483520 is the largest float32 below 2^31.
        np.minimum(v, F32(min(t.high, 2147483520)), out=v)
        return to_int32(v).astype(dtype, copy=False)


def level(a: np.float32, b: np.float32, dtype: Any, steps: int | None = None) -> np.float32:
    """Width of one code."""
    t = codes_of(dtype)
    with np.errstate(all="ignore"):
        width: np.float32 = F32(b - a) / F32(t.high - t.low if steps is None else steps)
        return width


def product_range(x_level: np.float32, y_level: np.float32) -> tuple[Array, Array]:
    """The range of qint32 products of codes."""
    with np.errstate(all="ignore"):
        c = F32(x_level * y_level)
        return np.asarray(F32(c * F32(-(2.0**31)))), np.asarray(F32(c * F32(2.0**31)))


def zero_code(a: np.float32, b: np.float32, dtype: Any) -> int:
    """The code of real 0, not saturated, as an int32."""
    return int(unclamped_code(0.0, a, b, dtype).astype(np.int32))


def wrap(x: Array) -> Array:
    """Integers (or integral floats below 2**53) reduced to int32."""
    if x.dtype == np.int32 or x.dtype == np.float32:  # the latter are sums below 2**24, see `_wide`
        return x.astype(np.int32, copy=False)
    return x.astype(np.int64).astype(np.int32)


def truncated_division(a: Any, b: Any) -> Any:
    """a / b towards zero for integers."""
    quotient = np.abs(a) // np.abs(b)
    return np.where((np.asarray(a) < 0) != (np.asarray(b) < 0), -quotient, quotient)
