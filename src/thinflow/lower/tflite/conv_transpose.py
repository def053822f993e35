"""Transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.ir.graph import Node
from thinflow.ir.types import INT32
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, require, require_nhwc, shape_of
from thinflow.lower.tflite.conv import geometry_3d
from thinflow.lower.tflite.program import Tensor


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
