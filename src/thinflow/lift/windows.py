"""LiteRT's convolutions, pools and products, and the activation that is fused into them."""

from __future__ import annotations

from typing import Any

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32
from thinflow.lift.lifter import Call
from thinflow.lift.onnx_values import Rule

_ACTIVATIONS = {"RELU": "Relu", "RELU6": "Relu6", "TANH": "Tanh"}


def activated(c: Call, y: Value) -> Value:
    """The fused activation."""
    name = c.get("fused_activation_function", "NONE")
    if name == "NONE":
        return y
    if name == "RELU_N1_TO_1":
        return clipped(c, y)
    if name not in _ACTIVATIONS:
        raise UnsupportedOp(f"the activation {name} has no counterpart")
    return c.emit(_ACTIVATIONS[name], y)


def clipped(c: Call, y: Value) -> Value:
    return c.emit("Maximum", c.emit("Minimum", y, c.constant(1.0, y)), c.constant(-1.0, y))


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


def conv(c: Call) -> Value:
    """CONV_2D: filter [cout, kh, kw, cin/groups] -> [kh, kw, cin/groups, cout]."""
    w = _transposed(c, c[1], (1, 2, 3, 0))
    return _biased(c, c.emit("Conv2D", c[0], w, **_window(c), dilations=_dilations(c)), 2)


def depthwise(c: Call) -> Value:
    """DEPTHWISE_CONV_2D: filter [1, kh, kw, channels * multiplier] -> [kh, kw, channels, multiplier]."""
    _, height, width, depth = c.sizes(1)
    # 0 is the schema's default, for files that do not state it.
    multiplier = c.get("depth_multiplier", 1) or 1
    w = c.emit("Reshape", c[1], c.constant((height, width, depth // multiplier, multiplier)), Tshape=INT32)
    y = c.emit("DepthwiseConv2dNative", c[0], w, **_window(c), dilations=_dilations(c))
    return _biased(c, y, 2)


def conv_3d(c: Call) -> Value:
    """CONV_3D: filter [kd, kh, kw, cin, cout], as TensorFlow's."""
    strides = (1, *(c.get(f"stride_{axis}", 1) for axis in "dhw"), 1)
    dilations = (1, *(c.get(f"dilation_{axis}_factor", 1) for axis in "dhw"), 1)
    padding = c.get("padding", "SAME")
    return _biased(c, c.emit("Conv3D", c[0], c[1], strides=strides, padding=padding, dilations=dilations), 2)


def transpose_conv(c: Call) -> Value:
    """TRANSPOSE_CONV: weights [cout, kh, kw, cin] -> [kh, kw, cout, cin]."""
    w = _transposed(c, c[1], (1, 2, 0, 3))
    return _biased(c, c.emit("Conv2DBackpropInput", c[0], w, c[2], **_window(c), T=c[2].dtype), 3)


def fully_connected(c: Call) -> Value:
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


def matmul(c: Call) -> Value:
    return c.emit("BatchMatMulV2", c[0], c[1], adj_x=c.get("adj_x", False), adj_y=c.get("adj_y", False))


def pool(op: str) -> Rule:
    def rule(c: Call) -> Value:
        ksize = (1, c.get("filter_height", 1), c.get("filter_width", 1), 1)
        return activated(c, c.emit(op, c[0], ksize=ksize, **_window(c)))

    return rule
