"""Moves the size of channels from one layer to the next, which changes no answer but makes rounding kinder.

    W1[c] /= s[c],  b1[c] /= s[c],  W2[:, c] *= s[c]        for the tensors of a channel group

Cross-layer equalization (Nagel et al., ICCV 2019) chooses s from the weights, smoothing (Xiao et al., ICML
2023) from activations and weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np

from thinflow.onnx import program as onnx
from thinflow.program.model import Tensor
from thinflow.quantize.channel_groups import Group
from thinflow.quantize.channel_rules import Border
from thinflow.quantize.channels import ChannelStatistics
from thinflow.quantize.kernels import Operator, input_at
from thinflow.tflite import model as tflite
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

    A depthwise layer has a weight scale of its own for each channel, so it takes over all of the size. Where
    queries meet keys, these stand for W2.

    Args:
        statistics: of the group's watched tensors, as far as there are any.
    """
    alpha = 1.0 if group.into_depthwise else alpha
    incoming = np.maximum(weight_sizes(group), _activations(group, statistics, -1))
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
    return _activations(group, statistics, 1)


def _activations(group: Group, statistics: Mapping[Tensor, ChannelStatistics], sign: int) -> Array:
    """float64 [C] of the largest magnitude in what each factor divides, or for the sign -1 multiplies."""
    sizes = np.zeros(group.channels)
    for tensor in group.watched:
        numbers, known = sign * group.factors_of[tensor].ravel(), statistics.get(tensor)
        if known is not None and known.largest.size == numbers.size:
            _note_largest(sizes, numbers, known.largest)
    return sizes


def equalizing_factors(groups: Sequence[Group]) -> list[Array]:
    """float64 [C] for each group: weights before and behind it reach equally far in every channel.

    A layer may border on two groups, hence the sweeps.
    """
    factors = {group: np.ones(group.channels) for group in groups}
    weights = _Weights(groups)
    for _ in range(SWEEPS):
        largest_change = 0.0
        for group in groups:
            outgoing, incoming = weights.sizes(group, -1, factors), weights.sizes(group, 1, factors)
            usable = (outgoing > 0) & (incoming > 0)
            step = np.ones(group.channels)
            # Both sides reach equally far if r1 / s = r2 * s. The sizes are those under the factors so far,
            # so this is a step on top of them. A channel of zeros on one side has no such s and keeps its
            # factor.
            step[usable] = np.sqrt(outgoing[usable] / incoming[usable])
            moved = np.clip(factors[group] * step, SMALLEST, LARGEST)
            largest_change = max(largest_change, float(np.abs(moved / factors[group] - 1).max(initial=0.0)))
            factors[group] = moved
        if largest_change < SETTLED:
            break
    return list(factors.values())


def weight_sizes(group: Group) -> Array:
    """float64 [C] of the largest weight by which each channel of a group is read."""
    return _Weights([group]).sizes(group, 1, {})


Factors = Mapping[Group, Array]
"""Group -> float64 [C]."""


class _Weights:
    """How far the constants between some groups reach."""

    def __init__(self, groups: Sequence[Group]) -> None:
        # Told apart by operator and input: a border of two groups is there twice.
        self._reads = {_key(b): (g, b.reads) for g in groups for b in g.readers}
        self._gives = {_key(b): (g, b.gives) for g in groups for b in g.writers}
        self._largest: dict[Any, Array] = {}

    def sizes(self, group: Group, sign: int, factors: Factors) -> Array:
        """float64 [C] of the largest constant that grows by each factor, or shrinks for the sign -1."""
        sizes = np.zeros(group.channels)
        sides = [(b, sign * _known(b.reads)) for b in group.readers]
        sides += [(b, -sign * _known(b.gives)) for b in group.writers]
        for border, numbers in sides:
            if (numbers > 0).any():
                reach = self._reach(border, factors)
                along = _largest_along(reach, numbers.shape)
                _note_largest(sizes, np.broadcast_to(numbers, along.shape).ravel(), along.ravel())
        return sizes

    def _reach(self, border: Border, factors: Factors) -> Array:
        """Magnitudes of constants under factors; the largest alone along axes where no factors differ."""
        key = _key(border)
        sides = [(self._reads.get(key), 1), (self._gives.get(key), -1)]
        if key not in self._largest:
            shape = np.broadcast_shapes(*(_known(n).shape for n in (border.reads, border.gives)))
            self._largest[key] = _largest_along(np.abs(border.constants), shape)
        reach = np.asarray(self._largest[key], np.float64)
        for side, sign in sides:
            if side is not None and side[0] in factors:
                reach = reach * factor_array(factors[side[0]], sign * _known(side[1]))
        return reach


