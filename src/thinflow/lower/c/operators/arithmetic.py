"""Element by element: sums and products of two inputs, functions of one."""

from __future__ import annotations

import math
import re
from typing import TypeAlias

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.broadcasting import broadcast
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import Struct
from thinflow.lower.c.operators.float_layers import float_limits
from thinflow.lower.c.operators.int16_layers import rescale
from thinflow.lower.c.requantize import LIMITS, activation_limits, requantization
from thinflow.lower.c.tables import unary_table
from thinflow.ops._fixed_point import quantized_multiplier
from thinflow.tflite.model import Operator

_COMBINED = {
    "ADD": "a + b",
    "SUB": "a - b",
    "MUL": "a * b",
    "DIV": "a / b",
    "MAXIMUM": "a > b ? a : b",
    "MINIMUM": "a < b ? a : b",
    "SQUARED_DIFFERENCE": "(a - b) * (a - b)",
    "POW": "powf(a, b)",
    "FLOOR_DIV": "floorf(a / b)",
    # fmodf has the sign of what is divided, FLOOR_MOD that of the divisor.
    "FLOOR_MOD": "fmodf(a, b) + (fmodf(a, b) != 0 && (b < 0) != (fmodf(a, b) < 0) ? b : 0)",
    "ATAN2": "atan2f(a, b)",
}
_MAPPED = {
    # Both ends are those of LiteRT's reference kernel, cutoff_upper and cutoff_lower.
    "LOGISTIC": "x > 16.6190472f ? 1.0f : x < -9.0f ? expf(x) : 1.0f / (1.0f + expf(-x))",
    "TANH": "tanhf(x)",
    "RELU": "x < 0 ? 0 : x",
    "RELU6": "x < 0 ? 0 : x > 6 ? 6 : x",
    "RELU_N1_TO_1": "x < -1 ? -1 : x > 1 ? 1 : x",
    "HARD_SWISH": "x * (x < -3 ? 0 : x > 3 ? 6 : x + 3) / 6",
    "ELU": "x < 0 ? expm1f(x) : x",
    "EXP": "expf(x)",
    "LOG": "logf(x)",
    "SQRT": "sqrtf(x)",
    "RSQRT": "1.0f / sqrtf(x)",
    "SQUARE": "x * x",
    "ABS": "fabsf(x)",
    "NEG": "-x",
    "SIN": "sinf(x)",
    "COS": "cosf(x)",
    "FLOOR": "floorf(x)",
    "CEIL": "ceilf(x)",
    # Halves to the even number, as LiteRT has it; roundf would go away from zero.
    "ROUND": "nearbyintf(x)",
    "RELU_0_TO_1": "x < 0 ? 0 : x > 1 ? 1 : x",
    "SIGN": "(float)((x > 0) - (x < 0))",
}


def _broadcast(b: LayerBuilder) -> Struct:
    """As `broadcast`; where the first input is not spread, the output may lie on it."""
    if b.shape(b.input(0)) == b.shape(b.output()):
        b.in_place()
    return broadcast(b)


@form(*_COMBINED, types="float")
def combined_floats(b: LayerBuilder, op: Operator) -> None:
    """Two inputs that are broadcast to the output."""
    words = {"type": "float", "op": op.code.lower(), "expression": _COMBINED[op.code]}
    b.call(
        "combine",
        b.input(0),
        b.input(1),
        b.output(),
        b.struct("", shape=_broadcast(b), **float_limits(b)),
        **words,
    )


@form(*_MAPPED, types="float")
def mapped_floats(b: LayerBuilder, op: Operator) -> None:
    """A function of each element."""
    b.in_place()
    b.call(
        "map_float",
        b.input(0),
        b.output(),
        b.size(b.output()),
        op=op.code.lower(),
        expression=_MAPPED[op.code],
    )


@form("GELU", types="float")
def gelu(b: LayerBuilder, op: Operator) -> None:
    """x times the normal distribution at x, or the usual approximation of that."""
    exact = "0.5f * x * (1.0f + erff(x * 0.70710678f))"
    # Hendrycks and Gimpel, Gaussian Error Linear Units (2016); 0.797884561 is sqrt(2 / pi).
    near = "0.5f * x * (1.0f + tanhf(0.797884561f * (x + 0.044715f * x * x * x)))"
    is_near = bool(op.options.get("approximate"))
    words = {"op": "gelu_tanh" if is_near else "gelu", "expression": near if is_near else exact}
    b.in_place()
    b.call("map_float", b.input(0), b.output(), b.size(b.output()), **words)


@form("LEAKY_RELU", types="float")
def leaky_relu(b: LayerBuilder, op: Operator) -> None:
    """A slope for what is negative, the same for all; it is a part of the function's name as well."""
    # A word of the kernel, so that the compiler sees a number.
    slope = float(np.float32(op.options.get("alpha", 0.0)))
    name = f"leaky_relu_{slope:g}".replace(".", "_").replace("-", "minus_").replace("+", "")
    b.in_place()
    b.call(
        "map_float",
        b.input(0),
        b.output(),
        b.size(b.output()),
        op=name,
        expression=f"x < 0 ? x * (float){slope!r} : x",
    )


