"""Lists (TensorList, TensorArray) while lowering: one tensor that holds all items."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Node
from thinflow.ir.types import INT32, DType, TensorSpec
from thinflow.lower.lists import Lists, wished
from thinflow.lower.onnx.builder import END, Builder, require, shape_of
from thinflow.lower.operands import is_count, merged
from thinflow.lower.rules import lower
from thinflow.lower.slots import Complex, Listed
from thinflow.onnx.program import Tensor

Slot: TypeAlias = "Tensor | Listed[Tensor] | Complex[Tensor]"
"""Stand-in for a value."""


def size_of(b: Builder, values: Listed[Tensor]) -> Tensor:
    """The number of items, int64 []."""
    if values.count is not None:
        return b.int64(values.count, "count")
    if values.tensor is not None:
        first = b.sliced(b.sizes_of(values.tensor), [0], [1], [0], shape=(1,))
        return b.squeezed(first, [0])
    assert values.size is not None
    return values.size


def items_of(b: Builder, values: Listed[Tensor]) -> Tensor:
    """All items as one tensor [n,...]; zeros where nothing has been set."""
    if values.tensor is not None:
        return values.tensor
    if values.shape is None:
        raise UnsupportedOp("the rank of its list's items is not known", hint="give the shapes of the inputs")
    count = b.unsqueezed(size_of(b, values), [0])
    # An open size becomes 1, which broadcasts: `spread` makes the items as large as the first that is set.
    sizes = b.joined(count, b.ints([1 if n is None else n for n in values.shape], "item"))
    return b.filled(sizes, 0, values.element, shape=values.stored_shape)


def rows(b: Builder, values: Listed[Tensor], indices: Tensor) -> Tensor:
    """The items at some indices (int32 or int64 of any rank), as the current node's output 0."""
    items = items_of(b, values)
    if indices.shape is not None and values.shape is not None:
        b.refine(b.node.output(), TensorSpec(values.element, (*indices.shape, *values.shape)))
    return b.emit("Gather", items, b.index(indices), like=items, axis=0)


def stacked(b: Builder, values: Listed[Tensor]) -> Tensor:
    """All items as the current node's output 0."""
    items = items_of(b, values)
    if items.shape is not None:
        b.refine(b.node.output(), TensorSpec(values.element, items.shape))
    return b.result(items)


def with_row(b: Builder, values: Listed[Tensor], index: Tensor, item: Tensor) -> Listed[Tensor]:
    """The list with an item set."""
    values = replace(values, shape=merged(values.shape, shape_of(item, "the item")))
    place = b.reshaped(b.index(index), (1, 1))
    items = b.step("ScatterND", spread(b, values, item), place, b.unsqueezed(item, [0]), shape=None)
    items.shape = values.stored_shape
    return values.with_tensor(items)


def with_rows(b: Builder, values: Listed[Tensor], indices: Tensor, x: Tensor) -> Listed[Tensor]:
    """The list with the rows of x [n,...] at `indices` [n]."""
    values = replace(values, shape=merged(values.shape, shape_of(x, "the rows")[1:]))
    # All rows in their order: nothing of the old items is left.
    if values.count is not None and is_count(indices, values.count):
        return values.with_tensor(x)
    items = spread(b, values, x, rows=True)
    items = b.step("ScatterND", items, b.unsqueezed(b.index(indices), [1]), x, shape=values.stored_shape)
    return values.with_tensor(items)


def filled_up(b: Builder, values: Listed[Tensor], index: Tensor, item: Tensor) -> Listed[Tensor]:
    """The list with as many zeros behind it that there is an item at an index."""
    items = spread(b, values, item)
    wanted = b.step("Add", b.reshaped(b.index(index), (1,)), b.ints([1]), shape=(1,))
    now = b.unsqueezed(size_of(b, replace(values, count=None, tensor=items)), [0])
    missing = b.step("Max", b.step("Sub", wanted, now, shape=(1,)), b.ints([0]), shape=(1,))
    shape = (None, *(values.shape or ()))
    more = b.filled(b.joined(missing, b.sizes_of(item)), 0, values.element, shape=shape)
    longer = b.step("Concat", items, more, shape=shape, axis=0)
    return replace(values, count=None).with_tensor(longer)


def spread(b: Builder, values: Listed[Tensor], item: Tensor, *, rows: bool = False) -> Tensor:
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


def joined(b: Builder, values: Listed[Tensor]) -> tuple[Tensor, Tensor]:
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


LISTS: Lists[Builder, Tensor] = Lists(
    label="ONNX",
    size=lambda b, number: b.reshaped(b.index(number), ()),
    stacked=stacked,
    rows=rows,
    with_row=with_row,
    with_rows=with_rows,
    filled_up=filled_up,
    concatenated=joined,
    length=lambda b, values: b.cast(size_of(b, values), INT32),
)
for _op, _rule in LISTS.rules():
    lower(_op, to="onnx")(_rule)


