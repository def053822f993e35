"""Moves the size of channels from one layer to the next, which changes no answer but makes rounding kinder.

    W1[c] /= s[c],  b1[c] /= s[c],  W2[:, c] *= s[c]        between two layers with nothing or ReLU between

Cross-layer equalization (Nagel et al., ICCV 2019) chooses s from the weights, smoothing (Xiao et al., ICML
2023) from activations and weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thinflow.quantize.channels import ChannelStatistics
from thinflow.quantize.kernels import is_float
from thinflow.quantize.weights import memory_key
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.typing import Array

# Of a factor. Channels that are nearly dead would ask for any size; within these, products stay far from the
# ends of float32.
SMALLEST, LARGEST = 1e-3, 1e3
# Neighbouring pairs share a layer, so each step disturbs the pair before it: this bounds the mending.
SWEEPS = 20
SETTLED = 0.01  # relative change of the factors below which a sweep was the last one

# Layouts of LiteRT's weights: OHWI; 1HWC, where a channel is input and output at once; and OI.
_OUT = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0}
_IN = {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 1}
# relu(s * x) = s * relu(x) for s > 0. RELU6 is none of them: its limit would be 6 / s in each channel.
_LINEAR = frozenset(("NONE", "RELU"))
_CHANNELWISE = frozenset(
    (
        # PAD puts zeros around, which any factor leaves alone; PADV2 may pad with another number. RESHAPE
        # belongs here only as long as the last size stays, which in row-major order keeps the channels apart.
        *("RELU", "LEAKY_RELU", "MAX_POOL_2D", "AVERAGE_POOL_2D", "MEAN", "PAD", "RESHAPE", "SQUEEZE"),
        *("EXPAND_DIMS", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"),
    )
)
"""Ops that keep the last dimension and scale with it."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Two layers whose channels can be rescaled against each other.

    Attributes:
        first, second: operators with constant weights.
        between: the second's input [..., C].
        channels: C
    """

    first: Operator
    second: Operator
    between: Tensor
    channels: int

    @property
    def into_depthwise(self) -> bool:
        return self.second.code == "DEPTHWISE_CONV_2D"


def find_pairs(program: Program) -> list[Pair]:
    """The pairs in the main subgraph, in running order."""
    main = program.subgraphs[0]
    readers = main.consumers()
    shared = _shared(main)
    found = []
    for operator in main.operators:
        weights = _weights(operator)
        if weights is None or memory_key(weights) in shared or not _is_linear(operator):
            continue
        channels = weights.shape[_OUT[operator.code]]
        reached = _next_layer(operator.outputs[0], channels, main, readers)
        if reached is not None and memory_key(_known_weights(reached[1])) not in shared:
            found.append(Pair(operator, reached[1], reached[0], channels))
    return found


def _is_linear(operator: Operator) -> bool:
    return operator.options.get("fused_activation_function", "NONE") in _LINEAR


def _weights(operator: Operator) -> Array | None:
    """Float weights of a layer with a constant bias or none; None for other operators."""
    if operator.code not in _OUT:
        return None
    tensor = operator.inputs[1]
    bias = operator.inputs[2] if len(operator.inputs) > 2 else None
    if tensor is None or not tensor.is_constant or not is_float(tensor):
        return None
    if bias is not None and not bias.is_constant:
        return None
    data = np.asarray(tensor.array())
    return data if data.ndim == (2 if operator.code == "FULLY_CONNECTED" else 4) else None


def _known_weights(operator: Operator) -> Array:
    weights = _weights(operator)
    assert weights is not None, "only layers get here"
    return weights


def _shared(main: Subgraph) -> set[tuple[Any, ...]]:
    """Weights that several layers use."""
    seen: set[tuple[Any, ...]] = set()
    shared: set[tuple[Any, ...]] = set()
    for operator in main.operators:
        weights = _weights(operator)
        if weights is not None:
            key = memory_key(weights)
            (shared if key in seen else seen).add(key)
    return shared


def _next_layer(
    tensor: Tensor,
    channels: int,
    main: Subgraph,
    readers: Mapping[Tensor, list[tuple[Operator, int]]],
) -> tuple[Tensor, Operator] | None:
    """The one layer a tensor reaches through operators that treat channels alone, and its input."""
    while tensor not in main.outputs and tensor.shape and tensor.shape[-1] == channels:
        # Another reader would see the rescaled activation too, and nothing makes up for it there.
        using = readers.get(tensor, [])
        if len(using) != 1 or using[0][1] != 0:
            return None
        operator = using[0][0]
        weights = _weights(operator)
        if weights is not None:
            fits = weights.shape[_IN[operator.code]] == channels * _multiplier(operator)
            return (tensor, operator) if fits else None
        # Pools may carry a fused activation of their own, which has to scale with its input as well.
        if operator.code not in _CHANNELWISE or not _is_linear(operator) or len(operator.outputs) != 1:
            return None
        if operator.code == "MEAN" and _reduces_channels(operator, len(tensor.shape)):
            return None
        tensor = operator.outputs[0]
    return None


def _multiplier(operator: Operator) -> int:
    """Output channels per input channel of a depthwise layer; 1 for others."""
    if operator.code != "DEPTHWISE_CONV_2D":
        return 1
    # 0 is the schema's default, which a file has that does not state it.
    return int(operator.options.get("depth_multiplier", 1)) or 1


def _reduces_channels(operator: Operator, rank: int) -> bool:
    axes = operator.inputs[1]
    if axes is None or not axes.is_constant:
        # Axes that are computed may be any.
        return True
    return any(int(a) % rank == rank - 1 for a in np.asarray(axes.array()).ravel())


# ------------------------------------------------------------------------------------------------ the factors


def smoothing_factors(pair: Pair, statistics: ChannelStatistics, *, alpha: float = 0.5) -> Array:
    """float64 [C] by which the activation's channels are divided: max|x|^alpha / max|W2|^(1 - alpha).

    A depthwise layer has a weight scale of its own for each channel, so it takes over all of the size.
    """
    alpha = 1.0 if pair.into_depthwise else alpha
    incoming = _input_sizes(pair.second, pair.channels)
    size = statistics.largest
    usable = (size > 0) & (incoming > 0)
    factors = np.ones(pair.channels)
    # With r = max|x| and w = max|W2|, s = r^a / w^(1 - a) leaves activations of r / s = (r w)^(1 - a) and
    # weights of w s = (r w)^a: at a = 1/2 both are equally hard to round.
    factors[usable] = size[usable] ** alpha / incoming[usable] ** (1 - alpha)
    # Only ratios between channels matter to the rounding. With a geometric mean of 1 neither layer takes over
    # the size of the whole tensor.
    if usable.any():
        factors[usable] /= np.exp(np.log(factors[usable]).mean())
    return np.clip(factors, SMALLEST, LARGEST)


def equalizing_factors(pairs: Sequence[Pair]) -> list[Array]:
    """float64 [C] for each pair: both layers' weights reach equally far in every channel.

    One layer may belong to two pairs, hence the sweeps.
    """
    factors = {pair: np.ones(pair.channels) for pair in pairs}
    # A layer is the first of one pair and the second of another at most: its weights are divided along their
    # outputs by the factors of the one, and multiplied along their inputs by those of the other.
    divided = {pair.first: pair for pair in pairs}
    multiplied = {pair.second: pair for pair in pairs}

    def of(pair: Pair | None) -> Array | None:
        return None if pair is None else factors[pair]

    for _ in range(SWEEPS):
        largest_change = 0.0
        for pair in pairs:
            before, after = of(multiplied.get(pair.first)), of(divided.get(pair.second))
            outgoing = _output_sizes(pair.first, before, factors[pair])
            incoming = _input_sizes(pair.second, pair.channels, factors[pair], after)
            usable = (outgoing > 0) & (incoming > 0)
            step = np.ones(pair.channels)
            # Both sides reach equally far if r1 / s = r2 * s. The sizes are those under the factors so far,
            # so this is a step on top of them. A channel of zeros on one side has no such s and keeps its
            # factor.
            step[usable] = np.sqrt(outgoing[usable] / incoming[usable])
            moved = np.clip(factors[pair] * step, SMALLEST, LARGEST)
            largest_change = max(largest_change, float(np.abs(moved / factors[pair] - 1).max(initial=0.0)))
            factors[pair] = moved
        if largest_change < SETTLED:
            break
    return list(factors.values())


def _output_sizes(operator: Operator, factor: Array | None, divisor: Array | None) -> Array:
    """max|W| per output channel of a layer whose channels are rescaled."""
    weights = _scaled(operator, factor, divisor)
    others = tuple(i for i in range(weights.ndim) if i != _OUT[operator.code])
    return np.asarray(weights.max(axis=others), np.float64)


def _input_sizes(
    operator: Operator, channels: int, factor: Array | None = None, divisor: Array | None = None
) -> Array:
    """max|W| per input channel of a layer whose channels are rescaled."""
    weights = _scaled(operator, factor, divisor)
    others = tuple(i for i in range(weights.ndim) if i != _IN[operator.code])
    # A depthwise layer has several columns for each input channel, side by side.
    sizes = np.asarray(weights.max(axis=others), np.float64)
    result: Array = sizes.reshape(channels, -1).max(axis=1)
    return result


def _scaled(operator: Operator, factor: Array | None, divisor: Array | None) -> Array:
    """|W| times what its input channels, over what its output channels are divided by."""
    weights: Array = np.abs(_known_weights(operator))
    if factor is not None:
        weights = weights * _along(operator, _IN, factor)
    return weights if divisor is None else weights / _along(operator, _OUT, divisor)


def _along(operator: Operator, sides: Mapping[str, int], factors: Array) -> Array:
    """Factors in the shape that multiplies the layer's weights."""
    if sides is _IN:
        factors = np.repeat(factors, _multiplier(operator))
    rank = 2 if operator.code == "FULLY_CONNECTED" else 4
    return factors.reshape([-1 if i == sides[operator.code] else 1 for i in range(rank)])


