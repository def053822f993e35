"""Integer sums and how they come to the scale of the output, as LiteRT's kernels have it."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.layer import Argument, Struct
from thinflow.ops._fixed_point import quantized_multiplier
from thinflow.tflite.model import Tensor
from thinflow.typing import Array

LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}
LIMITS["int32"] = (-(1 << 31), (1 << 31) - 1)


def byte_weights(b: LayerBuilder, number: int) -> tuple[Array, int]:
    """The weights at an input as int8, and their zero point: those of uint8 are moved down by 128."""
    weights, q = b.array(number), b.scales(b.input(number))
    zero_point = int(q.zero_point[0]) if len(q.zero_point) else 0
    if q.is_per_channel and q.zero_point.any():
        raise UnsupportedOp("its weights have a zero point for each channel")
    if weights.dtype == np.uint8:
        return (weights.astype(np.int16) - 128).astype(np.int8), zero_point - 128
    return weights, zero_point


def folded_bias(b: LayerBuilder, number: int, weights: Array, x_zero_point: int, w_zero_point: int) -> Array:
    """int32 [channels]: the bias, less what the zero point of the input adds to each sum.

    Args:
        b: of the layer.
        number: of the input that holds the bias; absent, it is zero.
        weights: [channels, ...], as they are multiplied.
        x_zero_point, w_zero_point: of input and weights.

    Raises:
        UnsupportedOp: sums may leave 32 bits.
    """
    rows = weights.reshape(len(weights), -1).astype(np.int64)
    depth = rows.shape[1]
    folded: Array = b.array_or_zeros(number, len(rows), np.int64) - x_zero_point * (
        rows.sum(1) - depth * w_zero_point
    )
    # A product of two bytes is below 2^15; with a zero point of the weights there is a second sum.
    bits = 8 if b.output().dtype.name == "uint8" else 7
    most = np.abs(rows).sum(1) << bits if w_zero_point == 0 else depth << 16
    if (np.abs(folded) + most).max(initial=0) >= 1 << 31:
        raise UnsupportedOp("its sums may need more than 32 bits")
    return folded.astype(np.int32)


def requantization(
    b: LayerBuilder,
    rounding: str,
    factors: Array,
    bias: Array | Argument,
    limits: tuple[int, int],
    zero_point: int,
) -> Struct:
    """The struct `requantize_ROUNDING_t` of a layer.

    Args:
        b: of the layer.
        rounding: "once", "twice" or "float".
        factors: [channels] or [1] scale of a sum over that of the output; float32 for "float", else float64.
        bias: int32 [channels], or where it lies.
        limits: least and largest output.
        zero_point: of the output.
    """
    # One factor for all channels is stored once, and read again for each.
    numbers = {"step": int(len(factors) > 1), "zero_point": zero_point, "min": limits[0], "max": limits[1]}
    bias_constant = b.constant("bias", bias) if isinstance(bias, np.ndarray) else bias
    if rounding == "float":
        scale = b.constant("scale", factors, "float32")
        return b.struct("requantize_float_t", bias=bias_constant, scale=scale, **numbers)
    pairs = [quantized_multiplier(float(f)) for f in factors]
    multiplier = b.constant("multiplier", np.array([m for m, _ in pairs], np.int32))
    shift = b.constant("shift", np.array([s for _, s in pairs], np.int8))
    return b.struct(
        f"requantize_{rounding}_t", bias=bias_constant, multiplier=multiplier, shift=shift, **numbers
    )


def sum_factors(b: LayerBuilder, x: Tensor, w: Tensor, y: Tensor, rounding: str) -> Array:
    """Scale of the sums over that of the output, [channels] or [1]: in float32 throughout for "float"."""
    x_scale, y_scale, w_scales = b.scale(x)[0], b.scale(y)[0], b.scales(w).scale
    factors: Array = x_scale * w_scales / y_scale
    if rounding == "float":
        return factors
    # As the kernels prepare them: in double precision for channels, else the product in float.
    if len(w_scales) > 1 or (x.dtype.name == "int8" and b.operator.code != "FULLY_CONNECTED"):
        factors = np.float64(x_scale) * w_scales.astype(np.float64) / np.float64(y_scale)
    else:
        factors = (x_scale * w_scales).astype(np.float64) / np.float64(y_scale)
    return factors


def activation_limits(b: LayerBuilder, y: Tensor) -> tuple[int, int]:
    """Least and largest stored number of an output under the operator's activation."""
    least, most = LIMITS[y.dtype.name]
    scale, zero_point = b.scale(y)
    activation = b.operator.options.get("fused_activation_function", "NONE")

    def stored(real: float) -> int:
        # Halves away from zero, as TfLiteRound.
        exact = np.float32(real) / scale
        return zero_point + int(np.sign(exact) * np.floor(np.abs(exact) + np.float32(0.5)))

    ends = {"NONE": (None, None), "RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
    if activation not in ends:
        raise UnsupportedOp(f"the activation {activation} has no form in C")
    # An activation only narrows what the type can hold.
    low, high = ends[activation]
    return (
        least if low is None else max(least, stored(low)),
        most if high is None else min(most, stored(high)),
    )
