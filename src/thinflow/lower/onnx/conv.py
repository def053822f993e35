"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thinflow.ir.graph import Node
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor
from thinflow.ops._shapes import same_padding

Ones = (1, 1, 1, 1)


def is_channels_first(data_format: str) -> bool:
    require(
        data_format in ("NHWC", "NDHWC", "NCHW", "NCDHW"), f"the data_format {data_format} has no ONNX form"
    )
    return data_format.startswith("NC")


def spatial(values: Sequence[int], first: bool, what: str) -> tuple[int, ...]:
    """The entries of a list per axis that belong to height and width (and depth); the others must be 1."""
    inner = tuple(values[2:] if first else values[1:-1])
    outer = (values[0], values[1] if first else values[-1])
    require(outer == (1, 1), f"{what} along batch and channels must be 1")
    return inner


def sizes_inside(x: Tensor, first: bool) -> tuple[int | None, ...]:
    """Height and width of a tensor."""
    shape = shape_of(x, "x")
    return shape[2:] if first else shape[1:-1]


def geometry(
    sizes: Sequence[int | None],
    window: Sequence[int | None],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    explicit: Sequence[int] = (),
    *,
    first: bool = False,
) -> dict[str, Any]:
    """The options of a sliding window. SAME becomes explicit pads unless they depend on an unknown size."""
    require(
        len(sizes) == len(strides) == len(dilations) == len(window),
        "strides, dilations and window have another rank than x",
    )
    require(None not in window, "the size of the window is not known")
    require(
        min((*strides, *dilations, *(n or 0 for n in window))) > 0, "window, strides and dilations start at 1"
    )
    options: dict[str, Any] = {"kernel_shape": tuple(window), "strides": tuple(strides)}
    if any(d != 1 for d in dilations):
        options["dilations"] = tuple(dilations)
    if padding == "VALID":
        return options
    if padding == "EXPLICIT":
        require(len(explicit) == 2 * len(sizes) + 4, "explicit_paddings needs two values per axis")
        # TensorFlow lists both ends of an axis together, ONNX all beginnings and then all ends.
        inner = explicit[4:] if first else explicit[2:-2]
        return {**options, "pads": (*inner[::2], *inner[1::2])}
    require(padding == "SAME", f"the padding {padding} is not known")
    pairs = []
    for size, extent, stride, dilation in zip(sizes, window, strides, dilations, strict=True):
        # with stride 1, or a window of 1, the size does not matter
        if size is None and stride != 1 and extent != 1:
            # (out - 1) * stride + window - size is below 0 where strides pass over pixels: TensorFlow pads by
            # 0 then, and auto_pad need not.
            widths = [((n or 1) - 1) * d + 1 for n, d in zip(window, dilations, strict=True)]
            covered = all(w >= s for w, s in zip(widths, strides, strict=True))
            require(covered, "the padding depends on a size that is not known, and strides pass over pixels")
            # TensorFlow puts the odd pixel at the end, too.
            return {**options, "auto_pad": "SAME_UPPER"}
        # Any size does where it does not matter.
        pairs.append(same_padding(size if size is not None else 1 << 20, extent or 1, stride, dilation))
    if any(map(any, pairs)):
        options["pads"] = (*(p[0] for p in pairs), *(p[1] for p in pairs))
    return options


def convolved(
    b: Builder,
    x: Tensor,
    w: Tensor,
    groups: int,
    strides: Sequence[int],
    padding: str,
    explicit: Sequence[int],
    dilations: Sequence[int],
    data_format: str,
) -> Tensor:
    """The node's output: x convolved with w [m,c/groups,...]."""
    first = is_channels_first(data_format)
    rank = len(shape_of(x, "x"))
    require(len(strides) == rank and len(dilations) == rank, f"strides and dilations need {rank} values")
    options = geometry(
        sizes_inside(x, first),
        shape_of(w)[2:],
        spatial(strides, first, "strides"),
        spatial(dilations, first, "dilations"),
        padding,
        explicit,
        first=first,
    )
    if groups != 1:
        options["group"] = groups
    if first:
        return b.emit("Conv", x, w, like=x, **options)
    result = b.result_spec().shape
    shape = None if result is None else (result[0], result[-1], *result[1:-1])
    return b.emit_channels_last(
        b.step("Conv", b.channels_first(x), w, shape=shape or (None,) * rank, **options)
    )


@lower("Conv2D", "Conv3D", to="onnx")
def conv(
    b: Builder,
    node: Node,
    x: Tensor,
    w: Tensor,
    *,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: Sequence[int] = (),
) -> Tensor:
    """Filter [kh,kw,c/groups,m] becomes [m,c/groups,kh,kw]; the channels of x tell the number of groups."""
    rank = 4 if node.op != "Conv3D" else 5
    first = is_channels_first(data_format)
    shape = shape_of(x, "x", rank)
    channels = shape[1 if first else -1]
    each = shape_of(w, "the filter", rank)[-2]
    require(channels is not None and bool(each), "the number of channels is not known")
    # TensorFlow has no attribute for groups: a filter with fewer channels than x says it.
    groups = (channels or 1) // (each or 1)
    w = b.transposed(w, (rank - 1, rank - 2, *range(rank - 2)))
    dilations = dilations or (1,) * rank
    return convolved(b, x, w, groups, strides, padding, explicit_paddings, dilations, data_format)


@lower("DepthwiseConv2dNative", to="onnx")
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
    """Filter [kh,kw,c,m] becomes [c*m,1,kh,kw], a group per channel."""
    shape_of(x, "x", 4)
    height, width, channels, multiple = shape_of(w, "the filter", 4)
    require(None not in (channels, multiple), "the number of channels is not known")
    count = (channels or 0) * (multiple or 0)
    filters = b.reshaped(b.transposed(w, (2, 3, 0, 1)), (count, 1, height, width))
    return convolved(
        b, x, filters, channels or 0, strides, padding, explicit_paddings, dilations or Ones, data_format
    )
