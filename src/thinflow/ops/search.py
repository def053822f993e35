"""Finding, ranking and counting values."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import BOOL, INT32, DType, TensorSpec
from thinflow.ops._shapes import normalize_axis, rank_of, scalar
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.ops.traits import Role, Trait
from thinflow.typing import Array


@op("ListDiff")
class ListDiff(OpDef):
    """(y, places) = the values of x that are not in the other list, in order, and where they stood in x."""

    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, other: TensorSpec, *, out_idx: DType = INT32) -> tuple[TensorSpec, TensorSpec]:
        return x.with_shape((None,)), TensorSpec(out_idx, (None,))

    @staticmethod
    def kernel(x: Array, other: Array, *, out_idx: DType = INT32) -> tuple[Array, Array]:
        require(
            x.ndim == other.ndim == 1, f"two vectors are needed, got {list(x.shape)} and {list(other.shape)}"
        )
        unwanted = set(other.tolist())
        places = [i for i, value in enumerate(x.tolist()) if value not in unwanted]
        return x[places], np.array(places, out_idx.numpy())


def _unique(x: Array, out_idx: DType) -> tuple[Array, Array, Array]:
    """Slices along axis 0: first places of the distinct ones, the number of each slice, and all counts.

    NaN equals nothing, not even itself; 0 equals -0.
    """
    numbers: dict[Any, int] = {}
    first: list[int] = []
    of_row = np.empty(len(x), out_idx.numpy())
    keys = x.tolist() if x.ndim == 1 else [_row_key(row) for row in x.reshape(len(x), -1).tolist()]
    for i, key in enumerate(keys):
        number = numbers.setdefault(key, len(first))
        if number == len(first):
            first.append(i)
        of_row[i] = number
    counts = np.bincount(of_row, minlength=len(first)).astype(out_idx.numpy())
    return np.array(first, np.int64), of_row, counts


def _row_key(row: list[Any]) -> Any:
    # Tuples compare their items by identity first, which would make a NaN equal to itself.
    return object() if any(v != v for v in row) else tuple(row)


@op("Unique")
class Unique(OpDef):
    """(y, idx) = the distinct values of x [n] in order of appearance, and the place in y of each of x."""

    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, *, out_idx: DType = INT32) -> tuple[TensorSpec, ...]:
        (count,) = rank_of(x, 1, "x")
        return x.with_shape((None,)), TensorSpec(out_idx, (count,))

    @staticmethod
    def kernel(x: Array, *, out_idx: DType = INT32) -> tuple[Array, ...]:
        require(x.ndim == 1, f"x must be a vector, got shape {list(x.shape)}")
        first, idx, _ = _unique(x, out_idx)
        return x[first], idx


@op("UniqueWithCounts")
class UniqueWithCounts(OpDef):
    """Unique, and how often each distinct value occurs."""

    num_outputs = 3

    @staticmethod
    def infer(x: TensorSpec, *, out_idx: DType = INT32) -> tuple[TensorSpec, ...]:
        return (*Unique.infer(x, out_idx=out_idx), TensorSpec(out_idx, (None,)))

    @staticmethod
    def kernel(x: Array, *, out_idx: DType = INT32) -> tuple[Array, ...]:
        require(x.ndim == 1, f"x must be a vector, got shape {list(x.shape)}")
        first, idx, counts = _unique(x, out_idx)
        return x[first], idx, counts


def _unique_v2_specs(x: TensorSpec, axis: TensorSpec, out_idx: DType) -> tuple[TensorSpec, TensorSpec]:
    # An empty axis stands for 0; an axis that is not known yet leaves all sizes open.
    along = scalar(axis)
    if x.shape is None or (along is None and axis.size != 0):
        return x.with_shape(None if x.shape is None else (None,) * len(x.shape)), TensorSpec(out_idx, (None,))
    along = normalize_axis(along or 0, len(x.shape))
    y = x.with_shape((*x.shape[:along], None, *x.shape[along + 1 :]))
    return y, TensorSpec(out_idx, (x.shape[along],))


def _unique_v2(x: Array, axis: Array, out_idx: DType) -> tuple[Array, ...]:
    require(axis.size == 1 or x.ndim == 1, "x must be a vector where no axis is given")
    along = normalize_axis(int(axis.ravel()[0]) if axis.size else 0, x.ndim)
    first, idx, counts = _unique(np.moveaxis(x, along, 0), out_idx)
    return np.take(x, first, axis=along), idx, counts


@op("UniqueV2")
class UniqueV2(OpDef):
    """Unique over the slices of x along an axis ([1], or [0] for a vector x)."""

    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, axis: TensorSpec, *, out_idx: DType = INT32) -> tuple[TensorSpec, ...]:
        return _unique_v2_specs(x, axis, out_idx)

    @staticmethod
    def kernel(x: Array, axis: Array, *, out_idx: DType = INT32) -> tuple[Array, ...]:
        return _unique_v2(x, axis, out_idx)[:2]


@op("UniqueWithCountsV2")
class UniqueWithCountsV2(OpDef):
    """UniqueV2, and how often each distinct slice occurs."""

    num_outputs = 3

    @staticmethod
    def infer(x: TensorSpec, axis: TensorSpec, *, out_idx: DType = INT32) -> tuple[TensorSpec, ...]:
        return (*_unique_v2_specs(x, axis, out_idx), TensorSpec(out_idx, (None,)))

    @staticmethod
    def kernel(x: Array, axis: Array, *, out_idx: DType = INT32) -> tuple[Array, ...]:
        return _unique_v2(x, axis, out_idx)


def _sortable(x: Array) -> Array:
    """x in a type numpy sorts: bfloat16 and its kin as float32, which keeps every value."""
    return x.astype(np.float32) if x.dtype.kind not in "biuf" else x


def _top(x: Array, k: int, index_type: DType) -> tuple[Array, Array]:
    require(x.ndim >= 1, "x must have rank 1 or more")
    require(0 <= k <= x.shape[-1], f"k is {k}, the last axis has {x.shape[-1]} places")
    # A stable ascending sort of the reversed row, reversed: descending, and ties keep the lower index first.
    order = np.argsort(_sortable(x[..., ::-1]), axis=-1, kind="stable")[..., ::-1][..., :k]
    places = x.shape[-1] - 1 - order
    return np.take_along_axis(x, places, axis=-1), places.astype(index_type.numpy())


def _top_specs(x: TensorSpec, k: int | None, index_type: DType) -> tuple[TensorSpec, TensorSpec]:
    if x.shape is None:
        return x.with_shape(None), TensorSpec(index_type, None)
    require(len(x.shape) >= 1, "x must have rank 1 or more")
    last = x.shape[-1]
    require(k is None or last is None or 0 <= k <= last, f"k is {k}, the last axis has {last} places")
    shape = (*x.shape[:-1], k)
    return x.with_shape(shape), TensorSpec(index_type, shape)


@op("TopK")
class TopK(OpDef):
    """TopKV2 with k as an attribute."""

    traits = Trait.TOP_K
    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, *, k: int) -> tuple[TensorSpec, TensorSpec]:
        return _top_specs(x, k, INT32)

    @staticmethod
    def kernel(x: Array, *, k: int) -> tuple[Array, Array]:
        return _top(x, k, INT32)


@op("TopKV2")
class TopKV2(OpDef):
    """(values, indices) = the k largest of each row, largest first; ties keep the lower index first.

    x [..., n] -> both [..., k]. TensorFlow leaves the order open if `sorted` is false; here it is the same.
    """

    roles = (None, Role.COUNT)

    traits = Trait.TOP_K
    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, k: TensorSpec, *, index_type: DType = INT32) -> tuple[TensorSpec, TensorSpec]:
        return _top_specs(x, scalar(k), index_type)

    @staticmethod
    def kernel(x: Array, k: Array, *, index_type: DType = INT32) -> tuple[Array, Array]:
        return _top(x, int(k), index_type)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, k: TensorSpec) -> Cost:
        return Cost(flops=x.size or 0)


def _in_top(predictions: Array, targets: Array, k: int) -> Array:
    require(predictions.ndim == 2, f"predictions have shape {list(predictions.shape)}, rank 2 is needed")
    require(
        targets.shape == predictions.shape[:1], f"{targets.size} targets for {len(predictions)} predictions"
    )
    classes = predictions.shape[1]
    valid = (targets >= 0) & (targets < classes)
    if not classes:
        return np.zeros(targets.shape, np.bool_)
    own = np.take_along_axis(predictions, np.where(valid, targets, 0)[:, None], axis=1)
    # Classes as good as the target's do not count against it, so ties at the border are all in.
    better = (predictions > own).sum(axis=1)
    finite = np.all(np.isfinite(predictions), axis=1)
    return np.asarray(valid & finite & (better < k))


@op("InTopK")
class InTopK(OpDef):
    """y[b] = whether fewer than k classes are predicted higher than targets[b].

    False for a row with a prediction that is not finite. predictions [b,c] float, targets [b] -> y [b] bool.
    """

    @staticmethod
    def infer(predictions: TensorSpec, targets: TensorSpec) -> TensorSpec:
        (batch,) = rank_of(targets, 1, "targets")
        return TensorSpec(BOOL, (batch if batch is not None else rank_of(predictions, 2, "predictions")[0],))

    @staticmethod
    def kernel(predictions: Array, targets: Array, *, k: int) -> Array:
        return _in_top(predictions, targets, k)


@op("InTopKV2")
class InTopKV2(OpDef):
    """InTopK with k as an input."""

    @staticmethod
    def infer(predictions: TensorSpec, targets: TensorSpec, k: TensorSpec) -> TensorSpec:
        return InTopK.infer(predictions, targets)

    @staticmethod
    def kernel(predictions: Array, targets: Array, k: Array) -> Array:
        return _in_top(predictions, targets, int(k))


@op("NthElement")
class NthElement(OpDef):
    """y = the n-th smallest (largest if `reverse`) of each row, counted from 0.   x [..., m] -> y [...]."""

    @staticmethod
    def infer(x: TensorSpec, n: TensorSpec) -> TensorSpec:
        return x.with_shape(None if x.shape is None else x.shape[:-1])

    @staticmethod
    def kernel(x: Array, n: Array, *, reverse: bool = False) -> Array:
        require(x.ndim >= 1, "x must have rank 1 or more")
        place, count = int(n), x.shape[-1]
        require(0 <= place < count, f"n is {place}, the last axis has {count} places")
        order = np.argsort(_sortable(x), axis=-1, kind="stable")
        chosen = order[..., count - 1 - place if reverse else place]
        return np.take_along_axis(x, chosen[..., None], axis=-1)[..., 0]


def _bounds(sorted_inputs: Array, values: Array, above: bool, out_type: DType) -> Array:
    require(sorted_inputs.ndim == values.ndim == 2, "both inputs must be matrices")
    require(
        len(sorted_inputs) == len(values),
        f"{len(sorted_inputs)} sorted rows for {len(values)} rows of values",
    )
    y = np.empty(values.shape, out_type.numpy())
    for row, (ladder, wanted) in enumerate(zip(sorted_inputs, values, strict=True)):
        y[row] = _search(ladder, wanted, above)
    return y


def _search(ladder: Array, wanted: Array, above: bool) -> Array:
    """Binary search by `<` alone, as C++ does: a NaN is never less, and nothing is less than it."""
    low = np.zeros(wanted.shape, np.int64)
    high = np.full(wanted.shape, len(ladder), np.int64)
    while (open_ := low < high).any():
        middle = np.where(open_, (low + high) // 2, 0)
        step = ladder[middle]
        right = open_ & (~(wanted < step) if above else step < wanted)
        low = np.where(right, middle + 1, low)
        high = np.where(open_ & ~right, middle, high)
    return low


@op("LowerBound")
class LowerBound(OpDef):
    """y[b,i] = the first place in sorted_inputs[b] with a value >= values[b,i].   [b,n], [b,m] -> y [b,m]."""

    @staticmethod
    def infer(sorted_inputs: TensorSpec, values: TensorSpec, *, out_type: DType = INT32) -> TensorSpec:
        return TensorSpec(out_type, rank_of(values, 2, "values"))

    @staticmethod
    def kernel(sorted_inputs: Array, values: Array, *, out_type: DType = INT32) -> Array:
        return _bounds(sorted_inputs, values, False, out_type)


@op("UpperBound")
class UpperBound(OpDef):
    """y[b,i] = the first place in sorted_inputs[b] with a value > values[b,i].   [b,n], [b,m] -> y [b,m]."""

    @staticmethod
    def infer(sorted_inputs: TensorSpec, values: TensorSpec, *, out_type: DType = INT32) -> TensorSpec:
        return TensorSpec(out_type, rank_of(values, 2, "values"))

    @staticmethod
    def kernel(sorted_inputs: Array, values: Array, *, out_type: DType = INT32) -> Array:
        return _bounds(sorted_inputs, values, True, out_type)
