"""Spatial axes: borders, reversed axes, blocks as batch or channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.graph import Node
from thinflow.lower.onnx.builder import END, Builder, ints, require, shape_of
from thinflow.lower.onnx.conv import is_channels_first
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor
from thinflow.program.model import Dims


def grown(shape: Dims, pairs: Sequence[tuple[int, int]]) -> Dims:
    if shape is None:
        return None
    return tuple(None if n is None else n + low + high for n, (low, high) in zip(shape, pairs, strict=True))


def padded(
    b: Builder,
    x: Tensor,
    pairs: Sequence[tuple[int, int]],
    value: Tensor | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    """x with a border around it; x itself when there is none to add."""
    if not any(low or high for low, high in pairs):
        return x
    pads = b.ints([*(p[0] for p in pairs), *(p[1] for p in pairs)], "pads")
    return b.step("Pad", x, pads, value, shape=grown(x.shape, pairs), mode=mode)


def _pairs(paddings: Tensor) -> list[tuple[int, int]]:
    flat = ints(paddings, "paddings")
    require(min(flat, default=0) >= 0, "a padding is negative")
    # TensorFlow's [rank,2] read in a row: both ends of an axis stand together.
    return list(zip(flat[::2], flat[1::2], strict=True))


def mirrored(b: Builder, x: Tensor, paddings: Tensor, mode: str) -> Tensor:
    """x with each side mirrored outwards, without (REFLECT) or with (SYMMETRIC) the edge itself."""
    require(mode in ("REFLECT", "SYMMETRIC"), f"the mode {mode} is not known")
    pairs = _pairs(paddings)
    if mode == "REFLECT":
        return padded(b, x, pairs, mode="reflect")
    require(len(pairs) == len(shape_of(x, "x")), "paddings have another rank than x")
    for axis, (low, high) in enumerate(pairs):
        parts = [x]
        if low:
            parts.insert(0, _backwards(b, x, axis, low - 1, -END, low))
        if high:
            # Down to -high - 1, which is left out; where that is before the front, nothing is.
            parts.append(_backwards(b, x, axis, -1, -high - 1, high))
        if len(parts) > 1:
            shape = grown(x.shape, [(low, high) if a == axis else (0, 0) for a in range(len(pairs))])
            x = b.step("Concat", *parts, shape=shape, axis=axis)
    return x


def _backwards(b: Builder, x: Tensor, axis: int, start: int, end: int, count: int) -> Tensor:
    shape = tuple(count if a == axis else n for a, n in enumerate(shape_of(x)))
    return b.sliced(x, [start], [end], [axis], [-1], shape=shape)


@lower("Pad", to="onnx")
def pad(b: Builder, node: Node, x: Tensor, paddings: Tensor) -> Tensor:
    return pad_v2(b, node, x, paddings, None)


@lower("PadV2", to="onnx")
def pad_v2(b: Builder, node: Node, x: Tensor, paddings: Tensor, value: Tensor | None) -> Tensor:
    """ONNX wants all begins, then all ends."""
    # Pad's own default is 0; fusion into a convolution looks for pads without a value.
    if value is not None and value.is_constant and not np.asarray(value.array()).any():
        value = None
    if paddings.is_constant:
        return b.result(padded(b, x, _pairs(paddings), value))
    pads = b.reshaped(b.transposed(b.index(paddings), (1, 0)), (None,))
    return b.emit("Pad", x, pads, value, mode="constant")


@lower("MirrorPad", to="onnx")
def mirror_pad(b: Builder, node: Node, x: Tensor, paddings: Tensor, *, mode: str) -> Tensor:
    return b.result(mirrored(b, x, paddings, mode))


def _reversed(b: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    if not axes:
        return x
    count = len(axes)
    return b.sliced(x, [-1] * count, [-END] * count, axes, [-1] * count, shape=x.shape)


@lower("ReverseV2", to="onnx")
def reverse_v2(b: Builder, node: Node, x: Tensor, axis: Tensor) -> Tensor:
    return _reversed(b, x, b.axes(axis, len(shape_of(x, "x"))))


@lower("Reverse", to="onnx")
def reverse(b: Builder, node: Node, x: Tensor, flags: Tensor) -> Tensor:
    return _reversed(b, x, [axis for axis, chosen in enumerate(ints(flags, "dims")) if chosen])


@lower("ReverseSequence", to="onnx")
def reverse_sequence(
    b: Builder, node: Node, x: Tensor, lengths: Tensor, *, seq_dim: int, batch_dim: int = 0
) -> Tensor:
    """ONNX knows the first two axes only; others are moved there and back."""
    rank = len(shape_of(x, "x"))
    front = (batch_dim % rank, seq_dim % rank)
    require(front[0] != front[1], "batch and sequence are the same axis")
    order = (
        (*front, *(a for a in range(rank) if a not in front)) if set(front) != {0, 1} else tuple(range(rank))
    )
    moved = b.transposed(x, order)
    places = (order.index(front[0]), order.index(front[1]))
    result = b.step(
        "ReverseSequence",
        moved,
        b.index(lengths),
        shape=moved.shape,
        batch_axis=places[0],
        time_axis=places[1],
    )
    return b.transposed(result, [order.index(a) for a in range(rank)])


@lower("Roll", to="onnx")
def roll(b: Builder, node: Node, x: Tensor, shift: Tensor, axis: Tensor) -> Tensor:
    """The two parts of x along each axis, in the other order; sizes must be known."""
    shape = shape_of(x, "x")
    for by, where in zip(ints(shift, "shift"), b.axes(axis, len(shape)), strict=True):
        size = shape[where]
        require(size is not None, "the size of a rolled axis is not known")
        # Rolling by n moves element i to i + n: the last n come first.
        cut = -by % (size or 1)
        if cut:
            head, tail = (
                b.sliced(x, [s], [e], [where], shape=(*shape[:where], e - s, *shape[where + 1 :]))
                for s, e in ((0, cut), (cut, size or 0))
            )
            x = b.step("Concat", tail, head, shape=shape, axis=where)
    return x


# ---- Blocks of space as batch or channels, and back.


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
