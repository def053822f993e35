"""Lists (TensorList, TensorArray) while lowering: one tensor that holds all items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32, TensorSpec, shape_text
from thinflow.lower.lists import Lists
from thinflow.lower.operands import is_count, merged
from thinflow.lower.rules import lower
from thinflow.lower.slots import Complex, Listed
from thinflow.lower.tflite.builder import Builder, shape_of
from thinflow.tflite.model import Operator, Tensor

_LARGEST_CONSTANT = 1024
"""Bytes of zeros that are stored; more are made when the model runs."""


Slot: TypeAlias = "Tensor | Listed[Tensor] | Complex[Tensor]"
"""Stand-in for a value."""


def sizes_of_items(b: Builder, values: Listed[Tensor], inner: Tensor) -> Tensor:
    """The shape of the tensor that holds a list's items, int32 [1 + rank], given that of one item."""
    first = b.ints([values.count], "count") if values.count is not None else _size_of(b, values)
    rank = None if inner.shape is None or inner.shape[0] is None else inner.shape[0] + 1
    return b.step("CONCATENATION", first, inner, shape=(rank,), axis=0)


def length_of(b: Builder, values: Listed[Tensor]) -> Tensor:
    """The number of a list's items, int32 []."""
    if values.count is not None:
        return b.const(np.int32(values.count), "length")
    return b.reshaped(_size_of(b, values), ())


def _size_of(b: Builder, values: Listed[Tensor]) -> Tensor:
    """The number of items, int32 [1]."""
    if values.tensor is not None:
        # In a loop the tensor may know less than what was learnt of its items.
        rank = len(values.stored_shape or shape_of(values.tensor, "the list"))
        now = b.step("SHAPE", values.tensor, shape=(rank,), element=INT32, out_type=INT32)
        return b.step("SLICE", now, b.ints([0], "begin"), b.ints([1], "size"), shape=(1,))
    if values.size is None:
        raise UnsupportedOp("the number of items is not known")
    return b.reshaped(b.index(values.size), (1,))


def items_of(b: Builder, values: Listed[Tensor], item: Tensor | None = None) -> Tensor:
    """All items as one tensor [n,...]; zeros where nothing has been set.

    Args:
        item: one of them, which tells sizes that are known when the model runs only.
    """
    if values.tensor is not None:
        return values.tensor
    shape = values.shape
    if shape is None or (None in shape and item is None):
        raise UnsupportedOp(
            f"the items of its list have shape {shape_text(shape)}; LiteRT wants it fixed",
            hint="fix the sizes of the inputs (shapes=... or --shape)",
        )
    zero = np.zeros((), values.element.numpy())
    if values.count is None or None in shape:
        inner = b.ints([n or 0 for n in shape], "sizes") if None not in shape else _shape_now(b, item)
        sizes_now = sizes_of_items(b, values, inner)
        value, whole = b.const(zero, "zero", values.element), (values.count, *shape)
        return b.step("FILL", sizes_now, value, shape=whole, element=values.element, suffix="empty")
    sizes = (values.count, *(n or 0 for n in shape))
    # A FILL takes time in every run: only many zeros are worth that, and none, which no constant holds.
    if 0 < zero.nbytes * int(np.prod(sizes)) <= _LARGEST_CONSTANT:
        return b.const(np.zeros(sizes, zero.dtype), "empty", values.element)
    value = b.const(zero, "zero", values.element)
    return b.step("FILL", b.ints(sizes, "sizes"), value, shape=sizes, element=values.element, suffix="empty")


def _shape_now(b: Builder, item: Tensor | None) -> Tensor:
    """The sizes of a tensor as it is when the model runs, int32 [rank]."""
    assert item is not None
    rank = (len(shape_of(item, "the item")),)
    return b.step("SHAPE", item, shape=rank, element=INT32, out_type=INT32)


def rows(b: Builder, values: Listed[Tensor], indices: Tensor) -> Tensor:
    """The items at some indices (int32 or int64 of any rank), as the current node's output 0."""
    items = items_of(b, values)
    if indices.shape is not None and values.shape is not None:
        shape = (*indices.shape, *values.shape)
        # What goes through a list has lost its shape in the graph; rules behind this one get it back.
        b.refine(b.node.output(), TensorSpec(values.element, shape))
    return b.emit("GATHER", items, b.index(indices), like=items, axis=0)


