"""Normalization by stored or by measured means and variances."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT
from thinflow.keras.call import Call
from thinflow.keras.config import LayerConfig
from thinflow.keras.registry import Inside, Result, Slot, layer
from thinflow.typing import Array


@layer(
    *("BatchNormalization", "BatchNormalizationV1", "BatchNormalizationV2", "SyncBatchNormalization"),
    weights="gamma?scale beta?center moving_mean! moving_variance!",
    real=True,
    ignores=(
        "momentum",
        "fused",
        "synchronized",
        "renorm_clipping",
        "renorm_momentum",
        "virtual_batch_size",
        "mask",
    ),
    masks="pass",
)
def batch_normalization(c: Call) -> Result:
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta along one axis."""
    import numpy as np

    if c.get("renorm") or c.argument("training", 1):
        raise c.refuse("it normalizes by its input's own mean")
    axis, size = _one_axis(c)
    names = ("moving_mean", "moving_variance")
    mean, variance = (c.array(name, (size,)) for name in names)
    gamma = c.array("gamma", (size,)) if c.flag("scale", True) else np.ones_like(mean)
    beta = c.array("beta", (size,)) if c.flag("center", True) else np.zeros_like(mean)
    epsilon = c.number("epsilon", 1e-3)
    rank = c.rank(c[0])
    # The fused op takes pictures alone; a factor and an offset do the same along any axis.
    if rank == 4 and axis == 3 and c.type_of(c[0]) is FLOAT:
        parts = zip((gamma, beta, mean, variance), ("gamma", "beta", *names), strict=True)
        return c.emit(
            "FusedBatchNormV3",
            c[0],
            *(c.const(array, name) for array, name in parts),
            U=FLOAT,
            epsilon=epsilon,
            data_format="NHWC",
            is_training=False,
        )
    factor = gamma / np.sqrt(variance + np.asarray(epsilon, variance.dtype))
    return _scaled(c, c[0], factor, beta - mean * factor, axis)


def _one_axis(c: Call) -> tuple[int, int]:
    axes = c.ints("axis", default=-1)
    if len(axes) != 1:
        raise c.refuse(f"it normalizes {len(axes)} axes together")
    axis = c.axis(axes[0], c.rank(c[0]))
    return axis, c.size(c[0], axis)


def _scaled(c: Call, x: Value, factor: Array, offset: Array, axis: int) -> Value:
    """x * factor + offset, each [size of the axis]."""
    shape = [1] * c.rank(x)
    shape[axis] = -1
    if axis == c.rank(x) - 1:
        shape = [-1]
    scaled = c.emit("Mul", x, c.const(factor.reshape(shape), "batchnorm/factor"), name="batchnorm/mul_1")
    return c.emit("AddV2", scaled, c.const(offset.reshape(shape), "batchnorm/offset"), name="batchnorm/add_1")


