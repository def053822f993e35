"""Lists (TensorList, TensorArray) while lowering: one tensor that holds all items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import DType, TensorSpec
from thinflow.lower import slots
from thinflow.lower.onnx.builder import END, Builder, require, shape_of
from thinflow.lower.operands import is_count, merged
from thinflow.onnx.program import Tensor


class Listed(slots.Listed[Tensor]):
    """A list of this target."""


Slot: TypeAlias = "Tensor | Listed | slots.Complex[Tensor]"
"""What stands for a value."""


def listed(what: Slot) -> Listed:
    """The list that stands for a value.

    Raises:
        UnsupportedOp: it was made elsewhere.
    """
    if not isinstance(what, Listed):
        raise UnsupportedOp("its list comes from outside of the ONNX model")
    return what


def reserved(b: Builder, number: Tensor, element: DType, shape: Sequence[int | None] | None) -> Listed:
    """A list of so many items, none of them set.

    Args:
        number: an integer scalar.
        shape: what is known of the items.
    """
    require(element.kind not in "cV", f"a list of {element} has no ONNX form")
    known = b.elements(number)
    count = known[0] if known else None
    require(count is None or count >= 0, f"a list of {count} items")
    size = None if count is not None else b.reshaped(b.index(number), ())
    return Listed(count, element, None if shape is None else tuple(shape), None, size)


def size_of(b: Builder, values: Listed) -> Tensor:
    """The number of items, int64 []."""
    if values.count is not None:
        return b.int64(values.count, "count")
    if values.tensor is not None:
        first = b.sliced(b.sizes_of(values.tensor), [0], [1], [0], shape=(1,))
        return b.squeezed(first, [0])
    assert values.size is not None
    return values.size


def items_of(b: Builder, values: Listed) -> Tensor:
    """All items as one tensor [n,...]; zeros where nothing has been set."""
    if values.tensor is not None:
        return values.tensor
    if values.shape is None:
        raise UnsupportedOp("the rank of its list's items is not known", hint="give the shapes of the inputs")
    count = b.unsqueezed(size_of(b, values), [0])
    sizes = b.joined(count, b.ints([1 if n is None else n for n in values.shape], "item"))
    return b.filled(sizes, 0, values.element, shape=values.stored_shape)


def rows(b: Builder, values: Listed, indices: Tensor) -> Tensor:
    """The items at some indices (int32 or int64 of any rank), as the current node's output 0."""
    items = items_of(b, values)
    if indices.shape is not None and values.shape is not None:
        b.refine(b.node.output(), TensorSpec(values.element, (*indices.shape, *values.shape)))
    return b.emit("Gather", items, b.index(indices), like=items, axis=0)


def stacked(b: Builder, values: Listed) -> Tensor:
    """All items as the current node's output 0."""
    items = items_of(b, values)
    if items.shape is not None:
        b.refine(b.node.output(), TensorSpec(values.element, items.shape))
    return b.result(items)


def with_row(b: Builder, values: Listed, index: Tensor, item: Tensor) -> Listed:
    """The list with an item set."""
    values = replace(values, shape=merged(values.shape, shape_of(item, "the item")))
    place = b.reshaped(b.index(index), (1, 1))
    items = b.step("ScatterND", spread(b, values, item), place, b.unsqueezed(item, [0]), shape=None)
    items.shape = values.stored_shape
    return values.with_tensor(items)


def with_rows(b: Builder, values: Listed, indices: Tensor, x: Tensor) -> Listed:
    """The list with the rows of x [n,...] at `indices` [n]."""
    values = replace(values, shape=merged(values.shape, shape_of(x, "the rows")[1:]))
    # All rows in their order: nothing of the old items is left.
    if values.count is not None and is_count(indices, values.count):
        return values.with_tensor(x)
    items = spread(b, values, x, rows=True)
    items = b.step("ScatterND", items, b.unsqueezed(b.index(indices), [1]), x, shape=values.stored_shape)
    return values.with_tensor(items)


def spread(b: Builder, values: Listed, item: Tensor, *, rows: bool = False) -> Tensor:
    """The items, with the sizes that the first of them tells where these are not fixed.

    Args:
        item: [...], or [n,...] if `rows`.
    """
    items = items_of(b, values)
    if values.shape is not None and None not in values.shape:
        return items
    sizes = b.sizes_of(item)
    if rows:
        sizes = b.sliced(sizes, [1], [END], [0], shape=None)
    return b.step("Expand", items, b.joined(b.ints([1]), sizes), shape=values.stored_shape)


def joined(b: Builder, values: Listed) -> tuple[Tensor, Tensor]:
    """The items one behind the other along their first axis, and their sizes; all are of one size."""
    items = items_of(b, values)
    count, length, *rest = shape_of(items, "the list")
    known = count is not None and length is not None
    total = (count or 0) * (length or 0) if known else None
    if known:
        lengths = b.const(np.full(count or 0, length, np.int64), "lengths")
    else:
        sizes = b.sizes_of(items)
        first = b.sliced(sizes, [1], [2], [0], shape=(1,))
        lengths = b.step("Expand", first, b.sliced(sizes, [0], [1], [0], shape=(1,)), shape=(count,))
    # One size may be left to Reshape.
    if rest.count(None) + (total is None) <= 1:
        return b.reshaped(items, (total, *rest)), lengths
    sizes = b.joined(b.ints([-1]), b.sliced(b.sizes_of(items), [2], [END], [0], shape=(len(rest),)))
    return b.step("Reshape", items, sizes, shape=(total, *rest)), lengths
