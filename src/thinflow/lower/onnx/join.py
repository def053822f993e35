"""Joining and splitting."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor

_MOST = 1 << 16
"""Parts of a split."""


def _concat(b: Builder, xs: tuple[Tensor, ...], axis: Tensor) -> Tensor:
    require(len(xs) > 0, "there is nothing to join")
    (place,) = b.axes(axis, len(shape_of(xs[0])))
    return b.emit("Concat", *xs, axis=place)


@lower("Concat", to="onnx")
def concat(b: Builder, node: Node, axis: Tensor, *xs: Tensor) -> Tensor:
    return _concat(b, xs, axis)


@lower("ConcatV2", to="onnx")
def concat_v2(b: Builder, node: Node, *xs: Tensor) -> Tensor:
    return _concat(b, xs[:-1], xs[-1])


@lower("Pack", to="onnx")
def pack(b: Builder, node: Node, *xs: Tensor, axis: int = 0) -> Tensor:
    """Each with a new axis, joined along it."""
    if axis < 0:
        # A negative axis counts in the result, which has one axis more.
        axis += len(shape_of(xs[0])) + 1
    return b.emit("Concat", *(b.unsqueezed(x, [axis]) for x in xs), axis=axis)


@lower("Unpack", to="onnx")
def unpack(b: Builder, node: Node, x: Tensor, *, num: int, axis: int = 0) -> tuple[Tensor, ...]:
    shape = shape_of(x, "x")
    axis %= max(len(shape), 1)
    require(shape[axis] in (num, None) and num <= _MOST, f"there are no {num} parts")
    part = (*shape[:axis], 1, *shape[axis + 1 :])
    return tuple(
        b.result(b.squeezed(t, [axis]), port)
        for port, t in enumerate(_split(b, x, [1] * num, axis, [part] * num))
    )


def _split(
    b: Builder, x: Tensor, sizes: list[int], axis: int, shapes: list[tuple[int | None, ...]]
) -> tuple[Tensor, ...]:
    count = len(sizes)
    # ONNX's Split of one part would be a copy.
    if count == 1:
        return (x,)
    return b.step_ports(
        "Split", x, b.ints(sizes, "sizes"), shapes=shapes, elements=[x.dtype] * count, axis=axis
    )


@lower("Split", to="onnx")
def split(b: Builder, node: Node, axis: Tensor, x: Tensor, *, num_split: int) -> tuple[Tensor, ...] | Tensor:
    """Equal parts."""
    if num_split == 1:
        return x
    require(0 < num_split <= _MOST, f"{num_split} parts cannot be")
    (place,) = b.axes(axis, None if x.shape is None else len(x.shape))
    size = None if x.shape is None else x.shape[place]
    if size is not None:
        require(size % num_split == 0, f"{size} elements cannot be split into {num_split} equal parts")
        sizes = b.ints([size // num_split] * num_split, "sizes")
        return b.emit_ports("Split", x, sizes, count=num_split, axis=place)
    # Opset 18 wants the number of outputs said; before, it followed from their names.
    more = {"num_outputs": num_split} if b.opset >= 18 else {}
    return b.emit_ports("Split", x, count=num_split, axis=place, **more)


@lower("SplitV", to="onnx")
def split_v(
    b: Builder, node: Node, x: Tensor, sizes: Tensor, axis: Tensor, *, num_split: int
) -> tuple[Tensor, ...] | Tensor:
    """Parts of given sizes, of which one may be -1 for the rest."""
    (place,) = b.axes(axis, None if x.shape is None else len(x.shape))
    if num_split == 1:
        return x
    require(0 < num_split <= _MOST, f"{num_split} parts cannot be")
    known = b.elements(sizes)
    if known is not None and -1 in known:
        total = None if x.shape is None else x.shape[place]
        require(total is not None and None not in known, "the size of the split axis is not known")
        # The -1 is in the sum itself: the last 1 makes up for it.
        rest = (total or 0) - sum(n or 0 for n in known) - 1
        sizes = b.ints([rest if n == -1 else n or 0 for n in known], "sizes")
    return b.emit_ports("Split", x, b.index(sizes), count=num_split, axis=place)
