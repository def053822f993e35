"""LiteRT's elementwise ops, reductions, products, convolutions and pools, and the activation fused into them.

Layouts of weights: LiteRT's schema, reverse of `lower/tflite`.
"""

from __future__ import annotations

import math
from typing import Any

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, HALF, INT32
from thinflow.lift.lifter import Call
from thinflow.lift.rules import Rule, lifts, lifts_counterparts, same
from thinflow.tflite.counterparts import Kind, same_in_tensorflow


def activated(c: Call, y: Value) -> Value:
    """The fused activation."""
    name = c.get("fused_activation_function", "NONE")
    if name == "NONE":
        return y
    if name == "RELU_N1_TO_1":
        return _between(c, y, -1.0)
    # An activation is called as the operator that is nothing else.
    op = (same_in_tensorflow(Kind.UNARY) | same_in_tensorflow(Kind.SAME_OPERANDS)).get(name)
    if op is None:
        raise UnsupportedOp(f"the activation {name} has no counterpart")
    return c.emit(op, y)


def _between(c: Call, y: Value, low: float) -> Value:
    """max(min(y, 1), low)."""
    return c.emit("Maximum", c.emit("Minimum", y, c.constant(1.0, y)), c.constant(low, y))


def _window(c: Call) -> dict[str, Any]:
    """Strides and padding, as TensorFlow's convolutions and pools want them."""
    # Batch and channels are never strided.
    strides = (1, c.get("stride_h", 1), c.get("stride_w", 1), 1)
    return {"strides": strides, "padding": c.get("padding", "SAME"), "data_format": "NHWC"}


def _dilations(c: Call) -> tuple[int, ...]:
    return (1, c.get("dilation_h_factor", 1), c.get("dilation_w_factor", 1), 1)


def _biased(c: Call, y: Value, place: int) -> Value:
    if c.has(place):
        y = c.emit("BiasAdd", y, c[place], data_format="NHWC")
    return activated(c, y)


def _transposed(c: Call, x: Value, order: tuple[int, ...]) -> Value:
    return c.emit("Transpose", x, c.constant(order), Tperm=INT32)


@lifts("tfl.CONV_2D")
def _conv(c: Call) -> Value:
    """CONV_2D: filter [cout, kh, kw, cin/groups] -> [kh, kw, cin/groups, cout]."""
    w = _transposed(c, c[1], (1, 2, 3, 0))
    return _biased(c, c.emit("Conv2D", c[0], w, **_window(c), dilations=_dilations(c)), 2)


