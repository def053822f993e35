"""Diagonals of matrices: building, reading, setting, and bands around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops._shapes import merge, scalar
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array

Band = tuple[int, int]
"""Lowest and highest diagonal; 0 is the main one, 1 the one above it."""


def _band(k: Any) -> Band:
    values = [int(v) for v in np.ravel(k)]
    require(len(values) in (1, 2), f"k has {len(values)} entries, it must be one diagonal or a pair")
    require(values[0] <= values[-1], f"the lowest diagonal {values[0]} lies above the highest {values[-1]}")
    return values[0], values[-1]


def _length(rows: int, columns: int, diagonal: int) -> int:
    return min(rows + min(diagonal, 0), columns - max(diagonal, 0))


def _longest(rows: int, columns: int, band: Band) -> int:
    for k in band:
        require(-rows < k < columns or k == 0, f"a [{rows},{columns}] matrix has no diagonal {k}")
    # The longest diagonal of a band is the one nearest to the main one.
    return min(rows + min(band[1], 0), columns - max(band[0], 0))


def _diagonals(
    rows: int, columns: int, band: Band, longest: int, align: str
) -> Iterator[tuple[int, slice, Any]]:
    """For each diagonal: its row in the packed form, its places in that row, its index into the matrices."""
    above, below = align.split("_")
    # The packed form has the highest diagonal first; `align` tells where rows shorter than the longest sit.
    low, high = band
    for d in range(high, low - 1, -1):
        count = _length(rows, columns, d)
        # The main diagonal is the longest of its band and fills its row, so either rule may place it.
        left = (d >= 0 and above == "LEFT") or (d <= 0 and below == "LEFT")
        offset = 0 if left else longest - count
        steps = np.arange(count)
        yield high - d, slice(offset, offset + count), (..., steps - min(d, 0), steps + max(d, 0))


def _build(diagonal: Array, k: Any, num_rows: int, num_cols: int, padding: Any, align: str) -> Array:
    band = _band(k)
    packed = diagonal if band[0] != band[1] else diagonal[..., None, :]
    require(
        packed.ndim >= 2 and packed.shape[-2] == band[1] - band[0] + 1,
        f"{list(diagonal.shape)} does not fit k={band}",
    )
    longest = packed.shape[-1]
    rows, columns = longest - min(band[1], 0), longest + max(band[0], 0)
    # Nothing is said of either side: the smallest square that holds the band.
    if num_rows == num_cols == -1:
        num_rows = num_cols = max(rows, columns)
    num_rows = rows if num_rows == -1 else num_rows
    num_cols = columns if num_cols == -1 else num_cols
    require(
        # One side has to be the smallest possible, else the longest diagonal would not fill its row.
        num_rows >= rows and num_cols >= columns and (num_rows == rows or num_cols == columns),
        f"diagonals of length {longest} do not fit a [{num_rows},{num_cols}] matrix",
    )
    y = np.full((*packed.shape[:-2], num_rows, num_cols), padding, diagonal.dtype)
    for row, places, index in _diagonals(num_rows, num_cols, band, longest, align):
        y[index] = packed[..., row, places]
    return y


def _part(x: Array, k: Any, padding: Any, align: str) -> Array:
    require(x.ndim >= 2, f"a matrix is needed, got shape {list(x.shape)}")
    band = _band(k)
    rows, columns = x.shape[-2:]
    longest = _longest(rows, columns, band)
    y = np.full((*x.shape[:-2], band[1] - band[0] + 1, longest), padding, x.dtype)
    for row, places, index in _diagonals(rows, columns, band, longest, align):
        y[..., row, places] = x[index]
    return y if band[0] != band[1] else y[..., 0, :]


def _set(x: Array, diagonal: Array, k: Any, align: str) -> Array:
    require(x.ndim >= 2, f"a matrix is needed, got shape {list(x.shape)}")
    band = _band(k)
    rows, columns = x.shape[-2:]
    longest = _longest(rows, columns, band)
    packed = diagonal if band[0] != band[1] else diagonal[..., None, :]
    expected = (*x.shape[:-2], band[1] - band[0] + 1, longest)
    require(
        packed.shape == expected,
        f"diagonal has shape {list(diagonal.shape)} for {list(x.shape)} and k={band}",
    )
    y: Array = x.copy()
    for row, places, index in _diagonals(rows, columns, band, longest, align):
        y[index] = packed[..., row, places]
    return y


def _known_band(k: TensorSpec) -> Band | None:
    return None if k.ints is None else _band(k.ints)


def _build_spec(
    diagonal: TensorSpec, k: TensorSpec, num_rows: TensorSpec, num_cols: TensorSpec
) -> TensorSpec:
    band = _known_band(k)
    if diagonal.shape is None or band is None:
        return diagonal.with_shape(None)
    require(len(diagonal.shape) >= (1 if band[0] == band[1] else 2), f"{diagonal} does not fit k={band}")
    lead = diagonal.shape[: -1 if band[0] == band[1] else -2]
    longest, rows, columns = diagonal.shape[-1], scalar(num_rows), scalar(num_cols)
    if longest is None or rows is None or columns is None:
        return diagonal.with_shape((*lead, None if rows == -1 else rows, None if columns == -1 else columns))
    least_rows, least_columns = longest - min(band[1], 0), longest + max(band[0], 0)
    if rows == columns == -1:
        rows = columns = max(least_rows, least_columns)
    rows = least_rows if rows == -1 else rows
    columns = least_columns if columns == -1 else columns
    return diagonal.with_shape((*lead, rows, columns))


def _part_spec(x: TensorSpec, k: TensorSpec) -> TensorSpec:
    band = _known_band(k)
    if x.shape is None or band is None:
        return x.with_shape(None)
    require(len(x.shape) >= 2, f"a matrix is needed, got {x}")
    *lead, rows, columns = x.shape
    longest = None if rows is None or columns is None else _longest(rows, columns, band)
    return x.with_shape((*lead, longest) if band[0] == band[1] else (*lead, band[1] - band[0] + 1, longest))


# The inputs that the first versions lack, as the constants they stand for.
_MAIN = TensorSpec(shape=(), elements=(0,))
_ANY = TensorSpec(shape=(), elements=(-1,))


@op("Diag")
class Diag(OpDef):
    """y[i..., i...] = x[i...], zero elsewhere.   x [d...] -> y [d..., d...]."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return x.with_shape(None if x.shape is None else x.shape * 2)

    @staticmethod
    def kernel(x: Array) -> Array:
        return np.reshape(np.diag(x.ravel()), x.shape * 2)


