"""ONNX's normalizations over pictures: by batch, by instance, by groups of channels, by neighbours."""

from __future__ import annotations

import math

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT64
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.formulas import Formula, product, reshaped, size
from thinflow.lift.onnx.math import normalized
from thinflow.lift.onnx.values import (
    along,
    channels_first,
    channels_last,
    integers,
    like,
    opset,
    rank,
    typed,
)
from thinflow.lift.rules import lifts


@lifts("onnx.BatchNormalization", ignores=("is_test", "momentum"))
def _batch_norm(c: Call) -> Value:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, per channel of axis 1."""
    if c.flag("training_mode") or len(c.node.outputs) > 1:
        raise UnsupportedOp("it is in training mode")
    count, epsilon = rank(c), c.get("epsilon", 1e-5)
    if count == 4 and all(c[i].dtype is FLOAT for i in range(5)):
        fused = c.many(
            "FusedBatchNormV3", channels_last(c, c[0], 4), *(c[i] for i in range(1, 5)),
            epsilon=epsilon, is_training=False, data_format="NHWC",
        )  # fmt: skip
        return channels_first(c, fused.output(), 4)
    scale, offset, mean, variance = (along(c, c[i], 1, count) if count > 1 else c[i] for i in range(1, 5))
    spread = c.emit("Rsqrt", c.emit("AddV2", variance, like(c, epsilon, variance)))
    # Statistics may be wider than what they normalize.
    centred = c.emit("Sub", typed(c, c[0], mean.dtype) if mean.dtype else c[0], mean)
    y = c.emit("AddV2", _scaled(c, c.emit("Mul", centred, spread), scale), offset)
    return typed(c, y, c[0].dtype) if c[0].dtype else y


def _scaled(c: Call, x: Value, scale: Value) -> Value:
    return c.emit("Mul", x, typed(c, scale, x.dtype) if x.dtype else scale)


@lifts("onnx.InstanceNormalization")
def _instance_norm(c: Call) -> Value:
    """Each channel of each picture by itself."""
    count, epsilon, grouped = rank(c), c.get("epsilon", 1e-5), _grouped(c)
    if grouped is None:
        y = normalized(c, c[0], integers(c, tuple(range(2, count))), epsilon)
        return c.emit("AddV2", c.emit("Mul", y, along(c, c[1], 1, count)), along(c, c[2], 1, count))
    picture, channels, groups = grouped
    y = group_normalized(c, picture, channels, groups, epsilon)
    scale, offset = (_of_channels(c, c[i], channels, groups) for i in (1, 2))
    y = _scaled_and_moved(c, y, scale, offset)
    return c.emit("Reshape", y, c[0].node.inputs[1])


def _grouped(c: Call) -> tuple[Value, int, int] | None:
    """The picture [n, channels, ...] of which groups of channels are what is normalized, and both numbers.

    Exporters write a norm of groups as a norm of what they reshape to [n, groups, all of a group].
    """
    maker = c[0].node
    picture = maker.inputs[0] if maker.op == "Reshape" else None
    before, after = None if picture is None else picture.shape, c[0].shape
    if picture is None or before is None or after is None or len(after) != 3 or len(before) < 3:
        return None
    (batch, groups, whole), channels = after, before[1]
    if not groups or not channels or channels % groups:
        return None
    # It is the same batch where that is known, or where each group has as many elements as its channels.
    pixels = None if None in before[2:] else math.prod(n for n in before[2:] if n is not None)
    same = batch == before[0] if batch is not None else whole is not None and pixels is not None
    if not same or (whole is not None and pixels is not None and whole * groups != channels * pixels):
        return None
    return picture, channels, groups


def _of_channels(c: Call, value: Value, channels: int, groups: int) -> Value:
    """A number for each group as one for each channel."""
    column = c.emit("Reshape", value, integers(c, (groups, 1)))
    return c.emit("Reshape", c.emit("Tile", column, integers(c, (1, channels // groups))), integers(c, (-1,)))


def _scaled_and_moved(c: Call, x: Value, scale: Value, offset: Value) -> Value:
    """x [n, channels, ...] with a scale and an offset for each channel."""
    count = len(x.shape or ())
    return c.emit("AddV2", c.emit("Mul", x, along(c, scale, 1, count)), along(c, offset, 1, count))


def group_normalized(c: Call, x: Value, channels: int, groups: int, epsilon: float) -> Value:
    """x [n, channels, ...] with mean 0 and variance 1 in each group of channels.

    Means are taken over the pixels, and then over the channels of a group, which are as many elements each:
    so the picture keeps its shape and may have its channels last, and no means of it are taken over two axes
    that lie apart, which LiteRT is slow at.
    """
    count, each = len(x.shape or ()), channels // groups

    def mean(x: Value) -> Value:
        if count > 2:
            x = c.emit("Mean", x, integers(c, tuple(range(2, count))), keep_dims=True, Tidx=INT64)
        if each == 1:
            return x
        x = c.emit("Reshape", x, integers(c, (-1, groups, each)))
        x = c.emit("Mean", x, integers(c, (2,)), keep_dims=True, Tidx=INT64)
        if groups > 1:
            x = c.emit("Tile", x, integers(c, (1, 1, each)))
        return c.emit("Reshape", x, integers(c, (-1, channels if groups > 1 else 1, *[1] * (count - 2))))

    centred = c.emit("Sub", x, mean(x))
    variance = mean(c.emit("Square", centred))
    return c.emit("Mul", centred, c.emit("Rsqrt", c.emit("AddV2", variance, like(c, epsilon, x))))


@lifts("onnx.GroupNormalization")
def _group_norm(c: Call) -> Value:
    """Channels of a group together: [n, groups, ...] has mean 0 and variance 1 in each group."""
    groups, of_groups = int(c.get("num_groups", 0)), opset(c) < _BY_CHANNEL
    if groups < 1:
        raise UnsupportedOp(f"it has {groups} groups")
    kind, whole = c[0].dtype, int(c.get("stash_type", 1)) == FLOAT.number
    x = typed(c, c[0], FLOAT) if whole else c[0]
    scale, bias = (typed(c, c[i], x.dtype) if x.dtype else c[i] for i in (1, 2))
    channels = (c[0].shape or (None, None))[1] if rank(c) > 1 else None
    if not channels or channels % groups:
        raise UnsupportedOp(f"its channels are not known, or not {groups} groups of equal size")
    y = group_normalized(c, x, channels, groups, c.get("epsilon", 1e-5))
    # Before version 21 scale and bias are those of groups, since then those of channels.
    if of_groups:
        scale, bias = (_of_channels(c, value, channels, groups) for value in (scale, bias))
    y = _scaled_and_moved(c, y, scale, bias)
    return typed(c, y, kind) if kind is not None else y


_BY_CHANNEL = 21
"""The version of ONNX's op set from which on GroupNormalization has a scale per channel."""


