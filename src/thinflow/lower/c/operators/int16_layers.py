"""Layers with activations of 16 bits and weights of eight: sums have 64 bits, and multipliers 16."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.broadcasting import broadcast
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import Argument, Struct
from thinflow.lower.c.operators.array import require_one_scale
from thinflow.lower.c.requantize import LIMITS, activation_limits, requantization, sum_factors
from thinflow.lower.c.settle import C_TYPES
from thinflow.lower.c.tables import entries_of_16_bits, sigmoid_entries
from thinflow.lower.c.windows import window
from thinflow.ops._fixed_point import quantized_multiplier
from thinflow.tflite.model import Operator, Tensor
from thinflow.typing import Array

# What LiteRT's 64-bit requantization makes of multipliers that would round up to 2^15.
_LARGEST = 0x7FFF
_ADDED_BITS = 15
"""Behind the point of inputs while they are added."""


@form("CONV_2D", types="int16")
def conv_2d(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c], filters [k,kh,kw,c/groups] -> y [n,oh,ow,k]."""
    filters, height, width, depth = b.shape(b.input(1))
    patch = height * width * depth
    b.macs(b.size(b.output()) * patch)
    # LiteRT's other kernel for biases of 32 bits rounds once.
    output, words = _output(b, filters, "wide", "twice" if b.rounding == "litert" else "once")
    at = window(b, (height, width))
    settings = b.struct("", window=at, filter_channels=depth, output=output)
    patches = b.scratch(2 * patch)
    b.call(
        "conv_2d_wide",
        b.input(0),
        b.output(),
        known(b, 1, "filter"),
        patches,
        settings,
        type="int16",
        **words,
    )