@op("DiagPart")
class DiagPart(OpDef):
    """y[i...] = x[i..., i...].   x [d..., d...] -> y [d...]."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        if x.shape is None:
            return x.with_shape(None)
        half, odd = divmod(len(x.shape), 2)
        require(not odd, f"an even rank is needed, got {x}")
        return x.with_shape(merge(x.shape[:half], x.shape[half:]))

    @staticmethod
    def kernel(x: Array) -> Array:
        half, odd = divmod(x.ndim, 2)
        require(not odd and x.shape[:half] == x.shape[half:], f"{list(x.shape)} is not twice the same shape")
        size = int(np.prod(x.shape[:half], dtype=np.int64))
        return np.reshape(np.diagonal(x.reshape(size, size)), x.shape[:half])


@op("MatrixDiag", "BatchMatrixDiag")
class MatrixDiag(OpDef):
    """y[..., i, i] = x[..., i], zero elsewhere.   x [..., n] -> y [..., n, n]."""

    @staticmethod
    def infer(diagonal: TensorSpec) -> TensorSpec:
        return _build_spec(diagonal, _MAIN, _ANY, _ANY)

    @staticmethod
    def kernel(diagonal: Array) -> Array:
        return _build(diagonal, 0, -1, -1, 0, "LEFT_LEFT")


@op("MatrixDiagV3")
class MatrixDiagV3(OpDef):
    """y = matrices with these diagonals, `padding_value` elsewhere.

    k: one diagonal, or the lowest and the highest. diagonal: [..., n], or [..., diagonals, n] with the
    highest first. num_rows, num_cols: -1 for the smallest that fits, square if both are. `align` says at
    which end of their row the shorter diagonals above and below the main one sit.
    """

    @staticmethod
    def infer(
        diagonal: TensorSpec,
        k: TensorSpec,
        num_rows: TensorSpec,
        num_cols: TensorSpec,
        padding_value: TensorSpec,
    ) -> TensorSpec:
        return _build_spec(diagonal, k, num_rows, num_cols)

    @staticmethod
    def kernel(
        diagonal: Array,
        k: Array,
        num_rows: Array,
        num_cols: Array,
        padding_value: Array,
        *,
        align: str = "RIGHT_LEFT",
    ) -> Array:
        return _build(diagonal, k, int(num_rows), int(num_cols), padding_value, align)


@op("MatrixDiagV2")
class MatrixDiagV2(MatrixDiagV3):
    """MatrixDiagV3 with every short diagonal at the left of its row."""

    @staticmethod
    def kernel(  # type: ignore[override]
        diagonal: Array, k: Array, num_rows: Array, num_cols: Array, padding_value: Array
    ) -> Array:
        return _build(diagonal, k, int(num_rows), int(num_cols), padding_value, "LEFT_LEFT")


@op("MatrixDiagPart", "BatchMatrixDiagPart")
class MatrixDiagPart(OpDef):
    """y[..., i] = x[..., i, i].   x [..., m, n] -> y [..., min(m, n)]."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return _part_spec(x, _MAIN)

    @staticmethod
    def kernel(x: Array) -> Array:
        return _part(x, 0, 0, "LEFT_LEFT")