def moments(c: Call, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """Mean and variance over axes, which stay with size 1."""
    mean = c.reduce("Mean", x, axes, True, "moments/mean")
    square = c.emit("SquaredDifference", x, mean, name="moments/SquaredDifference")
    return mean, c.reduce("Mean", square, axes, True, "moments/variance")


def centred(
    c: Call, x: Value, axes: Sequence[int], epsilon: float, gamma: Value | None, beta: Value | None
) -> Value:
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta, of the input's own mean and variance."""
    mean, variance = moments(c, x, axes)
    factor = c.emit("Rsqrt", c.emit("AddV2", variance, epsilon, name="batchnorm/add"), name="batchnorm/Rsqrt")
    if gamma is not None:
        factor = c.emit("Mul", factor, gamma, name="batchnorm/mul")
    scaled = c.emit("Mul", x, factor, name="batchnorm/mul_1")
    shift = c.emit("Mul", mean, factor, name="batchnorm/mul_2")
    if beta is None:
        return c.emit("Sub", scaled, shift, name="batchnorm/sub")
    offset = c.emit("Sub", beta, shift, name="batchnorm/sub")
    return c.emit("AddV2", scaled, offset, name="batchnorm/add_1")


def _parameter(c: Call, name: str, option: str, shape: Sequence[int]) -> Value | None:
    """A factor or an offset, shaped so that it goes with the input; None if the layer has none."""
    return c.const(c.array(name).reshape(shape), name) if c.flag(option, True) else None


@layer("LayerNormalization", weights="gamma?scale beta?center", masks="pass", real=True)
def layer_normalization(c: Call) -> Result:
    rank = c.rank(c[0])
    axes = sorted(c.axis(n, rank) for n in c.ints("axis", default=-1))
    shape = [c.size(c[0], n) if n in axes else 1 for n in range(rank)]
    epsilon = c.number("epsilon", 1e-3)
    if c.flag("rms_scaling"):
        return _rms_scaled(c, axes, epsilon, shape)
    gamma, beta = (_parameter(c, n, o, shape) for n, o in (("gamma", "scale"), ("beta", "center")))
    return centred(c, c[0], axes, epsilon, gamma, beta)


def _rms_scaled(c: Call, axes: Sequence[int], epsilon: float, shape: Sequence[int]) -> Value:
    """x / sqrt(variance + epsilon) * gamma: with the variance, and without taking the mean off."""
    c.read |= {"center", "scale"}
    _, variance = moments(c, c[0], axes)
    scaled = c.emit("Mul", c[0], c.emit("Rsqrt", c.emit("AddV2", variance, epsilon)))
    return c.emit("Mul", scaled, c.const(c.array("gamma").reshape(shape), "gamma"))


@layer("RMSNormalization", weights="scale", real=True)
def rms_normalization(c: Call) -> Result:
    """x / sqrt(mean(x^2) + epsilon) * scale."""
    rank = c.rank(c[0])
    axes = sorted(c.axis(n, rank) for n in c.ints("axis", default=-1))
    mean = c.reduce("Mean", c.emit("Square", c[0]), axes, True)
    factor = c.emit("Rsqrt", c.emit("AddV2", mean, c.number("epsilon", 1e-6)))
    # Keras does not shape the factors by their axes: they go with the last ones, whatever the axis is.
    return c.emit("Mul", c.emit("Mul", c[0], factor), c.weight("scale"))


@layer("UnitNormalization", masks="pass", real=True)
def unit_normalization(c: Call) -> Result:
    """x / sqrt(max(sum(x^2), 1e-12)) over axes."""
    axes = [c.axis(n, c.rank(c[0])) for n in c.ints("axis", default=-1)]
    total = c.reduce("Sum", c.emit("Square", c[0]), axes, True)
    # The epsilon of tf.math.l2_normalize, which the layer was made of.
    return c.emit("Mul", c[0], c.emit("Rsqrt", c.emit("Maximum", total, 1e-12)))


@layer("GroupNormalization", weights="gamma?scale beta?center", masks="pass", real=True)
def group_normalization(c: Call) -> Result:
    """Each group of channels by its own mean and variance."""
    rank = c.rank(c[0])
    axis, channels = _one_axis(c)
    groups = c.integer("groups", 32)
    groups = channels if groups == -1 else groups
    if groups < 1 or channels % groups:
        raise c.refuse(f"{channels} channels cannot be cut into {groups} groups")
    sizes = c.shape(c[0])
    cut: list[int | None] = [*sizes[:axis], groups, channels // groups, *sizes[axis + 1 :]]
    x = c.reshape(c[0], cut)
    shape = [1] * (rank + 1)
    shape[axis : axis + 2] = [groups, channels // groups]
    gamma, beta = (_parameter(c, n, o, shape) for n, o in (("gamma", "scale"), ("beta", "center")))
    axes = [n for n in range(1, rank + 1) if n != axis]
    y = centred(c, x, axes, c.number("epsilon", 1e-3), gamma, beta)
    return c.reshape(y, sizes, "Reshape_1")


def _spectral_slots(config: LayerConfig, inside: Inside) -> list[Slot]:
    return [Slot("vector_u", False), *inside.slots(config.inner("layer"), "layer")]


@layer("SpectralNormalization", weights=_spectral_slots, ignores=("power_iterations",))
def spectral_normalization(c: Call) -> Result:
    """The layer inside, whose kernel training has brought to norm 1."""
    c.read.add("layer")
    return c.apply(c.layer.inner("layer"), "layer", *c.args)
