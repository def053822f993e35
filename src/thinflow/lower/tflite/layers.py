"""Convolutions and their transposes, pooling, and matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT, INT32
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, ints, require, require_nhwc, shape_of
from thinflow.lower.tflite.elementwise import is_not_negative
from thinflow.lower.tflite.spatial import grown, padded
from thinflow.tflite.model import Tensor

Ones = (1, 1, 1, 1)


def geometry(strides: Sequence[int], dilations: Sequence[int], data_format: str) -> dict[str, Any]:
    """The stride and dilation options of a convolution over height and width."""
    require_nhwc(data_format, "convolves")
    require(len(strides) == 4 and len(dilations) == 4, "strides and dilations need four values")
    outer = (strides[0], strides[3], dilations[0], dilations[3])
    require(outer == (1, 1, 1, 1), "strides and dilations along batch and channels must be 1")
    return {
        "stride_h": strides[1],
        "stride_w": strides[2],
        "dilation_h_factor": dilations[1],
        "dilation_w_factor": dilations[2],
    }


def explicit(b: Builder, x: Tensor, padding: str, pads: Sequence[int]) -> tuple[Tensor, str]:
    """x and the padding left to do. Explicit padding becomes a PAD; fusion undoes it where it can."""
    if padding != "EXPLICIT":
        require(padding in ("SAME", "VALID"), f"padding {padding} is not known")
        return x, padding
    require(len(pads) == 8, "explicit_paddings needs eight values")
    pairs = [(pads[2 * a], pads[2 * a + 1]) for a in range(4)]
    return padded(b, x, pairs), "VALID"


def zeros(b: Builder, count: int | None, x: Tensor) -> Tensor:
    """The bias a convolution must have and TensorFlow's does not."""
    require(count is not None, "the number of output channels is not known")
    return b.const(np.zeros(count or 0, x.dtype.numpy()), "bias")


@lower("Conv2D", to="tflite")
def conv2d(
    b: Builder,
    node: Node,
    x: Tensor,
    w: Tensor,
    *,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: Sequence[int] = Ones,
) -> Tensor:
    """Filter [kh,kw,c/groups,m] becomes [m,kh,kw,c/groups]; the channels of x tell the number of groups."""
    options = geometry(strides, dilations, data_format)
    x, padding = explicit(b, x, padding, explicit_paddings)
    bias = zeros(b, shape_of(w, "the filter", 4)[3], x)
    # TensorFlow's filters are HWIO, LiteRT's are OHWI.
    return b.emit("CONV_2D", x, b.transposed(w, (3, 0, 1, 2)), bias, padding=padding, **options)


@lower("DepthwiseConv2dNative", to="tflite")
def depthwise(
    b: Builder,
    node: Node,
    x: Tensor,
    w: Tensor,
    *,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: Sequence[int] = Ones,
) -> Tensor:
    """Filter [kh,kw,c,m] becomes [1,kh,kw,c*m]."""
    options = geometry(strides, dilations, data_format)
    height, width, channels, multiple = shape_of(w, "the filter", 4)
    require(None not in (channels, multiple), "the number of channels is not known")
    x, padding = explicit(b, x, padding, explicit_paddings)
    count = (channels or 0) * (multiple or 0)
    # Result channel c * multiple + m is filter [.., c, m] in both, so a RESHAPE does.
    filters = b.reshaped(w, (1, height, width, count))
    options |= {"padding": padding, "depth_multiplier": multiple}
    return b.emit("DEPTHWISE_CONV_2D", x, filters, zeros(b, count, x), **options)


@lower("Conv3D", to="tflite")
def conv3d(
    b: Builder,
    node: Node,
    x: Tensor,
    w: Tensor,
    *,
    strides: Sequence[int],
    padding: str,
    data_format: str = "NDHWC",
    dilations: Sequence[int] = (1, 1, 1, 1, 1),
) -> Tensor:
    """The filter stays as it is; no groups."""
    depth, channels = shape_of(x, "x", 5)[4], shape_of(w, "the filter", 5)[3]
    require(depth == channels, "CONV_3D has no groups")
    return b.emit("CONV_3D", x, w, padding=padding, **geometry_3d(strides, dilations, data_format))


