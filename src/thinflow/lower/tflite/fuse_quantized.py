"""Rewrites of int8 convolutions: scales per channel in front of depthwise ones, and several columns at once.

TensorFlow requantizes the sums of a convolution before it adds a bias, so that what is too large for that
range saturates: each channel at another real value, by its bias. A convolution with the bias in it would
saturate all channels at the end of one range. So the addition remained an operator, if that shows.

A depthwise convolution multiplies each channel by weights of its own, which can have any scale. So the values
in front of it may mean something else in each channel: here the highest value of channel c is where that one
saturates, and the zero point stays. Scales become finer, or remain what they are.

    dw(clamp(conv(x) + b))  with one scale s   ->   dw'(conv'(x))  with the scales s_c
    scales of the filters:   conv' = conv s / s_c,   dw' = dw s_c / s
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.ir.types import INT8, INT32
from thinflow.lower.quantized.geometry import ColumnBlocks, column_blocks
from thinflow.lower.tflite.wiring import Match, Rewrite, Wiring, activation, plain
from thinflow.ops._shapes import same_padding
from thinflow.program import fusion
from thinflow.program.fusion import const, need, only_if, op
from thinflow.tflite.model import Operator, Quantization, Subgraph, Tensor
from thinflow.typing import Array

_CONVOLUTIONS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3}
"""Code -> the axis of its filter that counts results."""
_SLACK = 0.5
"""Steps of the scale by which the end of a channel may lie elsewhere: rounding takes them away."""
_LARGEST = 128.0
"""Quantized values that a sum of 1 may stand for; XNNPACK takes multipliers of less than 256."""


def _is_quantized(operator: Operator) -> bool:
    """True for an integer convolution with constants."""
    x, filters, bias = (*operator.inputs, None)[:3]
    y = operator.outputs[0]
    known = filters is not None and bias is not None and filters.is_constant and bias.is_constant
    quantized = all(t is not None and t.dtype is INT8 and t.quantization is not None for t in (x, filters, y))
    return known and quantized


def _is_simple(operator: Operator) -> bool:
    return operator.options.get("depth_multiplier", 1) == 1 and _is_quantized(operator)


_SUM = op(
    "ADD",
    op("|".join(_CONVOLUTIONS), name="front", when=_is_quantized, where=plain),
    const("addend"),
    name="add",
    any_order=True,
)


class MergeAddend(Rewrite):
    """dw(clamp(conv(x) + b)) -> dw'(conv'(x)), with int8 values between that have a scale per channel.

    A border between both is the zero point, which is the same real 0 whatever the scales.
    """

    patterns = (
        op("DEPTHWISE_CONV_2D", op("PAD", _SUM), when=_is_simple),
        op("DEPTHWISE_CONV_2D", _SUM, when=_is_simple),
    )

    def replace(self, m: Match) -> None:
        front, add, reader = m.operator("front"), m.operator("add"), m.head
        addend = _real_addend(m.tensor("addend"), len(_numbers(front)))
        # What the front kernel's filters get coarser by, the reader's get finer by: products stay.
        ratio = _steps(front, add, addend) / _grid(add.outputs[0])[0]
        # In front the unit of the bias grows with that of the filters, and so does the value of a result: the
        # number stays. In the reader the unit shrinks and results stay: the number grows.
        scaled = (
            # The convolution in front writes what the addition wrote, not its sums.
            (_Scaled(front, 1 / ratio, _numbers(front) + addend / _units(front)), add.outputs[0]),
            (_Scaled(reader, ratio, _numbers(reader) / ratio), reader.outputs[0]),
        )
        fits = all(convolution.is_possible(result) for convolution, result in scaled)
        need(fits, "the kernels do not have the numbers that scales per channel need")
        for convolution, _ in scaled:
            convolution.apply(m.wiring)
        front.options["fused_activation_function"] = activation(add)
        m.wiring.absorb(add, front)


_RULES = fusion.by_code(MergeAddend())


def merge_addends(subgraph: Subgraph) -> None:
    """Make additions of constants to int8 tensors part of the convolution in front. O(operators)."""
    fusion.fuse(subgraph, _RULES, rounds=1)


def _real_addend(constant: Tensor, count: int) -> Array:
    """The real values of a quantized constant, one per channel, float64 [count].

    Raises:
        Refuse: it differs by pixel, or is not quantized.
    """
    values, params = constant.array(), constant.quantization
    only_if(params is not None)
    assert params is not None
    is_row = values.size in (1, count) and values.size == (values.shape or (1,))[-1]
    need(is_row, "the addend differs along more than the channels")
    centred = values.astype(np.float64).reshape(-1) - float(params.zero_point[0])
    return np.broadcast_to(centred * float(params.scale[0]), (count,))


def _grid(x: Tensor | None) -> tuple[float, int]:
    """Scale and zero point."""
    assert x is not None
    assert x.quantization is not None
    return float(x.quantization.scale[0]), int(x.quantization.zero_point[0])


def _steps(front: Operator, add: Operator, addend: Array) -> Array:
    """The scale of each channel, float64 [m].

    Raises:
        Refuse: channels cannot end where one tensor of int8 does.
    """
    sums, zero_of_sums = _grid(front.outputs[0])
    step, zero = _grid(add.outputs[0])
    clamp = activation(add)
    need(
        clamp in ("RELU", "RELU6") or (clamp == "NONE" and zero == -128),
        "the sum is not clamped at 0, so that its low end would differ by channel, too",
    )
    # Behind a clamp at 6 values end there, not at 127.
    highest = min(127, zero + round(6 / step)) if clamp == "RELU6" else 127
    # Where the sums of each channel saturate, with the bias that follows.
    least, most = ((value - zero_of_sums) * sums + addend for value in (-128, 127))
    # No scale can say a low end above 0.
    need(
        highest > zero and least.max() <= _SLACK * step,
        "sums that saturate at their low end show in the result",
    )
    # The lower limit is for channels that end at 0 or below it, whose scale would not be positive; the upper
    # one keeps those as they are that the result's own end cuts off first.
    return np.asarray(np.clip(most / (highest - zero), _SLACK * step / (highest - zero), step))


def _units(operator: Operator) -> Array:
    """The real values that sums of 1 stand for, float64 [m] or [1]."""
    filters = operator.inputs[1]
    assert filters is not None
    assert filters.quantization is not None
    return _grid(operator.inputs[0])[0] * filters.quantization.scale.astype(np.float64)


def _numbers(operator: Operator) -> Array:
    """The bias as it is stored, float64 [m]."""
    bias = operator.inputs[2]
    assert bias is not None
    return np.asarray(bias.array()).astype(np.float64)


@dataclass(frozen=True)
class _Scaled:
    """A convolution whose filters stand for other real values.

    Attributes:
        operator: as it is.
        factors: of its scales [m].
        bias: in sums, not yet rounded [m].
    """

    operator: Operator
    factors: Array
    bias: Array

    def is_possible(self, result: Tensor) -> bool:
        # What the kernel multiplies its sums by: scale(input) * scale(filter) / scale(result).
        multipliers = _units(self.operator) * self.factors / _grid(result)[0]
        return bool(multipliers.max() < _LARGEST and np.abs(self.bias).max() < 2**31 - 1)

    def apply(self, wiring: Wiring) -> None:
        _, filters, bias = self.operator.inputs
        assert filters is not None
        assert filters.quantization is not None
        assert bias is not None
        scales = (filters.quantization.scale * self.factors).astype(np.float32)
        zeros = np.zeros(len(scales), np.int64)
        params = Quantization(scales, zeros, _CONVOLUTIONS[self.operator.code] if len(scales) > 1 else 0)
        weights = Tensor(f"{filters.name}/steps", filters.shape, filters.dtype, filters.data, params)
        wiring.set_input(self.operator, 1, weights)
        units = Quantization(_units(self.operator).astype(np.float32), zeros)
        values = np.rint(self.bias).astype(np.int32)
        wiring.set_input(self.operator, 2, Tensor(f"{bias.name}/steps", values.shape, INT32, values, units))


# ---- Convolutions of int8 images with few channels: several columns at once, as `quantized.geometry` says.
#
# Blocks as wide as the stride (n = 1) hold few zeros. XNNPACK's convolutions for x86, for Arm's i8mm and for
# most 64-bit Arm processors without dot products multiply 8 channels in one step, those for Arm's dot
# products 4, those for Cortex-A35, A53 and 32 bits one. The first gain, the second have about as much to do
# as before, the last at most a fifth more, in this one layer. Wider blocks pay only where a unit multiplies
# matrices: AMX.


_FEW_RESULTS = 1 << 14
"""Results of a picture for which it is not worth the reshapes."""
_AT_MOST = {8: 0.8, 4: 1.0, 1: 1.2}
"""Channels that a kernel multiplies in one step -> how many times the steps may be left to it."""
_ADDRESS = 1
"""Steps that finding the pixel takes."""
_MOST_TIMES = 8
_TILE = 64
"""Channels that a matrix unit multiplies at once, and results that XNNPACK makes of one load of it."""
_ROUNDING = 2
"""Steps of the unit that requantizing its sums takes."""
_WORTH = 0.7
"""Times the unit's steps that may be left."""


