"""Diagonals, and what is solved with matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import INT32
from thinflow.keras import activations
from thinflow.keras.call import Call
from thinflow.keras.operations.arrays import number
from thinflow.keras.operations.elementwise import first, tensor
from thinflow.keras.operations.reductions import widened
from thinflow.keras.registry import Result, Rule, operation

# --- diagonals ----------------------------------------------------------------------------------------------


def _last(c: Call, x: Value) -> Value:
    """With the axes of the matrices last."""
    rank = c.rank(x)
    axes = [c.axis(number(c, f"axis{n}", 1 + n, n - 1), rank) for n in (1, 2)]
    return c.transpose(x, [*(n for n in range(rank) if n not in axes), *axes])


def _diagonal(c: Call, x: Value, offset: int) -> Value:
    rows, columns = c.size(x, -2), c.size(x, -1)
    if not -rows < offset < columns:
        raise c.refuse(f"its diagonal {offset} lies outside of {rows} x {columns}")
    kinds: dict[str, Any] = {"align": "RIGHT_LEFT", "T": c.type_of(x)}
    return c.emit("MatrixDiagPartV3", x, c.const(offset, "k"), c.const(0, like=x), **kinds)


def _matrix(c: Call, x: Value, offset: int) -> Value:
    """A matrix with a vector on a diagonal."""
    places = [c.const(n, "k") for n in (offset, -1, -1)]
    return c.emit("MatrixDiagV3", x, *places, c.const(0, like=x), align="RIGHT_LEFT")


@operation("Diagonal")
def diagonal(c: Call) -> Result:
    return _diagonal(c, _last(c, first(c)), number(c, "offset", 1, 0))


@operation("Trace")
def trace(c: Call) -> Result:
    """The sum of a diagonal."""
    x = widened(c, _last(c, first(c)))
    mask = np.eye(c.size(x, -2), c.size(x, -1), number(c, "offset", 1, 0), dtype=bool)
    return c.reduce("Sum", activations.where(c, c.const(mask, "diagonal"), x, 0), [-2, -1])


@operation("Diag")
def diag(c: Call) -> Result:
    x, offset = first(c), number(c, "k", 1, 0)
    if c.rank(x) not in (1, 2):
        raise c.refuse(f"its input has {c.rank(x)} axes")
    return _matrix(c, x, offset) if c.rank(x) == 1 else _diagonal(c, x, offset)


@operation("Diagflat")
def diagflat(c: Call) -> Result:
    return _matrix(c, c.reshape(first(c), (None,)), number(c, "k", 1, 0))


# --- solving ------------------------------------------------------------------------------------------------


def _turned(c: Call, x: Value) -> Value:
    rank = c.rank(x)
    return c.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def _of_matrix(op: str) -> Rule:
    return lambda c: c.emit(op, first(c))


operation("Det")(_of_matrix("MatrixDeterminant"))
operation("Inv")(_of_matrix("MatrixInverse"))


@operation("Cholesky")
def cholesky(c: Call) -> Result:
    y = c.emit("Cholesky", first(c))
    return _turned(c, y) if c.flag("upper") else y


@operation("CholeskyInverse")
def cholesky_inverse(c: Call) -> Result:
    """The inverse of the matrix that a factor is of."""
    x, upper = first(c), c.flag("upper")
    ones = c.const(np.eye(c.size(x, -1), dtype=c.type_of(x).numpy()), "eye")
    y = c.emit("MatrixTriangularSolve", x, ones, lower=not upper, adjoint=False)
    return c.emit("BatchMatMulV2", y, y, adj_x=not upper, adj_y=upper)


def _solved(op: str) -> Rule:
    def rule(c: Call) -> Value:
        a, b = tensor(c, "a", 0), tensor(c, "b", 1)
        is_vector = c.rank(b) == c.rank(a) - 1
        options: dict[str, Any] = {"lower": c.flag("lower")} if op == "MatrixTriangularSolve" else {}
        y = c.emit(op, a, c.expand(b, -1) if is_vector else b, adjoint=False, **options)
        return c.squeeze(y, c.rank(y) - 1) if is_vector else y

    return rule


operation("Solve")(_solved("MatrixSolve"))
operation("SolveTriangular")(_solved("MatrixTriangularSolve"))


@operation("Logdet")
def logdet(c: Call) -> Result:
    """The logarithm of the determinant, of a matrix that is positive definite."""
    factor = c.emit("Cholesky", first(c))
    logs = c.emit("Log", _diagonal(c, factor, 0))
    return c.emit("Mul", c.reduce("Sum", logs, [-1]), 2.0)


@operation("Slogdet")
def slogdet(c: Call) -> Result:
    node = c.node("LogMatrixDeterminant", first(c))
    return [node.output(0), node.output(1)]


@operation("Qr")
def qr(c: Call) -> Result:
    full = c.choice("mode", "reduced", "complete") == "complete"
    node = c.node("Qr", first(c), full_matrices=full)
    return [node.output(0), node.output(1)]


@operation("SVD")
def svd(c: Call) -> Result:
    """u, s and v* with x = u diag(s) v*."""
    full, vectors = c.flag("full_matrices", True), c.flag("compute_uv", True)
    node = c.node("Svd", first(c), full_matrices=full, compute_uv=vectors)
    return [node.output(1), node.output(0), _turned(c, node.output(2))] if vectors else node.output(0)


@operation("Eigh")
def eigh(c: Call) -> Result:
    node = c.node("SelfAdjointEigV2", first(c), compute_v=True)
    return [node.output(0), node.output(1)]


@operation("LuFactor")
def lu(c: Call) -> Result:
    """Both factors in one matrix, and where each row went."""
    node = c.node("Lu", first(c), output_idx_type=INT32)
    if c.rank(node.output(1)) != 1:
        raise c.refuse("it factors several matrices")
    return [node.output(0), c.emit("InvertPermutation", node.output(1))]


def _is_large(c: Call, x: Value, values: Value, given: object, margin: int) -> Value:
    """True for singular values that are no rounding of zero."""
    if not isinstance(given, int | float | None):
        raise c.refuse("its tolerance is no number")
    sides = max(c.size(x, -2), c.size(x, -1))
    share = margin * sides * float(np.finfo(c.type_of(x).numpy()).eps)
    if margin == 1 and given is not None:
        return c.emit("Greater", values, float(given))
    least = c.emit("Mul", c.reduce("Max", values, [-1], True), share if given is None else float(given))
    return c.emit("Greater", values, least)


@operation("MatrixRank")
def matrix_rank(c: Call) -> Result:
    """How many singular values are above a tolerance."""
    x = first(c)
    values = c.node("Svd", x, full_matrices=False, compute_uv=False).output(0)
    return c.reduce("Sum", c.cast(_is_large(c, x, values, c.get("tol"), 1), INT32), [-1])


@operation("Pinv")
def pseudo_inverse(c: Call) -> Result:
    """v diag(1 / s) u*, without singular values below a share of the largest."""
    x = first(c)
    node = c.node("Svd", x, full_matrices=False, compute_uv=True)
    values, left, right = (node.output(n) for n in range(3))
    kept = c.cast(_is_large(c, x, values, c.get("rcond"), 10), c.type_of(x))
    scaled = c.emit("Mul", right, c.expand(c.emit("DivNoNan", kept, values), -2))
    return c.emit("BatchMatMulV2", scaled, left, adj_x=False, adj_y=True)


@operation("Lstsq")
def least_squares(c: Call) -> Result:
    """v diag(1 / s) u* b, without singular values below a share of the largest."""
    a, b = tensor(c, "a", 0), tensor(c, "b", 1)
    is_vector = c.rank(b) == 1
    given = c.get("rcond")
    if not isinstance(given, int | float | None):
        raise c.refuse("its tolerance is no number")
    eps = float(np.finfo(c.type_of(a).numpy()).eps)
    share = eps * max(c.size(a, 0), c.size(a, 1)) if given is None else eps if given < 0 else float(given)
    node = c.node("Svd", a, full_matrices=False, compute_uv=True)
    values, left, right = (node.output(n) for n in range(3))
    kept = c.emit("GreaterEqual", values, c.emit("Mul", c.reduce("Max", values, [-1], True), share))
    inverse = c.emit("DivNoNan", c.cast(kept, c.type_of(a)), values)
    turned = c.emit("BatchMatMulV2", left, c.expand(b, -1) if is_vector else b, adj_x=True, adj_y=False)
    scaled = c.emit("Mul", c.expand(inverse, -1), turned)
    y = c.emit("BatchMatMulV2", right, scaled, adj_x=False, adj_y=False)
    return c.squeeze(y, 1) if is_vector else y
