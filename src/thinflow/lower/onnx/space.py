"""Blocks of space as batch or channels, and back."""

from __future__ import annotations

from typing import Any

from thinflow.ir.graph import Node
from thinflow.lower.onnx.builder import Builder, ints, require, shape_of
from thinflow.lower.onnx.conv import is_channels_first
from thinflow.lower.onnx.pad import padded
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor


@lower("SpaceToBatchND", to="onnx")
def space_to_batch_nd(b: Builder, node: Node, x: Tensor, block: Tensor, paddings: Tensor) -> Tensor:
    return _to_batch(b, x, ints(block, "the block"), ints(paddings, "paddings"))


@lower("SpaceToBatch", to="onnx")
def space_to_batch(b: Builder, node: Node, x: Tensor, paddings: Tensor, *, block_size: int) -> Tensor:
    return _to_batch(b, x, _square(block_size), ints(paddings, "paddings"))


@lower("BatchToSpaceND", to="onnx")
def batch_to_space_nd(b: Builder, node: Node, x: Tensor, block: Tensor, crops: Tensor) -> Tensor:
    return _from_batch(b, x, ints(block, "the block"), ints(crops, "crops"))


@lower("BatchToSpace", to="onnx")
def batch_to_space(b: Builder, node: Node, x: Tensor, crops: Tensor, *, block_size: int) -> Tensor:
    return _from_batch(b, x, _square(block_size), ints(crops, "crops"))


def _square(size: int) -> tuple[int, ...]:
    require(type(size) is int, f"a block size of {size} makes no sense")
    return (size, size)


def _to_batch(b: Builder, x: Tensor, block: tuple[int, ...], flat: tuple[int, ...]) -> Tensor:
    """[n,h,w,...] -> [bh*bw*n,h/bh,w/bw,...], the place in the block in front."""
    m = len(block)
    rank = len(shape_of(x, "x"))
    require(len(flat) == 2 * m and rank > m > 0, "block, paddings and x do not fit")
    require(min((*flat, *block, 1)) >= 0 and 0 not in block, "a padding or block size is negative")
    pairs = [(0, 0), *zip(flat[::2], flat[1::2], strict=True)]
    source = x
    x = padded(b, x, [*pairs, *[(0, 0)] * (rank - m - 1)])
    n, *sizes = shape_of(x)
    require(None not in sizes, "sizes are not known")
    split: list[int | None] = [n]
    for size, step in zip(sizes, block, strict=False):
        require((size or 0) % step == 0, f"a size of {size} is no multiple of {step}")
        split += [(size or 0) // step, step]
    split += sizes[m:]
    apart = b.reshaped(x, split)
    # [bh,bw,n,h/bh,w/bw,...] of the axes [n,h/bh,bh,w/bw,bw,...].
    order = [2 + 2 * i for i in range(m)] + [0] + [1 + 2 * i for i in range(m)]
    moved = b.transposed(apart, [*order, *range(2 * m + 1, len(split))])
    inner = [(size or 0) // step for size, step in zip(sizes, block, strict=False)]
    batch = n
    for step in block:
        batch = None if batch is None else batch * step
    result = b.reshaped(moved, [batch, *inner, *sizes[m:]])
    # Noted for `_dilated`: a convolution between this and the way back is a dilated one.
    b.blocks[result] = source, block, flat
    return result


def _dilated(b: Builder, x: Tensor, block: tuple[int, ...], crops: tuple[int, ...]) -> Tensor | None:
    """batch_to_space(conv(space_to_batch(x))) as a dilated conv(x): how TensorFlow spells dilation.

    None where it is something else. The convolution that stands there goes unused.
    """
    last = b.producer(x, "Transpose")
    conv = None if last is None else b.producer(last.inputs[0], "Conv")
    first = None if conv is None else b.producer(conv.inputs[0], "Transpose")
    spread = None if first is None or first.inputs[0] is None else b.blocks.get(first.inputs[0])
    if conv is None or spread is None:
        return None
    source, before, pads = spread
    # What was padded and not cut off again is the dilated convolution's own border.
    border = [pad - crop for pad, crop in zip(pads, crops, strict=True)]
    # A convolution that pads or strides by itself inside of the blocks does something else.
    is_plain = not {"pads", "auto_pad", "dilations"} & set(conv.options)
    is_plain = is_plain and set(conv.options["strides"]) == {1} and len(block) == len(shape_of(source)) - 2
    if not is_plain or before != block or min(border) < 0:
        return None
    options = {**conv.options, "dilations": block}
    if any(border):
        options["pads"] = (*border[::2], *border[1::2])
    result = b.result_spec().shape
    shape = (None,) * len(shape_of(source)) if result is None else (result[0], result[-1], *result[1:-1])
    return b.emit_channels_last(
        b.step("Conv", b.channels_first(source), *conv.inputs[1:], shape=shape, **options)
    )


def _from_batch(b: Builder, x: Tensor, block: tuple[int, ...], flat: tuple[int, ...]) -> Tensor:
    """The way back, and borders cut off."""
    m = len(block)
    shape = shape_of(x, "x")
    require(len(flat) == 2 * m and len(shape) > m > 0, "block, crops and x do not fit")
    require(min((*flat, *block, 1)) >= 0 and 0 not in block, "a crop or block size is negative")
    n, *sizes = shape
    require(None not in sizes, "sizes are not known")
    if (whole := _dilated(b, x, block, flat)) is not None:
        return whole
    total = 1
    for step in block:
        total *= step
    require(n is None or n % total == 0, f"a batch of {n} is no multiple of {total}")
    batch = None if n is None else n // total
    apart = b.reshaped(x, [*block, batch, *sizes])
    order = [m]
    for i in range(m):
        order += [m + 1 + i, i]
    # [n,h,bh,w,bw,...] of [bh,bw,n,h,w,...].
    moved = b.transposed(apart, [*order, *range(2 * m + 1, len(sizes) + m + 1)])
    grown = [(size or 0) * step for size, step in zip(sizes, block, strict=False)]
    y = b.reshaped(moved, [batch, *grown, *sizes[m:]])
    if not any(flat):
        return y
    lows, highs = flat[::2], flat[1::2]
    ends = [size - high for size, high in zip(grown, highs, strict=True)]
    left = [end - low for low, end in zip(lows, ends, strict=True)]
    return b.sliced(y, lows, ends, range(1, m + 1), shape=(batch, *left, *sizes[m:]))


@lower("SpaceToDepth", "DepthToSpace", to="onnx")
def space_to_depth(
    b: Builder, node: Node, x: Tensor, *, block_size: int, data_format: str = "NHWC"
) -> Tensor:
    """The place in the block is the outer part of a channel's number, as in ONNX's mode DCR."""
    require(0 < block_size < 1 << 12, f"blocks of {block_size} make no sense")
    channels = shape_of(x, "x", 4)[1 if is_channels_first(data_format) else 3]
    if node.op == "DepthToSpace" and channels is not None:
        require(channels % block_size**2 == 0, f"{channels} channels are no multiple of {block_size**2}")
    mode: dict[str, Any] = {"mode": "DCR"} if node.op == "DepthToSpace" else {}
    if is_channels_first(data_format):
        return b.emit(node.op, x, blocksize=block_size, **mode)
    result = b.result_spec().shape
    shape = (None,) * 4 if result is None else (result[0], result[3], *result[1:3])
    return b.emit_channels_last(
        b.step(node.op, b.channels_first(x), shape=shape, blocksize=block_size, **mode)
    )
