"""Reductions over axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import INT64, DType, Shape, TensorSpec
from thinflow.ops._numeric import fold_elements, is_narrow, like, quiet, widen
from thinflow.ops._shapes import known_list, normalize_axis, scalar
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


def _axes(axes: Array, rank: int) -> tuple[int, ...]:
    """Non-negative axes, each named once."""
    chosen = tuple(normalize_axis(int(a), rank) for a in axes.reshape(-1))
    require(len(set(chosen)) == len(chosen), f"an axis is named twice in {axes.reshape(-1).tolist()}")
    return chosen


def _reduced(shape: Shape, axes: TensorSpec, keep_dims: bool) -> Shape:
    if shape is None:
        return None
    wanted = known_list(axes)
    if wanted is None:
        return (None,) * len(shape) if keep_dims else None
    # It is known how many axes go, but not which.
    if any(a is None for a in wanted):
        return (None,) * (len(shape) if keep_dims else max(len(shape) - len(wanted), 0))
    gone = {normalize_axis(a, len(shape)) for a in wanted if a is not None}
    require(len(gone) == len(wanted), f"an axis is named twice in {list(wanted)}")
    if keep_dims:
        return tuple(1 if i in gone else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in gone)


class Reduction(OpDef):
    """y = one number for all elements along `axes`.

    axes: integers [k] or a scalar, negative ones count from the end.

    Result in x's type. keep_dims leaves the axes in place with size 1; no axes at all leave x as it is (Sum)
    or apply the op to single elements (EuclideanNorm).
    """

    @classmethod
    def infer(cls, x: TensorSpec, axes: TensorSpec, *, keep_dims: bool = False) -> TensorSpec:
        result = x.with_shape(_reduced(x.shape, axes, keep_dims))
        return fold_elements(result, cls.kernel, x, axes, keep_dims=keep_dims)

    @classmethod
    @quiet
    def kernel(cls, x: Array, axes: Array, *, keep_dims: bool = False) -> Array:
        return like(cls.reduce(widen(x), axis=_axes(axes, x.ndim), keepdims=keep_dims), x)

    @staticmethod
    def reduce(x: Array, **where: Any) -> Any:
        """The numpy reduction; gets axis and keepdims."""
        raise NotImplementedError

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, axes: TensorSpec) -> Cost:
        return Cost(flops=x.size or 0)


@op("Sum")
class Sum(Reduction):
    """y = sum, 0 of nothing.   Integers wrap around, narrow floats add up in float32."""

    traits = Trait.REDUCTION | Trait.T_OF_FIRST_INPUT | Trait.LINEAR

    @staticmethod
    def reduce(x: Array, **where: Any) -> Any:
        return np.sum(x, dtype=x.dtype, **where)


@op("Prod")
class Prod(Reduction):
    """y = product, 1 of nothing.   Integers wrap around."""

    traits = Trait.REDUCTION | Trait.T_OF_FIRST_INPUT

    @staticmethod
    def reduce(x: Array, **where: Any) -> Any:
        return np.prod(x, dtype=x.dtype, **where)


@op("Mean")
class Mean(Reduction):
    """y = sum / count, NaN of nothing.   Integers: a 64-bit sum, divided towards zero; 0 of nothing."""

    traits = Trait.REDUCTION | Trait.T_OF_FIRST_INPUT | Trait.LINEAR

    @staticmethod
    def reduce(x: Array, **where: Any) -> Any:
        count = int(np.prod([x.shape[a] for a in where["axis"]], dtype=np.int64))
        # In the type of x: TensorFlow's mean of float32 has no wider sum, and that of half was widened
        # before.
        if x.dtype.kind not in "iu":
            return np.sum(x, dtype=x.dtype, **where) / x.dtype.type(count)
        total = np.sum(x, dtype=np.uint64 if x.dtype == np.uint64 else np.int64, **where)
        # Towards zero, as C divides.
        whole = np.floor_divide(np.abs(total), max(count, 1))
        return np.where(total < 0, -whole, whole) if total.dtype.kind == "i" else whole


def _lowest(kind: np.dtype[Any]) -> Any:
    return np.iinfo(kind).min if kind.kind in "iu" else -np.inf


def _highest(kind: np.dtype[Any]) -> Any:
    return np.iinfo(kind).max if kind.kind in "iu" else np.inf


@op("Max")
class Max(Reduction):
    """y = largest element, NaN if any is; the type's lowest value (-inf) of nothing."""

    traits = Trait.REDUCTION | Trait.T_OF_FIRST_INPUT

    @staticmethod
    def reduce(x: Array, **where: Any) -> Any:
        # `initial` is the answer for nothing, where numpy alone would refuse.
        return np.max(x, initial=_lowest(x.dtype), **where)


@op("Min")
class Min(Reduction):
    """y = smallest element, NaN if any is; the type's highest value (inf) of nothing."""

    traits = Trait.REDUCTION | Trait.T_OF_FIRST_INPUT

    @staticmethod
    def reduce(x: Array, **where: Any) -> Any:
        return np.min(x, initial=_highest(x.dtype), **where)


@op("EuclideanNorm")
class EuclideanNorm(Reduction):
    """y = sqrt(sum of |x|^2).   Integers: the sum wraps around, the root is cut to an integer."""

    traits = Trait.REDUCTION | Trait.T_OF_FIRST_INPUT | Trait.NOT_NEGATIVE

    @staticmethod
    def reduce(x: Array, **where: Any) -> Any:
        return np.sqrt(np.sum(x * np.conj(x), dtype=x.dtype, **where))

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, axes: TensorSpec) -> Cost:
        return Cost(flops=2 * (x.size or 0) + (y.size or 0))


