"""Moves the size of channels from one layer to the next, which changes no answer but makes rounding kinder.

    W1[c] /= s[c],  b1[c] /= s[c],  W2[:, c] *= s[c]        for the tensors of a channel group

Cross-layer equalization (Nagel et al., ICCV 2019) chooses s from the weights, smoothing (Xiao et al., ICML
2023) from activations and weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from thinflow.quantize.channel_groups import (
    LAYERS,
    Group,
    constants_to_divide,
    layer_weights,
    multiplier,
    product_row,
    scaled_input,
)
from thinflow.quantize.channels import ChannelStatistics
from thinflow.tflite.model import Operator, Program, Tensor
from thinflow.typing import Array

# Of a factor. Channels that are nearly dead would ask for any size; within these, products stay far from the
# ends of float32.
SMALLEST, LARGEST = 1e-3, 1e3
# Neighbouring groups share a layer, so each step disturbs the group before it: this bounds the mending.
SWEEPS = 20
SETTLED = 0.01  # relative change of the factors below which a sweep was the last one


# ------------------------------------------------------------------------------------------------ the factors


def smoothing_factors(
    group: Group, statistics: Mapping[Tensor, ChannelStatistics], *, alpha: float = 0.5
) -> Array:
    """float64 [C] by which the activations are divided: max|x|^alpha / max|W2|^(1 - alpha).

    A depthwise layer has a weight scale of its own for each channel, so it takes over all of the size.

    Args:
        statistics: of the group's watched tensors, as far as there are any.
    """
    alpha = 1.0 if group.into_depthwise else alpha
    incoming = weight_sizes(group)
    size = channel_sizes(group, statistics)
    usable = (size > 0) & (incoming > 0)
    factors = np.ones(group.channels)
    # With r = max|x| and w = max|W2|, s = r^a / w^(1 - a) leaves activations of r / s = (r w)^(1 - a) and
    # weights of w s = (r w)^a: at a = 1/2 both are equally hard to round.
    factors[usable] = size[usable] ** alpha / incoming[usable] ** (1 - alpha)
    # Only ratios between channels matter to the rounding. With a geometric mean of 1 neither layer takes over
    # the size of the whole tensor.
    if usable.any():
        factors[usable] /= np.exp(np.log(factors[usable]).mean())
    return np.clip(factors, SMALLEST, LARGEST)


def channel_sizes(group: Group, statistics: Mapping[Tensor, ChannelStatistics]) -> Array:
    """float64 [C] of the largest magnitude in each channel of a group's watched tensors."""
    sizes = np.zeros(group.channels)
    for tensor in group.watched:
        if tensor in statistics:
            sizes = np.maximum(sizes, _folded(statistics[tensor].largest, group.channels))
    return sizes


def equalizing_factors(groups: Sequence[Group]) -> list[Array]:
    """float64 [C] for each group: weights before and behind it reach equally far in every channel.

    A layer may border on two groups, hence the sweeps.
    """
    factors = {group: np.ones(group.channels) for group in groups}
    of = _by_tensor(factors)
    for _ in range(SWEEPS):
        largest_change = 0.0
        for group in groups:
            outgoing, incoming = _outgoing(group, of), weight_sizes(group, of)
            usable = (outgoing > 0) & (incoming > 0)
            step = np.ones(group.channels)
            # Both sides reach equally far if r1 / s = r2 * s. The sizes are those under the factors so far,
            # so this is a step on top of them. A channel of zeros on one side has no such s and keeps its
            # factor.
            step[usable] = np.sqrt(outgoing[usable] / incoming[usable])
            moved = np.clip(factors[group] * step, SMALLEST, LARGEST)
            largest_change = max(largest_change, float(np.abs(moved / factors[group] - 1).max(initial=0.0)))
            # In place: `of` has the same array.
            factors[group][:] = moved
        if largest_change < SETTLED:
            break
    return list(factors.values())


Factors = Mapping[Tensor, Array]
"""Tensor -> float64 factors of its group; others have none."""


def _by_tensor(factors: Mapping[Group, Array]) -> Factors:
    return {tensor: of for group, of in factors.items() for tensor in group.tensors}


def _outgoing(group: Group, of: Factors) -> Array:
    """max|W| per channel over the constants that give a group, under factors."""
    sizes = np.zeros(group.channels)
    for operator in group.writers:
        data, gives, _ = _constants(operator)
        size = _along(np.abs(_scaled(data, operator, of)), gives)
        sizes = np.maximum(sizes, _folded(size, group.channels))
    return sizes


