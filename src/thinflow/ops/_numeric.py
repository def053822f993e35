"""Small tools that most kernels and shape rules of the element-wise families share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from thinflow.ir.types import DType, Shape, TensorSpec
from thinflow.ops._shapes import broadcast

Array = np.ndarray[Any, Any]
F = TypeVar("F", bound=Callable[..., Any])

_MOST_ELEMENTS = 4096  # above this, following single elements through a shape rule is not worth the time


def quiet(function: F) -> F:
    """Decorator: run without numpy's warnings about overflow, division by zero and NaN; TensorFlow gives none."""

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return cast(F, run)


def is_narrow(kind: np.dtype[Any]) -> bool:
    """Whether this is a float of less than 32 bits (half, bfloat16, the 8-bit floats)."""
    return kind.itemsize < 4 and kind.kind not in "iubcOSU"


def widen(x: Array) -> Array:
    """x, as float32 if it is a narrow float: CPU kernels compute those in float32 and round at the end."""
    return x.astype(np.float32) if is_narrow(x.dtype) else x


def like(y: Any, x: Array) -> Array:
    """y in the element type of x."""
    return np.asarray(y).astype(x.dtype, copy=False)


def unary(function: Callable[[Any], Any]) -> Callable[[Array], Array]:
    """A kernel of one input: `function` element by element, result in the input's type."""

    def kernel(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return like(function(widen(x)), x)

    return kernel


def binary(function: Callable[[Any, Any], Any]) -> Callable[[Array, Array], Array]:
    """A kernel of two inputs that broadcast, result in the first one's type."""

    def kernel(x: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            return like(function(widen(x), widen(y)), x)

    return kernel


def pick(*specs: TensorSpec) -> DType | None:
    """The element type that inputs of one type share, from the first that knows it."""
    return next((s.dtype for s in specs if s.dtype is not None), None)


def broadcast_spec(
    dtype: DType | None, *inputs: TensorSpec, on_ints: Callable[..., int | bool] | None = None
) -> TensorSpec:
    """The spec of an element-wise result. `on_ints` is the op on Python integers; it carries known elements along."""
    shape = broadcast(*(s.shape for s in inputs))
    return TensorSpec(dtype, shape, None if on_ints is None else map_elements(on_ints, dtype, shape, *inputs))


def map_elements(
    function: Callable[..., int | bool], dtype: DType | None, shape: Shape, *inputs: TensorSpec
) -> tuple[int | None, ...] | None:
    """Elements of an element-wise result, from the elements of its inputs; None inside where one is not known."""
    if dtype is None or dtype.kind not in "iub" or TensorSpec(dtype, shape).size not in range(_MOST_ELEMENTS):
        return None
    columns = []
    for spec in inputs:
        if spec.elements is None or spec.size != len(spec.elements):
            return None
        grid = np.array(spec.elements, dtype=object).reshape(cast("tuple[int, ...]", spec.shape))
        columns.append(np.broadcast_to(grid, cast("tuple[int, ...]", shape)).ravel())
    return tuple(_element(function, dtype, row) for row in zip(*columns, strict=True))


def _element(function: Callable[..., int | bool], dtype: DType, values: tuple[int | None, ...]) -> int | None:
    if any(v is None for v in values):
        return None
    try:
        value = int(function(*values))
    except ArithmeticError:  # division by zero: the kernel reports it, with the node's name
        return None
    return value if fits(value, dtype) else None


def fits(value: int, dtype: DType) -> bool:
    """Whether an integer or bool type can hold the value."""
    if dtype.kind == "b":
        return value in (0, 1)
    bits = 8 * dtype.itemsize
    return -(1 << bits - 1) <= value < 1 << bits - 1 if dtype.kind == "i" else 0 <= value < 1 << bits


def fold_elements(spec: TensorSpec, kernel: Callable[..., Any], *inputs: TensorSpec | Array, **attrs: Any) -> TensorSpec:
    """`spec` with the elements that the kernel computes, when every input element is known; else `spec` as it is.

    For ops that are not element-wise. An array among the inputs is passed as it is.
    """
    if spec.dtype is None or spec.dtype.kind not in "iub" or not spec.is_static:
        return spec
    arrays = []
    for source in inputs:
        if isinstance(source, TensorSpec):
            ints = source.ints
            if ints is None or source.dtype is None or source.size != len(ints):
                return spec
            arrays.append(np.array(ints, dtype=source.dtype.numpy()).reshape(cast("tuple[int, ...]", source.shape)))
        else:
            arrays.append(source)
    result = np.asarray(kernel(*arrays, **attrs))
    return replace(spec, elements=tuple(int(e) for e in result.ravel())) if result.size < _MOST_ELEMENTS else spec


def count(dims: tuple[int, ...]) -> int:
    """Number of elements of a known shape."""
    return math.prod(dims)