def with_row(b: Builder, values: Listed[Tensor], index: Tensor, item: Tensor) -> Listed[Tensor]:
    """The list with an item set."""
    if item.shape is None:
        raise UnsupportedOp("the rank of the item is not known", hint="give the shapes of the inputs")
    values = replace(values, shape=merged(values.shape, item.shape))
    # RESHAPE finds one unknown size, no more.
    row = b.reshaped(item, (1, *item.shape)) if item.shape.count(None) <= 1 else _as_row(b, item)
    if values.count == 1:
        return values.with_tensor(row)  # there is only one place: Keras keeps the last output of an RNN so
    items = items_of(b, values, item)
    # The update starts at (index, 0, ...); the index is computed, so its place has to be put together.
    places = [b.reshaped(b.index(index), ()), *(b.const(np.int32(0), "zero") for _ in item.shape)]
    rank = len(places)
    start = (
        b.reshaped(places[0], (1,))
        if rank == 1
        else b.step("PACK", *places, shape=(rank,), element=INT32, values_count=rank, axis=0)
    )
    shape = (values.count, *(values.shape or ()))
    return values.with_tensor(
        b.step("DYNAMIC_UPDATE_SLICE", items, row, start, shape=shape, element=values.element)
    )


def filled_up(b: Builder, values: Listed[Tensor], index: Tensor, item: Tensor) -> Listed[Tensor]:
    """The list with as many zeros behind it that there is an item at an index."""
    items = items_of(b, values, item)
    wanted = b.step("ADD", b.reshaped(b.index(index), (1,)), b.ints([1], "one"), shape=(1,), element=INT32)
    missing = b.step("SUB", wanted, _size_of(b, replace(values, tensor=items)), shape=(1,), element=INT32)
    missing = b.step("MAXIMUM", missing, b.ints([0], "zero"), shape=(1,), element=INT32)
    inner = shape_of(item, "the item")
    sizes = b.ints([n or 0 for n in inner], "sizes") if None not in inner else _shape_now(b, item)
    whole = b.step("CONCATENATION", missing, sizes, shape=(len(inner) + 1,), axis=0) if inner else missing
    zero = b.const(np.zeros((), values.element.numpy()), "zero", values.element)
    shape = (None, *(values.shape or ()))
    more = b.step("FILL", whole, zero, shape=shape, element=values.element, suffix="more")
    longer = b.step("CONCATENATION", items, more, shape=shape, element=values.element, axis=0)
    return replace(values, count=None).with_tensor(longer)


def joined(b: Builder, values: Listed[Tensor]) -> tuple[Tensor, Tensor]:
    """The items one behind the other along their first axis, and their sizes; all are of one size."""
    items = items_of(b, values)
    count, length, *rest = shape_of(items, "the list")
    # The sizes of all items are handed out as a constant, so they have to be known.
    if count is None or length is None or rest.count(None) > 1:
        raise UnsupportedOp("the sizes of the list's items are not known")
    lengths = b.const(np.full(count, length, np.int64), "lengths")
    return b.reshaped(items, (count * length, *rest)), lengths


def _as_row(b: Builder, item: Tensor) -> Tensor:
    return b.step("EXPAND_DIMS", item, b.const(np.int32(0), "axis"), shape=(1, *(item.shape or ())))


def with_rows(b: Builder, values: Listed[Tensor], indices: Tensor, x: Tensor) -> Listed[Tensor]:
    """The list with the rows of x: all at once are the tensor itself, some a SCATTER_ND into zeros."""
    sizes = shape_of(x, "the value")
    if _is_range(b.node.inputs[1]) if values.count is None else is_count(indices, values.count):
        return values.with_tensor(x)
    # SCATTER_ND starts from zeros, so items that are set already would be lost.
    if values.tensor is not None:
        raise UnsupportedOp("it writes some items of an array that has others already")
    places = b.reshaped(b.index(indices), (*shape_of(indices, "the indices", 1), 1))
    shape = (values.count, *sizes[1:])
    wanted = b.ints([n or 0 for n in shape], "shape") if None not in shape else _sizes_now(b, values, x)
    return values.with_tensor(b.step("SCATTER_ND", places, x, wanted, shape=shape, element=values.element))