@form("FAKE_QUANT", types="float")
def fake_quant(b: LayerBuilder, op: Operator) -> None:
    """Real numbers as they are after being eight-bit ones."""
    # As many steps as the bits have, one fewer where they are to be symmetric.
    least = 1 if op.options.get("narrow_range") else 0
    most = (1 << b.option("num_bits", 8)) - 1
    low, high = np.float32(op.options.get("min", 0.0)), np.float32(op.options.get("max", 0.0))
    # The range is moved so that zero is one of its numbers; in float, as the kernel has it.
    scale = (high - low) / np.float32(most - least)
    zero = np.clip(np.floor(np.float32(least) - low / scale + np.float32(0.5)), least, most)
    start, end = (np.float32(least) - zero) * scale, (np.float32(most) - zero) * scale
    settings = b.struct("", start=float(start), end=float(end), scale=float(scale))
    b.in_place()
    b.call("fake_quant", b.input(0), b.output(), b.size(b.output()), settings)


# LiteRT has them of bytes as well.
_OF_BYTES = """
    LOGISTIC TANH RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1 HARD_SWISH LEAKY_RELU ELU
    GELU EXP LOG SQRT RSQRT ABS NEG
"""


@form(*re.findall(r"\w+", _OF_BYTES), types="int8 uint8")
def looked_up(b: LayerBuilder, op: Operator) -> None:
    """A function of each byte, by a table of what LiteRT answers for all 256."""
    b.in_place()
    b.call("lookup", b.input(0), b.output(), b.constant("table", unary_table(b)), b.size(b.output()))


Pair: TypeAlias = "tuple[int, int]"


def common_factors(b: LayerBuilder) -> tuple[Pair, Pair, Pair, int]:
    """Multiplier and shift of both inputs and of their sum, by LiteRT; and bits behind the point."""
    # left_shift of LiteRT's kernel for bytes; that for 16 bits has 15.
    spare = 20
    a_scale, b_scale, y_scale = (b.scale(t)[0] for t in (b.input(0), b.input(1), b.output()))
    # Twice the larger scale is 1, so that both factors are at most a half.
    whole = 2.0 * float(max(a_scale, b_scale))
    a, other = (quantized_multiplier(float(s) / whole) for s in (a_scale, b_scale))
    sign = -1 if b.operator.code == "SUB" else 1
    return (
        a,
        (sign * other[0], other[1]),
        quantized_multiplier(whole / ((1 << spare) * float(y_scale))),
        spare,
    )


def whole_factors(b: LayerBuilder) -> tuple[int, int, int, int]:
    """Factors of both inputs, what is added, and a shift, by XNNPACK: one rounding."""
    (a_scale, a_zero), (b_scale, b_zero) = b.scale(b.input(0)), b.scale(b.input(1))
    y_scale, sign = b.scale(b.output())[0], np.float32(-1 if b.operator.code == "SUB" else 1)
    a_factor, b_factor = a_scale / y_scale, sign * b_scale / y_scale
    # 20 bits behind the point of the larger factor.
    shift = 20 - (math.frexp(max(float(abs(a_factor)), float(abs(b_factor))))[1] - 1)
    a_whole, b_whole = (round(float(f) * 2**shift) for f in (a_factor, b_factor))
    return a_whole, b_whole, (1 << (shift - 1)) - a_whole * a_zero - b_whole * b_zero, shift


@form("ADD", "SUB", types="int8 uint8")
def sums(b: LayerBuilder, op: Operator) -> None:
    """Both inputs at one scale, their sum at that of the output."""
    x, other, y = b.input(0), b.input(1), b.output()
    least, most = activation_limits(b, y)
    ends = {"y_zero_point": b.scale(y)[1], "min": least, "max": most}
    if b.rounding == "litert":
        a_pair, b_pair, y_pair, _ = common_factors(b)
        settings = b.struct(
            "",
            shape=_broadcast(b),
            a_zero_point=b.scale(x)[1],
            b_zero_point=b.scale(other)[1],
            a_multiplier=a_pair[0],
            a_shift=a_pair[1],
            b_multiplier=b_pair[0],
            b_shift=b_pair[1],
            y_multiplier=y_pair[0],
            y_shift=y_pair[1],
            **ends,
        )
        b.call("add_twice", x, other, y, settings, type=y.dtype.name)
        return
    a_whole, b_whole, bias, shift = whole_factors(b)
    settings = b.struct(
        "", shape=_broadcast(b), bias=bias, a_multiplier=a_whole, b_multiplier=b_whole, shift=shift, **ends
    )
    b.call("add_once", x, other, y, settings, type=y.dtype.name)


