"""TensorLists, the lists of TF2 loops. What grows an item at a time has no form here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import DType, Shape
from thinflow.lower.operands import is_count, merged
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, require, shape_of
from thinflow.lower.tflite.listed import (
    Listed,
    items_of,
    joined,
    length_of,
    listed,
    reserved,
    rows,
    with_row,
)
from thinflow.lower.tflite.program import Tensor


def _wished(shape: Tensor) -> tuple[int | None, ...] | None:
    """A shape given as a tensor, as far as it is constant; -1 alone means any rank."""
    if not shape.is_constant or shape.shape == ():
        return None
    return tuple(None if n < 0 else int(n) for n in np.asarray(shape.array()).ravel().tolist())


@lower("TensorListReserve", to="tflite")
def reserve(b: Builder, node: Node, element_shape: Tensor, count: Tensor, *, element_dtype: DType) -> Listed:
    return reserved(count, "the size of the list", element_dtype, _wished(element_shape))


@lower("TensorListFromTensor", to="tflite")
def from_tensor(b: Builder, node: Node, x: Tensor, element_shape: Tensor, *, element_dtype: DType) -> Listed:
    sizes = shape_of(x, "the tensor")
    require(len(sizes) > 0, "a scalar has no rows")
    # The rows' shape comes from x itself.
    return Listed(sizes[0], element_dtype, None).with_tensor(x)


@lower("TensorListGetItem", to="tflite")
def get_item(
    b: Builder, node: Node, values: Listed, index: Tensor, element_shape: Tensor, *, element_dtype: DType
) -> Tensor:
    return rows(b, _described(listed(values), element_shape), index)


@lower("TensorListSetItem", to="tflite")
def set_item(
    b: Builder,
    node: Node,
    values: Listed,
    index: Tensor,
    item: Tensor,
    *,
    resize_if_index_out_of_bounds: bool = False,
) -> Listed:
    require(not resize_if_index_out_of_bounds, "the list grows while the model runs; LiteRT wants its size")
    return with_row(b, listed(values), index, item)


@lower("TensorListStack", to="tflite")
def stack(b: Builder, node: Node, values: Listed, element_shape: Tensor, *, element_dtype: DType) -> Tensor:
    return items_of(b, _described(listed(values), element_shape))


@lower("TensorListGather", to="tflite")
def gather(
    b: Builder, node: Node, values: Listed, indices: Tensor, element_shape: Tensor, *, element_dtype: DType
) -> Tensor:
    known = _described(listed(values), element_shape)
    # All indices in their order: the tensor itself.
    every = known.count is not None and is_count(indices, known.count)
    return items_of(b, known) if every else rows(b, known, indices)


@lower("TensorListConcat", "TensorListConcatV2", to="tflite")
def concat(
    b: Builder, node: Node, values: Listed, *shapes: Tensor, element_shape: Shape = None
) -> tuple[Tensor, Tensor]:
    known = listed(values)
    if known.tensor is None:
        wished = _wished(shapes[0]) if shapes else element_shape
        known = replace(known, shape=merged(known.shape, wished))
    return joined(b, known)


@lower("TensorListLength", to="tflite")
def length(b: Builder, node: Node, values: Listed) -> Tensor:
    return length_of(b, listed(values))


def _described(values: Listed, element_shape: Tensor) -> Listed:
    """The list, with what the reader knows of its items."""
    # Items that are there know their shape better than the wish.
    if values.tensor is not None and values.tensor.shape is not None:
        return values
    shape = merged(values.shape, _wished(element_shape))
    return replace(values, shape=shape)
