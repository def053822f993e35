"""Arithmetic on partly known shapes and partly known elements, shared by the shape rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from thinflow.ir.types import DType, Shape, TensorSpec, shape_text
from thinflow.ops.registry import require

Dim = int | None


def broadcast(*shapes: Shape) -> Shape:
    """The shape of numpy-style broadcasting; an unknown size stays so unless the other side settles it."""
    if any(s is None for s in shapes):
        return None
    if len(shapes) == 1:
        return shapes[0]
    known = [s for s in shapes if s is not None]
    rank = max((len(s) for s in known), default=0)
    result: list[Dim] = []
    for axis in range(-rank, 0):
        sizes = [s[axis] for s in known if len(s) >= -axis]
        above_one = {d for d in sizes if d is not None and d != 1}
        require(len(above_one) <= 1, f"shapes {' and '.join(shape_text(s) for s in shapes)} do not broadcast")
        if above_one:
            # An unknown size next to n > 1 (or 0) can only be n or 1, and either gives n; next to 1 it stays
            # unknown.
            result.append(above_one.pop())
        else:
            result.append(None if any(d is None for d in sizes) else 1)
    return tuple(result)


def merge(a: Shape, b: Shape) -> Shape:
    """The shape that two descriptions of the same tensor give together, each filling the other's gaps."""
    if a is None or b is None:
        return b if a is None else a
    require(len(a) == len(b), f"shapes {shape_text(a)} and {shape_text(b)} have different ranks")
    merged: list[Dim] = []
    for x, y in zip(a, b, strict=True):
        require(x is None or y is None or x == y, f"shapes {shape_text(a)} and {shape_text(b)} differ")
        merged.append(y if x is None else x)
    return tuple(merged)


def normalize_axis(axis: int, rank: int) -> int:
    """A non-negative axis from one that may count from the end."""
    require(-rank <= axis < rank, f"axis {axis} is out of range for rank {rank}")
    return axis % rank if rank else 0


def product(dims: Sequence[Dim]) -> Dim:
    """Product of sizes, None if one is unknown (unless another is 0)."""
    result = 1
    unknown = False
    for dim in dims:
        if dim is None:
            unknown = True
        else:
            result *= dim
    return None if unknown and result != 0 else result