def _sizes_now(b: Builder, values: Listed[Tensor], x: Tensor) -> Tensor:
    """The shape of the tensor for a list's items, int32, where each row of x is such an item."""
    rank = len(shape_of(x))
    now = b.step("SHAPE", x, shape=(rank,), element=INT32, out_type=INT32)
    inner = b.step("SLICE", now, b.ints([1], "begin"), b.ints([rank - 1], "size"), shape=(rank - 1,))
    return sizes_of_items(b, values, inner)


def _is_range(indices: Value) -> bool:
    """True for a value 0, 1, ... up to a number that the model computes.

    That is the number of the items, as far as TensorFlow writes such loops.
    """
    while indices.node.op == "Identity":
        indices = indices.node.inputs[0]
    if indices.node.op != "Range":
        return False
    start, _, step = (v.node.tensor for v in indices.node.inputs)
    known = [None if t is None or t.size != 1 else int(t.numpy().item()) for t in (start, step)]
    return known == [0, 1]


LISTS: Lists[Builder, Tensor] = Lists(
    label="LiteRT",
    size=lambda b, number: number,
    stacked=items_of,
    rows=rows,
    with_row=with_row,
    with_rows=with_rows,
    filled_up=filled_up,
    concatenated=joined,
    length=length_of,
)
for _op, _rule in LISTS.rules():
    lower(_op, to="tflite")(_rule)


# ---- Empty lists whose items have sizes that only the first iteration of their loop tells, such as an open
# batch.


def zeros_for(
    b: Builder,
    values: Listed[Tensor],
    result: Tensor,
    operators: Sequence[Operator],
    start: Mapping[Tensor, Tensor],
) -> Tensor:
    """Zeros [count,...] of the sizes of the item that the first iteration sets.

    What computes that item is computed once more, in front of the loop: the price of one iteration for sizes
    that hold whatever they depend on.

    Args:
        result: the list after an iteration, in the body.
        operators: the body.
        start: argument of the body -> what it starts with.

    Raises:
        UnsupportedOp: the item depends on a list that is empty itself.
    """
    maker = {t: o for o in operators for t in o.outputs}
    update = maker.get(result)
    # The update is the item with an axis in front; a list of one item is that row itself.
    row = update.inputs[1] if update is not None and update.code == "DYNAMIC_UPDATE_SLICE" else result
    assert row is not None
    first = _copied(b, row, maker, start)
    rank = len(values.shape or ())
    now = b.step("SHAPE", first, shape=(rank + 1,), element=INT32, out_type=INT32)
    # Without the axis that counts items, of which the row has one.
    tail = b.step("SLICE", now, b.ints([1], "begin"), b.ints([rank], "size"), shape=(rank,))
    sizes = sizes_of_items(b, values, tail)
    zero = b.const(np.zeros((), values.element.numpy()), "zero", values.element)
    shape = (values.count, *(values.shape or ()))
    return b.step("FILL", sizes, zero, shape=shape, element=values.element, suffix="empty")


def _copied(
    b: Builder, wanted: Tensor, maker: Mapping[Tensor, Operator], start: Mapping[Tensor, Tensor]
) -> Tensor:
    """A tensor of the body as it is in the first iteration, by copies of its operators."""
    twin: dict[Tensor, Tensor] = dict(start)
    stack = [wanted]
    # Depth first without recursion: a body may be a chain of many operators.
    while stack:
        tensor = stack[-1]
        if tensor in twin or tensor.is_constant:
            stack.pop()
            continue
        operator = maker.get(tensor)
        if operator is None:
            raise UnsupportedOp("the size of a list's items depends on a list that is empty")
        read = [t for t in operator.inputs if t is not None]
        waiting = [t for t in read if t not in twin and not t.is_constant]
        if waiting:
            stack += waiting
            continue
        _copy(b, operator, twin)
    return twin.get(wanted, wanted)


def _copy(b: Builder, operator: Operator, twin: dict[Tensor, Tensor]) -> None:
    for output in operator.outputs:
        twin[output] = b.own("first", output.shape, output.dtype)
    b.operators.append(
        Operator(
            operator.code,
            [None if t is None else twin.get(t, t) for t in operator.inputs],
            [twin[t] for t in operator.outputs],
            dict(operator.options),
            custom_code=operator.custom_code,
            custom_options=operator.custom_options,
            origin=b.node.name,
        )
    )
