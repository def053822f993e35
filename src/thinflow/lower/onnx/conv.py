"""Convolutions and their transposes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


# ---- Transposed convolutions.


@lower("Conv2DBackpropInput", "Conv3DBackpropInputV2", to="onnx")
def conv_backprop_input(
    b: Builder,
    node: Node,
    sizes: Tensor,
    w: Tensor,
    dy: Tensor,
    *,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: Sequence[int] = (),
) -> Tensor:
    """Filter [kh,kw,c,m] becomes [m,c,kh,kw]; padding follows from the sizes asked for."""
    first = is_channels_first(data_format)
    rank = 4 if node.op == "Conv2DBackpropInput" else 5
    channels = shape_of(dy, "dy", rank)[1 if first else -1]
    *window, _, count = shape_of(w, "the filter", rank)
    require(channels == count, "a grouped transposed convolution has no ONNX form")
    wanted = _wanted(b, sizes, rank, first)
    if None in wanted or None in sizes_inside(dy, first):
        require(None not in window, "the size of the filter is not known")
        steps = {
            "kernel_shape": tuple(window),
            "strides": spatial(strides, first, "strides"),
            "dilations": spatial(dilations or (1,) * rank, first, "dilations"),
        }
        explicit = (explicit_paddings[4:] if first else explicit_paddings[2:-2]) if explicit_paddings else ()
        border = _Border(padding, tuple(explicit), sizes, wanted)
        return _of_open_size(b, dy, w, border, steps, first)
    options = _geometry(
        sizes_inside(dy, first),
        wanted,
        window,
        spatial(strides, first, "strides"),
        spatial(dilations or (1,) * rank, first, "dilations"),
        padding,
        explicit_paddings[4:] if first else explicit_paddings[2:-2],
    )
    filters = b.transposed(w, (rank - 1, rank - 2, *range(rank - 2)))
    if first:
        return b.emit("ConvTranspose", dy, filters, like=dy, **options)
    shape = (dy.shape or (None,))[0], w.shape[-2] if w.shape else None, *wanted
    return b.emit_channels_last(
        b.step("ConvTranspose", b.channels_first(dy), filters, shape=shape, **options)
    )


def _wanted(b: Builder, sizes: Tensor, rank: int, first: bool) -> tuple[int | None, ...]:
    """Height and width of the result."""
    # TensorFlow says the sizes of the result, ONNX works them out from pads and output_padding.
    known = b.elements(sizes)
    if known is None or len(known) < rank or None in (known[2:] if first else known[-3:-1]):
        known = b.result_spec().shape
    if known is None:
        return (None,) * (rank - 2)
    if len(known) == rank - 2:  # newer files give height and width only
        return known
    return known[2:] if first else known[1:-1]


def _geometry(
    sizes: Sequence[int | None],
    wanted: Sequence[int | None],
    window: Sequence[int | None],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    explicit: Sequence[int],
) -> dict[str, Any]:
    """Pads and output_padding that give the wanted sizes; the odd element of SAME stands at the end."""
    require(padding in ("SAME", "VALID", "EXPLICIT"), f"the padding {padding} is not known")
    begins, ends, rest = [], [], []
    for axis, (small, large, extent, stride, dilation) in enumerate(
        zip(sizes, wanted, window, strides, dilations, strict=True)
    ):
        require(
            None not in (small, large, extent), "sizes of the transposed convolution are not known",
            "give the shapes of the inputs",
        )  # fmt: skip
        # The size without pads: each element spreads a (dilated) window, `stride` from the one before.
        full = ((small or 0) - 1) * stride + ((extent or 1) - 1) * dilation + 1
        total = max(full - (large or 0), 0) if padding == "SAME" else 0
        # SAME of the forward convolution has its odd pixel at the end, so the transposed one cuts it off
        # there.
        before, after = total // 2, total - total // 2
        if padding == "EXPLICIT":
            before, after = explicit[2 * axis : 2 * axis + 2]
        # Several sizes of x give one size of dy; ONNX limits what output_padding may add.
        left = (large or 0) - (full - before - after)
        require(0 <= left < max(stride, dilation, 1), "the sizes do not fit the strides")
        begins.append(before)
        ends.append(after)
        rest.append(left)
    options: dict[str, Any] = {"kernel_shape": tuple(window), "strides": tuple(strides)}
    if any((*begins, *ends)):
        options["pads"] = (*begins, *ends)
    if any(rest):
        options["output_padding"] = tuple(rest)
    if any(d != 1 for d in dilations):
        options["dilations"] = tuple(dilations)
    return options


@dataclass(frozen=True)
class _Border:
    """The border that is cut off the whole transposed convolution.

    Attributes:
        padding: SAME, VALID or EXPLICIT.
        explicit: begin and end of each axis, for the last of them.
        sizes: of the result, computed when the model runs: all of them, or height and width only.
        wanted: height and width as far as they are known.
    """

    padding: str
    explicit: tuple[int, ...]
    sizes: Tensor
    wanted: tuple[int | None, ...]


def _of_open_size(
    b: Builder, dy: Tensor, w: Tensor, border: _Border, options: dict[str, Any], first: bool
) -> Tensor:
    """The whole convolution without pads, from which the wanted sizes are cut when the model runs."""
    rank = len(shape_of(dy))
    count = rank - 2
    filters = b.transposed(w, (rank - 1, rank - 2, *range(count)))
    x = dy if first else b.channels_first(dy)
    outer = (dy.shape or (None,))[0], w.shape[-2] if w.shape else None
    full = b.step("ConvTranspose", x, filters, shape=(*outer, *(None,) * count), **options)
    sizes = b.index(border.sizes)
    if (sizes.shape or (rank,))[0] != count:
        begin = 2 if first else 1
        sizes = b.sliced(sizes, [begin], [begin + count], [0], shape=(count,))
    made = b.sliced(b.sizes_of(full), [2], [rank], [0], shape=(count,))
    starts = _starts(b, border, made, sizes)
    ends = b.step("Add", starts, sizes, shape=(count,))
    # The kernel may be smaller than its stride: nothing reaches the end then.
    short = b.step("Max", b.step("Sub", ends, made, shape=(count,)), b.int64(0), shape=(count,))
    pads = b.joined(b.ints([0] * (rank + 2)), short)
    padded = b.step("Pad", full, pads, shape=full.shape)
    axes = b.ints(range(2, rank), "axes")
    if first:
        return b.emit("Slice", padded, starts, ends, axes, like=dy)
    cut = b.step("Slice", padded, starts, ends, axes, shape=(*outer, *border.wanted))
    return b.emit_channels_last(cut)


def _starts(b: Builder, border: _Border, made: Tensor, sizes: Tensor) -> Tensor:
    """The places where the result begins in the whole convolution, int64 [axes]; SAME cuts less in front."""
    count = len(border.wanted)
    require(border.padding in ("SAME", "VALID", "EXPLICIT"), f"the padding {border.padding} is not known")
    if border.padding != "SAME":
        return b.ints(border.explicit[::2] if border.padding == "EXPLICIT" else [0] * count, "starts")
    over = b.step("Max", b.step("Sub", made, sizes, shape=(count,)), b.int64(0), shape=(count,))
    return b.step("Div", over, b.int64(2), shape=(count,))