def window_output(
    size: Dim, window: int, stride: int, padding: str, dilation: int = 1, explicit: tuple[int, int] = (0, 0)
) -> Dim:
    """Output size of a sliding window along one axis.

    SAME: ceil(size / stride).
    VALID: ceil((size - span + 1) / stride) with span = (window - 1) * dilation + 1.
    EXPLICIT: as VALID on the padded size. Source: TensorFlow's `GetWindowedOutputSize`.

    Raises:
        ShapeError: the window is larger than what it slides over by a stride or more.
    """
    if size is None:
        return None
    if padding == "SAME":
        return -(-size // stride)
    span = (window - 1) * dilation + 1
    if padding == "EXPLICIT":
        size += sum(explicit)
    # TensorFlow divides with truncation: a window too large by less than a stride is legal, without a place.
    fits = size - span + stride > -stride
    require(fits, f"a window of {span} with padding {padding} does not fit into {size}")
    return max(-(-(size - span + 1) // stride), 0)


def same_padding(size: int, window: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Zeros before and after one axis under SAME padding; the odd one goes after."""
    span = (window - 1) * dilation + 1
    total = max((-(-size // stride) - 1) * stride + span - size, 0)
    return total // 2, total - total // 2


def rank_of(spec: TensorSpec, rank: int, what: str) -> tuple[Dim, ...]:
    """The dims of a tensor that must have this rank; all unknown if its rank is."""
    if spec.shape is None:
        return (None,) * rank
    require(len(spec.shape) == rank, f"{what} has shape {shape_text(spec.shape)}, rank {rank} is needed")
    return spec.shape


# ---- Partly known elements of small integer tensors: how shapes that a model computes stay static.
#
# See `TensorSpec.elements`. A rule for an op that only moves elements around runs its own kernel on them
# (`moved`); arithmetic works element by element (`map_elements`); a rule that reads an input as a list of
# numbers or as a shape uses `known_list`, `shape_from` and `constant`.


Elements = tuple[int | None, ...]

LIMIT = 256
"""Tensors with more elements than this are data, not shapes: their elements are not tracked."""


def with_elements(spec: TensorSpec, elements: Sequence[int | None] | None) -> TensorSpec:
    """The spec with these elements; without any if they are too many, all unknown, or not whole numbers."""
    tracked = (
        elements is not None
        and spec.is_static
        and len(elements) == spec.size
        and len(elements) <= LIMIT
        and (spec.dtype is None or spec.dtype.kind in "iub")
        # An empty tensor is fully known; one of which nothing is known is not worth tracking.
        and (not elements or any(e is not None for e in elements))
    )
    return replace(spec, elements=tuple(elements) if tracked and elements is not None else None)


def as_array(spec: TensorSpec) -> np.ndarray[Any, Any] | None:
    """An object array of the spec's shape, None for unknown elements; None if it is not small and static."""
    size = spec.size
    if size is None or spec.shape is None or size > LIMIT:
        return None
    array = np.empty(size, dtype=object)
    if spec.elements is not None:
        array[:] = spec.elements
    return array.reshape([d or 0 for d in spec.shape])


def moved(result: TensorSpec, kernel: Callable[..., Any], *specs: TensorSpec) -> TensorSpec:
    """The result of an op that only moves elements, with those that are known.

    Args:
        result: shape and type of the output.
        kernel: the op on arrays; it gets one object array per spec.
        specs: the inputs whose elements move.
    """
    # Nothing is known, so the kernel need not run; the common case for real tensors.
    if result.size is None or all(s.elements is None for s in specs):
        return result
    arrays = [as_array(s) for s in specs]
    if any(a is None for a in arrays):
        return result
    output = np.asarray(kernel(*arrays), dtype=object)
    return with_elements(result, tuple(output.ravel().tolist()))


def map_elements(
    function: Callable[..., int | None], *specs: TensorSpec, shape: Shape, partial: bool = False
) -> Elements | None:
    """Elements of an elementwise op's result, for inputs that broadcast to `shape`; None if none is known.

    Args:
        function: gets one int per input; may return None for "not known" (a division by zero, say).
        specs: the inputs. A scalar, and a size of 1, are repeated as in numpy.
        shape: the result's shape.
        partial: call the function with None for an unknown operand too, instead of giving up on it.

    Example: `with_elements(y, map_elements(lambda a, b: in_range(a * b, y.dtype), a, b, shape=y.shape))`.
    """
    if shape is None or any(d is None for d in shape) or all(s.elements is None for s in specs):
        return None
    sizes = tuple(d for d in shape if d is not None)
    if math.prod(sizes) > LIMIT:
        return None
    columns = []
    for spec in specs:
        array = as_array(spec)
        if array is None:
            return None
        columns.append(np.broadcast_to(array, sizes).ravel().tolist())
    result = tuple(
        function(*row) if partial or None not in row else None for row in zip(*columns, strict=True)
    )
    return result if not result or any(v is not None for v in result) else None


def in_range(value: int, element: DType | None) -> int:
    """An integer as its type stores it: wrapped around, as TensorFlow's integer arithmetic does."""
    if element is None or element.kind not in "iub":
        return value
    if element.kind == "b":
        return int(bool(value))
    # Python's % is never negative, so one step wraps both overflow and underflow.
    span = 1 << (8 * element.itemsize)
    value %= span
    return value - span if element.kind == "i" and value >= span // 2 else value


def constant(spec: TensorSpec) -> np.ndarray[Any, Any] | None:
    """The tensor as an int64 array, when every element is known."""
    ints = spec.ints
    if ints is None or spec.shape is None:
        return None
    return np.array(ints, np.int64).reshape([d or 0 for d in spec.shape])


def scalar(spec: TensorSpec) -> int | None:
    """The value of a known integer scalar (or one-element vector); None if unknown."""
    return spec.elements[0] if spec.elements is not None and len(spec.elements) == 1 else None


def known_list(spec: TensorSpec) -> Elements | None:
    """The elements of a vector or scalar, None for unknown ones; None alone if their number is unknown."""
    if spec.elements is not None:
        return spec.elements
    return (None,) * spec.size if spec.size is not None else None


def shape_from(spec: TensorSpec) -> Shape:
    """The shape that an integer vector describes; an element of -1 is an unknown size."""
    dims = known_list(spec)
    if dims is None:
        return None
    require(spec.shape is None or len(spec.shape) <= 1, f"a shape must be a vector, got {spec}")
    require(all(d is None or d >= -1 for d in dims), f"a shape has a negative size: {list(dims)}")
    return tuple(None if d == -1 else d for d in dims)