def weight_sizes(group: Group, of: Factors | None = None) -> Array:
    """float64 [C] of the largest weight by which each channel of a group is read.

    Args:
        of: factors that the weights have, if any.
    """
    sizes = np.zeros(group.channels)
    for operator in group.readers:
        data, _, takes = _constants(operator)
        size = _along(np.abs(_scaled(data, operator, of or {})), takes)
        # A depthwise layer has several columns for each input channel, side by side.
        size = size.reshape(-1, multiplier(operator)).max(axis=1)
        sizes = np.maximum(sizes, _folded(size, group.channels))
    return sizes


def _along(data: Array, axis: int) -> Array:
    """The largest along an axis, as float64."""
    others = tuple(i for i in range(data.ndim) if i != axis)
    return np.asarray(data.max(axis=others), np.float64)


def _folded(sizes: Array, channels: int) -> Array:
    """The largest of those that share a factor."""
    largest: Array = sizes.reshape(-1, channels).max(axis=0)
    return largest


# -------------------------------------------------------------------------------------------- the new program


def rescaled(program: Program, factors: Mapping[Group, Array]) -> Program:
    """The program with groups rescaled; activations keep their tensors, the given program its weights."""
    of = _by_tensor(factors)
    main = program.subgraphs[0]
    operators = [_rescaled(o, of) for o in main.operators]
    return replace(program, subgraphs=[replace(main, operators=operators), *program.subgraphs[1:]])


def _rescaled(operator: Operator, of: Factors) -> Operator:
    touched = {t for t in operator.touched() if t in of}
    if not touched:
        return operator
    inputs = list(operator.inputs)
    divisor = of.get(operator.outputs[0])
    layout = LAYERS.get(operator.code)
    if layout is not None or product_row(operator) is not None:
        number = layout.weights if layout is not None else product_row(operator)
        assert number is not None
        # Rounded to float32 once, though two factors may come in.
        data, _, _ = _constants(operator)
        inputs[number] = _with_data(inputs[number], _scaled(data.astype(np.float64), operator, of))
        # Only what divides goes into the bias: behind the taking side all is as before.
        if layout is not None and divisor is not None and len(inputs) > layout.bias:
            inputs[layout.bias] = _divided(inputs[layout.bias], divisor)
    elif divisor is not None:
        for number in constants_to_divide(operator):
            inputs[number] = _divided(inputs[number], divisor)
    return replace(operator, inputs=inputs)


def _constants(operator: Operator) -> tuple[Array, int, int]:
    """The weights of a layer, or the row of a product; the axes of output and of input channels."""
    layout = LAYERS.get(operator.code)
    if layout is not None:
        weights = layer_weights(operator)
        assert weights is not None, "only layers border on groups"
        return weights, layout.gives, layout.takes
    number = product_row(operator)
    assert number is not None, "only products with a row of constants do, besides"
    row = operator.inputs[number]
    assert row is not None
    data = np.asarray(row.array())
    return data, data.ndim - 1, data.ndim - 1


def _scaled(data: Array, operator: Operator, of: Factors) -> Array:
    """Constants times what the input channels, over what the output channels are divided by."""
    _, gives, takes = _constants(operator)
    x = scaled_input(operator)
    factor, divisor = None if x is None else of.get(x), of.get(operator.outputs[0])
    if factor is not None:
        repeated = np.repeat(_tiled(factor, data.shape[takes] // multiplier(operator)), multiplier(operator))
        data = data * _on_axis(repeated, takes, data.ndim)
    return data if divisor is None else data / _on_axis(_tiled(divisor, data.shape[gives]), gives, data.ndim)


def _tiled(factors: Array, size: int) -> Array:
    """Factors of as many channels."""
    return np.tile(factors, size // len(factors))


def _on_axis(factors: Array, axis: int, rank: int) -> Array:
    """Factors in the shape that multiplies an array along an axis."""
    return factors.reshape([-1 if i == axis else 1 for i in range(rank)])


def _divided(constant: Tensor | None, divisor: Array) -> Tensor | None:
    """A bias, or a row of constants, under the factors of what it is added to."""
    if constant is None:
        return None
    data = np.asarray(constant.array(), np.float64)
    return _with_data(constant, data / _tiled(divisor, data.shape[-1]))


def _with_data(constant: Tensor | None, data: Array) -> Tensor:
    assert constant is not None, "it is there"
    return replace(constant, data=np.ascontiguousarray(data, np.float32))
