"""Reading and writing places named by index tensors."""

from __future__ import annotations

import math

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, FLOAT
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, require, shape_of
from thinflow.lower.tflite.program import Tensor
from thinflow.tflite.counterparts import Kind, same_in_tflite


@lower("Gather", to="tflite")
def gather(b: Builder, node: Node, x: Tensor, indices: Tensor) -> Tensor:
    return b.emit("GATHER", x, indices, axis=0)


@lower("GatherV2", to="tflite")
def gather_v2(
    b: Builder, node: Node, x: Tensor, indices: Tensor, axis: Tensor, *, batch_dims: int = 0
) -> Tensor:
    place = b.axes(axis, None if x.shape is None else len(x.shape))[0]
    # A negative number counts from the end of the indices' axes.
    batch = batch_dims + len(shape_of(indices, "the indices")) if batch_dims < 0 else batch_dims
    return b.emit("GATHER", x, indices, axis=place, batch_dims=batch)


@lower("GatherNd", to="tflite")
def gather_nd(b: Builder, node: Node, x: Tensor, indices: Tensor) -> Tensor:
    return b.emit("GATHER_ND", x, indices)


@lower("ScatterNd", to="tflite")
def scatter_nd(b: Builder, node: Node, indices: Tensor, updates: Tensor, shape: Tensor) -> Tensor:
    return b.emit("SCATTER_ND", b.index(indices), updates, b.index(shape))


@lower("SparseToDense", to="tflite")
def sparse_to_dense(
    b: Builder,
    node: Node,
    indices: Tensor,
    shape: Tensor,
    values: Tensor,
    default: Tensor,
    *,
    validate_indices: bool = True,
) -> Tensor:
    require(len(shape_of(indices, "the indices")) <= 2, "TFLite takes indices of rank 2 at most")
    return b.emit("SPARSE_TO_DENSE", indices, shape, values, default, validate_indices=False)


@lower("Unique", to="tflite")
def unique(b: Builder, node: Node, x: Tensor) -> tuple[Tensor, ...]:
    index = b.result_spec(1).dtype
    return b.emit_ports("UNIQUE", x, count=2, idx_out_type=index)


@lower("TopKV2", to="tflite")
def top_k_v2(b: Builder, node: Node, x: Tensor, k: Tensor) -> tuple[Tensor, ...]:
    """Sorted, which is always within the promise."""
    return b.emit_ports("TOPK_V2", x, b.index(k), count=2)


@lower("TopK", to="tflite")
def top_k(b: Builder, node: Node, x: Tensor, *, k: int) -> tuple[Tensor, ...]:
    return b.emit_ports("TOPK_V2", x, b.const(np.int32(k), "k"), count=2)


_UNSORTED = same_in_tflite(Kind.UNSORTED_SEGMENTS)


@lower(*_UNSORTED, to="tflite")
def unsorted_segment(b: Builder, node: Node, x: Tensor, segments: Tensor, count: Tensor) -> Tensor:
    """The kernels take one segment number per row."""
    require(len(shape_of(segments, "the segment numbers")) == 1, "TFLite takes a vector of segment numbers")
    return b.emit(_UNSORTED[node.op], x, b.index(segments), b.index(count))


def _one_place(b: Builder, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """The same for a place that is computed while the model runs: alone it cannot be named twice."""
    count = math.prod(n or 0 for n in shape_of(indices)[:-1])
    require(
        count == 1 and None not in shape_of(indices),
        "the places are computed while the model runs, and may name one twice",
    )
    sizes = [n or 0 for n in shape_of(x)]
    written = [n or 0 for n in shape_of(updates)]
    where, shape = b.index(indices), b.ints(sizes, "shape")
    ones = b.const(np.ones(written, np.float32), "ones")
    marks = b.step("SCATTER_ND", where, ones, shape, shape=x.shape, element=FLOAT)
    # Ones scattered into zeros mark the place, whatever value is written there, 0 among them.
    chosen = b.step("CAST", marks, shape=x.shape, element=BOOL, in_data_type=FLOAT, out_data_type=BOOL)
    new = b.step("SCATTER_ND", where, updates, shape, shape=x.shape, element=x.dtype)
    return b.emit("SELECT_V2", chosen, new, x)


@lower("TensorScatterUpdate", to="tflite")
def tensor_scatter_update(b: Builder, node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """SCATTER_ND into zeros, chosen where it sets something; a place set twice would be added up."""
    shape = shape_of(x)
    require(None not in shape, "the sizes are not known")
    if not indices.is_constant:
        return _one_place(b, x, indices, updates)
    places = np.asarray(indices.array()).reshape(-1, shape_of(indices)[-1] or 0)
    require(len(np.unique(places, axis=0)) == len(places), "a place is set twice")
    sizes = [n or 0 for n in shape]
    # TensorFlow fails on a place outside; with constants that is told before the model runs.
    inside = bool(((places >= 0) & (places < sizes[: places.shape[1]])).all())
    require(inside, f"a place lies outside of {sizes}")
    chosen = np.zeros(sizes, bool)
    chosen[tuple(places.T)] = True
    where = b.index(indices)
    new = b.step("SCATTER_ND", where, updates, b.ints(sizes, "shape"), shape=shape, element=x.dtype)
    return b.emit("SELECT_V2", b.const(chosen, "chosen"), new, x)
