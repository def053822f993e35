"""Diagonals and bands of matrices."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, INT32
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, ints, require, shape_of
from thinflow.lower.tflite.program import Tensor


def _sides(x: Tensor) -> tuple[int, int]:
    shape = shape_of(x, "the matrices")
    require(len(shape) >= 2 and None not in shape[-2:], "the sizes of the matrices are not known")
    return shape[-2] or 0, shape[-1] or 0


@lower("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3", to="tflite")
def matrix_diag_part(b: Builder, node: Node, x: Tensor, *more: Tensor) -> Tensor:
    """[...,m,n] as [...,m*n], of which every n+1-th element is taken; one diagonal only."""
    rows, columns = _sides(x)
    offsets = set(ints(more[0], "k")) if more else {0}
    require(len(offsets) == 1, "TFLite takes one diagonal, not a band of them")
    offset = offsets.pop()
    # A positive offset starts in column `offset`, a negative one in row -offset.
    length = min(rows + min(offset, 0), columns - max(offset, 0))
    require(length > 0, f"diagonal {offset} lies outside of {rows} by {columns}")
    first = offset if offset >= 0 else -offset * columns
    # One row further and one column further is columns + 1 elements further.
    places = first + np.arange(length, dtype=np.int32) * (columns + 1)
    shape = (*(x.shape or ())[:-2], rows * columns)
    flat = b.reshaped(x, shape)
    return b.emit("GATHER", flat, b.const(places.astype(np.int32), "places"), axis=len(shape) - 1)


@lower("MatrixBandPart", to="tflite")
def matrix_band_part(b: Builder, node: Node, x: Tensor, below: Tensor, above: Tensor) -> Tensor:
    """The elements in the band, else 0; a negative width means all."""
    sizes = shape_of(x, "the matrices")
    (lower_width,), (upper_width,) = ints(below, "num_lower"), ints(above, "num_upper")
    if None in sizes[-2:]:
        return _open_band(b, x, lower_width, upper_width)
    rows, columns = _sides(x)
    # Column less row: positive above the diagonal.
    distance = np.arange(columns) - np.arange(rows)[:, None]
    inside = ((lower_width < 0) | (-distance <= lower_width)) & (
        (upper_width < 0) | (distance <= upper_width)
    )
    return b.emit("SELECT_V2", b.const(inside, "band"), x, b.scalar(0, x, "zero"))


def _open_band(b: Builder, x: Tensor, below: int, above: int) -> Tensor:
    """The same where the sides are known when the model runs only, as those of a causal mask."""
    sizes = shape_of(x)
    now = b.step("SHAPE", x, shape=(len(sizes),), element=INT32, out_type=INT32)
    down, along = (_numbers(b, now, len(sizes) - 2 + n, sizes[n - 2]) for n in (0, 1))
    shape = sizes[-2:]
    distance = b.step("SUB", along, b.reshaped(down, (shape[0], 1)), shape=shape, suffix="distance")
    limits = (("GREATER_EQUAL", -below, below >= 0), ("LESS_EQUAL", above, above >= 0))
    inside = [
        b.step(code, distance, b.const(np.int32(limit), "limit"), shape=shape, element=BOOL)
        for code, limit, is_limited in limits
        if is_limited
    ]
    # Both widths negative: all of it, by an operator of its own, as the node's result is a tensor of its own.
    if not inside:
        return b.emit("RESHAPE", x, now)
    both = inside[0] if len(inside) == 1 else b.step("LOGICAL_AND", *inside, shape=shape)
    return b.emit("SELECT_V2", both, x, b.scalar(0, x, "zero"))


def _numbers(b: Builder, sizes: Tensor, axis: int, count: int | None) -> Tensor:
    """0, 1, ... for the places along an axis, int32 [count]."""
    start, step = b.const(np.int32(0), "zero"), b.const(np.int32(1), "one")
    end = b.step("GATHER", sizes, b.const(np.int32(axis), "axis"), shape=(), axis=0)
    return b.step("RANGE", start, end, step, shape=(count,))
