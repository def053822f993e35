"""Products and sums of quantized values. They become operators where Requantize rounds them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from thinflow.analysis.quant_params import QuantParams
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import FLOAT, INT8
from thinflow.lower.quantized.accumulators import LayerPlan, RequantTarget
from thinflow.lower.quantized.addends import Addend, addends, is_single, middle_of
from thinflow.lower.quantized.geometry import centred_windows
from thinflow.lower.rules import lower
from thinflow.lower.tflite.accumulators import LayerAccumulators, PairAccumulators, QuantizedValue
from thinflow.lower.tflite.builder import Builder, Float, require, shape_of
from thinflow.lower.tflite.dynamic_ranges import DynamicallyQuantized, FloatAccumulators, sum_of
from thinflow.lower.tflite.layers import geometry
from thinflow.lower.tflite.quantized_context import as_int8, centred, params_of, quantized_step
from thinflow.lower.tflite.spatial import grown
from thinflow.ops._quantized import decode
from thinflow.tflite.model import Quantization, Tensor
from thinflow.typing import Array

Three = tuple[Any, ...]
_ONES = (1, 1, 1, 1)


def with_range(b: Builder, values: QuantizedValue) -> Three:
    """A node's outputs: quantized values, and the ends of their range as constants where they are known."""
    params = b.quantized.params(b.node.output())
    # Ends that are measured while the model runs are no tensors of their own: they go with the values.
    if params is None:
        return (values,)
    return values, b.const(np.float32(params.low), "min"), b.const(np.float32(params.high), "max")


def dequantized(b: Builder, x: QuantizedValue, value: Value) -> Tensor:
    """Real values of quantized ones, as a float tensor."""
    if isinstance(x, DynamicallyQuantized):
        return x.decoded(b)
    if isinstance(x, FloatAccumulators):
        return x.tensor
    x = stored_tensor(b, x, value)
    params = params_of(b, value, b.node)
    if x.is_constant:
        values = np.asarray(x.array())
        # Constants are decoded here by TensorFlow's arithmetic; DEQUANTIZE may differ from it in the last
        # bit.
        return b.const(decode(values, np.float32(params.low), np.float32(params.high)), "reals", FLOAT)
    y = b.step("DEQUANTIZE", as_int8(b, x, params), shape=x.shape, element=FLOAT)
    beside = decoded_zero(params)
    return b.step("ADD", y, b.const(np.float32(beside), "zero"), shape=x.shape) if beside else y


def decoded_zero(params: QuantParams) -> float:
    """The real value of the zero point: a step beside 0 where 0 lies half-way between two quantized values.

    TensorFlow's kernels round the lower end of the range in double where they multiply, and in float32 where
    they decode.
    """
    zero = np.array([params.zero_point], params.dtype.numpy())
    real = float(decode(zero, np.float32(params.low), np.float32(params.high))[0])
    return real if abs(real) > 0.5 * params.scale else 0.0


def stored_tensor(b: Builder, x: QuantizedValue, value: Value) -> Tensor:
    """Quantized values that are stored.

    Raises:
        UnsupportedOp: they are not.
    """
    return x if isinstance(x, Tensor) else x.stored(b, value)


def _weights(b: Builder, w: QuantizedValue, value: Value) -> tuple[Tensor, QuantParams]:
    if not isinstance(w, Tensor) or not w.is_constant:
        raise UnsupportedOp("its weights are computed while the model runs; LiteRT's kernel wants them fixed")
    return w, params_of(b, value, b.node)


# --- convolutions and matrices ------------------------------------------------------------------------------


