"""Sums, means and extremes over groups of rows, and histograms."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from thinflow.ir.types import Shape, TensorSpec
from thinflow.ops._numeric import like, quiet, widen
from thinflow.ops._shapes import Dim, scalar
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


def _limits(kind: np.dtype[Any]) -> Any:
    """numpy's description of a number type; bfloat16 comes from ml_dtypes, which knows it."""
    if kind.kind in "iu":
        return np.iinfo(kind)
    if kind.kind == "f" and kind.name != "bfloat16":
        return np.finfo(kind)
    import ml_dtypes

    return ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]


def _gather_rows(ufunc: Any, rows: Array, segments: Array, count: int, start: Any) -> Array:
    """result[s] = ufunc over the rows with segments == s, `start` where there is none."""
    result = np.full((count, *rows.shape[1:]), start, rows.dtype)
    # Unbuffered and in order: rows of one segment meet in one place.
    ufunc.at(result, segments, rows)
    return result


def _counts(segments: Array, count: int, rank: int) -> Array:
    """Rows per segment, at least 1, shaped to divide a result of that rank."""
    # Segments without rows are 0 / 1, not 0 / 0.
    return np.maximum(np.bincount(segments, minlength=count), 1).reshape(-1, *(1,) * (rank - 1))


def _quotient(total: Array, counts: Array) -> Array:
    if total.dtype.kind not in "iu":
        return np.asarray(total / counts.astype(total.dtype))
    whole = np.floor_divide(np.abs(total), counts)
    return np.where(total < 0, -whole, whole)


def _check_sorted(segments: Array) -> None:
    require(segments.ndim == 1, "segment_ids must be a vector")
    require(segments.size == 0 or int(segments[0]) >= 0, "segment_ids must not be negative")
    require(bool(np.all(segments[1:] >= segments[:-1])), "segment_ids are not sorted")


def _with_rows(rows: Dim, shape: Shape, skipped: int = 1) -> Shape:
    return None if shape is None else (rows, *shape[skipped:])


# ---- Segments in order


class _Rows(OpDef):
    """y[s] = the rows of x whose segment id is s, combined; `empty` (0, for products 1) if there is none."""

    ufunc: ClassVar[Any] = np.add
    empty: ClassVar[float] = 0
    zeroes_empty: ClassVar[bool] = True

    @classmethod
    def combine(cls, x: Array, segments: Array, count: int) -> Array:
        _check_sorted(segments)
        require(x.ndim > 0 and len(x) == len(segments), f"{len(segments)} segment ids for {x.shape[:1]} rows")
        rows = widen(x)
        if cls.ufunc in (np.add, np.multiply):
            return like(_gather_rows(cls.ufunc, rows, segments, count, cls.empty), x)
        # The extreme of a segment starts from the type's other end.
        worst = _limits(x.dtype).min if cls.ufunc is np.maximum else _limits(x.dtype).max
        found = _gather_rows(cls.ufunc, rows, segments, count, worst)
        if not cls.zeroes_empty:
            return like(found, x)
        filled = np.bincount(segments, minlength=count).reshape(-1, *(1,) * (x.ndim - 1)) > 0
        return like(np.where(filled, found, 0), x)


class _Sorted(_Rows):
    """x [n,...], sorted segments [n] -> y [last + 1,...]."""

    @staticmethod
    def infer(x: TensorSpec, segments: TensorSpec) -> TensorSpec:
        known = segments.ints
        # The ids are sorted, so the last is the largest.
        rows = None if known is None else known[-1] + 1 if known else 0
        return x.with_shape(_with_rows(rows, x.shape))

    @classmethod
    @quiet
    def kernel(cls, x: Array, segments: Array) -> Array:
        return cls.combine(x, segments, int(segments[-1]) + 1 if segments.size else 0)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, segments: TensorSpec) -> Cost:
        return Cost(flops=x.size or 0)


class _SortedTo(_Rows):
    """x [n,...], sorted segments [n] -> y [num_segments,...]."""

    @staticmethod
    def infer(x: TensorSpec, segments: TensorSpec, num_segments: TensorSpec) -> TensorSpec:
        return x.with_shape(_with_rows(scalar(num_segments), x.shape))

    @classmethod
    @quiet
    def kernel(cls, x: Array, segments: Array, num_segments: Array) -> Array:
        count = int(num_segments)
        require(segments.size == 0 or int(segments[-1]) < count, f"a segment id is not below {count}")
        return cls.combine(x, segments, count)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, segments: TensorSpec, num_segments: TensorSpec) -> Cost:
        return Cost(flops=x.size or 0)


