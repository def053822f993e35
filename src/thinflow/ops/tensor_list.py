"""TensorLists, the lists of TF2 loops. A list is a value: an op that changes one gives a new list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.types import INT32, INT64, VARIANT, DType, ListSpec, Shape, TensorSpec, shape_text
from thinflow.ops._shapes import merge, scalar
from thinflow.ops._tensor_list import TensorListValue, as_shape, rows, shape_of
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array

_LIST = TensorSpec(VARIANT, ())
_LENGTH = TensorSpec(INT32, ())


class _ListOp(OpDef):
    """An op that gives a list."""

    traits = Trait.TENSOR_LIST

    @staticmethod
    def infer(*inputs: TensorSpec) -> TensorSpec:
        return _LIST


def _items(values: TensorSpec) -> ListSpec:
    """The spec of a list's items, perhaps an empty one."""
    return values.items if values.items is not None else ListSpec(None, None, True)


def _seen(values: TensorSpec, wished: TensorSpec) -> Shape:
    """The shape of each item, by what the reader and what the writers know."""
    items, shape = _items(values), shape_of(wished)
    # Items that nobody set are zeros of the shape that the reader asks for.
    if not items.is_set or items.shape is None:
        return shape
    if shape is not None and len(shape) != len(items.shape):
        return shape  # it fails when it runs, which is not for a shape rule to say
    return (
        items.shape
        if shape is None
        else tuple(b if a is None else a for a, b in zip(shape, items.shape, strict=True))
    )


def _listing(count: int | None, shape: Shape = None, *, is_set: bool = False) -> TensorSpec:
    return TensorSpec(VARIANT, (), None, ListSpec(count, shape, is_set))


@op("EmptyTensorList")
class EmptyTensorList(_ListOp):
    """A list without items, of at most max_num_elements [] (-1: any number).   element_shape -> list."""

    @staticmethod
    def kernel(element_shape: Array, max_num_elements: Array, *, element_dtype: DType) -> TensorListValue:
        return TensorListValue((), element_dtype, as_shape(element_shape), int(max_num_elements))


@op("TensorListReserve")
class TensorListReserve(_ListOp):
    """A list of num_elements [] items, none of them set.   element_shape -> list."""

    @staticmethod
    def infer(element_shape: TensorSpec, num_elements: TensorSpec) -> TensorSpec:  # type: ignore[override]
        count = scalar(num_elements)
        return _listing(None if count is None or count < 0 else count)

    @staticmethod
    def kernel(element_shape: Array, num_elements: Array, *, element_dtype: DType) -> TensorListValue:
        require(int(num_elements) >= 0, f"a list cannot have {int(num_elements)} items")
        return TensorListValue((None,) * int(num_elements), element_dtype, as_shape(element_shape))


@op("TensorListFromTensor")
class TensorListFromTensor(_ListOp):
    """The rows of a tensor.   x [n,...] -> list of n."""

    @staticmethod
    def infer(x: TensorSpec, element_shape: TensorSpec) -> TensorSpec:  # type: ignore[override]
        return _listing(x.shape[0], x.shape[1:], is_set=True) if x.shape else _LIST

    @staticmethod
    def kernel(x: Array, element_shape: Array, *, element_dtype: DType) -> TensorListValue:
        require(x.ndim > 0, "a scalar has no rows")
        return TensorListValue(tuple(rows(x)), element_dtype, merge(as_shape(element_shape), x.shape[1:]))


@op("TensorListSetItem")
class TensorListSetItem(_ListOp):
    """The list with `item` at `index` []; it grows if resize_if_index_out_of_bounds."""

    @staticmethod
    def infer(  # type: ignore[override]
        values: TensorSpec,
        index: TensorSpec,
        item: TensorSpec,
        *,
        resize_if_index_out_of_bounds: bool = False,
    ) -> TensorSpec:
        items = _items(values).with_item(item.shape)
        return _listing(None if resize_if_index_out_of_bounds else items.count, items.shape, is_set=True)

    @staticmethod
    def cost(y: TensorSpec, values: TensorSpec, index: TensorSpec, item: TensorSpec) -> Cost:
        # The rest of the list stays where it is.
        return Cost(item.size or 0)

    @staticmethod
    def kernel(
        values: TensorListValue, index: Array, item: Any, *, resize_if_index_out_of_bounds: bool = False
    ) -> TensorListValue:
        at = int(index)
        if resize_if_index_out_of_bounds and at >= len(values.items):
            values = values.with_items(values.items + (None,) * (at + 1 - len(values.items)))
        return values.with_item(at, item)


@op("TensorListGetItem")
class TensorListGetItem(OpDef):
    """The item at `index` []."""

    traits = Trait.TENSOR_LIST

    @staticmethod
    def infer(
        values: TensorSpec, index: TensorSpec, element_shape: TensorSpec, *, element_dtype: DType
    ) -> TensorSpec:
        return TensorSpec(element_dtype, _seen(values, element_shape))

    @staticmethod
    def kernel(values: TensorListValue, index: Array, element_shape: Array) -> Any:
        return values.item(int(index), element_shape)