@lower("QuantizedConv2D", to="tflite")
def quantized_conv_2d(
    b: Builder,
    node: Node,
    x: QuantizedValue,
    w: QuantizedValue,
    *ranges: Tensor,
    strides: Sequence[int],
    padding: str,
    dilations: Sequence[int] = _ONES,
) -> Three:
    """A CONV_2D with int8 weights; a float one where the range of x is measured while the model runs."""
    options = geometry(strides, dilations, "NHWC")
    values, w_params = _weights(b, w, node.inputs[1])
    require(
        w_params.dtype.name == "quint8" and tuple(dilations) == _ONES,
        "LiteRT's kernel has zero points, which signed filters and dilations of this op do not know",
    )
    weights = centred(values, w_params)
    kh, kw, depth, count = weights.shape
    if isinstance(x, DynamicallyQuantized):
        real, padding = _windowed(b, x.centred(b), (kh, kw), strides, padding)
        filters = _real_weights(b, values, w_params, (3, 0, 1, 2))
        zeros = b.const(np.zeros(count, np.float32), "bias")
        shape = b.result_spec().shape
        y = b.step("CONV_2D", real, filters, zeros, shape=shape, padding=padding, **options)
        return with_range(b, FloatAccumulators(y))
    x_params = params_of(b, node.inputs[0], node)
    finish = partial(_conv, (kh, kw), strides, padding, options)
    plan = _plan(x_params, w_params, weights.reshape(kh * kw, depth, count))
    source = as_int8(b, stored_tensor(b, x, node.inputs[0]), x_params)
    shape = b.result_spec().shape
    return with_range(b, LayerAccumulators(tensor=source, shape=shape, plan=plan, finish=finish))


def _plan(x_params: QuantParams, w_params: QuantParams, weights: Array) -> LayerPlan:
    """Of a layer with weights [taps,c,m] less their zero point."""
    zero = RequantTarget.of(x_params).zero_point
    return LayerPlan(weights=weights, input_scale=x_params.scale, input_zero=zero, unit=w_params.scale)


def _conv(
    window: tuple[int, int],
    strides: Sequence[int],
    padding: str,
    options: dict[str, Any],
    b: Builder,
    x: Tensor,
    weights: Array,
    scales: Array,
    bias: Tensor,
    y: Tensor,
    activation: str,
) -> None:
    """weights int8 [kh*kw,c,m]."""
    x, padding = _windowed(b, x, window, strides, padding)
    filters = weights.reshape(*window, *weights.shape[1:]).transpose(3, 0, 1, 2)
    inputs = [x, _filters(b, filters, scales), bias]
    b.append("CONV_2D", inputs, [y], options | {"padding": padding, "fused_activation_function": activation})


def _real_weights(b: Builder, values: Tensor, params: QuantParams, order: Sequence[int]) -> Tensor:
    """Weights as float, stored in eight bits: LiteRT makes float of them once."""
    stored = as_int8(b, b.const(np.asarray(values.array()).transpose(order), "codes", values.dtype), params)
    return b.step("DEQUANTIZE", stored, shape=stored.shape, element=FLOAT)


def _filters(b: Builder, weights: Array, scales: Array) -> Tensor:
    """int8 weights [m,...] with a scale for all, or for each m."""
    tensor = b.const(np.ascontiguousarray(weights), "filter", INT8)
    tensor.quantization = Quantization(scales, np.zeros(len(scales), np.int64))
    return tensor


