"""TensorLists, the lists of TF2 loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import INT32, DType, Shape
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.onnx.listed import (
    Listed,
    items_of,
    joined,
    listed,
    reserved,
    rows,
    size_of,
    spread,
    stacked,
    with_row,
    with_rows,
)
from thinflow.lower.operands import is_count, merged
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor


def _wished(shape: Tensor) -> tuple[int | None, ...] | None:
    """A shape given as a tensor, as far as it is constant; -1 alone means any rank."""
    if not shape.is_constant or shape.shape == ():
        return None
    return tuple(None if n < 0 else int(n) for n in np.asarray(shape.array()).ravel().tolist())


def _described(values: Listed, element_shape: Tensor) -> Listed:
    """The list, with what the reader knows of its items."""
    # A tensor knows better than what a reader expects.
    if values.tensor is not None and values.tensor.shape is not None:
        return values
    return replace(values, shape=merged(values.shape, _wished(element_shape)))


@lower("TensorListReserve", to="onnx")
def reserve(b: Builder, node: Node, element_shape: Tensor, count: Tensor, *, element_dtype: DType) -> Listed:
    return reserved(b, count, element_dtype, _wished(element_shape))


@lower("EmptyTensorList", to="onnx")
def empty(b: Builder, node: Node, element_shape: Tensor, limit: Tensor, *, element_dtype: DType) -> Listed:
    # The limit on the number of items is no size: the list begins empty.
    return reserved(b, b.int64(0), element_dtype, _wished(element_shape))


@lower("TensorListFromTensor", to="onnx")
def from_tensor(b: Builder, node: Node, x: Tensor, element_shape: Tensor, *, element_dtype: DType) -> Listed:
    sizes = shape_of(x, "the tensor")
    require(len(sizes) > 0, "a scalar has no rows")
    return Listed(sizes[0], element_dtype, None).with_tensor(x)


@lower("TensorListGetItem", to="onnx")
def get_item(
    b: Builder, node: Node, values: Listed, index: Tensor, element_shape: Tensor, *, element_dtype: DType
) -> Tensor:
    return rows(b, _described(listed(values), element_shape), index)


@lower("TensorListSetItem", to="onnx")
def set_item(
    b: Builder,
    node: Node,
    values: Listed,
    index: Tensor,
    item: Tensor,
    *,
    resize_if_index_out_of_bounds: bool = False,
) -> Listed:
    require(not resize_if_index_out_of_bounds, "the list grows where an index is beyond its end")
    return with_row(b, listed(values), index, item)


@lower("TensorListPushBack", to="onnx")
def push_back(b: Builder, node: Node, values: Listed, item: Tensor, *, element_dtype: DType) -> Listed:
    """One item more at the end."""
    known = listed(values)
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
    b: Builder, node: Node, values: Listed, element_shape: Tensor, *, element_dtype: DType
) -> tuple[Listed, Tensor]:
    """The list without its last item, and that item."""
    known = _described(listed(values), element_shape)
    require(known.count != 0, "the list is empty")
    items = items_of(b, known)
    count = None if known.count is None else known.count - 1
    shape = shape_of(items, "the list")[1:]
    # TensorFlow gives the shorter list first, then the item.
    rest = b.sliced(items, [0], [-1], [0], shape=(count, *shape))
    last = b.step("Gather", items, b.int64(-1), shape=shape, axis=0)
    return Listed(count, known.element, shape).with_tensor(rest), b.result(last, 1)


@lower("TensorListStack", to="onnx")
def stack(b: Builder, node: Node, values: Listed, element_shape: Tensor, *, element_dtype: DType) -> Tensor:
    return stacked(b, _described(listed(values), element_shape))


@lower("TensorListGather", to="onnx")
def gather(
    b: Builder, node: Node, values: Listed, indices: Tensor, element_shape: Tensor, *, element_dtype: DType
) -> Tensor:
    known = _described(listed(values), element_shape)
    if known.count is not None and is_count(indices, known.count):
        return stacked(b, known)
    return rows(b, known, indices)


@lower("TensorListScatter", "TensorListScatterV2", to="onnx")
def scatter(
    b: Builder,
    node: Node,
    x: Tensor,
    indices: Tensor,
    element_shape: Tensor,
    *number: Tensor,
    element_dtype: DType,
) -> Listed:
    """A list with the rows of x at some places; as long as these ask for if no length is given."""
    given = b.elements(number[0]) if number else (-1,)
    # -1, or no length at all: as many items as the largest index asks for.
    if given is not None and given[0] is not None and given[0] < 0:
        require(indices.is_constant, "the length of the list depends on the places that are written")
        count = b.int64(int(indices.array().max(initial=-1)) + 1)
    else:
        require(given is not None and None not in given, "the length of the list is computed")
        count = number[0]
    return with_rows(b, reserved(b, count, element_dtype, _wished(element_shape)), indices, x)


@lower("TensorListConcat", "TensorListConcatV2", to="onnx")
def concat(
    b: Builder, node: Node, values: Listed, *shapes: Tensor, element_shape: Shape = None
) -> tuple[Tensor, Tensor]:
    known = listed(values)
    if known.tensor is None:
        wished = _wished(shapes[0]) if shapes else element_shape
        known = replace(known, shape=merged(known.shape, wished))
    return joined(b, known)


@lower("TensorListResize", to="onnx")
def resize(b: Builder, node: Node, values: Listed, size: Tensor) -> Listed:
    """Cut off, or zeros put behind."""
    known = listed(values)
    wanted = b.elements(size)
    count = wanted[0] if wanted else None
    if known.tensor is None:
        return reserved(b, size, known.element, known.shape)
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


@lower("TensorListLength", to="onnx")
def length(b: Builder, node: Node, values: Listed) -> Tensor:
    return b.cast(size_of(b, listed(values)), INT32)


@lower("TensorListElementShape", to="onnx")
def element_shape(b: Builder, node: Node, values: Listed, *, shape_type: DType) -> Tensor:
    """As far as the list was told it."""
    shape = listed(values).shape
    # A scalar of -1 stands for an unknown rank.
    sizes = -1 if shape is None else [-1 if n is None else n for n in shape]
    return b.const(np.array(sizes, shape_type.numpy()), "shape")