@lifts("tfl.DEPTHWISE_CONV_2D")
def _depthwise(c: Call) -> Value:
    """DEPTHWISE_CONV_2D: filter [1, kh, kw, channels * multiplier] -> [kh, kw, channels, multiplier]."""
    _, height, width, depth = c.sizes(1)
    channels, stated = (c[0].spec.shape or (None,))[-1], c.get("depth_multiplier", 1)
    # LiteRT's kernel goes by the sizes, whatever is stated; 0 is the schema's default.
    multiplier = depth // channels if channels else stated or 1
    w = c.emit("Reshape", c[1], c.constant((height, width, depth // multiplier, multiplier)), Tshape=INT32)
    y = c.emit("DepthwiseConv2dNative", c[0], w, **_window(c), dilations=_dilations(c))
    return _biased(c, y, 2)


def _window_3d(c: Call) -> dict[str, Any]:
    strides = (1, *(c.get(f"stride_{axis}", 1) for axis in "dhw"), 1)
    dilations = (1, *(c.get(f"dilation_{axis}_factor", 1) for axis in "dhw"), 1)
    return {"strides": strides, "padding": c.get("padding", "SAME"), "dilations": dilations}


@lifts("tfl.CONV_3D")
def _conv_3d(c: Call) -> Value:
    """CONV_3D: filter [kd, kh, kw, cin, cout], as TensorFlow's."""
    return _biased(c, c.emit("Conv3D", c[0], c[1], **_window_3d(c)), 2)


@lifts("tfl.CONV_3D_TRANSPOSE")
def _transpose_conv_3d(c: Call) -> Value:
    """CONV_3D_TRANSPOSE: output sizes, filter as TensorFlow's, x, and perhaps a bias."""
    y = c.emit("Conv3DBackpropInputV2", c[0], c[1], c[2], **_window_3d(c), T=c[2].dtype, Tshape=INT32)
    return _biased(c, y, 3)


@lifts("tfl.TRANSPOSE_CONV", unread=(0,))
def _transpose_conv(c: Call) -> Value:
    """TRANSPOSE_CONV: weights [cout, kh, kw, cin] -> [kh, kw, cout, cin]."""
    w = _transposed(c, c[1], (1, 2, 0, 3))
    return _biased(c, c.emit("Conv2DBackpropInput", c[0], w, c[2], **_window(c), T=c[2].dtype), 3)


@lifts("tfl.FULLY_CONNECTED")
def _fully_connected(c: Call) -> Value:
    """FULLY_CONNECTED: x [..., in] as [rows, in], weights [units, in]."""
    if c.get("weights_format", "DEFAULT") != "DEFAULT":
        raise UnsupportedOp("its weights are shuffled")
    units, width = c.sizes(1)
    # All leading axes are rows; the result gets them back below, by the shape that the file states.
    rows = c.emit("Reshape", c[0], c.constant((-1, width)), Tshape=INT32)
    y = _biased(c, c.emit("MatMul", rows, c[1], transpose_a=False, transpose_b=True), 2)
    shape = c.spec.shape
    if shape is not None and len(shape) != 2:
        # A Reshape can find one open size by itself.
        if shape.count(None) > 1:
            raise UnsupportedOp("the sizes of its output are not known")
        y = c.emit("Reshape", y, c.constant(tuple(-1 if n is None else n for n in shape)), Tshape=INT32)
    del units
    return y


@lifts("tfl.BATCH_MATMUL")
def _matmul(c: Call) -> Value:
    return c.emit("BatchMatMulV2", c[0], c[1], adj_x=c.get("adj_x", False), adj_y=c.get("adj_y", False))


def _pool(op: str) -> Rule:
    def rule(c: Call) -> Value:
        ksize = (1, c.get("filter_height", 1), c.get("filter_width", 1), 1)
        return activated(c, c.emit(op, c[0], ksize=ksize, **_window(c)))

    return rule


@lifts("tfl.L2_POOL_2D")
def _l2_pool(c: Call) -> Value:
    """L2_POOL_2D: the root of the mean square of each window."""
    ksize = (1, c.get("filter_height", 1), c.get("filter_width", 1), 1)
    return activated(c, c.emit("Sqrt", c.emit("AvgPool", c.emit("Square", c[0]), ksize=ksize, **_window(c))))


def _binary(op: str) -> Rule:
    return lambda c: activated(c, c.emit(op, c[0], c[1]))


def _reduction(op: str) -> Rule:
    # LiteRT has no type for axes, which are always int32.
    return lambda c: c.emit(op, c[0], c[1], keep_dims=c.get("keep_dims", False), Tidx=INT32)


@lifts("tfl.SOFTMAX")
def _softmax(c: Call) -> Value:
    beta = c.get("beta", 1.0)
    return c.emit("Softmax", c[0] if beta == 1 else c.emit("Mul", c[0], c.constant(beta, c[0])))


@lifts("tfl.PRELU")
def _prelu(c: Call) -> Value:
    return prelu(c, c[1])


def prelu(c: Call, slope: Value) -> Value:
    """relu(x) + -slope * relu(-x), as Keras writes it; of integers max(x, 0) + slope * min(x, 0)."""
    if c[0].dtype is None or c[0].dtype.is_floating:
        # A constant slope is turned around once, here.
        tensor = slope.node.tensor
        turned = c.emit("Neg", slope) if tensor is None else c.constant(-tensor.numpy())
        below = c.emit("Mul", turned, c.emit("Relu", c.emit("Neg", c[0])))
        return c.emit("AddV2", c.emit("Relu", c[0]), below)
    zero = c.constant(0.0, c[0])
    return c.emit("AddV2", c.emit("Maximum", c[0], zero), c.emit("Mul", slope, c.emit("Minimum", c[0], zero)))


@lifts("tfl.HARD_SWISH")
def _hard_swish(c: Call) -> Value:
    return hard_swish(c)


def hard_swish(c: Call) -> Value:
    """x * relu6(x + 3) / 6."""
    bent = c.emit("Relu6", c.emit("AddV2", c[0], c.constant(3.0, c[0])))
    return c.emit("Mul", c.emit("Mul", c[0], bent), c.constant(1 / 6, c[0]))


@lifts("tfl.GELU")
def _gelu(c: Call) -> Value:
    return gelu(c, c[0], c.flag("approximate"))


def gelu(c: Call, x: Value, by_tanh: bool) -> Value:
    """x * Phi(x), by the error function or by the approximation with tanh."""
    if by_tanh:
        # The approximation of Hendrycks and Gimpel, 2016.
        cube = c.emit("Mul", c.emit("Mul", c.emit("Square", x), x), c.constant(0.044715, x))
        inner = c.emit("Mul", c.emit("AddV2", x, cube), c.constant(math.sqrt(2 / math.pi), x))
        bent = c.emit("Tanh", inner)
    else:
        bent = c.emit("Erf", c.emit("Mul", x, c.constant(math.sqrt(0.5), x)))
    half = c.emit("Mul", x, c.constant(0.5, x))
    return c.emit("Mul", half, c.emit("AddV2", bent, c.constant(1.0, x)))


@lifts("tfl.L2_NORMALIZATION")
def _l2_normalization(c: Call) -> Value:
    """x / sqrt(max(sum of squares along the last axis, 1e-12))."""
    total = c.emit("Sum", c.emit("Square", c[0]), c.constant((-1,)), keep_dims=True, Tidx=INT32)
    # The lower bound keeps a row of zeros at zero instead of NaN.
    norm = c.emit("Rsqrt", c.emit("Maximum", total, c.constant(1e-12, c[0])))
    return activated(c, c.emit("Mul", c[0], norm))


@lifts("tfl.DEQUANTIZE")
def _dequantize(c: Call) -> Value:
    """DEQUANTIZE: quantized values are real numbers by now; half precision has no scale."""
    if c[0].dtype is HALF:
        return c.emit("Cast", c[0], SrcT=HALF, DstT=FLOAT)
    if c[0].dtype is not FLOAT:
        raise UnsupportedOp("its operand has no scale")
    return c.emit("Identity", c[0])


@lifts("tfl.LOCAL_RESPONSE_NORMALIZATION")
def _lrn(c: Call) -> Value:
    options = {k: c.get(k, d) for k, d in (("bias", 1.0), ("alpha", 1.0), ("beta", 0.5))}
    return c.emit("LRN", c[0], depth_radius=c.get("radius", 5), **options)


@lifts("tfl.ADD_N")
def _add_n(c: Call) -> Value:
    xs = [c[i] for i in range(len(c.xs))]
    return c.emit("AddN", *xs, N=len(xs))


@lifts("tfl.DIV")
def _div(c: Call) -> Value:
    """DIV: of integers cut off towards zero."""
    kind = c[0].dtype
    op = "TruncateDiv" if kind is not None and kind.is_integer else "RealDiv"
    return activated(c, c.emit(op, c[0], c[1]))


lifts("tfl.POW")(_binary("Pow"))
lifts("tfl.FLOOR_DIV")(_binary("FloorDiv"))
lifts("tfl.ATAN2")(_binary("Atan2"))
lifts("tfl.MAX_POOL_2D")(_pool("MaxPool"))
lifts("tfl.AVERAGE_POOL_2D")(_pool("AvgPool"))
lifts("tfl.LEAKY_RELU")(same("LeakyRelu", "alpha"))
lifts("tfl.RELU_N1_TO_1")(lambda c: _between(c, c[0], -1.0))
lifts("tfl.FAKE_QUANT")(same("FakeQuantWithMinMaxArgs", "min", "max", "num_bits", "narrow_range"))
# Its reader has put the zeros of a sparse constant back.
lifts("tfl.DENSIFY")(lambda c: c.emit("Identity", c[0]))
# Operands are real by now and results are quantized behind the rule: nothing is left between.
lifts("tfl.QUANTIZE")(lambda c: c.emit("Identity", c[0]))
lifts("tfl.RELU_0_TO_1")(lambda c: _between(c, c[0], 0.0))
lifts_counterparts("tfl", same_in_tensorflow(Kind.UNARY), same)
lifts_counterparts("tfl", same_in_tensorflow(Kind.BINARY), _binary)
lifts_counterparts("tfl", same_in_tensorflow(Kind.REDUCTION), _reduction)
