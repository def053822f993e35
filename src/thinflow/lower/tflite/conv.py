"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.graph import Node
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, require, require_nhwc, shape_of
from thinflow.lower.tflite.pad import padded
from thinflow.lower.tflite.program import Tensor

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
