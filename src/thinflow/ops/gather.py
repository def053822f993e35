"""Reading and writing places named by index tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thinflow.ir.types import Shape, TensorSpec, shape_text
from thinflow.ops._numeric import quiet
from thinflow.ops._shapes import constant, merge, moved, normalize_axis, scalar, shape_from
from thinflow.ops.array import _Free
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


def _check_indices(indices: Array, size: int) -> None:
    bad = (indices < 0) | (indices >= size)
    require(not bad.any(), f"index {indices[bad].ravel()[:1].tolist()} is outside an axis of {size}")


def _gather_spec(x: TensorSpec, indices: TensorSpec, axis: int | None, batch_dims: int) -> TensorSpec:
    if x.shape is None or indices.shape is None:
        return x.with_shape(None)
    batch = batch_dims + len(indices.shape) if batch_dims < 0 else batch_dims
    require(0 <= batch <= len(indices.shape), f"batch_dims {batch_dims} does not fit indices {indices}")
    rank = len(x.shape) + len(indices.shape) - 1 - batch
    if axis is None:
        return x.with_shape((None,) * rank)
    require(len(x.shape) > 0, "cannot gather from a scalar")
    axis = normalize_axis(axis, len(x.shape))
    require(batch <= axis, f"batch_dims {batch} lies beyond axis {axis}")
    lead = merge(x.shape[:batch], indices.shape[:batch]) or ()
    result = x.with_shape((*lead, *x.shape[batch:axis], *indices.shape[batch:], *x.shape[axis + 1 :]))
    places = constant(indices)
    # Elements of shapes are gathered without batch axes; the rest is left to the run.
    if places is None or batch:
        return result
    return moved(result, lambda v: _gather(v, places, axis, 0), x)


def _gather(x: Array, indices: Array, axis: int, batch: int) -> Array:
    _check_indices(indices, x.shape[axis])
    if batch == 0:
        return np.asarray(np.take(x, indices, axis=axis), x.dtype)
    require(x.shape[:batch] == indices.shape[:batch], f"batch axes of {x.shape} and {indices.shape} differ")
    # Bring the gathered axis next to the batch axes, pair both by batch, put the found axes in its place.
    rows = np.moveaxis(x, axis, batch)
    grids = np.ogrid[tuple(slice(n) for n in indices.shape[:batch])] if batch else []
    lead = tuple(g.reshape(g.shape + (1,) * (indices.ndim - batch)) for g in grids)
    index = (*lead, indices)
    found = rows[index]
    inner = indices.ndim - batch
    return np.moveaxis(found, range(batch, batch + inner), range(axis, axis + inner))


@op("Gather")
class Gather(_Free):
    """y[i..., :] = x[indices[i...], :].   x [n, rest], indices any shape -> y [indices, rest]."""

    traits = Trait.GATHER | Trait.LINEAR

    @staticmethod
    def infer(x: TensorSpec, indices: TensorSpec) -> TensorSpec:
        return _gather_spec(x, indices, 0, 0)

    @staticmethod
    def kernel(x: Array, indices: Array) -> Array:
        require(x.ndim > 0, "cannot gather from a scalar")
        return _gather(x, indices, 0, 0)


@op("GatherV2")
class GatherV2(_Free):
    """y = x with `axis` replaced by the axes of indices, each place the one that the index names.

    The first batch_dims axes are common to both:
    x [b, before, n, after], indices [b, i] -> y [b, before, i, after].
    """

    traits = Trait.GATHER | Trait.LINEAR

    @staticmethod
    def infer(x: TensorSpec, indices: TensorSpec, axis: TensorSpec, *, batch_dims: int = 0) -> TensorSpec:
        return _gather_spec(x, indices, scalar(axis), batch_dims)

    @staticmethod
    def kernel(x: Array, indices: Array, axis: Array, *, batch_dims: int = 0) -> Array:
        require(x.ndim > 0, "cannot gather from a scalar")
        along = normalize_axis(int(axis), x.ndim)
        batch = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
        require(0 <= batch <= min(along, indices.ndim), f"batch_dims {batch_dims} does not fit axis {along}")
        return _gather(x, indices, along, batch)


@op("GatherNd")
class GatherNd(_Free):
    """y[i..., :] = x[indices[i..., 0], ..., indices[i..., k-1], :].   indices [i, k] -> y [i, rest of x]."""

    traits = Trait.LINEAR

    @staticmethod
    def infer(x: TensorSpec, indices: TensorSpec) -> TensorSpec:
        if x.shape is None or indices.shape is None or not indices.shape or indices.shape[-1] is None:
            return x.with_shape(None)
        depth = indices.shape[-1]
        require(depth <= len(x.shape), f"indices of {depth} places for {x}")
        return x.with_shape(indices.shape[:-1] + x.shape[depth:])

    @staticmethod
    def kernel(x: Array, indices: Array) -> Array:
        places = _places(indices, x.shape)
        # A further `...` keeps a single string an array.
        index: tuple[Any, ...] = (*places, Ellipsis)
        return np.asarray(x[index]) if places else np.broadcast_to(x, indices.shape[:-1] + x.shape)


def _places(indices: Array, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """An index array per leading axis of `shape`, from indices [..., k]."""
    require(indices.ndim >= 1, "indices must have rank 1 or more")
    depth = indices.shape[-1]
    require(depth <= len(shape), f"indices of {depth} places for shape {shape_text(shape)}")
    for axis in range(depth):
        _check_indices(indices[..., axis], shape[axis])
    return tuple(indices[..., axis] for axis in range(depth))


@quiet
def _scatter(x: Array, indices: Array, updates: Array, combine: Callable[..., None] | None) -> Array:
    """A copy of x with updates combined into the places, in order; None assigns, and the last one wins."""
    depth = indices.shape[-1]
    places = _places(indices, x.shape)
    expected = indices.shape[:-1] + x.shape[depth:]
    require(
        updates.shape == expected, f"updates have shape {list(updates.shape)}, {list(expected)} is needed"
    )
    y: Array = x.copy()
    # Indices of no places mean all of x: the updates follow one another.
    if not depth:
        for update in updates.reshape((-1, *x.shape)):
            _combine(y, ..., update, combine)
        return y
    flat = np.ravel_multi_index(places, x.shape[:depth]).ravel()
    # -1 cannot be worked out of an array without elements.
    rows = (
        y.reshape(-1, *x.shape[depth:])
        if y.size
        else y.reshape(int(np.prod(x.shape[:depth])), *x.shape[depth:])
    )
    source = updates.reshape(len(flat), *x.shape[depth:])
    if combine is None:
        _assign(rows, flat, source)
    else:
        combine(rows, flat, source)
    return y


def _assign(rows: Array, places: Array, source: Array) -> None:
    """rows[places] = source, where the last of equal places wins; numpy alone does not promise that."""
    # unique names the first of equals, so in reversed order the last.
    last = len(places) - 1 - np.unique(places[::-1], return_index=True)[1]
    rows[places[last]] = source[last]


def _combine(y: Array, index: Any, update: Array, combine: Callable[..., None] | None) -> None:
    if combine is None:
        y[index] = update
    else:
        combine(y, index, update)


@op("ScatterNd")
class ScatterNd(OpDef):
    """y = zeros of `shape`, with updates added at indices; what meets in one place adds up (bools: or).

    indices [i, k], updates [i, shape[k:]].
    """

    @staticmethod
    def infer(indices: TensorSpec, updates: TensorSpec, shape: TensorSpec) -> TensorSpec:
        return updates.with_shape(shape_from(shape))

    @staticmethod
    def kernel(indices: Array, updates: Array, shape: Array) -> Array:
        empty = b"" if updates.dtype.hasobject else 0
        zeros = np.full([int(d) for d in shape], empty, updates.dtype)
        return _scatter(zeros, indices, updates, np.add.at)


class _TensorScatter(OpDef):
    """Base of y = x with updates [i, rest] combined into the places indices [i, k]."""

    @staticmethod
    def infer(x: TensorSpec, indices: TensorSpec, updates: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)


@op("TensorScatterUpdate")
class TensorScatterUpdate(_TensorScatter):
    """y = x with updates written at indices; the last one wins."""

    @staticmethod
    def kernel(x: Array, indices: Array, updates: Array) -> Array:
        return _scatter(x, indices, updates, None)


@op("TensorScatterAdd", "ScatterNdNonAliasingAdd")
class TensorScatterAdd(_TensorScatter):
    """y = x with updates added at indices."""

    @staticmethod
    def kernel(x: Array, indices: Array, updates: Array) -> Array:
        return _scatter(x, indices, updates, np.add.at)


@op("TensorScatterSub")
class TensorScatterSub(_TensorScatter):
    """y = x with updates subtracted at indices."""

    @staticmethod
    def kernel(x: Array, indices: Array, updates: Array) -> Array:
        return _scatter(x, indices, updates, np.subtract.at)


@op("TensorScatterMax")
class TensorScatterMax(_TensorScatter):
    """y = x, raised to the updates at indices."""

    @staticmethod
    def kernel(x: Array, indices: Array, updates: Array) -> Array:
        return _scatter(x, indices, updates, np.maximum.at)


@op("TensorScatterMin")
class TensorScatterMin(_TensorScatter):
    """y = x, lowered to the updates at indices."""

    @staticmethod
    def kernel(x: Array, indices: Array, updates: Array) -> Array:
        return _scatter(x, indices, updates, np.minimum.at)


@op("SparseToDense")
class SparseToDense(OpDef):
    """y = default_value, with sparse_values at sparse_indices.

    sparse_indices: a scalar or [n] for a vector y, else [n, rank]. sparse_values: [n], or a scalar for all.
    """

    @staticmethod
    def infer(indices: TensorSpec, shape: TensorSpec, values: TensorSpec, default: TensorSpec) -> TensorSpec:
        return values.with_shape(shape_from(shape))

    @staticmethod
    def kernel(
        indices: Array, shape: Array, values: Array, default: Array, *, validate_indices: bool = True
    ) -> Array:
        sizes = tuple(int(d) for d in shape)
        rows = indices.reshape(-1, 1) if indices.ndim < 2 else indices
        require(rows.shape[-1] == len(sizes), f"indices of {rows.shape[-1]} places for shape {list(sizes)}")
        places = _places(rows, sizes)
        # Sorted and without repetition is one test: row-major places must rise.
        if validate_indices and len(rows) > 1:
            flat = np.ravel_multi_index(places, sizes)
            require(bool((np.diff(flat) > 0).all()), "the indices are not sorted, or one appears twice")
        y = np.full(sizes, default[()], values.dtype)
        return _scatter(y, rows, np.broadcast_to(values, (len(rows),)), None)


@op("DynamicPartition")
class DynamicPartition(OpDef):
    """y_p = the rows of x whose partition is p.   x [d..., rest], partitions [d...] -> y_p [?, rest]."""

    traits = Trait.LINEAR

    num_outputs = "num_partitions"

    @staticmethod
    def infer(x: TensorSpec, partitions: TensorSpec, *, num_partitions: int) -> tuple[TensorSpec, ...]:
        shape: Shape = None
        if x.shape is not None and partitions.shape is not None:
            merge(x.shape[: len(partitions.shape)], partitions.shape)
            shape = (None, *x.shape[len(partitions.shape) :])
        return (x.with_shape(shape),) * num_partitions

    @staticmethod
    def kernel(x: Array, partitions: Array, *, num_partitions: int) -> tuple[Array, ...]:
        require(
            x.shape[: partitions.ndim] == partitions.shape, "partitions are not the first axes of the data"
        )
        _check_indices(partitions, num_partitions)
        return tuple(x[partitions == p] for p in range(num_partitions))


@op("DynamicStitch", "ParallelDynamicStitch")
class DynamicStitch(OpDef):
    """y[indices_k[i]] = data_k[i], later ones over earlier ones; all indices come first, then all data.

    data_k: [shape of indices_k, rest] -> y [largest index + 1, rest]. Rows that no index names are 0.
    """

    @staticmethod
    def infer(*inputs: TensorSpec) -> TensorSpec:
        half = len(inputs) // 2
        pairs = list(zip(inputs[:half], inputs[half:], strict=True))
        rest: Shape = None
        for places, values in pairs:
            if places.shape is not None and values.shape is not None:
                rest = merge(rest, values.shape[len(places.shape) :])
        rows: int | None = None
        known = [p.ints for p, _ in pairs]
        if all(k is not None for k in known):
            rows = max((max(k) for k in known if k), default=-1) + 1
        return inputs[half].with_shape(None if rest is None else (rows, *rest))

    @staticmethod
    def kernel(*inputs: Array) -> Array:
        half = len(inputs) // 2
        indices, data = inputs[:half], inputs[half:]
        rest = data[0].shape[indices[0].ndim :]
        rows = max((int(i.max()) for i in indices if i.size), default=-1) + 1
        # Rows without an index are undefined in TensorFlow; zeros here, so that runs repeat.
        y = np.full((rows, *rest), b"" if data[0].dtype.hasobject else 0, data[0].dtype)
        for places, values in zip(indices, data, strict=True):
            require(
                values.shape == places.shape + rest,
                f"data has shape {list(values.shape)} for indices {list(places.shape)}",
            )
            _check_indices(places, rows)
            _assign(y, places.ravel(), values.reshape(places.size, *rest))
        return y
