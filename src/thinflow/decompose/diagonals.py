"""Diagonals and bands of matrices, and slices that are written: tables of the indices of their elements.

The tables are what the reference kernels make of numbered elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from thinflow.decompose.index_ops import arange, size_of
from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, TermLike, concat, refuse_unless, where
from thinflow.ir.attrs import Attr
from thinflow.ir.types import BOOL, INT32
from thinflow.ops import registry
from thinflow.typing import Array

MOST = 1 << 22
"""Indices of the largest table, which is part of the model."""


def numbered(sizes: tuple[int | None, ...], what: str) -> Array:
    """The elements of such a tensor, numbered."""
    refuse_unless(None not in sizes, f"the size of {what} is not known", "give the shapes of the inputs")
    known = [n or 0 for n in sizes]
    refuse_unless(prod(known) <= MOST, f"{what} is too large")
    return np.arange(prod(known)).reshape(known)


def table(op: str, operands: list[Any], attrs: Mapping[str, Attr] | None = None) -> Array:
    """The result of an op's kernel for some numbers."""
    (result,) = registry.call_kernel(registry.get(op), [np.asarray(o) for o in operands], attrs or {})
    indices = np.asarray(result)
    refuse_unless(indices.size <= MOST, "the matrix is too large")
    return indices


def moved(x: Term, indices: Array, padding: TermLike, axes: int) -> Term:
    """The elements of the last `axes` axes of x at flat indices; `padding` where the index is -1.

    Args:
        indices: of any shape, which takes the place of these axes.
    """
    lead = x.shape[: len(x.shape) - axes]
    count = prod(n or 0 for n in x.shape[len(x.shape) - axes :])
    if axes == 1:
        flat = x
    elif lead.count(None) <= 1:
        flat = x.reshape([*(-1 if n is None else n for n in lead), count])
    else:
        sizes = x.sizes().cut(0, 0, len(lead))
        flat = x.reshape(concat([sizes, x.body.constant([count], INT32)], 0))
    # Any element may be read where nothing is wanted: `padding` replaces it.
    y = flat.gather(x.body.constant(np.maximum(indices, 0), x.body.index), -1)
    return y if (indices >= 0).all() else where(x.body.constant(indices >= 0, BOOL), y, x.of(padding))


def _band(k: Term) -> Array:
    """The lowest and the highest of some diagonals, or the only one."""
    refuse_unless(k.elements is not None and None not in k.elements, "k is computed while the model runs")
    return np.array(k.elements, np.int32)


def _align(x: Term, align: str) -> dict[str, Attr]:
    # V2 had no attribute: it packed to the left always.
    return {"align": align.encode() if x.body.op.endswith("V3") else b"LEFT_LEFT"}


@decompose("MatrixDiag", "BatchMatrixDiag")
def matrix_diag(diagonal: Term) -> Term:
    # -1 leaves the size to the op; as the padding it marks indices that come from nowhere.
    one = np.int32(-1)
    count = numbered(diagonal.shape[-1:], "the diagonal")
    return moved(diagonal, table("MatrixDiagV3", [count, np.int32(0), one, one, np.int64(-1)]), 0, 1)


@decompose("MatrixDiagV2", "MatrixDiagV3")
def matrix_diag_v3(
    diagonal: Term, k: Term, rows: Term, columns: Term, padding: Term, *, align: str = "RIGHT_LEFT"
) -> Term:
    band = _band(k)
    sides = [np.int32(n.ints("the size of the matrix")[0]) for n in (rows, columns)]
    # One operator of LiteRT's, if it may be.
    if not band.any() and {*sides} <= {-1, diagonal.shape[-1]} and padding.is_all(0):
        return diagonal.apply("MatrixDiag")
    axes = 1 if band[0] == band[-1] else 2
    packed = numbered(diagonal.shape[-axes:], "the diagonal")
    indices = table("MatrixDiagV3", [packed, band, *sides, np.int64(-1)], _align(diagonal, align))
    return moved(diagonal, indices, padding, axes)


@decompose("MatrixDiagPart", "BatchMatrixDiagPart")
def matrix_diag_part(x: Term) -> Term:
    return moved(x, table("MatrixDiagPart", [numbered(x.shape[-2:], "the matrix")]), 0, 2)


@decompose("MatrixDiagPartV2", "MatrixDiagPartV3")
def matrix_diag_part_v3(x: Term, k: Term, padding: Term, *, align: str = "RIGHT_LEFT") -> Term:
    operands = [numbered(x.shape[-2:], "the matrix"), _band(k), np.int64(-1)]
    return moved(x, table("MatrixDiagPartV3", operands, _align(x, align)), padding, 2)


@decompose("MatrixSetDiag", "BatchMatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def matrix_set_diag(x: Term, diagonal: Term, *k: Term, align: str = "RIGHT_LEFT") -> Term:
    band = _band(k[0]) if k else np.array([0], np.int32)
    axes = 1 if band[0] == band[-1] else 2
    nowhere = np.full_like(numbered(x.shape[-2:], "the matrix"), -1)
    packed = numbered(diagonal.shape[-axes:], "the diagonal")
    return moved(diagonal, table("MatrixSetDiagV3", [nowhere, packed, band], _align(x, align)), x, axes)


@decompose("Diag")
def diag(x: Term) -> Term:
    # Diag fills with 0, so elements are numbered from 1 on and 0 becomes -1, "from nowhere".
    return moved(x, table("Diag", [numbered(x.shape, "x") + 1]) - 1, 0, len(x.shape))


@decompose("DiagPart")
def diag_part(x: Term) -> Term:
    return moved(x, table("DiagPart", [numbered(x.shape, "x")]), 0, len(x.shape))


@decompose("MatrixBandPart", "BatchMatrixBandPart")
def matrix_band_part(x: Term, below: Term, above: Term) -> Term:
    """Zero outside of a band of diagonals; a negative number of them means all."""
    widths = [n.ints("the width of the band")[0] for n in (below, above)]
    refuse_unless(len(x.shape) >= 2, "a matrix is needed")
    # Both widths negative: all of it, as a tensor of its own.
    if max(widths) < 0:
        return x.apply("Identity")
    if None not in x.shape[-2:]:
        ones = np.ones_like(numbered(x.shape[-2:], "the matrix"))
        inside = x.body.constant(table("MatrixBandPart", [ones, *map(np.int64, widths)]), BOOL)
        return where(inside, x, 0)
    # The sides are known when the model runs only, as those of a causal mask. Column less row: an element's
    # diagonal, of which -below to above are kept.
    distance = arange(size_of(x, -1)) - arange(size_of(x, -2)).expand_dims(1)
    sides = [*([distance >= -widths[0]] if widths[0] >= 0 else []),
             *([distance <= widths[1]] if widths[1] >= 0 else [])]  # fmt: skip
    return where(sides[0] if len(sides) == 1 else sides[0] & sides[1], x, 0)


@decompose("TensorStridedSliceUpdate")
def strided_slice_update(x: Term, begin: Term, end: Term, strides: Term, value: Term) -> Term:
    """Each index gets the element of `value` that the reference kernel would write there."""
    nowhere = np.full_like(numbered(x.shape, "x"), -1)
    slices = [np.array(t.ints("the slice"), np.int32) for t in (begin, end, strides)]
    assert x.body.node is not None
    operands = [nowhere, *slices, numbered(value.shape, "the value")]
    indices = table("TensorStridedSliceUpdate", operands, x.body.node.attrs)
    return moved(value if len(value.shape) == 1 else value.reshape([-1]), indices, x, 1)
