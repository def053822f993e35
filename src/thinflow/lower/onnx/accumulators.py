"""Layers of quantized values with constant weights: one kernel that adds a bias, clamps and requantizes.

ONNX Runtime's quickest kernels for shallow sums, those of depthwise layers above all, want weights with a
zero point of 0. Where weights less their own zero point do not fit into int8, channels of the input are given
twice, and their weights divided among both; or else channels of the result get scales of their own.

Where the kernel's own saturation is not that of the ops that were joined, results are limited per channel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from thinflow.ir.types import FLOAT, INT8, INT32, UINT8
from thinflow.lower.onnx.builder import Builder, shape_of
from thinflow.lower.onnx.integers import Conv, as_product, is_product
from thinflow.lower.onnx.quantized_context import (
    Accumulators,
    Join,
    QuantizedTensor,
    TargetTensors,
    constant_reals,
    dequantized,
    scaled,
)
from thinflow.lower.quantized.accumulators import MAX_BLUR, LayerPlan, RequantTarget
from thinflow.lower.quantized.geometry import column_blocks
from thinflow.lower.quantized.int8_weights import INT8_MOST, Int8Weights, in_channels, unscaled
from thinflow.onnx.program import Operator, Tensor
from thinflow.typing import Array

if TYPE_CHECKING:
    from thinflow.lower.onnx.integers import Conv

_MOST = 2**30
"""A bias beyond might overflow the sum that it is added to."""
_SHALLOW = 192
"""Products per sum up to which leaving out a pass over 32-bit sums is worth more than the fastest product."""
_DEEP = 96
"""Products per sum from which on those of eight bits are worth copying what windows see."""
# ONNX's weights may be all of int8, where LiteRT's specification stops at -127.
_INT8_LEAST = -128
_FOUR = 4
"""Channels that kernels read at once."""
_FEWER = 16
"""Times as many channels as fours of them that are given twice, so that this costs less than it saves: a
quarter more products at most."""


@dataclass(frozen=True, eq=False)
class Layer:
    """A convolution of quantized values with constant weights.

    Attributes:
        conv: the geometry, and the input.
        x: the input's quantization parameters, which are constants.
        plan: what is added up; weights are [kh kw,c,m], or [kh kw,1,c m] per channel.
        shape: of the filter, [kh,kw,c,m].
        zero_point: of weights that were stored; None if they were real.
    """

    conv: Conv
    x: QuantizedTensor
    plan: LayerPlan
    shape: tuple[int, ...]
    zero_point: int | None = None

    def narrow(self, b: Builder, to: TargetTensors) -> Tensor | None:
        """The sums as uint8 values; None if that may be over a step off, or is not worth it."""
        wanted = to.fixed
        limits, weights = self.plan.early_saturation(wanted), self._int8_weights(wanted)
        # Each limit is one more pass over the result: one is taken, two are not.
        if weights is None or len(limits) > 1 or (limits and not b.limits_bytes):
            return None
        bias = self.plan.whole_bias(weights, wanted)
        if np.abs(bias).max(initial=0) >= _MOST:
            return None
        y = self._emit(b, weights, bias, to)
        # Saturation in a joined op, channel by channel: the kernel itself knows one end for all.
        for end, reals in limits.items():
            y = self._limited(b, y, "Max" if end == "low" else "Min", wanted.values(reals))
        return y

    def joining(self, b: Builder, to: TargetTensors) -> Join:
        """The function that makes a bias behind a requantization part of the layer."""
        return replace(self, plan=self.plan.requantized(to.fixed))._joined_by(b)

    def _joined_by(self, b: Builder) -> Join:
        def joined(bias: Array, to: TargetTensors, blur: float) -> Tensor | None:
            # A rounding that shows is left out where that saves much of the layer: its pass over the sums.
            is_blurred = self.plan.blur + blur > MAX_BLUR * to.fixed.scale
            fits = bias.size in (1, self.plan.weights.shape[-1])
            if not fits or (is_blurred and len(self.plan.columns) > _SHALLOW):
                return None
            return self.plus(bias).narrow(b, to)

        return joined

    def plus(self, bias: Array) -> Layer:
        """The sums and real values, [k] or []."""
        return replace(self, plan=self.plan.plus(bias))

    def _limited(self, b: Builder, y: Tensor, code: str, ends: Array) -> Tensor:
        """y or its ends, whichever is more (less). They are given for a row: pixel by pixel is slower."""
        rows = np.broadcast_to(ends, tuple(n or 0 for n in self.conv.shape[2:]))[None, None]
        result = b.own("limited", y.shape, UINT8)
        inputs: list[Tensor | None] = [y, b.const(np.ascontiguousarray(rows), "ends", UINT8)]
        b.operators.append(Operator(code, inputs, [result], {}, origin=b.node.name))
        return result

    def _int8_weights(self, to: RequantTarget) -> Int8Weights | None:
        plan = self.plan
        # The kernel corrects for a zero point of the weights by sums over the input's rows: beside deep sums
        # that is little work.
        if self.zero_point is not None and len(plan.columns) > _SHALLOW:
            return self._as_stored(self.zero_point)
        found = None if self.zero_point is None else self._divided()
        if found is None:
            step = to.scale / plan.scale
            # TensorFlow's own sums were rounded to joined scales: what is finer than those cannot show.
            coarsest = max(step, 2 * plan.blur / plan.scale)
            found = in_channels(plan.columns, plan.input_zero, step, coarsest, all_channels=plan.is_real)
        return self._as_stored(self.zero_point) if found is None and self.zero_point is not None else found

    def _as_stored(self, zero: int) -> Int8Weights:
        return unscaled(self.plan.weights + zero, zero_point=zero)

    def _divided(self) -> Int8Weights | None:
        """Weights around 0 that fit, of a few channels more; None if they are too many, or x has odd ones."""
        weights = self.plan.weights
        depth = weights.shape[1]
        is_wide = (weights < _INT8_LEAST) | (weights > INT8_MOST)
        # Whole fours of channels are given twice: kernels read four at once, and a rest would be copied one
        # by one.
        starts = sorted({int(c) // _FOUR * _FOUR for c in np.nonzero(is_wide)[1]})
        if "group" in self.conv.options or depth % _FOUR or len(starts) * _FEWER > depth:
            return None
        # w = clip(w) + rest, and x * w = x * clip(w) + x * rest: exact, as sums of int32 are.
        first = np.clip(weights, _INT8_LEAST, INT8_MOST)
        rest = [(weights - first)[:, c : c + _FOUR] for c in starts]
        return unscaled(np.concatenate([first, *rest], axis=1), copies=tuple((c, _FOUR) for c in starts))

    def _emit(self, b: Builder, weights: Int8Weights, bias: Array, to: TargetTensors) -> Tensor:
        conv, times = replace(self.conv, x=self._with_copies(b, weights.copies)), 1
        values = weights.values.reshape(*self.shape[:2], -1, self.shape[3])
        # Filters of blocks are filled up with zeros, which stand for no weight only if the zero point is 0.
        found = None if weights.zero_point else merged(b, conv, values)
        if found is not None:
            conv, values, times = found
        scales = (weights.scales * self.plan.unit).astype(np.float32)
        # A block of columns has the channels of one neighbour after those of the other.
        scales = np.tile(scales, times) if scales.size > 1 else scales.reshape(())
        rest = (
            b.const(scales, "scale"),
            b.const(np.full(scales.shape, weights.zero_point, np.int8), "zero", INT8),
            *(to.scale, to.zero_point),
            *([b.const(np.tile(bias, times).astype(np.int32), "bias", INT32)] if bias.any() else []),
        )
        code = "com.microsoft.QLinearConv" if b.extended else "QLinearConv"
        w = b.const(values, "weights", INT8)
        y = conv.emit(b, code, w, *rest, x_params=(self.x.scale, self.x.zero_point), element=UINT8)
        return y if found is None else b.reshaped(y, self.conv.shape)

    def _with_copies(self, b: Builder, copies: tuple[tuple[int, int], ...]) -> Tensor:
        """The input [n,h,w,c], some channels once more."""
        x = self.conv.x
        if not copies:
            return x
        n, height, width, depth = shape_of(x)
        parts = [
            b.sliced(x, [start], [start + count], [3], shape=(n, height, width, count))
            for start, count in copies
        ]
        shape = (n, height, width, (depth or 0) + sum(count for _, count in copies))
        return b.step("Concat", x, *parts, shape=shape, axis=3)


def layer_of(conv: Conv, x: QuantizedTensor, w: QuantizedTensor) -> Layer | None:
    """A convolution of quantized values; None if parameters or sizes are not known."""
    constant = (x.scale, x.zero_point, w.values, w.scale, w.zero_point)
    # Scales known only at run time leave nothing to plan with.
    if not all(t.is_constant for t in constant) or w.values.dtype is not INT8 or None in conv.shape[1:]:
        return None
    zero = int(w.zero_point.array())
    weights = w.values.array().astype(np.float64) - zero
    return planned(conv, x, weights, float(w.scale.array()), zero)


def planned(
    conv: Conv, x: QuantizedTensor, weights: Array, unit: float = 1.0, zero: int | None = None
) -> Layer:
    """A convolution with weights [kh,kw,c,m]: real ones, or stored ones less their zero point."""
    taps, depth = math.prod(weights.shape[:2]), weights.shape[2]
    plan = LayerPlan(
        weights=weights.reshape(taps, 1 if "group" in conv.options else depth, -1),
        input_scale=float(x.scale.array()),
        input_zero=int(x.zero_point.array()),
        unit=unit,
        is_real=zero is None,
    )
    return Layer(conv, x, plan, weights.shape, zero)


def convolution(
    b: Builder,
    conv: Conv,
    x: QuantizedTensor,
    w: QuantizedTensor,
    sums: Callable[[], Tensor],
    low: Tensor,
    high: Tensor,
) -> Accumulators:
    """The forms of a convolution whose 32-bit sums are given."""
    layer = layer_of(conv, x, w)

    def narrow(to: TargetTensors) -> Tensor:
        found = None if layer is None or not to.scale.is_constant else layer.narrow(b, to)
        if found is not None:
            return found
        rest = (w.scale, w.zero_point, to.scale, to.zero_point, *_bias(b, x, w, to, conv.shape[3]))
        code = "com.microsoft.QLinearConv" if b.extended else "QLinearConv"
        return conv.emit(b, code, w.values, *rest, x_params=(x.scale, x.zero_point), element=UINT8)

    def reals() -> Tensor:
        if is_product(conv, w.values):
            return scaled(b, sums(), x.scale, w.scale)
        found = _of_blocks(b, conv, x, w)
        return _of_reals(b, conv, x, w) if found is None else found

    return Accumulators(low, high, narrow, reals, join=None if layer is None else partial(layer.joining, b))


def _of_blocks(b: Builder, conv: Conv, x: QuantizedTensor, w: QuantizedTensor) -> Tensor | None:
    """A convolution of few channels as a product of blocks of columns; None where that is no quicker."""
    if not (w.values.is_constant and w.zero_point.is_constant) or "group" in conv.options:
        return None
    zero = int(w.zero_point.array())
    # An int8 value less an int8 zero point needs nine bits.
    values = w.values.array().astype(np.int16) - zero
    found = merged(b, conv, values) if math.prod(values.shape[:3]) >= _DEEP else None
    if found is None:
        return None
    blocks, filters, _ = found
    # Back around the zero point: the zeros that fill the blocks become it, and the product takes it off
    # again.
    weights = b.const((filters + zero).astype(np.int8), "blocks", INT8)
    product = as_product(b, blocks, weights, (x.zero_point, w.zero_point))
    return b.reshaped(scaled(b, product, x.scale, w.scale), conv.shape)


def _of_reals(b: Builder, conv: Conv, x: QuantizedTensor, w: QuantizedTensor) -> Tensor:
    """The convolution of real values, by a kernel for floats: quicker where sums are short."""
    image = dequantized(b, replace(x, values=conv.x))
    weights = constant_reals(w)
    filters = dequantized(b, w) if weights is None else b.const(weights.astype(np.float32), "filters")
    return replace(conv, x=image).emit(b, "Conv", filters, element=FLOAT)


def _bias(
    b: Builder, x: QuantizedTensor, w: QuantizedTensor, to: TargetTensors, count: int | None
) -> tuple[Tensor, ...]:
    """The addend of the sums, int32 [k]; nothing if the scale of a sum is not known."""
    if x.known_scale is None or w.known_scale is None or not count:
        return ()
    # One step of a 32-bit sum is the product of both scales.
    bias = round(to.shift / (x.known_scale * w.known_scale))
    return (b.const(np.full(count, bias, np.int32), "bias", INT32),) if 0 < abs(bias) < _MOST else ()


def matrix_product(
    b: Builder, x: QuantizedTensor, w: QuantizedTensor, low: Tensor, high: Tensor
) -> tuple[Tensor, Accumulators]:
    """The 32-bit sums of a matrix product, int32 [m,n], and their other forms."""
    shape = b.result_spec().shape
    q = b.step("MatMulInteger", x.values, w.values, x.zero_point, w.zero_point, shape=shape, element=INT32)

    def narrow(to: TargetTensors) -> Tensor:
        inputs = (x.values, x.scale, x.zero_point, w.values, w.scale, w.zero_point, to.scale, to.zero_point)
        return b.step("QLinearMatMul", *inputs, shape=shape, element=UINT8)

    return q, Accumulators(low, high, narrow, lambda: scaled(b, q, x.scale, w.scale))


# ---- Convolutions of images with few channels: several columns at once.
#
# ONNX Runtime's convolution of 8-bit values reads channels by fours; of images with 3 it first copies every
# window, pixel by pixel. Blocks of columns (see `quantized.geometry`) are several times as fast.


_FEW = 8
"""Channels from which on windows are copied fast enough."""
_MANY = 64
"""Results per window that are enough; more would be more zeros."""
_DEEPEST = 512
"""Products per sum beyond which the zeros cost more than they save."""


def merged(b: Builder, conv: Conv, weights: Array) -> tuple[Conv, Array, int] | None:
    """The convolution of blocks, its filter, and how many neighbours it computes at once; None to leave it.

    Its result is that of `conv` in another shape.

    Args:
        weights: [kh,kw,c,m], of which 0 stands for 0.
    """
    kh, kw, depth, count = weights.shape
    options = conv.options
    is_wanted = b.extended and depth < _FEW and depth % _FOUR and "group" not in options
    if not is_wanted or "dilations" in options or None in (*shape_of(conv.x)[1:], *conv.shape[1:]):
        return None
    _, height, width, _ = (n or 0 for n in shape_of(conv.x))
    stride = options.get("strides", (1, 1))[1]
    top, left, bottom, _ = options.get("pads", (0, 0, 0, 0))
    # The fewest columns that are both whole strides and whole fours of channels.
    times = math.lcm(stride, _FOUR // math.gcd(depth, _FOUR)) // stride
    blocks = column_blocks(kw, stride, left, times)
    size = blocks.columns
    # Blocks of columns must tile the image, and results be as many as strides: borders of any other kind
    # shift them.
    if width % size or conv.shape[2] != width // stride or (count * times) % _FOUR or count > _MANY:
        return None
    behind = blocks.taps - blocks.ahead - 1
    # The window must reach over blocks on the right without a negative border.
    if behind < 0 or kh * blocks.taps * size * depth > _DEEPEST:
        return None
    x = b.reshaped(conv.x, (conv.shape[0], height, width // size, size * depth))
    changed = {
        "kernel_shape": (kh, blocks.taps),
        "strides": (options.get("strides", (1, 1))[0], 1),
        "pads": (top, blocks.ahead, bottom, behind),
    }
    shape = (*conv.shape[:2], width // size, times * count)
    changed_conv = replace(conv, x=x, options=options | changed, shape=shape)
    return changed_conv, blocks.filters(weights), times