@lifts("onnx.LRN")
def _lrn(c: Call) -> Value:
    """x / (bias + alpha / size * sum of squares of the neighbours) ^ beta."""
    width, count = int(c.get("size", 0)), rank(c)
    alpha, beta, bias = c.get("alpha", 1e-4), c.get("beta", 0.75), c.get("bias", 1.0)
    if width < 1:
        raise UnsupportedOp(f"its window has the size {width}")
    if width % 2 and count == 4 and c[0].dtype is FLOAT:
        # ONNX divides alpha by the size of the window, TensorFlow's op does not.
        options = {"alpha": alpha / width, "beta": beta, "bias": bias}
        return channels_first(
            c, c.emit("LRN", channels_last(c, c[0], 4), depth_radius=width // 2, **options), 4
        )
    # The channels stand in a row, and a pool goes along it: its mean is the sum of squares by the size.
    x = Formula(c).operand(0)
    sizes = [size(x, axis) for axis in range(count)]
    row = channels_last(c, c[0], count)
    flat = reshaped(Formula(c).term(row), [product([sizes[0], *sizes[2:]]), 1, sizes[1], 1])
    squares = flat.square().pad([(0, 0), (0, 0), ((width - 1) // 2, width // 2), (0, 0)])
    mean = squares.apply(
        "AvgPool", ksize=(1, 1, width, 1), strides=(1, 1, 1, 1), padding="VALID", data_format="NHWC"
    )
    y = flat / (mean * alpha + bias).apply("Pow", beta)
    return channels_first(c, reshaped(y, [sizes[0], *sizes[2:], sizes[1]]).value, count)