def _windowed(
    b: Builder, x: Tensor, window: Sequence[int], strides: Sequence[int], padding: str
) -> tuple[Tensor, str]:
    """x and the padding for which CONV_2D's windows lie where those of QuantizedConv2D do.

    Those move to the centre when the stride leaves pixels over. LiteRT's padding SAME is the same otherwise.
    """
    require(padding in ("SAME", "VALID"), f"padding {padding} is not known")
    require(strides[1] == strides[2], "quantized convolutions need equal strides")
    n, *sides, c = shape_of(x, "x", 4)
    # Strides of 1 and 2 leave at most one pixel over, half of which is rounded to none: nothing moves.
    if all(s is None or s >= k or padding == "SAME" for s, k in zip(sides, window, strict=True)) and (
        strides[1] <= 2 or None in sides
    ):
        require(strides[1] <= 2, "the size of the image is not known")
        return x, padding
    axes = centred_windows([s or 0 for s in sides], window, strides[1:3], padding)
    require(min(axis.count for axis in axes) > 0, "the result is empty")
    sizes = [axis.end - axis.start for axis in axes]
    # Without padding LiteRT leaves out the last pixels by itself.
    if not any(axis.start for axis in axes) and (padding == "VALID" or sizes == sides):
        return x, padding
    pads = [(axis.before, axis.after) for axis in axes]
    begin = b.ints([0, *(axis.start for axis in axes), 0], "begin")
    size = b.ints([-1, *sizes, -1], "size")
    x = _reshaped(b, "SLICE", x, (n, *sizes, c), begin, size)
    # PAD of int8 fills with the zero point, so the border is real 0 as in TensorFlow.
    if any(map(any, pads)):
        pairs = [(0, 0), *pads, (0, 0)]
        x = _reshaped(b, "PAD", x, grown(x.shape, pairs), b.const(np.array(pairs, np.int32), "paddings"))
    return x, "VALID"


def _reshaped(b: Builder, code: str, x: Tensor, shape: Any, *more: Tensor) -> Tensor:
    """An operator that keeps the quantization parameters, or real values."""
    if x.quantization is None:
        return b.step(code, x, *more, shape=shape)
    y = quantized_step(b, code.lower(), shape, x)
    b.append(code, [x, *more], [y], {})
    return y