@op("TensorListStack")
class TensorListStack(OpDef):
    """All n items side by side -> [n,...]."""

    traits = Trait.TENSOR_LIST

    @staticmethod
    def infer(
        values: TensorSpec, element_shape: TensorSpec, *, element_dtype: DType, num_elements: int = -1
    ) -> TensorSpec:
        shape = _seen(values, element_shape)
        count = _items(values).count if num_elements < 0 else num_elements
        return TensorSpec(element_dtype, None if shape is None else (count, *shape))

    @staticmethod
    def kernel(values: TensorListValue, element_shape: Array, *, num_elements: int = -1) -> Array:
        count = len(values.items)
        require(num_elements in (-1, count), f"{num_elements} items are asked for, the list has {count}")
        return values.stacked(range(count), element_shape)


@op("TensorListGather")
class TensorListGather(OpDef):
    """The items at `indices` [n] side by side -> [n,...]."""

    traits = Trait.TENSOR_LIST

    @staticmethod
    def infer(
        values: TensorSpec, indices: TensorSpec, element_shape: TensorSpec, *, element_dtype: DType
    ) -> TensorSpec:
        shape = _seen(values, element_shape)
        count = indices.shape[0] if indices.shape else None
        return TensorSpec(element_dtype, None if shape is None else (count, *shape))

    @staticmethod
    def kernel(values: TensorListValue, indices: Array, element_shape: Array) -> Array:
        return values.stacked(indices.tolist(), element_shape)


@op("TensorListScatter", "TensorListScatterV2")
class TensorListScatter(_ListOp):
    """A list of num_elements [] items, or as many as it takes: the rows of x [n,...] at `indices` [n]."""

    @staticmethod
    def kernel(
        x: Array,
        indices: Array,
        element_shape: Array,
        num_elements: Array | None = None,
        *,
        element_dtype: DType,
    ) -> TensorListValue:
        count = -1 if num_elements is None else int(num_elements)
        # -1 or absent: as many items as the largest index needs.
        if count < 0:
            count = int(indices.max(initial=-1)) + 1
        empty = TensorListValue((None,) * count, element_dtype, as_shape(element_shape))
        return _scattered(empty, x, indices)


@op("TensorListScatterIntoExistingList")
class TensorListScatterIntoExistingList(_ListOp):
    """The list with the rows of x [n,...] at `indices` [n]; it grows if an index asks for it."""

    @staticmethod
    def kernel(values: TensorListValue, x: Array, indices: Array) -> TensorListValue:
        # A negative number of Nones is none at all.
        missing = int(indices.max(initial=-1)) + 1 - len(values.items)
        return _scattered(values.with_items(values.items + (None,) * missing), x, indices)


def _scattered(values: TensorListValue, x: Array, indices: Array) -> TensorListValue:
    require(len(indices) == len(x), f"{len(indices)} indices for {len(x)} rows")
    items = list(values.items)
    for index, row in zip(indices.tolist(), rows(x), strict=True):
        require(0 <= index < len(items), f"index {index} of a list of {len(items)}")
        items[index] = row
    return values.with_items(items)


@op("TensorListLength")
class TensorListLength(OpDef):
    """Number of items, int32 []."""

    traits = Trait.TENSOR_LIST

    @staticmethod
    def infer(values: TensorSpec) -> TensorSpec:
        count = _items(values).count
        return _LENGTH if count is None else TensorSpec(INT32, (), (count,))

    @staticmethod
    def kernel(values: TensorListValue) -> Array:
        return np.array(len(values.items), np.int32)


@op("TensorListElementShape")
class TensorListElementShape(OpDef):
    """What is known of the items' shape -> shape_type; -1 for an unknown size, alone for an unknown rank."""

    traits = Trait.TENSOR_LIST

    @staticmethod
    def infer(values: TensorSpec, *, shape_type: DType) -> TensorSpec:
        return TensorSpec(shape_type)

    @staticmethod
    def kernel(values: TensorListValue, *, shape_type: DType) -> Array:
        sizes = -1 if values.shape is None else [-1 if d is None else d for d in values.shape]
        return np.array(sizes, shape_type.numpy())


@op("TensorListResize")
class TensorListResize(_ListOp):
    """The list with `size` [] items: cut off, or new ones not set."""

    @staticmethod
    def kernel(values: TensorListValue, size: Array) -> TensorListValue:
        count = int(size)
        require(count >= 0, f"a list cannot have {count} items")
        return values.with_items(values.items[:count] + (None,) * (count - len(values.items)))


@op("TensorListPushBack")
class TensorListPushBack(_ListOp):
    """The list with one more item."""

    @staticmethod
    def cost(y: TensorSpec, values: TensorSpec, item: TensorSpec) -> Cost:
        return Cost(item.size or 0)

    @staticmethod
    def kernel(values: TensorListValue, item: Any) -> TensorListValue:
        require(
            values.limit < 0 or len(values.items) < values.limit,
            f"the list is full with {values.limit} items",
        )
        return values.with_items((*values.items, item))


