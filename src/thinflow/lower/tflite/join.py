"""Joining and splitting."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, ints, require, shape_of
from thinflow.lower.tflite.program import Tensor


def _concat(b: Builder, xs: tuple[Tensor, ...], axis: Tensor) -> Tensor:
    place = b.axes(axis, len(shape_of(xs[0])))[0]
    # A constant without elements is no constant to LiteRT, and adds nothing.
    parts = [x for x in xs if not (x.is_constant and x.shape and x.shape[place] == 0)]
    require(len(parts) > 0, "there is nothing to join")
    return b.emit("CONCATENATION", *parts, axis=place)


@lower("Concat", to="tflite")
def concat(b: Builder, node: Node, axis: Tensor, *xs: Tensor) -> Tensor:
    return _concat(b, xs, axis)


@lower("ConcatV2", to="tflite")
def concat_v2(b: Builder, node: Node, *xs: Tensor) -> Tensor:
    return _concat(b, xs[:-1], xs[-1])


@lower("Pack", to="tflite")
def pack(b: Builder, node: Node, *xs: Tensor, axis: int = 0) -> Tensor:
    return b.emit("PACK", *xs, values_count=len(xs), axis=axis)


@lower("Unpack", to="tflite")
def unpack(b: Builder, node: Node, x: Tensor, *, num: int, axis: int = 0) -> tuple[Tensor, ...]:
    return b.emit_ports("UNPACK", x, count=num, num=num, axis=axis)


@lower("Split", to="tflite")
def split(b: Builder, node: Node, axis: Tensor, x: Tensor, *, num_split: int) -> tuple[Tensor, ...] | Tensor:
    # One part is all of it.
    if num_split == 1:
        return x
    return b.emit_ports("SPLIT", b.index(axis), x, count=num_split, num_splits=num_split)


@lower("SplitV", to="tflite")
def split_v(
    b: Builder, node: Node, x: Tensor, sizes: Tensor, axis: Tensor, *, num_split: int
) -> tuple[Tensor, ...] | Tensor:
    ints(axis, "axis")
    if num_split == 1:
        return x
    return b.emit_ports("SPLIT_V", x, b.index(sizes), b.index(axis), count=num_split, num_splits=num_split)