@form("DEPTHWISE_CONV_2D", types="int16")
def depthwise_conv_2d(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c], filters [1,kh,kw,c*multiplier] -> y [n,oh,ow,c*multiplier]."""
    x, y = b.input(0), b.output()
    _, height, width, channels = b.shape(b.input(1))
    b.macs(b.size(y) * height * width)
    settings = b.struct(
        "",
        window=window(b, (height, width)),
        multiplier=channels // b.shape(x)[3],
        output=wide_output(b, x, channels, 2),
    )
    b.call("depthwise_wide", x, y, known(b, 1, "filter"), settings)


@form("FULLY_CONNECTED", types="int16")
def fully_connected(b: LayerBuilder, op: Operator) -> None:
    """x [..., depth], weights [units, depth] -> y [..., units]."""
    x, y = b.input(0), b.output()
    units, depth = b.shape(b.input(1))
    rows = b.size(x) // depth
    b.macs(rows * units * depth)
    # LiteRT keeps all of the multiplier here, other than for convolutions.
    output, words = _output(b, units, "long", "once")
    settings = b.struct("", rows=rows, depth=depth, filters=units, output=output)
    b.call("fully_connected_wide", x, y, known(b, 1, "weights"), settings, **words)


def known(b: LayerBuilder, number: int, name: str) -> Argument:
    """A constant in the order of the file, or what another layer computes in that order."""
    given = b.input(number)
    return b.constant(name, given.array()) if given.is_constant else given


def _output(b: LayerBuilder, channels: int, wide: str, narrow: str) -> tuple[Struct, dict[str, str]]:
    """The struct of a layer that rounds in one way, or in another if its bias has 32 bits; and words."""
    bias = b.optional(2)
    if bias is None or bias.dtype.name != "int32":
        return wide_output(b, b.input(0), channels, 2, rounding=wide), {"rounding": wide, "narrow": ""}
    y = b.output()
    factors = sum_factors(b, b.input(0), b.input(1), y, "wide")
    limits, zero_point = activation_limits(b, y), b.scale(y)[1]
    rounded = requantization(b, narrow, factors, known(b, 2, "bias"), limits, zero_point)
    return rounded, {"rounding": narrow, "narrow": "(int32_t)"}


def wide_output(
    b: LayerBuilder, x: Tensor, channels: int, bias_number: int, rounding: str = "wide"
) -> Struct:
    """The struct `requantize_ROUNDING_t` of a layer.

    Args:
        b: of the layer; its weights are input 1.
        x: what is multiplied with them.
        channels: of the output.
        bias_number: of the input that holds the bias.
        rounding: "wide", with the upper half of multipliers, or "long", with all of them.

    Raises:
        UnsupportedOp: types are others.
    """
    y, w = b.output(), b.input(1)
    if w.dtype.name != "int8" or y.dtype.name != "int16":
        raise UnsupportedOp(f"its weights are {w.dtype} and it makes {y.dtype} of {x.dtype}")
    given = b.optional(bias_number)
    if given is not None and given.dtype.name != "int64":
        raise UnsupportedOp(f"its bias is {given.dtype}; with 16 bits C has it of int64")
    bias = np.zeros(channels, np.int64) if given is None else known(b, bias_number, "bias")
    return wide_requantization(b, rounding, sum_factors(b, x, w, y, "wide"), bias)


def wide_requantization(b: LayerBuilder, rounding: str, factors: Array, bias: Array | Argument) -> Struct:
    """The struct `requantize_ROUNDING_t` of a layer with these factors of its sums, and a bias of 64 bits."""
    y = b.output()
    pairs = [quantized_multiplier(float(f)) for f in factors]
    # Of a multiplier of 31 bits the upper 15, to the nearest.
    multipliers = [min((m + (1 << 15)) >> 16, _LARGEST) if rounding == "wide" else m for m, _ in pairs]
    least, most = activation_limits(b, y)
    return b.struct(
        f"requantize_{rounding}_t",
        bias=b.constant("bias", bias) if isinstance(bias, np.ndarray) else bias,
        multiplier=b.constant("multiplier", np.array(multipliers, np.int32)),
        shift=b.constant("shift", np.array([s for _, s in pairs], np.int8)),
        step=int(len(pairs) > 1),
        zero_point=b.scale(y)[1],
        min=least,
        max=most,
    )


@form("ADD", "SUB", types="int16")
def sums(b: LayerBuilder, op: Operator) -> None:
    """Both inputs at one scale, their sum at that of the output."""
    x, other, y = b.input(0), b.input(1), b.output()
    (a_scale, a_zero), (b_scale, b_zero), (y_scale, y_zero) = (b.scale(t) for t in (x, other, y))
    if a_zero or b_zero or y_zero:
        raise UnsupportedOp("it is of 16 bits with a zero point")
    if all(np.log2(float(s)).is_integer() for s in (a_scale, b_scale, y_scale)):
        raise UnsupportedOp("its scales are powers of two, for which LiteRT has another kernel")
    # Twice the larger scale is 1, so that both factors are at most a half.
    whole = 2.0 * float(max(a_scale, b_scale))
    pairs = {
        "a": quantized_multiplier(float(a_scale) / whole),
        "b": quantized_multiplier(float(b_scale) / whole),
        "y": quantized_multiplier(whole / ((1 << _ADDED_BITS) * float(y_scale))),
    }
    numbers = {f"{n}_multiplier": m for n, (m, _) in pairs.items()}
    numbers |= {f"{n}_shift": shift for n, (_, shift) in pairs.items()}
    least, most = activation_limits(b, y)
    settings = b.struct("", shape=broadcast(b), **numbers, min=least, max=most)
    if b.shape(x) == b.shape(y):
        b.in_place()
    b.call("add_int16", x, other, y, settings, op=op.code.lower(), sign="-" if op.code == "SUB" else "+")


@form("MUL", types="int16")
def products(b: LayerBuilder, op: Operator) -> None:
    """Products at the scale of the output."""
    x, other, y = b.input(0), b.input(1), b.output()
    (a_scale, a_zero), (b_scale, b_zero), (y_scale, y_zero) = (b.scale(t) for t in (x, other, y))
    # In float first, as LiteRT's kernel has it.
    factor = np.atleast_1d(a_scale * b_scale / y_scale)
    limits = activation_limits(b, y)
    output = requantization(b, "twice", factor, np.zeros(1, np.int32), limits, y_zero)
    settings = b.struct("", shape=broadcast(b), a_zero_point=a_zero, b_zero_point=b_zero, output=output)
    if b.shape(x) == b.shape(y):
        b.in_place()
    b.call("multiply", x, other, y, settings, type="int16", rounding="twice")


_CURVES = {
    "LOGISTIC": {
        "what": "The sigmoid",
        "bits": "9",
        "largest": "0x7fff << 10",
        "above": "value + 512",
        "below": "(1 << 25) - value + 511",
        "back": "10",
    },
    "TANH": {
        "what": "The hyperbolic tangent, 2 sigmoid(2x) - 1,",
        "bits": "8",
        "largest": "0xffff << 8",
        "above": "value - (1 << 23) + 128",
        "below": "(1 << 23) - value + 127",
        "back": "8",
    },
}


@form(*_CURVES, types="int16")
def curves(b: LayerBuilder, op: Operator) -> None:
    """Of 16 bits, by a table with 24 entries for a unit, and straight lines between."""
    x, y = b.input(0), b.output()
    if y.dtype.name != "int16":
        raise UnsupportedOp(f"it makes {y.dtype} of int16")
    scale = float(b.scale(x)[0])
    shift = np.log2(scale) + 12
    if shift in (0, 1):
        # Scales that are these powers of two need no rounding.
        multiplier, left = 3 << int(shift), 0
    else:
        # As LiteRT's SigmoidPrepare and TanhPrepare: doubled until an int16 times it just fits into 31 bits.
        real, left = scale * 4096.0 * 3.0, 0
        while real <= 32767.0 / 2.0 and left <= 30:
            real, left = real * 2.0, left + 1
        multiplier = int(real)
    table = b.constant("sigmoid", sigmoid_entries())
    settings = b.struct("", count=b.size(y), multiplier=multiplier, shift=left, table=table)
    b.in_place()
    b.call("sigmoid_int16", x, y, settings, op=op.code.lower(), **_CURVES[op.code])


@form("EXP", "GELU", "LOG", "RSQRT", types="int16")
def looked_up(b: LayerBuilder, op: Operator) -> None:
    """A function by a table that LiteRT tells, with straight lines between its entries."""
    table = b.constant("table", entries_of_16_bits(b))
    b.in_place()
    b.call("lookup_int16", b.input(0), b.output(), table, b.size(b.output()))


@form("SQRT", types="int16")
def square_root(b: LayerBuilder, op: Operator) -> None:
    """By way of reals, as LiteRT's kernel has it; 0 of what is negative, which that refuses while it runs."""
    (x_scale, x_zero), (y_scale, y_zero) = b.scale(b.input(0)), b.scale(b.output())
    if x_zero or y_zero:
        raise UnsupportedOp("it is of 16 bits with a zero point")
    b.in_place()
    b.call("sqrt_int16", b.input(0), b.output(), b.size(b.output()), float(x_scale), float(y_scale))


