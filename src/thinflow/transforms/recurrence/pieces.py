"""The piece of a sequence that each step reads: an output of Split or Unpack, or a slice of one index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thinflow.decompose.terms import Term
from thinflow.ir.graph import Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ops.traits import Trait, has


@dataclass(frozen=True)
class Piece:
    """Some of an axis of a tensor.

    Attributes:
        index: which; the axis has `parts` of them if they are blocks of equal size, else one each.
        is_kept: whether the axis is still there, with size 1.
    """

    source: Value
    axis: int
    index: int
    parts: int = 0
    is_kept: bool = False


@dataclass(frozen=True)
class Sequenced:
    """The pieces of all steps: those of one tensor at `start`, `start + stride`...

    Attributes:
        first: the piece of the first step.
        count: of pieces.
    """

    first: Piece
    stride: int
    count: int

    def rows(self, x: Term) -> Term:
        """The pieces [count, ...] of their source, without the axis that they are cut from."""
        axis, start = self.first.axis, self.first.index
        if self.first.parts:
            # Blocks of equal size are an axis of their own once it is split in two.
            sizes = [-1 if n is None else n for n in x.shape]
            width = -1 if sizes[axis] < 0 else sizes[axis] // self.first.parts
            x = x.reshape([*sizes[:axis], self.first.parts, width, *sizes[axis + 1 :]])
        last = start + self.stride * (self.count - 1)
        low, high = min(start, last), max(start, last) + 1
        if (low, high, abs(self.stride)) != (0, x.shape[axis], 1):
            x = x.cut(axis, low, high, abs(self.stride))
        if self.stride < 0:
            x = x.reverse(axis)
        rank = len(x.shape)
        return x if axis == 0 else x.transpose((axis, *(n for n in range(rank) if n != axis)))


def sequence_of(values: Sequence[Value]) -> Sequenced | None:
    """What the values of all steps are pieces of; None if they are no row of pieces."""
    first = _piece(values[0])
    second = _piece(values[1]) if first is not None else None
    if first is None or second is None or first.index == second.index:
        return None
    stride = second.index - first.index
    for number, value in enumerate(values):
        piece = _piece(value)
        wanted = Piece(first.source, first.axis, first.index + number * stride, first.parts, first.is_kept)
        if piece != wanted:
            return None
    shape = first.source.shape or ()
    # Cut into blocks it has one size more to infer.
    if first.parts and sum(n is None for n in shape) > 1:
        return None
    return Sequenced(first, stride, len(values))


def _piece(value: Value) -> Piece | None:
    node = value.node
    if node.control_inputs or not node.inputs:
        return None
    if node.op == "Unpack":
        return _at(node.inputs[0], node.attrs_view.get("axis", 0), value.port)
    if node.op in ("Split", "SplitV"):
        return _of_split(node, value.port)
    if node.op in ("StridedSlice", "Slice"):
        return _of_slice(node)
    if has(node.op, Trait.GATHER):
        return _of_gather(node)
    if node.op in ("Squeeze", "Reshape"):
        return _without_axis(value, _piece(node.inputs[0]))
    return None


def _at(source: Value, axis: object, index: int, parts: int = 0, *, is_kept: bool = False) -> Piece | None:
    """A piece, its axis and its index counted from the start; None if it is not known where that is."""
    if (
        source.shape is None
        or not isinstance(axis, int)
        or not -len(source.shape) <= axis < len(source.shape)
    ):
        return None
    axis %= len(source.shape)
    size = parts or source.shape[axis]
    # Where the sequence ends has to be known, to tell whether it is read to the end.
    if size is None or not -size <= index < size:
        return None
    return Piece(source, axis, index % size, parts, is_kept)


def _number(value: Value) -> int | None:
    numbers = _numbers(value)
    return numbers[0] if numbers is not None and len(numbers) == 1 else None


def _numbers(value: Value) -> list[int] | None:
    """The elements of a small constant of integers."""
    tensor: Tensor | None = value.node.tensor
    if tensor is None or tensor.dtype.kind not in "iu" or tensor.size > 16:
        return None
    return [int(n) for n in tensor.numpy().ravel().tolist()]


def _of_split(node: Node, port: int) -> Piece | None:
    source, over = (
        (node.inputs[1], node.inputs[0]) if node.op == "Split" else (node.inputs[0], node.inputs[2])
    )
    axis, parts = _number(over), node.attrs_view.get("num_split")
    if node.op == "SplitV":
        sizes = _numbers(node.inputs[1])
        # Blocks of one size are what Split gives.
        if sizes is None or len(set(sizes)) != 1 or sizes[0] < 1:
            return None
    if axis is None or not isinstance(parts, int) or source.shape is None:
        return None
    if not -len(source.shape) <= axis < len(source.shape):
        return None
    is_single = source.shape[axis] == parts
    return _at(source, axis, port, 0 if is_single else parts, is_kept=is_single)


def _of_gather(node: Node) -> Piece | None:
    index = node.inputs[1].node.tensor
    # An index without axes takes the axis away.
    if index is None or index.shape != () or node.attrs_view.get("batch_dims"):
        return None
    axis = _number(node.inputs[2]) if len(node.inputs) > 2 else 0
    number = _number(node.inputs[1])
    return None if number is None else _at(node.inputs[0], axis, number)


def _of_slice(node: Node) -> Piece | None:
    """A slice with one index of one axis, and all of the others."""
    shape = node.inputs[0].shape
    numbers = [_numbers(v) for v in node.inputs[1:]]
    if shape is None or any(n is None for n in numbers):
        return None
    begin, end, *strides = [n or [] for n in numbers]
    attrs = node.attrs_view
    masks = {
        m: _mask(attrs.get(f"{m}_mask")) for m in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    if masks["ellipsis"] or masks["new_axis"] or any(n != 1 for s in strides for n in s):
        return None
    found: Piece | None = None
    for axis, (start, stop) in enumerate(zip(begin, end, strict=False)):
        if masks["shrink_axis"] >> axis & 1:
            low, is_one = start, True
        else:
            first = None if masks["begin"] >> axis & 1 else start
            behind = _behind(node.op, start, stop, is_open=bool(masks["end"] >> axis & 1))
            size = shape[axis] if axis < len(shape) else None
            if not first and behind is None:
                continue
            if size is None:
                return None
            low, high, _ = slice(first, behind).indices(size)
            if (low, high) == (0, size):
                continue
            is_one = high - low == 1
        # A second axis of which only some is read.
        if found is not None or not is_one:
            return None
        found = _at(node.inputs[0], axis, low, is_kept=not masks["shrink_axis"] >> axis & 1)
        if found is None:
            return None
    return found


def _mask(attr: object) -> int:
    return attr if isinstance(attr, int) else 0


def _behind(op: str, start: int, stop: int, *, is_open: bool) -> int | None:
    """The index behind the last one of a slice; None for the end. Slice gives a size, -1 for all the rest."""
    if op == "Slice":
        return None if stop < 0 else start + stop
    return None if is_open else stop


def _without_axis(value: Value, piece: Piece | None) -> Piece | None:
    """A piece whose axis of size 1 was taken out by a Squeeze or Reshape."""
    if piece is None or not piece.is_kept or piece.source.shape is None or value.shape is None:
        return None
    rest = [n for axis, n in enumerate(piece.source.shape) if axis != piece.axis]
    # With one open size at most, the number of elements tells what it is.
    if list(value.shape) != rest or sum(n is None for n in rest) > 1:
        return None
    return Piece(piece.source, piece.axis, piece.index, piece.parts)
