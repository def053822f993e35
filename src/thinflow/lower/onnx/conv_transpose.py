"""Transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thinflow.ir.graph import Node
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.onnx.conv import is_channels_first, sizes_inside, spatial
from thinflow.lower.onnx.program import Tensor
from thinflow.lower.rules import lower


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
        full = ((small or 0) - 1) * stride + ((extent or 1) - 1) * dilation + 1
        total = max(full - (large or 0), 0) if padding == "SAME" else 0
        before, after = total // 2, total - total // 2
        if padding == "EXPLICIT":
            before, after = explicit[2 * axis : 2 * axis + 2]
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
