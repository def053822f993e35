"""TensorArrays of fixed size, the lists of TF1 loops.

Their items go with the flow, which orders the accesses: an op that writes gives the list it has made as its
flow, and one that reads takes the list from there. The handle only says that there is an array.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import INT32, DType, Shape
from thinflow.lower.operands import is_count, merged
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, require, shape_of
from thinflow.lower.tflite.listed import (
    Listed,
    Slot,
    items_of,
    joined,
    length_of,
    listed,
    reserved,
    rows,
    sizes_of_items,
    with_row,
)
from thinflow.lower.tflite.program import Tensor


@lower("TensorArrayV3", to="tflite")
def tensor_array(
    b: Builder,
    node: Node,
    size: Tensor,
    *,
    dtype: DType,
    element_shape: Shape = None,
    dynamic_size: bool = False,
) -> tuple[Listed, Listed]:
    require(not dynamic_size, "the array grows while the model runs; LiteRT wants its size")
    made = reserved(size, "the size of the array", dtype, element_shape)
    # The handle and the flow.
    return made, made


@lower("TensorArrayReadV3", to="tflite")
def read(b: Builder, node: Node, handle: Slot, index: Tensor, flow: Slot) -> Tensor:
    return rows(b, listed(flow), index)


@lower("TensorArrayWriteV3", to="tflite")
def write(b: Builder, node: Node, handle: Slot, index: Tensor, item: Tensor, flow: Slot) -> Listed:
    return with_row(b, listed(flow), index, item)


@lower("TensorArrayGatherV3", to="tflite")
def gather(
    b: Builder, node: Node, handle: Slot, indices: Tensor, flow: Slot, *, element_shape: Shape = None
) -> Tensor:
    values = listed(flow)
    if values.tensor is None:
        values = replace(values, shape=merged(values.shape, element_shape))
    # All indices in their order: the tensor itself.
    every = values.count is not None and is_count(indices, values.count)
    return items_of(b, values) if every else rows(b, values, indices)


@lower("TensorArrayScatterV3", to="tflite")
def scatter(b: Builder, node: Node, handle: Slot, indices: Tensor, x: Tensor, flow: Slot) -> Listed:
    """All items at once are the tensor itself; some of them a SCATTER_ND into zeros."""
    values = listed(flow)
    sizes = shape_of(x, "the value")
    if _is_range(node.inputs[1]) if values.count is None else is_count(indices, values.count):
        return values.with_tensor(x)
    # SCATTER_ND starts from zeros, so items that are set already would be lost.
    if values.tensor is not None:
        raise UnsupportedOp("it writes some items of an array that has others already")
    places = b.reshaped(b.index(indices), (*shape_of(indices, "the indices", 1), 1))
    shape = (values.count, *sizes[1:])
    wanted = b.ints([n or 0 for n in shape], "shape") if None not in shape else _sizes_now(b, values, x)
    return values.with_tensor(b.step("SCATTER_ND", places, x, wanted, shape=shape, element=values.element))


def _sizes_now(b: Builder, values: Listed, x: Tensor) -> Tensor:
    """The shape of the tensor for a list's items, int32, where each row of x is such an item."""
    rank = len(shape_of(x))
    now = b.step("SHAPE", x, shape=(rank,), element=INT32, out_type=INT32)
    inner = b.step("SLICE", now, b.ints([1], "begin"), b.ints([rank - 1], "size"), shape=(rank - 1,))
    return sizes_of_items(b, values, inner)


@lower("TensorArrayConcatV3", to="tflite")
def concat(b: Builder, node: Node, handle: Slot, flow: Slot) -> tuple[Tensor, Tensor]:
    return joined(b, listed(flow))


@lower("TensorArraySplitV3", to="tflite")
def split(b: Builder, node: Node, handle: Slot, x: Tensor, lengths: Tensor, flow: Slot) -> Listed:
    values = listed(flow)
    sizes = shape_of(x, "the value")
    pieces = set(np.asarray(lengths.array()).ravel().tolist()) if lengths.is_constant else set()
    if len(pieces) != 1 or lengths.shape != (values.count,) or sizes[1:].count(None):
        raise UnsupportedOp("it cuts a tensor into pieces of different sizes")
    return values.with_tensor(b.reshaped(x, (values.count, int(pieces.pop()), *sizes[1:])))


@lower("TensorArraySizeV3", to="tflite")
def size(b: Builder, node: Node, handle: Slot, flow: Slot) -> Tensor:
    return length_of(b, listed(flow))


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