def geometry_3d(strides: Sequence[int], dilations: Sequence[int], data_format: str) -> dict[str, Any]:
    """As `geometry`, with a depth axis."""
    require_nhwc(data_format, "convolves")
    require(len(strides) == 5 and len(dilations) == 5, "strides and dilations need five values")
    pairs = zip("dhw", strides[1:4], dilations[1:4], strict=True)
    options: dict[str, Any] = {}
    for axis, stride, dilation in pairs:
        options |= {f"stride_{axis}": stride, f"dilation_{axis}_factor": dilation}
    return options


# ---- Transposed convolutions.


def output_sizes(b: Builder, sizes: Tensor, dy: Tensor) -> Tensor:
    """The sizes of the result, int32 [rank]: fixed, but for a batch taken from dy."""
    shape = b.result_spec().shape
    rank = len(shape_of(dy, "dy"))
    if shape is not None and None not in shape:
        return b.ints([n or 0 for n in shape], "output_shape")
    # Only the batch is open: everything else is constant, and the number of images is that of dy.
    if shape is not None and None not in shape[1:]:
        of_dy = b.step("SHAPE", dy, shape=(rank,), element=INT32, out_type=INT32)
        # SLICE, since STRIDED_SLICE with an end is three constants more
        batch = b.step("SLICE", of_dy, b.ints([0]), b.ints([1]), shape=(1,))
        rest = b.ints([n or 0 for n in shape[1:]], "output_sizes")
        return b.step("CONCATENATION", batch, rest, shape=(rank,), axis=0)
    require(
        sizes.shape is None or sizes.shape == (rank,),
        f"input_sizes has shape {sizes.shape}, [{rank}] is needed",
    )
    return b.index(sizes)


@lower("Conv2DBackpropInput", to="tflite")
def conv2d_backprop_input(
    b: Builder,
    node: Node,
    sizes: Tensor,
    w: Tensor,
    dy: Tensor,
    *,
    strides: Sequence[int],
    padding: str,
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
) -> Tensor:
    """Filter [kh,kw,c,m] becomes [c,kh,kw,m]; dx [n,h,w,c] and dy [n,oh,ow,m] keep their layout."""
    require_nhwc(data_format, "convolves")
    require(tuple(dilations) == (1, 1, 1, 1), "TFLite has no dilated transposed convolution")
    require(padding in ("SAME", "VALID"), "TFLite has no transposed convolution with explicit padding")
    require(
        shape_of(dy, "dy", 4)[3] == shape_of(w, "the filter", 4)[3],
        "TFLite has no grouped transposed convolution",
    )
    # [kh,kw,c,m] with c channels of the result (it was the input of the forward pass): O H W I again.
    filters = b.transposed(w, (2, 0, 1, 3))
    shape = output_sizes(b, sizes, dy)
    return b.emit(
        "TRANSPOSE_CONV", shape, filters, dy, padding=padding, stride_h=strides[1], stride_w=strides[2]
    )


@lower("Conv3DBackpropInputV2", to="tflite")
def conv3d_backprop_input(
    b: Builder,
    node: Node,
    sizes: Tensor,
    w: Tensor,
    dy: Tensor,
    *,
    strides: Sequence[int],
    padding: str,
    data_format: str = "NDHWC",
    dilations: Sequence[int] = (1, 1, 1, 1, 1),
) -> Tensor:
    """The filter stays as it is."""
    options = geometry_3d(strides, dilations, data_format)
    require(tuple(dilations) == (1,) * 5, "TFLite has no dilated transposed convolution")
    return b.emit("CONV_3D_TRANSPOSE", output_sizes(b, sizes, dy), w, dy, padding=padding, **options)


# ---- Pooling.


def _pool(
    b: Builder, code: str, x: Tensor, ksize: Sequence[int], strides: Sequence[int], padding: str
) -> Tensor:
    require(len(ksize) == 4 and len(strides) == 4, "ksize and strides need four values")
    outer = (ksize[0], ksize[3], strides[0], strides[3])
    require(outer == (1, 1, 1, 1), "TFLite does not pool over batch or channels")
    return b.emit(
        code,
        x,
        padding=padding,
        stride_h=strides[1],
        stride_w=strides[2],
        filter_height=ksize[1],
        filter_width=ksize[2],
    )


@lower("AvgPool", to="tflite")
def avg_pool(
    b: Builder,
    node: Node,
    x: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    data_format: str = "NHWC",
) -> Tensor:
    """The border does not count in the average, as in TensorFlow."""
    require_nhwc(data_format, "pools")
    return _pool(b, "AVERAGE_POOL_2D", x, ksize, strides, padding)


