"""Channels that are the same whatever the input: what reads them gets them in its biases."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.options import Options
from thinflow.lower.c.requantize import activation_limits, byte_weights, folded_bias, sum_factors
from thinflow.ops._fixed_point import quantized_multiplier, scaled
from thinflow.tflite.model import Operator, Subgraph, Tensor
from thinflow.typing import Array

_TOGETHER = 4
"""Channels are kept by fours, which kernels read in one piece."""


def drop_constant_channels(block: Subgraph, options: Options) -> None:
    """Take channels that are constant out of a convolution, the depthwise one behind it, and the next one.

    Training leaves filters whose weights are all zero after quantization. Answers stay the same to the last
    bit.

    Args:
        block: sizes known; changed.
        options: nothing is done for other roundings than LiteRT's, or where all values are to be kept.
    """
    if options.rounding != "litert" or options.keep_all:
        return
    readers: dict[Tensor, list[Operator]] = defaultdict(list)
    for operator in block.operators:
        for tensor in operator.reads():
            readers[tensor].append(operator)
    for first in block.operators:
        middle = _only_reader(first, "CONV_2D", readers, block)
        last = None if middle is None else _only_reader(middle, "DEPTHWISE_CONV_2D", readers, block)
        if middle is not None and last is not None and last.code == "CONV_2D":
            _drop(first, middle, last, options)


def _only_reader(
    operator: Operator, code: str, readers: dict[Tensor, list[Operator]], block: Subgraph
) -> Operator | None:
    y = operator.outputs[0] if operator.outputs else None
    if operator.code != code or y is None or y in block.outputs or y.dtype.name != "int8":
        return None
    return readers[y][0] if len(readers[y]) == 1 else None


def _drop(first: Operator, middle: Operator, last: Operator, options: Options) -> None:
    try:
        first_builder, middle_builder = LayerBuilder(first, options), LayerBuilder(middle, options)
        is_nothing = _is_nothing(first_builder)
        low, high = _ends(middle_builder, is_nothing)
        builder = LayerBuilder(last, options)
        filters, zero_point = builder.array(1), builder.scale(builder.input(0))[1]
        first_filters, taps = first_builder.array(1), middle_builder.array(1)
    except UnsupportedOp:
        return
    channels = len(low)
    if not channels == len(first_filters) == taps.shape[-1] == filters.shape[-1]:
        return
    # Over a border there is the zero point instead, other than over the picture.
    is_dead = (low == high) & ((low == zero_point) | (filters.shape[1:3] == (1, 1)))
    count = channels - int(is_dead.sum())
    count = min(max(-(-count // _TOGETHER) * _TOGETHER, _TOGETHER), channels)
    # Those that live, in their order, and as many others as make whole fours.
    kept = np.sort(np.argsort(is_dead, kind="stable")[:count])
    if count == channels:
        return
    gone = np.setdiff1d(np.arange(channels), kept)
    old = last.inputs[2] if len(last.inputs) > 2 else None
    if old is None or not old.is_constant:
        return
    sums = filters.astype(np.int64)[..., gone].sum((1, 2)) @ (low[gone] - zero_point)
    bias = old.array().astype(np.int64) + sums
    if np.abs(bias).max() >= 1 << 31:
        return
    last.inputs[2] = replace(old, data=bias.astype(np.int32))
    last.inputs[1] = _taken(last.inputs[1], kept, 3)
    for operator, axis in ((first, 0), (middle, 3)):
        operator.inputs[1] = _taken(operator.inputs[1], kept, axis)
        if len(operator.inputs) > 2 and operator.inputs[2] is not None:
            operator.inputs[2] = _taken(operator.inputs[2], kept, 0)
        operator.outputs[0] = replace(
            operator.outputs[0], shape=(*(operator.outputs[0].shape or ())[:3], count)
        )
    middle.inputs[0], last.inputs[0] = first.outputs[0], middle.outputs[0]


def _taken(tensor: Tensor | None, kept: Array, axis: int) -> Tensor:
    """Some of a constant along an axis, with their scales."""
    assert tensor is not None
    data, q = np.ascontiguousarray(tensor.array().take(kept, axis)), tensor.quantization
    if q is not None and q.is_per_channel and q.axis == axis:
        zero_point = q.zero_point[kept] if len(q.zero_point) == len(q.scale) else q.zero_point
        q = replace(q, scale=q.scale[kept], zero_point=zero_point)
    return replace(tensor, shape=data.shape, data=data, quantization=q)


def _is_nothing(b: LayerBuilder) -> Array:
    """bool [channels]: those of a convolution that are always the zero point, a zero to what reads them."""
    low, high = _ends(b, None)
    found: Array = (low == high) & (low == b.scale(b.output())[1])
    return found


def _ends(b: LayerBuilder, is_nothing: Array | None) -> tuple[Array, Array]:
    """int64 [channels] the least and the largest that a layer can answer.

    Args:
        b: of the layer.
        is_nothing: of a depthwise one, which channels of the input are zero; None for a convolution.
    """
    x, y = b.input(0), b.output()
    w, w_zero_point = byte_weights(b, 1)
    if w_zero_point:
        raise UnsupportedOp("its weights have a zero point")
    by_filter = w if is_nothing is None else np.moveaxis(w, -1, 0)
    rows = by_filter.reshape(len(by_filter), -1)
    if is_nothing is not None:
        if len(is_nothing) != len(rows):
            raise UnsupportedOp("it has several filters for a channel")
        # An input that is always its zero point adds nothing, not to the folded bias either: as weights of 0.
        rows = np.where(is_nothing[:, None], 0, rows).astype(np.int8)
    wide = rows.astype(np.int64)
    bias = folded_bias(b, 2, rows, b.scale(x)[1], 0).astype(np.int64)
    sums = (
        bias + np.minimum(127 * wide, -128 * wide).sum(1),
        bias + np.maximum(127 * wide, -128 * wide).sum(1),
    )
    factors = np.broadcast_to(sum_factors(b, x, b.input(1), y, "twice"), bias.shape)
    pairs = [quantized_multiplier(float(f)) for f in factors]
    (least, most), zero_point = activation_limits(b, y), b.scale(y)[1]
    low, high = (
        np.array([int(scaled(np.int64(s), *pair)) for s, pair in zip(side, pairs, strict=True)])
        for side in sums
    )
    return np.clip(low + zero_point, least, most), np.clip(high + zero_point, least, most)