def merge_columns(subgraph: Subgraph, *, matrix_unit: bool = False) -> dict[Tensor, Tensor]:
    """Let int8 convolutions of narrow images read blocks of columns where that is faster. O(operators).

    Args:
        matrix_unit: for a processor that has one; others would lose by it.

    Returns:
        the tensors that are new -> those with the same numbers that they were made from.
    """
    found: list[Operator] = []
    made: dict[Tensor, Tensor] = {}
    for operator in subgraph.operators:
        blocks = _best(operator, matrix_unit) if operator.code == "CONV_2D" and _is_plain(operator) else None
        found += [operator] if blocks is None else _of_blocks(operator, blocks, made)
    subgraph.operators = found
    return made


def _is_plain(operator: Operator) -> bool:
    """True for an integer convolution of an image of known size, with constants and many results."""
    if len(operator.inputs) != 3:
        return False
    x, filters, bias = operator.inputs
    y = operator.outputs[0]
    if any(
        t is None or t.dtype is not INT8 or t.shape is None or None in t.shape[1:] for t in (x, filters, y)
    ):
        return False
    if filters is None or bias is None or not (filters.is_constant and bias.is_constant):
        return False
    options = operator.options
    if options.get("stride_w", 0) < 1:
        return False
    is_dilated = options.get("dilation_h_factor", 1) != 1 or options.get("dilation_w_factor", 1) != 1
    has_groups = _sizes(filters)[2] != _sizes(x)[2]
    return not is_dilated and not has_groups and math.prod(_sizes(y)) >= _FEW_RESULTS