@lower("MaxPool", to="tflite")
def max_pool(
    b: Builder,
    node: Node,
    x: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
) -> Tensor:
    """Explicit padding becomes a border that never is the maximum."""
    require_nhwc(data_format, "pools")
    if padding == "EXPLICIT":
        require(x.dtype is FLOAT, f"LiteRT has no MAX_POOL_2D for {x.dtype}, only for float")
        pairs = [(explicit_paddings[2 * a], explicit_paddings[2 * a + 1]) for a in range(4)]
        x, padding = _never_greatest(b, node, x, pairs, ksize), "VALID"
    return _pool(b, "MAX_POOL_2D", x, ksize, strides, padding)


def _never_greatest(
    b: Builder, node: Node, x: Tensor, pairs: Sequence[tuple[int, int]], ksize: Sequence[int]
) -> Tensor:
    """x in a border that does not show in maxima.

    Zeros, where nothing is below them, and a mirror, which shows what the window sees as well, have the
    range of x, so that eight bits hold them; the lowest number has not.
    """
    if is_not_negative(node.inputs[0]):
        return padded(b, x, pairs)
    border = b.const(np.array(pairs, np.int32), "paddings")
    sizes = x.shape or (None,) * 4
    # Pixel -j is that of j - 1 then: both lie in one window if it reaches as far inside as into the border.
    if all(2 * max(p) <= k and (n or 0) >= max(p) for p, k, n in zip(pairs, ksize, sizes, strict=True)):
        return b.step("MIRROR_PAD", x, border, shape=grown(x.shape, pairs), mode="SYMMETRIC")
    # No finite pixel is less, so the border never wins.
    lowest = b.scalar(float(np.finfo(np.float32).min), x, "lowest")
    return b.step("PADV2", x, border, lowest, shape=grown(x.shape, pairs))


@lower("MaxPoolV2", to="tflite")
def max_pool_v2(
    b: Builder,
    node: Node,
    x: Tensor,
    ksize: Tensor,
    strides: Tensor,
    *,
    padding: str,
    data_format: str = "NHWC",
) -> Tensor:
    require_nhwc(data_format, "pools")
    return _pool(b, "MAX_POOL_2D", x, ints(ksize, "ksize"), ints(strides, "strides"), padding)


# ---- Matrix products and bias.


@lower("MatMul", to="tflite")
def matmul(
    b: Builder, node: Node, x: Tensor, w: Tensor, *, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
    """Constant weights [in,units] become FULLY_CONNECTED's [units,in]; computed ones a BATCH_MATMUL."""
    shape_of(w, "the second matrix", 2)
    if not w.is_constant:
        return b.emit("BATCH_MATMUL", x, w, adj_x=transpose_a, adj_y=transpose_b)
    if transpose_a:
        # FULLY_CONNECTED has no option for a transposed input, as BATCH_MATMUL has.
        x = b.transposed(x, (1, 0))
    return b.emit("FULLY_CONNECTED", x, w if transpose_b else b.transposed(w, (1, 0)), None)


@lower("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", to="tflite")
def batch_matmul(
    b: Builder, node: Node, x: Tensor, y: Tensor, *, adj_x: bool = False, adj_y: bool = False
) -> Tensor:
    """Broadcasts over leading axes. One constant matrix for all is a FULLY_CONNECTED."""
    require(x.dtype is b.result_spec().dtype, "LiteRT's product has the type of its operands")
    if y.is_constant and len(shape_of(y)) == 2 and not adj_x and len(shape_of(x, "x")) >= 2:
        weights = y if adj_y else b.transposed(y, (1, 0))
        return b.emit("FULLY_CONNECTED", x, weights, None, keep_num_dims=True)
    return b.emit("BATCH_MATMUL", x, y, adj_x=adj_x, adj_y=adj_y)


@lower("BiasAdd", "BiasAddV1", to="tflite")
def bias_add(b: Builder, node: Node, x: Tensor, bias: Tensor, *, data_format: str = "NHWC") -> Tensor:
    """One number per channel; fusion moves it into a convolution in front."""
    # [c,1,1] broadcasts against the end of [n,c,h,w].
    if data_format.startswith("NC"):
        rank = len(shape_of(x, "x"))
        require(rank >= 2, "a bias per channel needs a channel axis")
        bias = b.reshaped(bias, (*shape_of(bias, "the bias", 1), *(1,) * (rank - 2)))
    return b.emit("ADD", x, bias)
