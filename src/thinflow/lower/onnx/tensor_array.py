"""TensorArrays, the lists of TF1 loops.

Their items go with the flow, which orders the accesses: an op that writes gives the list it has made as its
flow, and one that reads takes the list from there. The handle only says that there is an array.
"""

from __future__ import annotations

from dataclasses import replace

from thinflow.ir.graph import Node
from thinflow.ir.types import INT32, DType, Shape
from thinflow.lower.onnx.builder import Builder, ints, require, shape_of
from thinflow.lower.onnx.listed import (
    Listed,
    Slot,
    joined,
    listed,
    reserved,
    rows,
    size_of,
    stacked,
    with_row,
    with_rows,
)
from thinflow.lower.operands import is_count, merged
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor


@lower("TensorArrayV3", to="onnx")
def tensor_array(
    b: Builder,
    node: Node,
    size: Tensor,
    *,
    dtype: DType,
    element_shape: Shape = None,
    dynamic_size: bool = False,
) -> tuple[Listed, Listed]:
    # An array that grows has no fixed number of rows to hold its items.
    require(not dynamic_size, "the array grows while the model runs")
    made = reserved(b, size, dtype, element_shape)
    # The handle and the flow: ops take the list from the flow, see above.
    return made, made


@lower("TensorArrayReadV3", to="onnx")
def read(b: Builder, node: Node, handle: Slot, index: Tensor, flow: Slot) -> Tensor:
    return rows(b, listed(flow), index)


@lower("TensorArrayWriteV3", to="onnx")
def write(b: Builder, node: Node, handle: Slot, index: Tensor, item: Tensor, flow: Slot) -> Listed:
    return with_row(b, listed(flow), index, item)


@lower("TensorArrayGatherV3", to="onnx")
def gather(
    b: Builder, node: Node, handle: Slot, indices: Tensor, flow: Slot, *, element_shape: Shape = None
) -> Tensor:
    values = listed(flow)
    # Nothing has been written: the reader's own attribute is all that tells the shape.
    if values.tensor is None:
        values = replace(values, shape=merged(values.shape, element_shape))
    if values.count is not None and is_count(indices, values.count):
        return stacked(b, values)
    return rows(b, values, indices)


@lower("TensorArrayScatterV3", to="onnx")
def scatter(b: Builder, node: Node, handle: Slot, indices: Tensor, x: Tensor, flow: Slot) -> Listed:
    return with_rows(b, listed(flow), indices, x)


@lower("TensorArrayConcatV3", to="onnx")
def concat(b: Builder, node: Node, handle: Slot, flow: Slot) -> tuple[Tensor, Tensor]:
    return joined(b, listed(flow))


@lower("TensorArraySplitV3", to="onnx")
def split(b: Builder, node: Node, handle: Slot, x: Tensor, lengths: Tensor, flow: Slot) -> Listed:
    values = listed(flow)
    sizes = shape_of(x, "the value")
    pieces = set(ints(lengths, "the list of lengths"))
    count = (lengths.shape or (0,))[0]
    # Items of one list are rows of one tensor, so they have one size.
    same = len(pieces) == 1 and values.count in (None, count) and not sizes[1:].count(None)
    require(same, "it cuts a tensor into pieces of different sizes")
    return values.with_tensor(b.reshaped(x, (count, pieces.pop(), *sizes[1:])))


@lower("TensorArraySizeV3", to="onnx")
def size(b: Builder, node: Node, handle: Slot, flow: Slot) -> Tensor:
    return b.cast(size_of(b, listed(flow)), INT32)