@op("Any")
class Any_(Reduction):
    """y = whether one element is true, False of nothing.   bool."""

    traits = Trait.REDUCTION

    @staticmethod
    def reduce(x: Array, **where: Any) -> Any:
        return np.any(x, **where)


@op("All")
class All(Reduction):
    """y = whether every element is true, True of nothing.   bool."""

    traits = Trait.REDUCTION

    @staticmethod
    def reduce(x: Array, **where: Any) -> Any:
        return np.all(x, **where)


# ---- Where the extreme element is


class _ArgExtreme(OpDef):
    """y = index of the extreme element along one axis, the first of several; NaN never wins.

    x without that axis.
    """

    @staticmethod
    def infer(x: TensorSpec, axis: TensorSpec, *, output_type: DType = INT64) -> TensorSpec:
        if x.shape is None:
            return TensorSpec(output_type)
        where = scalar(axis)
        if where is None:
            return TensorSpec(output_type, (None,) * (len(x.shape) - 1))
        where = normalize_axis(where, len(x.shape))
        return TensorSpec(output_type, x.shape[:where] + x.shape[where + 1 :])

    @classmethod
    def kernel(cls, x: Array, axis: Array, *, output_type: DType = INT64) -> Array:
        where = normalize_axis(int(axis), x.ndim)
        require(x.ndim > 0 and x.shape[where] > 0, f"axis {int(axis)} is empty in shape {list(x.shape)}")
        x = widen(x)
        # numpy's argmax would give the place of the first NaN.
        if x.dtype.kind == "f":
            x = np.where(np.isnan(x), cls.worst, x)
        return np.asarray(cls.find(x, where)).astype(output_type.numpy())

    worst: float = 0.0

    @staticmethod
    def find(x: Array, axis: int) -> Any:
        raise NotImplementedError

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, axis: TensorSpec) -> Cost:
        return Cost(flops=x.size or 0)


@op("ArgMax")
class ArgMax(_ArgExtreme):
    """y = index of the largest element along one axis, the first of several; NaN never wins.

    Any real type, bool.
    """

    traits = Trait.ARG | Trait.T_OF_FIRST_INPUT
    worst = -np.inf

    @staticmethod
    def find(x: Array, axis: int) -> Any:
        return np.argmax(x, axis=axis)


@op("ArgMin")
class ArgMin(_ArgExtreme):
    """y = index of the smallest element along one axis, the first of several; NaN never wins.

    Any real type, bool.
    """

    traits = Trait.ARG | Trait.T_OF_FIRST_INPUT
    worst = np.inf

    @staticmethod
    def find(x: Array, axis: int) -> Any:
        return np.argmin(x, axis=axis)


# ---- Running totals along one axis


class Scan(OpDef):
    """y[i] = total of x[0..i] along one axis; without x[i] if exclusive, from the far end if reverse.

    y like x.
    """

    @classmethod
    def infer(
        cls, x: TensorSpec, axis: TensorSpec, *, exclusive: bool = False, reverse: bool = False
    ) -> TensorSpec:
        where = scalar(axis)
        if where is not None and x.shape is not None:
            normalize_axis(where, len(x.shape))
        return fold_elements(x.with_shape(x.shape), cls.kernel, x, axis, exclusive=exclusive, reverse=reverse)

    @classmethod
    @quiet
    def kernel(cls, x: Array, axis: Array, *, exclusive: bool = False, reverse: bool = False) -> Array:
        where = normalize_axis(int(axis), x.ndim)
        ordered = np.moveaxis(np.flip(x, where) if reverse else x, where, 0)
        y = cls.accumulate(ordered) if len(ordered) else ordered
        if exclusive and len(ordered):
            # The neutral element goes in front, and the last total, which includes everything, drops out.
            first = np.full_like(y[:1], cls.start)
            y = np.concatenate([first, y[:-1]])
        y = np.moveaxis(y, 0, where)
        return like(np.flip(y, where) if reverse else y, x)

    start: float = 0.0

    @staticmethod
    def accumulate(x: Array) -> Array:
        raise NotImplementedError


@op("Cumsum")
class Cumsum(Scan):
    """y = running sum along one axis.   Integers wrap around; each step is rounded to x's type."""

    @staticmethod
    def accumulate(x: Array) -> Array:
        return np.asarray(np.add.accumulate(x, axis=0, dtype=x.dtype))


@op("Cumprod")
class Cumprod(Scan):
    """y = running product along one axis.   Integers wrap around; each step is rounded to x's type."""

    start = 1.0

    @staticmethod
    def accumulate(x: Array) -> Array:
        return np.asarray(np.multiply.accumulate(x, axis=0, dtype=x.dtype))


@op("CumulativeLogsumexp")
class CumulativeLogsumexp(Scan):
    """y = log of the running sum of e^x along one axis, without overflow; -inf for an empty sum.   Floats."""

    start = -np.inf

    @staticmethod
    def accumulate(x: Array) -> Array:
        # In float32, as narrow floats would round at each step.
        wide = x.astype(np.float32) if is_narrow(x.dtype) else x
        return np.asarray(np.logaddexp.accumulate(wide, axis=0))
