"""ONNX's normalizations over pictures: by batch, by instance, by groups of channels, by neighbours."""

from __future__ import annotations

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT
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
    transposed,
    typed,
)
from thinflow.lift.rules import lifts


@lifts("onnx.BatchNormalization", ignores=("is_test", "momentum"))
def _batch_norm(c: Call) -> Value:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, per channel of axis 1."""
    if c.get("training_mode", 0) or len(c.node.outputs) > 1:
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
    count = rank(c)
    y = normalized(c, c[0], integers(c, tuple(range(2, count))), c.get("epsilon", 1e-5))
    return c.emit("AddV2", c.emit("Mul", y, along(c, c[1], 1, count)), along(c, c[2], 1, count))


@lifts("onnx.GroupNormalization")
def _group_norm(c: Call) -> Value:
    """Channels of a group together: [n, groups, ...] has mean 0 and variance 1 in each group."""
    groups, of_groups = int(c.get("num_groups", 0)), opset(c) < _BY_CHANNEL
    if groups < 1:
        raise UnsupportedOp(f"it has {groups} groups")
    kind, whole = c[0].dtype, int(c.get("stash_type", 1)) == FLOAT.number
    x = typed(c, c[0], FLOAT) if whole else c[0]
    scale, bias = (typed(c, c[i], x.dtype) if x.dtype else c[i] for i in (1, 2))
    picture = Formula(c).term(x)
    sizes = [size(picture, axis) for axis in range(rank(c))]
    channels = sizes[1]
    if not isinstance(channels, int) or channels % groups:
        raise UnsupportedOp(f"its channels are not known, or not {groups} groups of equal size")
    inner = product([channels // groups, *sizes[2:]])
    y = normalized(c, reshaped(picture, [sizes[0], groups, inner]).value, integers(c, (2,)),
                   c.get("epsilon", 1e-5))  # fmt: skip

    def shifted(y: Value, rank: int) -> Value:
        return c.emit("AddV2", c.emit("Mul", y, along(c, scale, 1, rank)), along(c, bias, 1, rank))

    # Before version 21 scale and bias are those of groups, since then those of channels.
    y = shifted(y, 3) if of_groups else y
    y = reshaped(Formula(c).term(y), sizes).value
    y = y if of_groups else shifted(y, rank(c))
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
    row = transposed(c, c[0], (0, *range(2, count), 1))
    flat = reshaped(Formula(c).term(row), [product([sizes[0], *sizes[2:]]), 1, sizes[1], 1])
    squares = flat.square().pad([(0, 0), (0, 0), ((width - 1) // 2, width // 2), (0, 0)])
    mean = squares.apply(
        "AvgPool", ksize=(1, 1, width, 1), strides=(1, 1, 1, 1), padding="VALID", data_format="NHWC"
    )
    y = flat / (mean * alpha + bias).apply("Pow", beta)
    return channels_first(c, reshaped(y, [sizes[0], *sizes[2:], sizes[1]]).value, count)