def _key(border: Border) -> tuple[Tensor, int]:
    # By what it gives: the operator itself is another one in a program that was rescaled.
    return border.operator.outputs[0], border.number


def _known(numbers: Array | None) -> Array:
    return np.zeros((), np.int64) if numbers is None else numbers


def factor_array(factors: Array, numbers: Array) -> Array:
    """Factors where a group's ints are positive, their inverses where they are negative, else 1."""
    table = np.concatenate([[1.0], factors, 1 / factors[::-1]])
    # Index -1 is the last of the table.
    return np.asarray(table[numbers])


def _largest_along(data: Array, shape: Sequence[int]) -> Array:
    """The largest numbers along axes that have the size 1 in a shape."""
    shape = (1,) * (data.ndim - len(shape)) + tuple(shape)
    axes = tuple(a for a, n in enumerate(shape) if n == 1)
    return np.asarray(data.max(axis=axes, keepdims=True, initial=0))


def _note_largest(sizes: Array, numbers: Array, values: Array) -> None:
    """Raise sizes to values, where numbers - 1 says which."""
    chosen = numbers > 0
    np.maximum.at(sizes, numbers[chosen] - 1, values[chosen])


# -------------------------------------------------------------------------------------------- the new program

P = TypeVar("P", bound=tflite.Program | onnx.Program)
O = TypeVar("O", bound=Operator)  # noqa: E741 (as in `program.model`)


def rescaled(program: P, factors: Factors) -> P:
    """The program with groups rescaled; activations keep their tensors, the given program its weights."""
    scales: dict[tuple[Tensor, int], Array] = {}
    for group, numbers, border in _constants(factors):
        # In float64, and rounded to float32 once: two groups may meet in a layer.
        by = factor_array(factors[group], numbers)
        scales[_key(border)] = scales.get(_key(border), np.ones(())) * by
    if isinstance(program, onnx.Program):
        return cast("P", replace(program, operators=[_rescaled(o, scales) for o in program.operators]))
    # Layers in the bodies of loops, too.
    blocks = [replace(b, operators=[_rescaled(o, scales) for o in b.operators]) for b in program.subgraphs]
    return cast("P", replace(program, subgraphs=blocks))


def _constants(factors: Factors) -> Iterator[tuple[Group, Array, Border]]:
    """What is multiplied in each group, and by the factors of which numbers."""
    for group in factors:
        for border in group.readers:
            yield group, _known(border.reads), border
        for border in (*group.writers, *group.added):
            yield group, -_known(border.gives), border


def _rescaled(operator: O, scales: Mapping[tuple[Tensor, int], Array]) -> O:
    first = operator.outputs[0] if operator.outputs else None
    touched = [n for n in range(len(operator.inputs)) if first is not None and (first, n) in scales]
    if first is None or not touched:
        return operator
    inputs = list(operator.inputs)
    for number in touched:
        constant = input_at(operator, number)
        data = np.asarray(constant.array()) * scales[first, number]
        inputs[number] = replace(constant, data=np.ascontiguousarray(data, np.float32))
    return replace(operator, inputs=inputs)
