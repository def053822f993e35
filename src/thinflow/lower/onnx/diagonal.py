"""Diagonals of matrices: each is a table of the places that its elements come from.

The tables are what the reference kernels make of numbered elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL
from thinflow.lower.onnx.builder import Builder, number, require, shape_of
from thinflow.lower.onnx.scatter import moved
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor
from thinflow.ops import registry
from thinflow.typing import Array

_MOST = 1 << 22


def _numbered(sizes: tuple[int | None, ...], what: str) -> Array:
    """The elements of such a tensor, numbered."""
    require(None not in sizes, f"the size of {what} is not known")
    known = [n or 0 for n in sizes]
    require(int(np.prod(known)) <= _MOST, f"{what} is too large")
    return np.arange(int(np.prod(known))).reshape(known)


def _table(op: str, operands: list[Any], attrs: dict[str, Any] | None = None) -> Array:
    definition = registry.get(op)
    (found,) = registry.call_kernel(definition, [np.asarray(o) for o in operands], attrs or {})
    table = np.asarray(found)
    require(table.size <= _MOST, "the matrix is too large")
    return table


def _zero(b: Builder, x: Tensor) -> Tensor:
    return b.scalar(0, x, "zero")


def _band(b: Builder, k: Tensor) -> Array:
    values = b.elements(k)
    require(values is not None and None not in values, "k is computed while the model runs")
    return np.array(values, np.int32)


@lower("MatrixDiag", "BatchMatrixDiag", to="onnx")
def matrix_diag(b: Builder, node: Node, diagonal: Tensor) -> Tensor:
    # -1 leaves the size to the op; as the padding it marks places that come from nowhere.
    one = np.int32(-1)
    count = _numbered(shape_of(diagonal, "the diagonal")[-1:], "the diagonal")
    table = _table("MatrixDiagV3", [count, np.int32(0), one, one, np.int64(-1)])
    return b.result(moved(b, diagonal, table, _zero(b, diagonal), 1))


@lower("MatrixDiagV2", "MatrixDiagV3", to="onnx")
def matrix_diag_v3(
    b: Builder,
    node: Node,
    diagonal: Tensor,
    k: Tensor,
    rows: Tensor,
    columns: Tensor,
    padding: Tensor,
    *,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    band = _band(b, k)
    axes = 1 if band[0] == band[-1] else 2
    packed = _numbered(shape_of(diagonal, "the diagonal")[-axes:], "the diagonal")
    sizes = [np.int32(number(n, "the size of the matrix")) for n in (rows, columns)]
    # V2 had no attribute: it packed to the left always.
    align = "LEFT_LEFT" if node.op == "MatrixDiagV2" else align
    table = _table("MatrixDiagV3", [packed, band, *sizes, np.int64(-1)], {"align": align})
    return b.result(moved(b, diagonal, table, padding, axes))


@lower("MatrixDiagPart", "BatchMatrixDiagPart", to="onnx")
def matrix_diag_part(b: Builder, node: Node, x: Tensor) -> Tensor:
    table = _table("MatrixDiagPart", [_numbered(shape_of(x, "x")[-2:], "the matrix")])
    return b.result(moved(b, x, table, _zero(b, x), 2))


@lower("MatrixDiagPartV2", "MatrixDiagPartV3", to="onnx")
def matrix_diag_part_v3(
    b: Builder, node: Node, x: Tensor, k: Tensor, padding: Tensor, *, align: str = "RIGHT_LEFT"
) -> Tensor:
    align = "LEFT_LEFT" if node.op == "MatrixDiagPartV2" else align
    operands = [_numbered(shape_of(x, "x")[-2:], "the matrix"), _band(b, k), np.int64(-1)]
    return b.result(moved(b, x, _table("MatrixDiagPartV3", operands, {"align": align}), padding, 2))


@lower("MatrixSetDiag", "BatchMatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3", to="onnx")
def matrix_set_diag(
    b: Builder, node: Node, x: Tensor, diagonal: Tensor, *k: Tensor, align: str = "RIGHT_LEFT"
) -> Tensor:
    band = _band(b, k[0]) if k else np.array([0], np.int32)
    align = align if node.op == "MatrixSetDiagV3" else "LEFT_LEFT"
    axes = 1 if band[0] == band[-1] else 2
    nowhere = np.full_like(_numbered(shape_of(x, "x")[-2:], "the matrix"), -1)
    packed = _numbered(shape_of(diagonal, "the diagonal")[-axes:], "the diagonal")
    table = _table("MatrixSetDiagV3", [nowhere, packed, band], {"align": align})
    return b.result(moved(b, diagonal, table, x, axes))


@lower("Diag", to="onnx")
def diag(b: Builder, node: Node, x: Tensor) -> Tensor:
    # Diag fills with 0, so elements are numbered from 1 on and 0 becomes -1, "from nowhere".
    table = _table("Diag", [_numbered(shape_of(x, "x"), "x") + 1]) - 1
    return b.result(moved(b, x, table, _zero(b, x), len(shape_of(x))))


@lower("DiagPart", to="onnx")
def diag_part(b: Builder, node: Node, x: Tensor) -> Tensor:
    table = _table("DiagPart", [_numbered(shape_of(x, "x"), "x")])
    return b.result(moved(b, x, table, _zero(b, x), len(shape_of(x))))


@lower("MatrixBandPart", "BatchMatrixBandPart", to="onnx")
def matrix_band_part(b: Builder, node: Node, x: Tensor, below: Tensor, above: Tensor) -> Tensor:
    """Zero outside a band; a negative number of diagonals means all of them."""
    limits = [np.int64(number(n, "the width of the band")) for n in (below, above)]
    if None in shape_of(x, "x")[-2:]:
        return _open_band(b, x, *map(int, limits))
    ones = np.ones_like(_numbered(shape_of(x, "x")[-2:], "the matrix"))
    inside = b.const(_table("MatrixBandPart", [ones, *limits]).astype(bool), "band", BOOL)
    return b.emit("Where", inside, x, _zero(b, x), like=x)


def _open_band(b: Builder, x: Tensor, below: int, above: int) -> Tensor:
    """The same where the sides are known when the model runs only, as those of a causal mask."""
    shape = shape_of(x)[-2:]
    down, along = (_places(b, x, axis) for axis in (-2, -1))
    # An element's diagonal is its column less its row: -below to above are kept.
    distance = b.step("Sub", along, b.unsqueezed(down, [1]), shape=shape)
    sides = []
    if below >= 0:
        sides.append(b.step("GreaterOrEqual", distance, b.int64(-below), shape=shape, element=BOOL))
    if above >= 0:
        sides.append(b.step("LessOrEqual", distance, b.int64(above), shape=shape, element=BOOL))
    if not sides:
        return b.emit("Identity", x)
    inside = sides[0] if len(sides) == 1 else b.step("And", *sides, shape=shape, element=BOOL)
    return b.emit("Where", inside, x, _zero(b, x), like=x)


def _places(b: Builder, x: Tensor, axis: int) -> Tensor:
    """0, 1, ... along an axis of x, int64 [n]."""
    rank = len(shape_of(x))
    size = b.squeezed(b.sliced(b.sizes_of(x), [rank + axis], [rank + axis + 1], [0], shape=(1,)), [0])
    return b.step("Range", b.int64(0), size, b.int64(1), shape=(shape_of(x)[axis],))