@op("SegmentSum")
class SegmentSum(_Sorted):
    """y[s] = sum of the rows of segment s, 0 without any.

    x [n,...], sorted segments [n] -> y [last + 1,...].
    """

    traits = Trait.SEGMENT


@op("SegmentMean")
class SegmentMean(_Sorted):
    """y[s] = mean of the rows of segment s, 0 without any; integers round towards zero."""

    traits = Trait.SEGMENT

    @classmethod
    def combine(cls, x: Array, segments: Array, count: int) -> Array:
        total = super().combine(widen(x), segments, count)
        return like(_quotient(total, _counts(segments, count, x.ndim)), x)


@op("SegmentProd")
class SegmentProd(_Sorted):
    """y[s] = product of the rows of segment s, 1 without any."""

    traits = Trait.SEGMENT
    ufunc = np.multiply
    empty = 1


@op("SegmentMax")
class SegmentMax(_Sorted):
    """y[s] = largest of the rows of segment s, 0 without any."""

    traits = Trait.SEGMENT
    ufunc = np.maximum


@op("SegmentMin")
class SegmentMin(_Sorted):
    """y[s] = smallest of the rows of segment s, 0 without any."""

    traits = Trait.SEGMENT
    ufunc = np.minimum


@op("SegmentSumV2")
class SegmentSumV2(_SortedTo):
    """y[s] = sum of the rows of segment s.   y [num_segments,...]."""


@op("SegmentProdV2")
class SegmentProdV2(_SortedTo):
    """y[s] = product of the rows of segment s, 1 without any.   y [num_segments,...]."""

    ufunc = np.multiply
    empty = 1


@op("SegmentMaxV2")
class SegmentMaxV2(_SortedTo):
    """y[s] = largest of the rows of segment s, the type's lowest finite value without any."""

    # Unlike SegmentMax. Only XLA has kernels of these ops; this is what they give.
    zeroes_empty = False

    ufunc = np.maximum


@op("SegmentMinV2")
class SegmentMinV2(_SortedTo):
    """y[s] = smallest of the rows of segment s, the type's highest finite value without any."""

    zeroes_empty = False

    ufunc = np.minimum


# ---- Segments in any order


class _Unsorted(OpDef):
    """y[s] = the parts of x whose segment id is s, combined.

    segments: the leading axes of x; negative ids are left out.
    """

    ufunc: ClassVar[Any] = np.add

    @staticmethod
    def infer(x: TensorSpec, segments: TensorSpec, num_segments: TensorSpec) -> TensorSpec:
        if segments.shape is None:
            return x.with_shape(None)
        return x.with_shape(_with_rows(scalar(num_segments), x.shape, len(segments.shape)))

    @classmethod
    @quiet
    def kernel(cls, x: Array, segments: Array, num_segments: Array) -> Array:
        count, rank = int(num_segments), segments.ndim
        require(
            x.shape[:rank] == segments.shape, f"x {list(x.shape)} does not begin with {list(segments.shape)}"
        )
        ids = segments.reshape(-1)
        require(bool(np.all(ids < count)), f"a segment id is not below num_segments, {count}")
        rows = widen(x).reshape(ids.size, *x.shape[rank:])
        # TensorFlow drops rows of negative segments, and refuses those that are too large.
        used = ids >= 0
        return like(_gather_rows(cls.ufunc, rows[used], ids[used], count, cls.start(x.dtype)), x)

    @staticmethod
    def start(kind: np.dtype[Any]) -> Any:
        """The value of a segment without rows, in x's type."""
        return 0

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, segments: TensorSpec, num_segments: TensorSpec) -> Cost:
        return Cost(flops=x.size or 0)


@op("UnsortedSegmentSum")
class UnsortedSegmentSum(_Unsorted):
    """y[s] = sum of the parts of x with segment id s, 0 without any.   y [num_segments, rest of x]."""


@op("UnsortedSegmentProd")
class UnsortedSegmentProd(_Unsorted):
    """y[s] = product of the parts of x with segment id s, 1 without any."""

    ufunc = np.multiply

    @staticmethod
    def start(kind: np.dtype[Any]) -> Any:
        return 1


@op("UnsortedSegmentMax")
class UnsortedSegmentMax(_Unsorted):
    """y[s] = largest of the parts of x with segment id s, the type's lowest finite value without any."""

    ufunc = np.maximum

    @staticmethod
    def start(kind: np.dtype[Any]) -> Any:
        return _limits(kind).min


