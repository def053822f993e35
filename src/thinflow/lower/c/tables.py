"""Functions of bytes as tables of what LiteRT answers."""

from __future__ import annotations

import math
import warnings
from functools import cache
from typing import Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import dtype
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.litert import answers, kernel_sets
from thinflow.ops._fixed_point import doubling_high, quantized_multiplier, saturated, shifted, wrapped
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.runtime import interpreter
from thinflow.tflite.writer import to_bytes
from thinflow.typing import Array


def unary_table(b: LayerBuilder) -> Array:
    """uint8 [256]: the bits of the answer for the bits of a byte, computed by LiteRT itself.

    Its kernels for one function differ, and so do their bits; none of them is as short as asking it.

    Raises:
        UnsupportedOp: LiteRT refuses the operator.
    """
    # By bits, from 0 to 255: the table is read with the bits of a byte.
    every = np.arange(256, dtype=np.uint8).view(b.input(0).dtype.numpy())
    table: Array = _asked(b, every).view(np.uint8)
    return table


_ENTRIES, _APART = 512, 128


def entries_of_16_bits(b: LayerBuilder) -> Array:
    """int16 [513]: a function at every 128th number, and at the one behind the last, by LiteRT itself.

    Raises:
        UnsupportedOp: LiteRT refuses it, or its kernel has no straight lines between such entries.
    """
    every = np.arange(-(1 << 15), 1 << 15, dtype=np.int64)
    found = _asked(b, every.astype(np.int16)).astype(np.int64).reshape(_ENTRIES, _APART)
    here, last = found[:, 0], int(found[-1, -1])
    at = np.arange(_APART)
    # What stands behind the last entry is seen only by the line that leads to it, of which one part is left.
    beyond = abs(last - int(here[-1])) // (_APART - 1) + 2
    for end in range(last - beyond, last + beyond + 1):
        table = np.append(here, end)
        # As LiteRT's lookup of 16 bits: slopes wrap, and 64 is a half of the 7 bits that are dropped.
        slopes = wrapped(np.diff(table), 16)
        lines = wrapped(table[:-1, None] + ((slopes[:, None] * at + _APART // 2) >> 7), 16)
        if (lines == found).all():
            return wrapped(table, 16).astype(np.int16)
    raise UnsupportedOp("its kernel of 16 bits is no table with straight lines between its entries")


def _asked(b: LayerBuilder, numbers: Array) -> Array:
    """What LiteRT makes of numbers; of those below what it takes, what it makes of the least.

    Raises:
        UnsupportedOp: LiteRT refuses the operator, or numbers above others that it takes.
    """
    try:
        return _answers_of(b, numbers)
    except RuntimeError:
        pass
    # Roots are refused of what is below zero: the least that is taken is found by halves.
    order = np.argsort(numbers)
    refused, taken = -1, len(order) - 1
    while taken - refused > 1:
        middle = (refused + taken) // 2
        try:
            _answers_of(b, numbers[order[middle : middle + 1]])
            taken = middle
        except RuntimeError:
            refused = middle
    found = np.zeros(len(numbers), b.output().dtype.numpy())
    try:
        found[order[taken:]] = _answers_of(b, numbers[order[taken:]])
    except RuntimeError as error:
        raise UnsupportedOp(f"LiteRT refuses it: {error}") from error
    found[order[:taken]] = found[order[taken]]
    return found


def _answers_of(b: LayerBuilder, numbers: Array) -> Array:
    """What LiteRT makes of numbers.

    Raises:
        UnsupportedOp: it refuses the operator.
        RuntimeError: it refuses one of the numbers.
    """
    op, x, y, size = b.operator, b.input(0), b.output(), (len(numbers),)
    fed = Tensor("x", size, x.dtype, None, x.quantization)
    made = Tensor("y", size, y.dtype, None, y.quantization)
    program = Program([Subgraph([fed], [made], [Operator(op.code, [fed], [made], dict(op.options))])])
    engine = _engine(to_bytes(program), b.rounding)
    engine.set_tensor(engine.get_input_details()[0]["index"], numbers)
    engine.invoke()
    found: Array = engine.get_tensor(engine.get_output_details()[0]["index"])
    return found


def _engine(content: bytes, rounding: str) -> Any:
    kinds = kernel_sets(rounding)
    for kind in kinds:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return interpreter(model_content=content, experimental_op_resolver_type=kind, num_threads=1)
        except (ValueError, RuntimeError) as error:
            # Of a few operators there is no reference kernel; then there is but one.
            if kind is kinds[-1] or "Didn't find op" not in str(error):
                raise UnsupportedOp(f"LiteRT refuses it: {error}") from error
    raise AssertionError(content)


@cache
def sigmoid_entries() -> Array:
    """uint16 [256]: the sigmoid at 0, 1/24, 2/24, ..., 16 bits behind the point, as LiteRT's kernels have it.

    Some of its entries are a unit above the nearest: they are asked for. At this scale the kernel of the
    tangent stands on an entry with every 128th number, and tells it.
    """
    kind, size = dtype("int16"), (256,)
    fed = Tensor("x", size, kind, np.arange(0, 1 << 15, 128, dtype=np.int16), _grid(2 / (3 << 12)))
    found = answers(Operator("TANH", [fed], [Tensor("y", size, kind, None, _grid(1 / (1 << 15)))]))
    if found is None:
        raise UnsupportedOp("LiteRT does not run it here")
    table: Array = (found[0].astype(np.int32) + (1 << 15)).astype(np.uint16)
    return table


def _grid(scale: float) -> Quantization:
    return Quantization(np.array([scale], np.float32), np.zeros(1, np.int64))


# --- exponentials of 32 bits in fixed point, as gemmlowp has them -------------------------------------------

_INTEGER_BITS = 5
_ONE = (1 << 31) - 1
_POWERS = (
    (-2, 1672461947),
    (-1, 1302514674),
    (0, 790015084),
    (1, 290630308),
    (2, 39332535),
    (3, 720401),
    (4, 242),
)
"""n and exp(-2^n), without integer bits."""


def softmax_exponentials(scale: float, beta: float) -> Array:
    """int32 [256]: exp(-difference * scale * beta) without integer bits; 0 for what LiteRT leaves out."""
    # A difference of 1 in fixed point; beyond 31 bits the kernel would not go.
    real = min(float(beta) * float(scale) * (1 << (31 - _INTEGER_BITS)), 2.0**31 - 1)
    multiplier, left = quantized_multiplier(real)
    most = math.floor(((1 << _INTEGER_BITS) - 1) * 2.0 ** (31 - _INTEGER_BITS) / 2.0**left)
    differences = np.arange(256, dtype=np.int64)
    scaled = doubling_high(-differences * (1 << max(left, 0)), multiplier, 32)
    table = np.where(differences <= most, _exponential(scaled), 0)
    return table.astype(np.int32)


def exponentials(scale: float, beta: float) -> Array:
    """float32 [256]: exp(-difference * scale * beta)."""
    exponents = -np.float32(scale) * np.float32(beta) * np.arange(256, dtype=np.float32)
    # By way of double, rounded once: numpy's exp of float32 is off in its last bits here and there.
    table: Array = np.exp(exponents.astype(np.float64)).astype(np.float32)
    return table


def _exponential(a: Array) -> Array:
    """exp(a) of a <= 0 with five integer bits."""
    # The part below 1/4 goes into a polynomial, each bit above it is a factor.
    fraction = 31 - _INTEGER_BITS
    quarter = 1 << (fraction - 2)
    rest = (a & (quarter - 1)) - quarter
    result = _near_zero(saturated(rest << _INTEGER_BITS, 32))
    remainder = rest - a
    for exponent, factor in _POWERS:
        has = remainder & (1 << (fraction + exponent))
        result = np.where(has != 0, doubling_high(result, factor, 32), result)
    # 1 itself has no code without integer bits: gemmlowp puts the largest number there is.
    return np.where(a == 0, _ONE, result)


def _near_zero(a: Array) -> Array:
    """exp(a) of -1/4 <= a < 0, by Taylor's series around -1/8."""
    # exp(-1/8) and 1/3.
    constant, third = 1895147668, 715827883
    x = a + (1 << 28)
    square = doubling_high(x, x, 32)
    cube, fourth = doubling_high(square, x, 32), doubling_high(square, square, 32)
    tail = doubling_high(shifted(fourth, 2) + cube, third, 32) + square
    return saturated(constant + doubling_high(constant, x + shifted(tail, 1), 32), 32)
