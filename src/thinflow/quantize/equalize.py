"""Moves the size of channels from one layer to the next, which changes no answer but makes rounding kinder.

    W1[c] /= s[c],  b1[c] /= s[c],  W2[:, c] *= s[c]        for the tensors of a channel group

Cross-layer equalization (Nagel et al., ICCV 2019) chooses s from the weights, smoothing (Xiao et al., ICML
2023) from activations and weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from thinflow.quantize.channel_groups import Border, Group, border_of, constants_to_divide
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
    return _largest((statistics[t].largest for t in group.watched if t in statistics), group.channels)


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
    sizes = [_along(_scaled(border, of), border.gives) for border in group.writers]
    return _largest(sizes, group.channels)


def weight_sizes(group: Group, of: Factors | None = None) -> Array:
    """float64 [C] of the largest weight by which each channel of a group is read.

    Args:
        of: factors that the weights have, if any.
    """
    columns = [(_along(_scaled(border, of or {}), border.takes), border.repeats) for border in group.readers]
    sizes = [size.reshape(-1, repeats).max(axis=1) for size, repeats in columns]
    return _largest(sizes, group.channels)


def _along(data: Array, axis: int) -> Array:
    """float64 largest magnitudes along an axis."""
    others = tuple(i for i in range(data.ndim) if i != axis)
    return np.asarray(np.abs(data).max(axis=others), np.float64)


def _largest(sizes: Iterable[Array], channels: int) -> Array:
    """float64 [channels] of the largest of all that share a factor; 0 of nothing."""
    rows = [np.zeros((1, channels)), *(size.reshape(-1, channels) for size in sizes)]
    largest: Array = np.concatenate(rows).max(axis=0)
    return largest


# -------------------------------------------------------------------------------------------- the new program


def rescaled(program: Program, factors: Mapping[Group, Array]) -> Program:
    """The program with groups rescaled; activations keep their tensors, the given program its weights."""
    of = _by_tensor(factors)
    main = program.subgraphs[0]
    operators = [_rescaled(o, of) for o in main.operators]
    return replace(program, subgraphs=[replace(main, operators=operators), *program.subgraphs[1:]])


def _rescaled(operator: Operator, of: Factors) -> Operator:
    if not any(t in of for t in operator.touched()):
        return operator
    inputs = list(operator.inputs)
    border, divisor = border_of(operator), of.get(operator.outputs[0])
    if border is not None:
        inputs[border.number] = _with_data(inputs[border.number], _scaled(border, of))
    if divisor is not None:
        # Behind the side that takes factors all is as before: only what divides goes into what is added.
        for number in constants_to_divide(operator) if border is None else border.added:
            inputs[number] = _divided(inputs[number], divisor)
    return replace(operator, inputs=inputs)


def _scaled(border: Border, of: Factors) -> Array:
    """Constants times what the input channels, over what the output channels are divided by; the given ones
    where neither are.
    """
    data, factor, divisor = border.constants, of.get(border.x), of.get(border.y)
    if factor is not None:
        columns = _tiled(factor, data.shape[border.takes] // border.repeats)
        data = data * _on_axis(np.repeat(columns, border.repeats), border.takes, data.ndim)
    if divisor is not None:
        data = data / _on_axis(_tiled(divisor, data.shape[border.gives]), border.gives, data.ndim)
    return data


def _tiled(factors: Array, size: int) -> Array:
    """Factors of as many channels."""
    return np.tile(factors, size // len(factors))


def _on_axis(factors: Array, axis: int, rank: int) -> Array:
    """Factors in the shape that multiplies an array along an axis."""
    return factors.reshape([-1 if i == axis else 1 for i in range(rank)])


def _divided(constant: Tensor | None, divisor: Array) -> Tensor:
    """A bias, or a row of constants, under the factors of what it is added to."""
    assert constant is not None, "it is there"
    data = np.asarray(constant.array())
    return _with_data(constant, data / _tiled(divisor, data.shape[-1]))


def _with_data(constant: Tensor | None, data: Array) -> Tensor:
    assert constant is not None, "it is there"
    # Rounded to float32 once, though two factors may have come in: those are float64.
    return replace(constant, data=np.ascontiguousarray(data, np.float32))