@op("UnsortedSegmentMin")
class UnsortedSegmentMin(_Unsorted):
    """y[s] = smallest of the parts of x with segment id s, the type's highest finite value without any."""

    ufunc = np.minimum

    @staticmethod
    def start(kind: np.dtype[Any]) -> Any:
        return _limits(kind).max


# ---- Segments of gathered rows


class _Gathered(OpDef):
    """y[s] = the rows x[indices[i]] with segments[i] == s, combined; 0 where there is none."""

    @classmethod
    @quiet
    def combine(cls, x: Array, indices: Array, segments: Array, count: int) -> Array:
        _check_sorted(segments)
        require(
            bool(np.all((indices >= 0) & (indices < len(x)))), f"an index is outside the {len(x)} rows of x"
        )
        total = _gather_rows(np.add, widen(x)[indices], segments, count, 0)
        return like(cls.scale(total, _counts(segments, count, x.ndim)), x)

    @staticmethod
    def scale(total: Array, counts: Array) -> Array:
        return total


def _gather_cost(x: TensorSpec, indices: TensorSpec) -> Cost:
    rows = x.shape[0] if x.shape else 0
    return Cost(flops=(indices.size or 0) * ((x.size or 0) // rows if rows else 0))


class _Sparse(_Gathered):
    """indices, sorted segments [n] -> y [last + 1,...]."""

    @staticmethod
    def infer(x: TensorSpec, indices: TensorSpec, segments: TensorSpec) -> TensorSpec:
        return _Sorted.infer(x, segments)

    @classmethod
    def kernel(cls, x: Array, indices: Array, segments: Array) -> Array:
        return cls.combine(x, indices, segments, int(segments[-1]) + 1 if segments.size else 0)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, indices: TensorSpec, segments: TensorSpec) -> Cost:
        return _gather_cost(x, indices)


class _SparseTo(_Gathered):
    """indices, sorted segments [n] -> y [num_segments,...]."""

    @staticmethod
    def infer(
        x: TensorSpec, indices: TensorSpec, segments: TensorSpec, num_segments: TensorSpec
    ) -> TensorSpec:
        return x.with_shape(_with_rows(scalar(num_segments), x.shape))

    @classmethod
    def kernel(cls, x: Array, indices: Array, segments: Array, num_segments: Array) -> Array:
        count = int(num_segments)
        require(segments.size == 0 or int(segments[-1]) < count, f"a segment id is not below {count}")
        return cls.combine(x, indices, segments, count)

    @staticmethod
    def cost(
        y: TensorSpec, x: TensorSpec, indices: TensorSpec, segments: TensorSpec, num_segments: TensorSpec
    ) -> Cost:
        return _gather_cost(x, indices)


def _mean(total: Array, counts: Array) -> Array:
    return np.asarray(total / counts.astype(total.dtype))


def _over_root(total: Array, counts: Array) -> Array:
    return np.asarray(total / np.sqrt(counts).astype(total.dtype))


@op("SparseSegmentSum")
class SparseSegmentSum(_Sparse):
    """y[s] = sum of the rows x[indices] of segment s, 0 without any.   y [last + 1,...]."""


@op("SparseSegmentSumWithNumSegments")
class SparseSegmentSumWithNumSegments(_SparseTo):
    """y[s] = sum of the rows x[indices] of segment s, 0 without any.   y [num_segments,...]."""


@op("SparseSegmentMean")
class SparseSegmentMean(_Sparse):
    """y[s] = mean of the rows x[indices] of segment s, 0 without any.   y [last + 1,...], floats."""

    scale = staticmethod(_mean)


@op("SparseSegmentMeanWithNumSegments")
class SparseSegmentMeanWithNumSegments(_SparseTo):
    """y[s] = mean of the rows x[indices] of segment s, 0 without any.   y [num_segments,...], floats."""

    scale = staticmethod(_mean)


@op("SparseSegmentSqrtN")
class SparseSegmentSqrtN(_Sparse):
    """y[s] = sum of the rows x[indices] of segment s over the root of their number.

    y [last + 1,...], floats.
    """

    scale = staticmethod(_over_root)


@op("SparseSegmentSqrtNWithNumSegments")
class SparseSegmentSqrtNWithNumSegments(_SparseTo):
    """y[s] = sum of the rows x[indices] of segment s over the root of their number.

    y [num_segments,...], floats.
    """

    scale = staticmethod(_over_root)