# -------------------------------------------------------------------------------------------- the new program


def rescaled(program: Program, factors: Mapping[Pair, Array]) -> Program:
    """The program with every pair rescaled; activations keep their tensors, the given program its weights."""
    divided = {pair.first: f for pair, f in factors.items()}
    multiplied = {pair.second: f for pair, f in factors.items()}
    main = program.subgraphs[0]
    operators = [_rescaled(o, divided.get(o), multiplied.get(o)) for o in main.operators]
    return replace(program, subgraphs=[replace(main, operators=operators), *program.subgraphs[1:]])


def _rescaled(operator: Operator, divisor: Array | None, factor: Array | None) -> Operator:
    if divisor is None and factor is None:
        return operator
    # Rounded to float32 once, though two factors may come in.
    weights = _known_weights(operator).astype(np.float64)
    inputs = list(operator.inputs)
    if factor is not None:
        weights = weights * _along(operator, _IN, factor)
    if divisor is not None:
        weights = weights / _along(operator, _OUT, divisor)
        bias = inputs[2] if len(inputs) > 2 else None
        if bias is not None:
            # Only the divided layer's bias follows: behind the second layer all is as before.
            inputs[2] = _with_data(bias, np.asarray(bias.array()) / divisor)
    old = inputs[1]
    assert old is not None, "the layer has weights"
    inputs[1] = _with_data(old, weights)
    return replace(operator, inputs=inputs)


def _with_data(constant: Tensor, data: Array) -> Tensor:
    return replace(constant, data=np.ascontiguousarray(data, np.float32))