@form("ABS", types="int16")
def absolute(b: LayerBuilder, op: Operator) -> None:
    """Without the sign, at another scale."""
    (x_scale, _), (y_scale, _) = b.scale(b.input(0)), b.scale(b.output())
    # At the same scale there is nothing to round.
    slope = quantized_multiplier(float(x_scale / y_scale)) if x_scale != y_scale else (1 << 30, 1)
    _sloped(b, slope, (-slope[0], slope[1]))


@form("NEG", types="int16")
def negative(b: LayerBuilder, op: Operator) -> None:
    """With the other sign; LiteRT's kernel knows of no scale."""
    require_one_scale(b, [b.input(0)], b.output())
    expression = "-x"
    words = {"op": "neg", "y_type": "int16_t", "what": expression, "expression": expression}
    b.in_place()
    b.call("map", b.input(0), b.output(), b.size(b.output()), type="int16", **words)


@form("LEAKY_RELU", types="int16")
def leaky_relu(b: LayerBuilder, op: Operator) -> None:
    """A slope for what is negative, the same for all."""
    x_scale, y_scale = (b.scale(t)[0] for t in (b.input(0), b.output()))
    slope = np.float32(op.options.get("alpha", 0.0))
    # In float32 in this order, as the kernel prepares them.
    below = quantized_multiplier(float(x_scale * slope / y_scale))
    _sloped(b, quantized_multiplier(float(x_scale / y_scale)), below)


def _sloped(b: LayerBuilder, above: tuple[int, int], below: tuple[int, int]) -> None:
    """Call the kernel with a factor for what is positive and one for what is negative."""
    names = ("multiplier", "shift", "below_multiplier", "below_shift")
    settings = b.struct("", count=b.size(b.output()), **dict(zip(names, (*above, *below), strict=True)))
    b.in_place()
    b.call("slopes_int16", b.input(0), b.output(), settings)


@form("QUANTIZE", types="int16 int32")
def requantize(b: LayerBuilder, op: Operator) -> None:
    """Numbers of 16 or 32 bits at another scale, or as fewer of them."""
    rescale(b, LIMITS[b.output().dtype.name])


@form("RELU", "RELU6", "RELU_N1_TO_1", types="int16")
def rectified(b: LayerBuilder, op: Operator) -> None:
    """At another scale, between limits."""
    op.options["fused_activation_function"] = op.code
    rescale(b, activation_limits(b, b.output()))


def rescale(b: LayerBuilder, limits: tuple[int, int]) -> None:
    """Call the kernel that brings numbers to the scale of the output."""
    x, y = b.input(0), b.output()
    (x_scale, x_zero), (y_scale, y_zero) = b.scale(x), b.scale(y)
    multiplier, shift = quantized_multiplier(float(np.float64(x_scale) / np.float64(y_scale)))
    settings = b.struct(
        "",
        count=b.size(y),
        x_zero_point=x_zero,
        multiplier=multiplier,
        shift=shift,
        y_zero_point=y_zero,
        min=limits[0],
        max=limits[1],
    )
    kinds = {"type": x.dtype.name, "op": y.dtype.name, "y_type": C_TYPES[y.dtype.name]}
    b.call("rescale", x, y, settings, **kinds)
