"""Convolutions, pooling and normalization that a model calls as functions, with tensors for their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from thinflow.ir.graph import Value
from thinflow.keras.call import Call
from thinflow.keras.layers.convolution import convolved, depthwise_convolved, transposed
from thinflow.keras.layers.normalization import moments
from thinflow.keras.layers.pooling import adapted, pooled
from thinflow.keras.operations.arrays import numbers
from thinflow.keras.operations.elementwise import first
from thinflow.keras.registry import Result, Rule, operation

_Window: TypeAlias = Callable[[Call, str, int], Value]


def _tensor(c: Call, name: str, place: int) -> Value:
    return c.literal(c.argument(name, place), c[0])


def _strides(c: Call, dims: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Strides and dilations."""
    return c.ints("strides", dims, 1), c.ints("dilation_rate", dims, 1)


def _padding(c: Call) -> str:
    return c.choice("padding", "valid", "same").upper()


@operation("Conv")
def convolution(c: Call) -> Result:
    """inputs [b, ..., m], kernel [..., m / groups, n]."""
    x, kernel = c.to_last(_tensor(c, "inputs", 0)), _tensor(c, "kernel", 1)
    strides, dilations = _strides(c, c.rank(x) - 2)
    return c.from_last(convolved(c, x, kernel, strides, _padding(c), dilations))


@operation("DepthwiseConv")
def depthwise(c: Call) -> Result:
    """inputs [b, ..., m], kernel [..., m, times]."""
    x, kernel = c.to_last(_tensor(c, "inputs", 0)), _tensor(c, "kernel", 1)
    strides, dilations = _strides(c, c.rank(x) - 2)
    return c.from_last(depthwise_convolved(c, x, kernel, strides, _padding(c), dilations))


@operation("ConvTranspose")
def transposed_convolution(c: Call) -> Result:
    """inputs [b, ..., m], kernel [..., n, m]."""
    x, kernel = c.to_last(_tensor(c, "inputs", 0)), _tensor(c, "kernel", 1)
    dims = c.rank(x) - 2
    strides, dilations = _strides(c, dims)
    given = c.get("output_padding")
    extra: tuple[int | None, ...] = (None,) * dims if given is None else c.ints("output_padding", dims)
    padding = c.choice("padding", "valid", "same")
    return c.from_last(transposed(c, x, kernel, strides, padding, dilations, extra))


@operation("SeparableConv")
def separable(c: Call) -> Result:
    """Each channel by itself, and then all of them at each place."""
    x, kernel = c.to_last(_tensor(c, "inputs", 0)), _tensor(c, "depthwise_kernel", 1)
    ones = (1,) * (c.rank(x) - 2)
    strides, dilations = _strides(c, len(ones))
    y = depthwise_convolved(c, x, kernel, strides, _padding(c), dilations)
    return c.from_last(convolved(c, y, _tensor(c, "pointwise_kernel", 2), ones, "VALID", ones))


def _window(window: _Window, op: str) -> Rule:
    def rule(c: Call) -> Value:
        c.read.add("inputs")
        return window(c, op, c.rank(c[0]) - 2)

    return rule


operation("MaxPool")(_window(pooled, "MaxPool"))
operation("AveragePool")(_window(pooled, "AvgPool"))
operation("AdaptiveMaxPool")(_window(adapted, "Max"))
operation("AdaptiveAveragePool")(_window(adapted, "Mean"))


@operation("BatchNorm")
def batch_norm(c: Call) -> Result:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, along one axis."""
    x, epsilon = _tensor(c, "x", 0), c.number("epsilon", 1e-3)
    axis = c.axis(c.integer("axis"), c.rank(x))

    def along(name: str, place: int) -> Value | None:
        if c.argument(name, place) is None:
            return None
        value = _tensor(c, name, place)
        return c.reshape(value, [c.shape(value)[0] if n == axis else 1 for n in range(c.rank(x))])

    mean, variance, offset, scale = (
        along(name, place) for place, name in enumerate(("mean", "variance", "offset", "scale"), start=1)
    )
    if mean is None or variance is None:
        raise c.refuse("its mean or its variance is missing")
    factor = c.emit("Rsqrt", c.emit("AddV2", variance, epsilon))
    factor = factor if scale is None else c.emit("Mul", factor, scale)
    shift = c.emit("Mul", mean, factor)
    shift = c.emit("Neg", shift) if offset is None else c.emit("Sub", offset, shift)
    return c.emit("AddV2", c.emit("Mul", x, factor), shift)


@operation("Moments", ignores=("synchronized",))
def mean_and_variance(c: Call) -> Result:
    x = first(c)
    axes = [c.axis(n, c.rank(x)) for n in numbers(c, "axes", 1) or []]
    both = moments(c, x, axes)
    if c.flag("keepdims"):
        return list(both)
    return [c.emit("Squeeze", y, squeeze_dims=tuple(axes)) for y in both]
