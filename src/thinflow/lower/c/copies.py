"""Copies of elements between arrays of any sizes, as runs of bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.layer import Argument
from thinflow.tflite.model import Tensor

_DIMENSIONS, _MOST_DIMENSIONS = 5, 8


def row_major(shape: Sequence[int]) -> list[int]:
    """Elements from one to the next along each dimension."""
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def copy(
    b: LayerBuilder,
    x: Argument,
    y: Argument,
    count: Sequence[int],
    x_step: Sequence[int],
    y_step: Sequence[int],
    x_start: int = 0,
    y_start: int = 0,
    size: int = 0,
) -> None:
    """Call a kernel that copies elements of x to y.

    Args:
        b: of the layer.
        x, y: from where, to where.
        count: elements along each dimension.
        x_step, y_step: elements from one to the next along each.
        x_start, y_start: where the first are.
        size: bytes of an element; by default of those of x, which has to be a tensor then.

    Raises:
        UnsupportedOp: there are too many dimensions, after those that belong together are one.
    """
    size = size or (x.dtype.itemsize if isinstance(x, Tensor) else 0)
    starts = {"x_start": x_start * size, "y_start": y_start * size}
    parts = copy_settings(size, count, x_step, y_step, _MOST_DIMENSIONS)
    # Few copies go along more dimensions than a kernel has loops for; those count for themselves.
    many = isinstance(parts["count"], tuple) and len(parts["count"]) > _DIMENSIONS
    b.call("strided_copy_any" if many else "strided_copy", x, y, b.struct("", **parts, **starts))


def copy_settings(
    size: int,
    count: Sequence[int],
    x_step: Sequence[int],
    y_step: Sequence[int],
    most: int = _DIMENSIONS,
) -> dict[str, Argument]:
    """Members of the kernel's struct, but where the first elements are.

    Args:
        size: bytes of an element.
        count, x_step, y_step: as of `copy`.
        most: dimensions that there may be.

    Raises:
        UnsupportedOp: there are too many dimensions.
    """
    # In bytes from here on: what is moved has no type.
    run = size
    left: list[tuple[int, int, int]] = []
    # From the last dimension on: what lies side by side in both is a run, what is evenly spaced one
    # dimension.
    for n, step, other in reversed(list(zip(count, x_step, y_step, strict=True))):
        if n == 1:
            continue
        if not left and step * size == run == other * size:
            run *= n
        elif left and all(s == left[-1][0] * left[-1][i] for i, s in ((1, step), (2, other))):
            left[-1] = (left[-1][0] * n, *left[-1][1:])
        else:
            left.append((n, step, other))
    if len(left) > most:
        raise UnsupportedOp(f"it moves along {len(left)} dimensions, more than {most}")
    # Outer dimensions first, as the kernel has its loops.
    left = [*left[::-1]]
    room = most if len(left) > _DIMENSIONS else _DIMENSIONS
    left = [(1, 0, 0)] * (room - len(left)) + left
    return {
        "count": tuple(n for n, _, _ in left),
        "x_step": tuple(step * size for _, step, _ in left),
        "y_step": tuple(step * size for _, _, step in left),
        "run_bytes": run,
    }
