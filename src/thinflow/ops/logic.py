"""Comparisons, truth values, bits, and choosing between tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from thinflow.ir.types import BOOL, INT64, TensorSpec
from thinflow.ops._numeric import broadcast_spec, pick, widen
from thinflow.ops._shapes import broadcast, map_elements, merge, with_elements
from thinflow.ops.elementwise import Binary
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


class Comparison(OpDef):
    """z = whether a relation holds, bool.

    x, y broadcast; comparisons with NaN are false, except NotEqual.
    """

    traits = Trait.ELEMENTWISE | Trait.T_OF_ALL_INPUTS
    on_ints: ClassVar[Callable[..., Any]]

    @classmethod
    def infer(cls, x: TensorSpec, y: TensorSpec) -> TensorSpec:
        return broadcast_spec(BOOL, x, y, on_ints=cls.on_ints)


def _compare(function: Callable[[Any, Any], Any]) -> Callable[[Array, Array], Array]:
    def kernel(x: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(widen(x), widen(y)), dtype=bool)

    return kernel


class _Equality(Comparison):
    @classmethod
    def infer(cls, x: TensorSpec, y: TensorSpec, *, incompatible_shape_error: bool = True) -> TensorSpec:
        if incompatible_shape_error:
            return broadcast_spec(BOOL, x, y, on_ints=cls.on_ints)
        # Shapes that do not fit give one false (or true) instead of an error.
        if x.is_static and y.is_static:
            return broadcast_spec(BOOL, x, y, on_ints=cls.on_ints) if _fit(x, y) else TensorSpec(BOOL, ())
        if _fit_anyway(x, y):
            return broadcast_spec(BOOL, x, y, on_ints=cls.on_ints)
        return TensorSpec(BOOL)


def _fit_anyway(x: TensorSpec, y: TensorSpec) -> bool:
    """True if shapes fit whatever their open sizes turn out to be, as that of a scalar does to any."""
    if x.shape is None or y.shape is None:
        return False
    pairs = zip(reversed(x.shape), reversed(y.shape), strict=False)
    return all(1 in (a, b) or (a is not None and a == b) for a, b in pairs)


def _fit(x: Any, y: Any) -> bool:
    pairs = zip(reversed(x.shape), reversed(y.shape), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)


@op("Equal")
class Equal(_Equality):
    """z = x equals y.

    Any type; a scalar False if the shapes do not fit and incompatible_shape_error is off.
    """

    traits = Trait.COMMUTATIVE | Trait.COMPARISON
    on_ints = staticmethod(operator.eq)

    @staticmethod
    def kernel(x: Array, y: Array, *, incompatible_shape_error: bool = True) -> Array:
        if not incompatible_shape_error and not _fit(x, y):
            return np.asarray(False)
        return _compare(np.equal)(x, y)


@op("NotEqual")
class NotEqual(_Equality):
    """z = x differs from y.

    Any type; a scalar True if the shapes do not fit and incompatible_shape_error is off.
    """

    traits = Trait.COMMUTATIVE | Trait.COMPARISON
    on_ints = staticmethod(operator.ne)

    @staticmethod
    def kernel(x: Array, y: Array, *, incompatible_shape_error: bool = True) -> Array:
        if not incompatible_shape_error and not _fit(x, y):
            return np.asarray(True)
        return _compare(np.not_equal)(x, y)


@op("Less")
class Less(Comparison):
    """z = x < y."""

    traits = Trait.COMPARISON
    on_ints = staticmethod(operator.lt)
    kernel = staticmethod(_compare(np.less))


@op("LessEqual")
class LessEqual(Comparison):
    """z = x <= y."""

    traits = Trait.COMPARISON
    on_ints = staticmethod(operator.le)
    kernel = staticmethod(_compare(np.less_equal))


@op("Greater")
class Greater(Comparison):
    """z = x > y."""

    traits = Trait.COMPARISON
    on_ints = staticmethod(operator.gt)
    kernel = staticmethod(_compare(np.greater))


@op("GreaterEqual")
class GreaterEqual(Comparison):
    """z = x >= y."""

    traits = Trait.COMPARISON
    on_ints = staticmethod(operator.ge)
    kernel = staticmethod(_compare(np.greater_equal))


@op("LogicalAnd")
class LogicalAnd(Comparison):
    """z = x and y.   bool."""

    traits = Trait.COMMUTATIVE
    on_ints = staticmethod(lambda x, y: bool(x and y))
    kernel = staticmethod(_compare(np.logical_and))


@op("LogicalOr")
class LogicalOr(Comparison):
    """z = x or y.   bool."""

    traits = Trait.COMMUTATIVE
    on_ints = staticmethod(lambda x, y: bool(x or y))
    kernel = staticmethod(_compare(np.logical_or))


# ---- Bits of integers


@op("BitwiseAnd")
class BitwiseAnd(Binary):
    """z = bits set in both."""

    traits = Trait.COMMUTATIVE
    on_ints = staticmethod(operator.and_)

    @staticmethod
    def kernel(x: Array, y: Array) -> Array:
        return np.bitwise_and(x, y)


@op("BitwiseOr")
class BitwiseOr(Binary):
    """z = bits set in either."""

    traits = Trait.COMMUTATIVE
    on_ints = staticmethod(operator.or_)

    @staticmethod
    def kernel(x: Array, y: Array) -> Array:
        return np.bitwise_or(x, y)


@op("BitwiseXor")
class BitwiseXor(Binary):
    """z = bits set in one of the two."""

    traits = Trait.COMMUTATIVE
    on_ints = staticmethod(operator.xor)

    @staticmethod
    def kernel(x: Array, y: Array) -> Array:
        return np.bitwise_xor(x, y)


def _shift_distance(x: Array, y: Array) -> Array:
    """y within 0 and the number of bits less one: TensorFlow shifts no further, and never the other way."""
    return np.clip(y, 0, 8 * x.dtype.itemsize - 1).astype(x.dtype)


@op("LeftShift")
class LeftShift(Binary):
    """z = x shifted up by y bits."""

    @staticmethod
    def kernel(x: Array, y: Array) -> Array:
        return np.left_shift(x, _shift_distance(x, y))


@op("RightShift")
class RightShift(Binary):
    """z = x shifted down by y bits; the sign moves in from above."""

    @staticmethod
    def kernel(x: Array, y: Array) -> Array:
        return np.right_shift(x, _shift_distance(x, y))


# ---- Choice


def _choose_element(condition: int | None, x: int | None, y: int | None) -> int | None:
    # Both branches agree, so the condition does not matter.
    if condition is None:
        return x if x == y else None
    return x if condition else y


def _chosen(result: TensorSpec, condition: TensorSpec, x: TensorSpec, y: TensorSpec) -> TensorSpec:
    if x.dtype is None or x.dtype.kind not in "iub":
        return result
    return with_elements(
        result, map_elements(_choose_element, condition, x, y, shape=result.shape, partial=True)
    )


@op("Select")
class Select(OpDef):
    """z = x where condition, else y.

    x, y of one shape; condition the same, a scalar, or one bool per row (axis 0).
    """

    traits = Trait.SELECT | Trait.LINEAR

    @staticmethod
    def infer(condition: TensorSpec, x: TensorSpec, y: TensorSpec) -> TensorSpec:
        shape = merge(x.shape, y.shape)
        result = TensorSpec(pick(x, y), shape)
        if condition.shape is None:
            return result
        # A condition of x's rank has x's shape; a vector for a larger x chooses whole rows (Select alone, not
        # SelectV2).
        if len(condition.shape) > 1 or (shape is not None and len(condition.shape) == len(shape)):
            result = replace(result, shape=merge(shape, condition.shape))
        elif len(condition.shape) == 1 and shape is not None:
            require(len(shape) > 0, "a vector condition needs x of rank 1 or more")
            return replace(result, shape=(*(merge(shape[:1], condition.shape) or ()), *shape[1:]))
        return _chosen(result, condition, x, y)

    @staticmethod
    def kernel(condition: Array, x: Array, y: Array) -> Array:
        require(x.shape == y.shape, f"shapes {list(x.shape)} and {list(y.shape)} differ")
        if condition.ndim == 1 and x.ndim > 1:
            condition = condition.reshape(-1, *(1,) * (x.ndim - 1))
        return np.where(condition, x, y)


@op("SelectV2")
class SelectV2(OpDef):
    """z = x where condition, else y.   All three broadcast."""

    traits = Trait.SELECT | Trait.ELEMENTWISE | Trait.LINEAR

    @staticmethod
    def infer(condition: TensorSpec, x: TensorSpec, y: TensorSpec) -> TensorSpec:
        return _chosen(TensorSpec(pick(x, y), broadcast(condition.shape, x.shape, y.shape)), condition, x, y)

    @staticmethod
    def kernel(condition: Array, x: Array, y: Array) -> Array:
        return np.where(condition, x, y)


@op("Where")
class Where(OpDef):
    """y = indices of the elements that are not 0, in row-major order, int64.

    x of rank r -> y [count, r].
    """

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        known = x.ints if x.shape is not None and len(x.shape) == 1 else None
        if known is None:
            return TensorSpec(INT64, None if x.shape is None else (None, len(x.shape)))
        # Of known flags the result's size is known, too: how masks of shapes stay static.
        places = [i for i, v in enumerate(known) if v]
        return with_elements(TensorSpec(INT64, (len(places), 1)), places)

    @staticmethod
    def kernel(x: Array) -> Array:
        return np.argwhere(widen(x) != 0).astype(np.int64)
