"""Layers whose weights have eight bits and whose inputs are reals, rounded to bytes while they run."""

from __future__ import annotations

import math

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import NotHere, form
from thinflow.lower.c.layer import Argument, Constant
from thinflow.lower.c.operators.float_layers import float_limits
from thinflow.lower.c.operators.recurrent import activated, kept
from thinflow.lower.c.operators.svdf import read_svdf, svdf_bias
from thinflow.lower.c.windows import window
from thinflow.tflite.model import Operator, Tensor
from thinflow.typing import Array

_BY_XNNPACK = frozenset(("FULLY_CONNECTED", "CONV_2D", "BATCH_MATMUL"))
"""What XNNPACK has kernels for; LiteRT has one kernel for each of the others."""


@form("FULLY_CONNECTED", types="float")
def fully_connected(b: LayerBuilder, op: Operator) -> None:
    """x [..., depth], weights [units, depth] -> y [..., units]."""
    rows_times(b, _weights(b), b.output())


def rows_times(b: LayerBuilder, w: Array, y: Argument) -> None:
    """Call kernels that multiply rows of the input, rounded to bytes, with weights [units, depth]."""
    units, depth = w.shape
    rows = b.size(b.input(0)) // depth
    b.macs(rows * units * depth)
    is_symmetric = not b.operator.options.get("asymmetric_quantize_inputs")
    read = _rounded(b, b.input(0), rows, depth, is_symmetric)
    # What a row's zero point adds to each product: known only while it runs, but for these factors of it.
    sums = b.constant("sums", w.astype(np.int32).sum(1).astype(np.int32))
    settings = b.struct("", rows=rows, depth=depth, filters=units, sums=sums, **_ends(b, units), **_limits(b))
    b.call("fully_connected_hybrid", *read, y, b.constant("weights", w), settings)


def _limits(b: LayerBuilder) -> dict[str, float]:
    """Limits of a layer; of SVDF, whose activation comes later, none."""
    return {"min": -math.inf, "max": math.inf} if b.operator.code == "SVDF" else float_limits(b)


@form("BATCH_MATMUL", types="float")
def batch_matmul(b: LayerBuilder, op: Operator) -> None:
    """x [..., rows, depth], weights [depth, units] or turned, for all batches -> y [..., rows, units]."""
    w = _weights(b)
    if op.options.get("adj_x") or w.size != w.shape[-1] * w.shape[-2]:
        raise UnsupportedOp("its weights of bytes are several matrices, or its input is turned")
    if b.rounding == "litert" and len(b.shape(b.input(0))) > 3:
        raise UnsupportedOp(
            "LiteRT's reference kernel takes the scales of other rows where there are several dimensions of"
            " batches; --rounding xnnpack has it"
        )
    matrix = w.reshape(w.shape[-2:])
    rows_times(b, matrix if op.options.get("adj_y") else np.ascontiguousarray(matrix.T), b.output())


@form("SVDF", types="float")
def svdf(b: LayerBuilder, op: Operator) -> None:
    """As of floats; the newest features are sums of rounded inputs, what weighs them by age is real again."""
    sizes, features, times = read_svdf(b, op)
    if _weights(b).shape != features.shape or times.dtype != np.int8:
        raise UnsupportedOp(f"its weights are int8 and {b.input(2).dtype}")
    newest = b.scratch(4 * sizes["batches"] * sizes["filters"])
    rows_times(b, features, newest)
    reals = times.astype(np.float32) * b.scale(b.input(2))[0]
    settings = b.struct("", **sizes, times=b.constant("times", reals), bias=svdf_bias(b, sizes, np.float32))
    memory = kept(b, 4, "memory", "float", sizes["batches"] * times.size)
    b.call("svdf_kept", newest, b.output(), memory, settings, **activated(op, "total"))


@form("CONV_2D", "DEPTHWISE_CONV_2D", types="float")
def conv_2d(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c] -> y [n,oh,ow,k], filters of a convolution or a depthwise one."""
    x, y, w = b.input(0), b.output(), _weights(b)
    is_depthwise = op.code == "DEPTHWISE_CONV_2D"
    channels = 1 if is_depthwise else w.shape[3]
    b.macs(b.size(y) * w.shape[1] * w.shape[2] * channels)
    batches = b.shape(x)[0]
    # LiteRT takes the kernel for whole tensors where all filters have one scale, and that is symmetric.
    scales = b.scales(b.input(1)).scale
    if is_depthwise and len(scales) < w.shape[3]:
        raise UnsupportedOp("its weights have one scale, and LiteRT's kernel reads one for each channel")
    is_symmetric = not is_depthwise and bool((scales == scales[0]).all())
    read = _rounded(b, x, batches, b.size(x) // batches, is_symmetric)
    settings = b.struct(
        "",
        window=window(b, (w.shape[1], w.shape[2])),
        filter_channels=channels,
        depthwise=w.shape[3] // b.shape(x)[3] if is_depthwise else 0,
        **_ends(b, b.shape(y)[3]),
        **float_limits(b),
    )
    b.call("conv_2d_hybrid", *read, y, b.constant("filter", w), settings)


def _weights(b: LayerBuilder) -> Array:
    """Weights of bytes.

    Raises:
        NotHere: they are reals, too.
        UnsupportedOp: they are of another type.
    """
    kind = b.input(1).dtype.name
    if kind == "float":
        raise NotHere
    if kind != "int8":
        raise UnsupportedOp(f"its weights are {kind} and its input is float, a hybrid that C does not have")
    return b.array(1)


def _rounded(b: LayerBuilder, x: Tensor, rows: int, depth: int, is_symmetric: bool) -> list[Argument]:
    """Call the kernel that rounds an input; bytes, scales and zero points."""
    found: list[Argument] = [b.scratch(rows * depth), b.scratch(4 * rows), b.scratch(4 * rows)]
    if b.rounding == "litert" or b.operator.code not in _BY_XNNPACK:
        b.call("quantize_rows", x, *found, rows, depth, int(is_symmetric))
    else:
        b.call("quantize_rows_once", x, *found, rows, depth)
    return found


def _ends(b: LayerBuilder, filters: int) -> dict[str, Constant | int]:
    """Scales and bias."""
    scales = b.scales(b.input(1))
    if scales.zero_point.any():
        raise UnsupportedOp("its weights have a zero point")
    has_bias = b.operator.code not in ("BATCH_MATMUL", "SVDF") and b.optional(2) is not None
    bias = b.array(2) if has_bias else np.zeros(filters, np.float32)
    return {
        "scales": b.constant("scales", scales.scale, "float32"),
        "step": int(scales.is_per_channel),
        "bias": b.constant("bias", bias),
    }