# --- lists that grow and shrink ---------------------------------------------------------------------------


@lower("EmptyTensorList", to="onnx")
def empty(
    b: Builder, node: Node, element_shape: Tensor, limit: Tensor, *, element_dtype: DType
) -> Listed[Tensor]:
    # The limit on the number of items is no size: the list begins empty.
    return LISTS.new(b, b.int64(0), element_dtype, wished(element_shape))


@lower("TensorListPushBack", to="onnx")
def push_back(
    b: Builder, node: Node, values: Listed[Tensor], item: Tensor, *, element_dtype: DType
) -> Listed[Tensor]:
    """One item more at the end."""
    known = LISTS.list_of(values)
    known = replace(known, shape=merged(known.shape, shape_of(item, "the item")))
    shape = (None if known.count is None else known.count + 1, *(known.shape or ()))
    row = b.unsqueezed(item, [0])
    # No items yet: the first one tells their shape.
    if known.count == 0:
        return Listed(1, known.element, known.shape).with_tensor(row)
    items = b.step("Concat", spread(b, known, item), row, shape=shape, axis=0)
    return Listed(shape[0], known.element, known.shape).with_tensor(items)


@lower("TensorListPopBack", to="onnx")
def pop_back(
    b: Builder, node: Node, values: Listed[Tensor], element_shape: Tensor, *, element_dtype: DType
) -> tuple[Listed[Tensor], Tensor]:
    """The list without its last item, and that item."""
    known = LISTS.described(values, element_shape)
    require(known.count != 0, "the list is empty")
    items = items_of(b, known)
    count = None if known.count is None else known.count - 1
    shape = shape_of(items, "the list")[1:]
    # TensorFlow gives the shorter list first, then the item.
    rest = b.sliced(items, [0], [-1], [0], shape=(count, *shape))
    last = b.step("Gather", items, b.int64(-1), shape=shape, axis=0)
    return Listed(count, known.element, shape).with_tensor(rest), b.result(last, 1)


@lower("TensorListScatter", "TensorListScatterV2", to="onnx")
def scatter(
    b: Builder,
    node: Node,
    x: Tensor,
    indices: Tensor,
    element_shape: Tensor,
    *number: Tensor,
    element_dtype: DType,
) -> Listed[Tensor]:
    """A list with the rows of x at some places; as long as these ask for if no length is given."""
    given = b.elements(number[0]) if number else (-1,)
    # -1, or no length at all: as many items as the largest index asks for.
    if given is not None and given[0] is not None and given[0] < 0:
        require(indices.is_constant, "the length of the list depends on the places that are written")
        count = b.int64(int(indices.array().max(initial=-1)) + 1)
    else:
        require(given is not None and None not in given, "the length of the list is computed")
        count = number[0]
    return with_rows(b, LISTS.new(b, count, element_dtype, wished(element_shape)), indices, x)


@lower("TensorListResize", to="onnx")
def resize(b: Builder, node: Node, values: Listed[Tensor], size: Tensor) -> Listed[Tensor]:
    """Cut off, or zeros put behind."""
    known = LISTS.list_of(values)
    wanted = b.elements(size)
    count = wanted[0] if wanted else None
    if known.tensor is None:
        return LISTS.new(b, size, known.element, known.shape)
    items = items_of(b, known)
    wish = b.reshaped(b.index(size), (1,))
    now = b.unsqueezed(size_of(b, known), [0])
    # One of Pad and Slice does nothing: which is known only at run time.
    missing = b.step("Max", b.step("Sub", wish, now), b.ints([0]))
    rank = len(shape_of(items, "the list"))
    pads = b.joined(b.ints([0] * rank), missing, b.ints([0] * (rank - 1)))
    longer = b.step("Pad", items, pads, shape=(None, *shape_of(items)[1:]), mode="constant")
    cut = b.step("Slice", longer, b.ints([0]), wish, b.ints([0]), shape=(count, *shape_of(items)[1:]))
    return Listed(count, known.element, shape_of(items)[1:]).with_tensor(cut)


@lower("TensorListElementShape", to="onnx")
def element_shape(b: Builder, node: Node, values: Listed[Tensor], *, shape_type: DType) -> Tensor:
    """As far as the list was told it."""
    shape = LISTS.list_of(values).shape
    # A scalar of -1 stands for an unknown rank.
    sizes = -1 if shape is None else [-1 if n is None else n for n in shape]
    return b.const(np.array(sizes, shape_type.numpy()), "shape")
