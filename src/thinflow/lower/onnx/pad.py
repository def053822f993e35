"""Borders and reversed axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.ir.graph import Node
from thinflow.lower.onnx.builder import END, Builder, Dims, ints, require, shape_of
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor


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