@op("MatrixDiagPartV3")
class MatrixDiagPartV3(OpDef):
    """y = diagonals of x [..., m, n], [..., n] or [..., diagonals, n]: the inverse of MatrixDiagV3."""

    @staticmethod
    def infer(x: TensorSpec, k: TensorSpec, padding_value: TensorSpec) -> TensorSpec:
        return _part_spec(x, k)

    @staticmethod
    def kernel(x: Array, k: Array, padding_value: Array, *, align: str = "RIGHT_LEFT") -> Array:
        return _part(x, k, padding_value, align)


@op("MatrixDiagPartV2")
class MatrixDiagPartV2(MatrixDiagPartV3):
    """MatrixDiagPartV3 with every short diagonal at the left of its row."""

    @staticmethod
    def kernel(x: Array, k: Array, padding_value: Array) -> Array:  # type: ignore[override]
        return _part(x, k, padding_value, "LEFT_LEFT")


@op("MatrixSetDiag", "BatchMatrixSetDiag")
class MatrixSetDiag(OpDef):
    """y = x with another main diagonal.   x [..., m, n], diagonal [..., min(m, n)] -> y like x."""

    @staticmethod
    def infer(x: TensorSpec, diagonal: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array, diagonal: Array) -> Array:
        return _set(x, diagonal, 0, "LEFT_LEFT")


@op("MatrixSetDiagV3")
class MatrixSetDiagV3(OpDef):
    """y = x with other values on the diagonals k, packed as for MatrixDiagV3."""

    @staticmethod
    def infer(x: TensorSpec, diagonal: TensorSpec, k: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array, diagonal: Array, k: Array, *, align: str = "RIGHT_LEFT") -> Array:
        return _set(x, diagonal, k, align)


@op("MatrixSetDiagV2")
class MatrixSetDiagV2(MatrixSetDiagV3):
    """MatrixSetDiagV3 with every short diagonal at the left of its row."""

    @staticmethod
    def kernel(x: Array, diagonal: Array, k: Array) -> Array:  # type: ignore[override]
        return _set(x, diagonal, k, "LEFT_LEFT")


@op("MatrixBandPart", "BatchMatrixBandPart")
class MatrixBandPart(OpDef):
    """y = x, zero outside a band around the main diagonal.

    It has num_lower diagonals below and num_upper above; a negative number means all.
    """

    @staticmethod
    def infer(x: TensorSpec, num_lower: TensorSpec, num_upper: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array, num_lower: Array, num_upper: Array) -> Array:
        require(x.ndim >= 2, f"a matrix is needed, got shape {list(x.shape)}")
        below = np.arange(x.shape[-2])[:, None] - np.arange(x.shape[-1])
        lower, upper = int(num_lower), int(num_upper)
        inside = ((lower < 0) | (below <= lower)) & ((upper < 0) | (-below <= upper))
        return np.where(inside, x, np.zeros((), x.dtype))
