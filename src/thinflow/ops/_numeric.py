"""Small tools that most kernels and shape rules of the element-wise families share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from thinflow.ir.types import DType, TensorSpec
from thinflow.ops._shapes import LIMIT, broadcast, in_range, map_elements, with_elements
from thinflow.typing import Array

F = TypeVar("F", bound=Callable[..., Any])


def quiet(function: F) -> F:
    """Decorator: run without numpy's warnings of overflow, zero division and NaN; TensorFlow gives none."""

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return cast(F, run)


def is_narrow(kind: np.dtype[Any]) -> bool:
    """True for a float of less than 32 bits (half, bfloat16, the 8-bit floats)."""
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
    element: DType | None, *inputs: TensorSpec, on_ints: Callable[..., int | None] | None = None
) -> TensorSpec:
    """The spec of an element-wise result; `on_ints`, the op on Python integers, carries elements along."""
    result = TensorSpec(element, broadcast(*(s.shape for s in inputs)))
    if on_ints is None or element is None:
        return result

    def wrapped(*values: int) -> int | None:
        value = on_ints(*values)
        return None if value is None else in_range(int(value), element)

    return with_elements(result, map_elements(wrapped, *inputs, shape=result.shape))


def fold_elements(
    result: TensorSpec, kernel: Callable[..., Any], *inputs: TensorSpec | Array, **attrs: Any
) -> TensorSpec:
    """`result` with the elements that the kernel computes if every input element is known, else as it is.

    For ops that are not element-wise. An array among the inputs is passed as it is.
    """
    if result.dtype is None or result.dtype.kind not in "iub" or not result.is_static:
        return result
    arrays: list[Array] = []
    for source in inputs:
        if not isinstance(source, TensorSpec):
            arrays.append(source)
            continue
        ints = source.ints
        # One unknown element may change any of the results, so it is all or nothing here.
        if ints is None or source.shape is None or source.dtype is None or len(ints) > LIMIT:
            return result
        arrays.append(np.array(ints, source.dtype.numpy()).reshape([d or 0 for d in source.shape]))
    return with_elements(result, [int(e) for e in np.asarray(kernel(*arrays, **attrs)).ravel()])