@form("MUL", types="int8 uint8")
def products(b: LayerBuilder, op: Operator) -> None:
    """Products at the scale of the output."""
    x, other, y = b.input(0), b.input(1), b.output()
    (a_scale, a_zero), (b_scale, b_zero), (y_scale, y_zero) = (b.scale(t) for t in (x, other, y))
    rounding = "twice" if b.rounding == "litert" else "float"
    # In float first, as LiteRT's kernel has it.
    factor = np.atleast_1d(a_scale * b_scale / y_scale)
    limits = activation_limits(b, y)
    output = requantization(b, rounding, factor, np.zeros(1, np.int32), limits, y_zero)
    settings = b.struct("", shape=_broadcast(b), a_zero_point=a_zero, b_zero_point=b_zero, output=output)
    b.call("multiply", x, other, y, settings, type=y.dtype.name, rounding=rounding)


@form("DIV", types="int8 uint8 int16")
def quotients(b: LayerBuilder, op: Operator) -> None:
    """Quotients at the scale of the output, by a reciprocal in fixed point."""
    x, other, y = b.input(0), b.input(1), b.output()
    (a_scale, a_zero), (b_scale, b_zero), (y_scale, y_zero) = (b.scale(t) for t in (x, other, y))
    # In float first, as LiteRT's kernel has it.
    multiplier, shift = quantized_multiplier(float(a_scale / (b_scale * y_scale)))
    least, most = activation_limits(b, y)
    settings = b.struct(
        "",
        shape=_broadcast(b),
        a_zero_point=a_zero,
        b_zero_point=b_zero,
        y_zero_point=y_zero,
        multiplier=multiplier,
        shift=shift,
        min=least,
        max=most,
    )
    b.call("divide", x, other, y, settings, type=y.dtype.name)


@form("SQUARED_DIFFERENCE", types="int8")
def squared_differences(b: LayerBuilder, op: Operator) -> None:
    """Both inputs at one scale, the square of their difference at that of the output."""
    x, other, y = b.input(0), b.input(1), b.output()
    (a_scale, a_zero), (b_scale, b_zero), (y_scale, y_zero) = (b.scale(t) for t in (x, other, y))
    # Twice the larger scale is 1, so that both factors are at most a half; 7 bits are to spare for each.
    whole = 2.0 * float(max(a_scale, b_scale))
    pairs = {
        "a": quantized_multiplier(float(a_scale) / whole),
        "b": quantized_multiplier(float(b_scale) / whole),
        "y": quantized_multiplier(whole * whole / float(np.float32(1 << 14) * y_scale)),
    }
    if pairs["y"][1] > 0:
        raise UnsupportedOp("its output has a finer scale than its kernel takes")
    numbers = {f"{n}_multiplier": m for n, (m, _) in pairs.items()}
    numbers |= {f"{n}_shift": shift for n, (_, shift) in pairs.items()}
    zeros = {"a_zero_point": a_zero, "b_zero_point": b_zero, "y_zero_point": y_zero}
    b.call("squared_difference", x, other, y, b.struct("", shape=_broadcast(b), **zeros, **numbers))


@form("QUANTIZE", types="float")
def quantize(b: LayerBuilder, op: Operator) -> None:
    """Real numbers to bytes: half away from zero by LiteRT, to the even number by XNNPACK."""
    x, y = b.input(0), b.output()
    kind = y.dtype.name
    if kind not in ("int8", "uint8", "int16"):
        raise UnsupportedOp(f"it makes {kind}")
    scale, zero_point = b.scale(y)
    limits = np.iinfo(kind)
    is_exact = b.rounding == "litert"
    how = "halves away from zero" if is_exact else "halves to the even number"
    words = {"how": how, "expression": rounded(b, "x[i]", "scale")}
    count, least, most = b.size(y), int(limits.min), int(limits.max)
    b.call("quantize", x, y, count, float(scale), zero_point, least, most, type=kind, op=b.rounding, **words)


def rounded(b: LayerBuilder, value: str, scale: str) -> str:
    """A real at a scale as the nearest whole number, in C."""
    # XNNPACK multiplies with the reciprocal, which is not the same.
    is_exact = b.rounding == "litert"
    return f"roundf({value} / {scale})" if is_exact else f"nearbyintf({value} * (1.0f / {scale}))"


@form("QUANTIZE", types="int8 uint8")
def requantize(b: LayerBuilder, op: Operator) -> None:
    """Bytes at another scale, of the other sign, or in 16 bits."""
    if b.output().dtype.itemsize == 1:
        looked_up(b, op)
        return
    rescale(b, LIMITS[b.output().dtype.name])


@form("DEQUANTIZE", types="int8 uint8 int16")
def dequantize(b: LayerBuilder, op: Operator) -> None:
    """Integers to the real numbers they stand for."""
    x, y = b.input(0), b.output()
    # Exact: the difference fits into a float, and there is one product.
    scale, zero_point = b.scale(x)
    b.call("dequantize", x, y, b.size(y), float(scale), zero_point, type=x.dtype.name)