@op("TensorListPopBack")
class TensorListPopBack(OpDef):
    """The list without its last item, and that item."""

    traits = Trait.TENSOR_LIST
    num_outputs = 2

    @staticmethod
    def infer(
        values: TensorSpec, element_shape: TensorSpec, *, element_dtype: DType
    ) -> tuple[TensorSpec, TensorSpec]:
        return _LIST, TensorSpec(element_dtype, shape_of(element_shape))

    @staticmethod
    def kernel(values: TensorListValue, element_shape: Array) -> tuple[TensorListValue, Any]:
        require(bool(values.items), "nothing can be taken from an empty list")
        return values.with_items(values.items[:-1]), values.item(len(values.items) - 1, element_shape)


@op("TensorListConcat", "TensorListConcatV2")
class TensorListConcat(OpDef):
    """The items joined along their first axis -> [sum of sizes,...], the sizes int64."""

    traits = Trait.TENSOR_LIST
    num_outputs = 2

    @staticmethod
    def infer(
        values: TensorSpec, *shapes: TensorSpec, element_dtype: DType, element_shape: Shape = None
    ) -> tuple[TensorSpec, TensorSpec]:
        shape = shape_of(shapes[0]) if shapes else element_shape
        joined = None if not shape else (None, *shape[1:])
        return TensorSpec(element_dtype, joined), TensorSpec(INT64, (None,))

    @staticmethod
    def kernel(
        values: TensorListValue,
        wished: Array | None = None,
        leading_dims: Array | None = None,
        *,
        element_dtype: DType,
        element_shape: Shape = None,
    ) -> tuple[Array, Array]:
        shape = merge(values.shape, element_shape if wished is None else as_shape(wished))
        leading = [] if leading_dims is None else leading_dims.tolist()
        items = [_piece(values, shape, i, leading) for i in range(len(values.items))]
        lengths = np.array([len(item) for item in items], np.int64)
        if items:
            return np.concatenate(items), lengths
        rest = None if shape is None else shape[1:]
        require(
            rest is not None and None not in rest,
            f"an empty list of items {shape_text(shape)} cannot be joined",
        )
        return np.zeros((0, *(d or 0 for d in rest or ())), element_dtype.numpy()), lengths


def _piece(values: TensorListValue, shape: Shape, index: int, leading: Sequence[int]) -> Array:
    item = values.items[index]
    if item is None:
        # What was never set is zeros; leading_dims says how many rows of them.
        if shape and shape[0] is None and index < len(leading):
            shape = (leading[index], *shape[1:])
        item = values.zeros(shape)
    require(item.ndim > 0, "scalars cannot be joined")
    return np.asarray(item)


@op("TensorListSplit")
class TensorListSplit(_ListOp):
    """A list of pieces of x along its first axis, of `lengths` [n]."""

    @staticmethod
    def kernel(x: Array, element_shape: Array, lengths: Array, *, element_dtype: DType) -> TensorListValue:
        ends = np.cumsum(lengths)
        require(
            x.ndim > 0 and int(ends[-1] if len(ends) else 0) == len(x),
            "the lengths do not add up to the tensor's first size",
        )
        pieces = np.split(x, ends[:-1]) if len(ends) else []
        return TensorListValue(tuple(pieces), element_dtype, as_shape(element_shape))


@op("TensorListConcatLists")
class TensorListConcatLists(_ListOp):
    """The items of a, then those of b."""

    @staticmethod
    def kernel(a: Any, b: Any) -> Any:
        # A single list, or an array of them.
        if isinstance(a, TensorListValue):
            return a.with_items(a.items + b.items)
        return _each(lambda x, y: x.with_items(x.items + y.items), a, b)


@op("TensorListPushBackBatch")
class TensorListPushBackBatch(OpDef):
    """Each of n lists with one more item, a row of x [n,...].   lists [n] -> lists [n]."""

    traits = Trait.TENSOR_LIST

    @staticmethod
    def infer(lists: TensorSpec, x: TensorSpec) -> TensorSpec:
        return TensorSpec(VARIANT, lists.shape)

    @staticmethod
    def kernel(lists: Array, x: Array) -> Array:
        require(lists.shape == x.shape[:1], f"{len(x)} rows for lists of shape {list(lists.shape)}")
        items = np.empty(len(x), object)
        for index, row in enumerate(rows(x)):
            items[index] = row
        return _each(lambda values, item: values.with_items((*values.items, item)), lists, items)


def _each(function: Any, *arrays: Array) -> Array:
    """An array of objects from arrays of objects."""
    # np.array would look into the items and make one array of them.
    result = np.empty(arrays[0].shape, object)
    flat = result.reshape(-1)
    for i, items in enumerate(zip(*(a.reshape(-1) for a in arrays), strict=True)):
        flat[i] = function(*items)
    return result