def _sizes(x: Tensor | None) -> tuple[int, int, int]:
    """Sizes [h,w,c] of images or filters [n,h,w,c], which are known."""
    assert x is not None
    assert x.shape is not None
    height, width, channels = (n or 0 for n in x.shape[1:])
    return height, width, channels


def _best(operator: Operator, matrix_unit: bool) -> ColumnBlocks | None:
    """The blocks that take fewest steps; None if the convolution is better left alone."""
    best = _for_matrix_unit(operator) if matrix_unit else None
    # With stride 1 a block of one result is a single column: nothing is joined.
    if best is not None or operator.options["stride_w"] == 1:
        return best
    blocks = _blocks(operator, 1)
    return blocks if blocks is not None and _is_light(operator, blocks) else None


def _is_light(operator: Operator, blocks: ColumnBlocks) -> bool:
    """True if no kernel that multiplies several channels in one step has more to do than before."""
    _, kw, depth = _sizes(operator.inputs[1])
    for channels, times in _AT_MOST.items():
        before = kw * (_ADDRESS + math.ceil(depth / channels))
        if blocks.taps * (_ADDRESS + math.ceil(blocks.columns * depth / channels)) > times * before:
            return False
    return True


def _for_matrix_unit(operator: Operator) -> ColumnBlocks | None:
    """The blocks for which a matrix unit takes fewest steps, if that is worth it."""
    kh, kw, depth = _sizes(operator.inputs[1])
    count = _sizes(operator.outputs[0])[2]
    if depth >= _TILE:
        return None
    steps: dict[ColumnBlocks, float] = {}
    for times in range(1, _MOST_TIMES + 1):
        blocks = _blocks(operator, times)
        if blocks is not None and blocks.columns > 1:
            # For one result: `times` of them come out of each window.
            steps[blocks] = _steps_of_kernel(kh * blocks.taps, blocks.columns * depth, times * count) / times
    best = min(steps, key=lambda blocks: steps[blocks], default=None)
    return (
        best if best is not None and steps[best] <= _WORTH * _steps_of_kernel(kh * kw, depth, count) else None
    )