@lower("QuantizedMatMul", to="tflite")
def quantized_mat_mul(
    b: Builder,
    node: Node,
    x: QuantizedValue,
    w: QuantizedValue,
    *ranges: Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Three:
    """FULLY_CONNECTED."""
    values, w_params = _weights(b, w, node.inputs[1])
    weights = centred(values, w_params)
    weights = weights.T if transpose_b else weights
    if isinstance(x, DynamicallyQuantized):
        # FULLY_CONNECTED takes [m,c], so a matrix [c,m] is transposed, and one that was to be transposed is
        # not.
        matrix = _real_weights(b, values, w_params, (0, 1) if transpose_b else (1, 0))
        real = b.transposed(x.centred(b), (1, 0)) if transpose_a else x.centred(b)
        y = b.step("FULLY_CONNECTED", real, matrix, None, shape=b.result_spec().shape)
        return with_range(b, FloatAccumulators(y))
    x_params = params_of(b, node.inputs[0], node)
    left = as_int8(b, stored_tensor(b, x, node.inputs[0]), x_params)
    if transpose_a:
        turned = shape_of(left, "the first matrix", 2)[::-1]
        left = _reshaped(b, "TRANSPOSE", left, turned, b.ints((1, 0), "order"))
    plan, shape = _plan(x_params, w_params, weights[None]), b.result_spec().shape
    return with_range(b, LayerAccumulators(tensor=left, shape=shape, plan=plan, finish=_product))


def _product(
    b: Builder, x: Tensor, weights: Array, scales: Array, bias: Tensor, y: Tensor, activation: str
) -> None:
    """weights int8 [1,c,m]."""
    inputs = [x, _filters(b, weights[0].T, scales), bias]
    b.append("FULLY_CONNECTED", inputs, [y], {"fused_activation_function": activation})


# --- element by element -------------------------------------------------------------------------------------


@lower("QuantizedBiasAdd", to="tflite")
def quantized_bias_add(
    b: Builder, node: Node, x: QuantizedValue, bias: QuantizedValue, *ranges: Tensor
) -> Three:
    """ADD, or the bias of the convolution in front of it."""
    return _pair(b, node, "ADD", x, bias)


@lower("QuantizedAdd", to="tflite")
def quantized_add(b: Builder, node: Node, x: QuantizedValue, y: QuantizedValue, *ranges: Tensor) -> Three:
    return _pair(b, node, "ADD", x, y)


@lower("QuantizedMul", to="tflite")
def quantized_mul(b: Builder, node: Node, x: QuantizedValue, y: QuantizedValue, *ranges: Tensor) -> Three:
    return _pair(b, node, "MUL", x, y)


def _pair(b: Builder, node: Node, code: str, x: QuantizedValue, y: QuantizedValue) -> Three:
    first, second = node.inputs[:2]
    if isinstance(x, DynamicallyQuantized) or isinstance(y, DynamicallyQuantized):
        return with_range(b, FloatAccumulators(_in_float(b, node, x, y)))
    parameters = params_of(b, first, node), params_of(b, second, node)
    left = as_int8(b, stored_tensor(b, x, first), parameters[0])
    right = as_int8(b, stored_tensor(b, y, second), parameters[1])
    pair = PairAccumulators(tensor=left, other=right, shape=b.result_spec().shape, code=code)
    if code == "ADD":
        parts = addends(node.op, parameters, [is_single(b.spec(v).shape) for v in (first, second)])
        pair = replace(pair, addends=parts, joined=_in_layer(b, node, (left, right), parts))
    return with_range(b, pair)


def _in_float(b: Builder, node: Node, x: QuantizedValue, y: QuantizedValue) -> Tensor:
    """Sums or products, of which one operand has a range that is measured in each run, as real values."""
    left, right = (_dynamic(b, s, v, node) for s, v in ((x, node.inputs[0]), (y, node.inputs[1])))
    if node.op != "QuantizedMul":
        return sum_of(b, node.op, left, right, b.result_spec().shape)
    return b.step("MUL", left.centred(b), right.centred(b), shape=b.result_spec().shape)


def _dynamic(b: Builder, x: QuantizedValue, value: Value, node: Node) -> DynamicallyQuantized:
    """Quantized values as those of a measured range, also where theirs is known."""
    if isinstance(x, DynamicallyQuantized):
        return x
    own = params_of(b, value, node)
    stored = as_int8(b, stored_tensor(b, x, value), own)
    if stored.is_constant:
        # From int8 to 0 ... 255, exact in float.
        values = b.const(np.asarray(stored.array()).astype(np.float32) + 128, "codes", FLOAT)
    else:
        real = Float(b, b.step("DEQUANTIZE", stored, shape=stored.shape, element=FLOAT))
        # DEQUANTIZE gives (value - zero point) * scale: back to the values, counted from the lowest one.
        values = (real * (1 / own.scale) + float(RequantTarget.of(own).zero_point)).rounded().tensor
    low, high = (b.const(np.float32(end), "end", FLOAT) for end in (own.low, own.high))
    return DynamicallyQuantized(values, low, high, own.dtype)


def _in_layer(
    b: Builder, node: Node, tensors: Sequence[Tensor], parts: Sequence[Addend]
) -> LayerAccumulators | None:
    """The addition as part of the layer in front, if it adds a constant per channel to it."""
    for number in (0, 1):
        value, x, other = node.inputs[number], tensors[number], tensors[1 - number]
        made = b.quantized.sums.get(x)
        # Somebody else who reads the sums, or the model's user, sees them without the bias: they stay an
        # operator.
        if made is None or not other.is_constant or len(value.uses) > 1 or value.is_graph_output:
            continue
        sums, to = made
        if isinstance(sums, LayerAccumulators) and _is_per_channel(other, sums):
            # What the kernel adds for the sums is off by a part that depends on the value: its middle goes
            # into the bias, the spread around it counts as blur.
            middle, blur = middle_of(parts[number : number + 1])
            reals = parts[1 - number].reals[np.asarray(other.array()).astype(np.int16) + 128]
            return sums.plus(reals.reshape(-1) + middle, to, blur)
    return None


def _is_per_channel(other: Tensor, sums: LayerAccumulators) -> bool:
    """True for a constant with one number per channel of the sums, or one for all."""
    shape, count = other.shape or (), sums.plan.weights.shape[-1]
    rank = len(sums.shape or ())
    return len(shape) <= rank and (
        shape == () or (shape[-1] in (1, count) and math.prod(n or 0 for n in shape) == shape[-1])
    )
