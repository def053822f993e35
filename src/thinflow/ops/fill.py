"""Tensors made from nothing but a shape, a range or a rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import DType, TensorSpec
from thinflow.ops._numeric import quiet
from thinflow.ops._shapes import LIMIT, normalize_axis, scalar, shape_from, with_elements
from thinflow.ops.array import _Free
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.traits import Role, Trait
from thinflow.typing import Array


@op("Fill")
class Fill(_Free):
    """y = `value` everywhere.   dims [r], value a scalar -> y of shape dims."""

    roles = (Role.COUNT,)

    @staticmethod
    def infer(dims: TensorSpec, value: TensorSpec) -> TensorSpec:
        result = value.with_shape(shape_from(dims))
        return with_elements(result, (scalar(value),) * (result.size or 0)) if _small(result) else result

    @staticmethod
    def kernel(dims: Array, value: Array) -> Array:
        require(dims.ndim == 1, f"dims must be a vector, got shape {list(dims.shape)}")
        require(bool((dims >= 0).all()), f"negative size in {dims.tolist()}")
        require(value.ndim == 0, f"value must be a scalar, got shape {list(value.shape)}")
        return np.full([int(d) for d in dims], value[()], value.dtype)


@op("Empty")
class Empty(_Free):
    """y = zeros of the given shape. (TensorFlow leaves them uninitialized unless `init` is set.)"""

    traits = Trait.TYPE_BITS

    @staticmethod
    def infer(shape: TensorSpec, *, dtype: DType) -> TensorSpec:
        return TensorSpec(dtype, shape_from(shape))

    @staticmethod
    def kernel(shape: Array, *, dtype: DType) -> Array:
        return _filled([int(d) for d in shape], dtype.numpy(), 0)


@op("ZerosLike")
class ZerosLike(_Free):
    """y = zeros (empty strings) with the shape of x."""

    traits = Trait.ELEMENTWISE | Trait.LINEAR

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return _constant_like(x, 0)

    @staticmethod
    def kernel(x: Array) -> Array:
        return _filled(x.shape, x.dtype, 0)


@op("OnesLike")
class OnesLike(_Free):
    """y = ones with the shape of x."""

    traits = Trait.ELEMENTWISE

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return _constant_like(x, 1)

    @staticmethod
    def kernel(x: Array) -> Array:
        return _filled(x.shape, x.dtype, 1)


def _filled(shape: Any, element: np.dtype[Any], value: int) -> Array:
    return np.full(shape, b"" if element.hasobject else value, element)


def _constant_like(x: TensorSpec, value: int) -> TensorSpec:
    result = x.with_shape(x.shape)
    return with_elements(result, (value,) * (x.size or 0)) if _small(result) else result


def _small(spec: TensorSpec) -> bool:
    return spec.size is not None and spec.size <= LIMIT


@op("Range")
class Range(OpDef):
    """y = start, start + delta, ... up to but without limit.   All scalars of one type."""

    @staticmethod
    def infer(start: TensorSpec, limit: TensorSpec, delta: TensorSpec) -> TensorSpec:
        ends = scalar(start), scalar(limit), scalar(delta)
        if any(e is None for e in ends):
            return start.with_shape((None,))
        first, last, step = (e or 0 for e in ends)
        _check_range(first, last, step)
        numbers = range(first, last, step)
        result = start.with_shape((len(numbers),))
        return with_elements(result, tuple(numbers)) if len(numbers) <= LIMIT else result

    @staticmethod
    @quiet
    def kernel(start: Array, limit: Array, delta: Array) -> Array:
        if start.dtype.kind in "iu":
            ends = int(start), int(limit), int(delta)
            _check_range(*ends)
            return np.arange(*ends).astype(start.dtype)
        first, last, step = start[()], limit[()], delta[()]
        _check_range(first, last, step)
        # In the inputs' own precision: in a wider one the number of elements could differ from TensorFlow's.
        size = int(np.ceil(np.abs((last - first) / step)))
        return np.asarray(first + np.arange(size).astype(start.dtype) * step, start.dtype)


def _check_range(first: Any, last: Any, step: Any) -> None:
    require(step != 0, "delta is 0")
    require(
        (last - first) * (1 if step > 0 else -1) >= 0,
        f"delta {step} leads away from {last}, starting at {first}",
    )


@op("LinSpace")
class LinSpace(OpDef):
    """y = num evenly spaced numbers from start to stop, both included."""

    roles = (None, None, Role.COUNT)

    @staticmethod
    def infer(start: TensorSpec, stop: TensorSpec, num: TensorSpec) -> TensorSpec:
        return start.with_shape((scalar(num),))

    @staticmethod
    @quiet
    def kernel(start: Array, stop: Array, num: Array) -> Array:
        count = int(num)
        require(count > 0, f"num is {count}, it must be positive")
        if count == 1:
            return start.reshape(1)
        step = ((stop - start) / start.dtype.type(count - 1)).astype(start.dtype)
        y = start + step * np.arange(count).astype(start.dtype)
        # The last element is `stop` itself, not what rounding makes of the sum.
        y[-1] = stop
        return np.asarray(y, start.dtype)


@op("OneHot")
class OneHot(OpDef):
    """y = on_value where the place along the new `axis` equals the index, else off_value.

    indices any shape -> y with a new axis of size depth (-1: the last). An index that is not one of
    0..depth-1 gives off_value throughout.
    """

    roles = (None, Role.COUNT)

    @staticmethod
    def infer(
        indices: TensorSpec, depth: TensorSpec, on_value: TensorSpec, off_value: TensorSpec, *, axis: int = -1
    ) -> TensorSpec:
        if indices.shape is None:
            return on_value.with_shape(None)
        axis = normalize_axis(axis, len(indices.shape) + 1)
        return on_value.with_shape((*indices.shape[:axis], scalar(depth), *indices.shape[axis:]))

    @staticmethod
    def kernel(indices: Array, depth: Array, on_value: Array, off_value: Array, *, axis: int = -1) -> Array:
        require(int(depth) >= 0, f"depth is {int(depth)}, it must not be negative")
        axis = normalize_axis(axis, indices.ndim + 1)
        places = np.arange(int(depth)).reshape((-1,) + (1,) * (indices.ndim - axis))
        # Comparing instead of indexing: an index outside 0..depth-1 simply matches nowhere.
        hot = np.expand_dims(indices, axis) == places
        y = np.full(hot.shape, off_value[()], on_value.dtype)
        y[hot] = on_value[()]
        return y