def _steps_of_kernel(taps: int, depth: int, count: int) -> int:
    """Steps of a matrix unit for a row of results."""
    return (taps * math.ceil(depth / _TILE) + _ROUNDING) * math.ceil(count / _TILE)


def _blocks(operator: Operator, times: int) -> ColumnBlocks | None:
    """Blocks for so many results at once; None where they do not come out even."""
    kw, width = _sizes(operator.inputs[1])[1], _sizes(operator.inputs[0])[1]
    stride, results = operator.options["stride_w"], _sizes(operator.outputs[0])[1]
    # Rows of the image and of the result have to be whole blocks: neither may be padded or cut.
    if width % (stride * times) or results % times:
        return None
    is_same = operator.options["padding"] == "SAME"
    before = same_padding(width, kw, stride)[0] if is_same else 0
    blocks = column_blocks(kw, stride, before, times, symmetric=True)
    # SAME pads as many blocks behind as before, or one more; VALID has none of them.
    even = (blocks.taps - 1) // 2 if is_same else width // blocks.columns - blocks.taps + 1
    return blocks if even == (blocks.ahead if is_same else results // times) else None


def _of_blocks(operator: Operator, blocks: ColumnBlocks, made: dict[Tensor, Tensor]) -> list[Operator]:
    """The convolution of blocks, and what reshapes its input and result; `made` learns of their tensors."""
    x, filters, bias = (t for t in operator.inputs if t is not None)
    y = operator.outputs[0]
    (height, width, depth), (rows, results, count) = _sizes(x), _sizes(y)
    wide = _like(x, (height, width // blocks.columns, blocks.columns * depth))
    narrow = y if blocks.times == 1 else _like(y, (rows, results // blocks.times, blocks.times * count))
    weights = _repeated(filters, _filters(np.asarray(filters.array()), blocks), blocks.times)
    # Every result has the bias of its channel, so it is repeated with the results of a block.
    addend = bias
    if blocks.times > 1:
        addend = _repeated(bias, np.tile(np.asarray(bias.array()), blocks.times), blocks.times)
    made.update(
        (t, of) for t, of in ((wide, x), (weights, filters), (addend, bias), (narrow, y)) if t is not of
    )
    options = operator.options | {"stride_w": 1}
    conv = Operator("CONV_2D", [wide, weights, addend], [narrow], options, origin=operator.origin)
    return [_reshape(operator, x, wide), conv, *([] if narrow is y else [_reshape(operator, narrow, y)])]


def _filters(filters: Array, blocks: ColumnBlocks) -> Array:
    """Filters [m,kh,kw,c] as [times m,kh,taps,columns c]."""
    return np.ascontiguousarray(blocks.filters(filters.transpose(1, 2, 3, 0)).transpose(3, 0, 1, 2))


def _repeated(x: Tensor, array: Array, times: int) -> Tensor:
    """A constant for several results, whose channels have the scales of one."""
    y = Tensor(f"{x.name}/blocks", array.shape, x.dtype, array, x.quantization)
    own = x.quantization
    if own is not None and own.is_per_channel:
        y.quantization = Quantization(np.tile(own.scale, times), np.tile(own.zero_point, times), own.axis)
    return y


def _like(x: Tensor, sizes: Sequence[int]) -> Tensor:
    return Tensor(f"{x.name}/blocks", ((x.shape or ())[0], *sizes), x.dtype, quantization=x.quantization)


def _reshape(operator: Operator, x: Tensor, y: Tensor) -> Operator:
    # Any number of images: who runs the model may ask for another.
    sizes = np.array([-1, *(y.shape or ())[1:]], np.int32)
    shape = Tensor(f"{y.name}/shape", sizes.shape, INT32, sizes)
    return Operator("RESHAPE", [x, shape], [y], {}, origin=operator.origin)
