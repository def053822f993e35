"""Readers that put the results of all steps together again: Pack, ConcatV2, or ConcatV2 of ExpandDims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thinflow.decompose.terms import Term
from thinflow.ir.graph import Node, Value
from thinflow.ops.traits import Trait, has


@dataclass(frozen=True)
class Join:
    """A node that joins the results of all steps and nothing else.

    Attributes:
        axis: where the steps go.
        is_new: whether they get an axis of their own; otherwise they are joined along one that they have.
        is_reversed: whether the last step comes first.
    """

    node: Node
    axis: int
    is_new: bool
    is_reversed: bool

    def of(self, rows: Term) -> Term:
        """The same from the results one behind the other [count, ...]."""
        x = rows.reverse(0) if self.is_reversed else rows
        rank = len(x.shape)
        order = [*range(1, self.axis + 1), 0, *range(self.axis + 1, rank)]
        x = x.transpose(order) if self.axis else x
        if self.is_new:
            return x
        sizes = [-1 if n is None else n for n in x.shape]
        joined = -1 if -1 in sizes[self.axis : self.axis + 2] else sizes[self.axis] * sizes[self.axis + 1]
        return x.reshape([*sizes[: self.axis], joined, *sizes[self.axis + 2 :]])


def join_of(values: Sequence[Value], reader: Node) -> Join | None:
    """The join of the results of all steps that a reader of the first is, or leads to."""
    rank = len(values[0].shape or ())
    if values[0].shape is None or reader.control_inputs:
        return None
    if reader.op == "ExpandDims":
        axis = _constant(reader.inputs[1])
        if axis is None or len(reader.outputs[0].readers) != 1:
            return None
        outer = reader.outputs[0].readers[0]
        found = _concat(outer, rank + 1)
        if found is None or found[0] != axis % (rank + 1):
            return None
        given = [_expanded(v, axis) for v in found[1]]
        return _ordered(outer, found[0], values, given, is_new=True)
    if has(reader.op, Trait.STACK):
        new = reader.attrs_view.get("axis", 0)
        if not isinstance(new, int) or not -rank - 1 <= new <= rank:
            return None
        return _ordered(reader, new % (rank + 1), values, reader.inputs, is_new=True)
    found = _concat(reader, rank)
    # Joined sizes are inferred from the others.
    if found is None or sum(n is None for n in (values[0].shape or ())) > 1:
        return None
    return _ordered(reader, found[0], values, found[1], is_new=False)


def _concat(node: Node, rank: int) -> tuple[int, Sequence[Value]] | None:
    if node.op != "ConcatV2" or node.control_inputs:
        return None
    axis = _constant(node.inputs[-1])
    return None if axis is None or not -rank <= axis < rank else (axis % rank, node.inputs[:-1])


def _expanded(value: Value, axis: int) -> Value | None:
    """What a value is, but for an axis more that it got."""
    node = value.node
    same = node.op == "ExpandDims" and not node.control_inputs and _constant(node.inputs[1]) == axis
    return node.inputs[0] if same and len(value.uses) == 1 and not node.is_protected else None


def _constant(value: Value) -> int | None:
    tensor = value.node.tensor
    return int(tensor.numpy().ravel()[0]) if tensor is not None and tensor.size == 1 else None


def _ordered(
    node: Node, axis: int, values: Sequence[Value], given: Sequence[Value | None], *, is_new: bool
) -> Join | None:
    for is_reversed in (False, True):
        if list(given) == list(values[::-1] if is_reversed else values):
            return Join(node, axis, is_new, is_reversed)
    return None
