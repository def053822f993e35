"""Matrix products and bias."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor


@lower("MatMul", to="onnx")
def matmul(
    b: Builder, node: Node, x: Tensor, w: Tensor, *, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
    """A MatMul; Gemm where an operand that is computed has to be transposed."""
    # A constant is transposed now, as a view.
    if transpose_b and w.is_constant:
        w, transpose_b = b.transposed(w, (1, 0)), False
    if (transpose_a or transpose_b) and x.dtype.is_floating:
        return b.emit("Gemm", x, w, transA=int(transpose_a), transB=int(transpose_b))
    x = b.transposed(x, (1, 0)) if transpose_a else x
    return b.emit("MatMul", x, b.transposed(w, (1, 0)) if transpose_b else w)


@lower("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", to="onnx")
def batch_matmul(
    b: Builder, node: Node, x: Tensor, y: Tensor, *, adj_x: bool = False, adj_y: bool = False
) -> Tensor:
    """Broadcasts over leading axes."""
    return b.emit("MatMul", _adjoint(b, x) if adj_x else x, _adjoint(b, y) if adj_y else y)


def _adjoint(b: Builder, x: Tensor) -> Tensor:
    rank = len(shape_of(x, "a matrix"))
    require(rank >= 2, "a matrix needs two axes")
    return b.transposed(x, (*range(rank - 2), rank - 1, rank - 2))


@lower("Einsum", to="onnx")
def einsum(b: Builder, node: Node, *xs: Tensor, equation: str) -> Tensor:
    """ONNX Runtime ends the process if the equation does not fit, so that is seen to here."""
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    require(len(terms) == len(xs), f"the equation has {len(terms)} terms for {len(xs)} operands")
    sizes: dict[str, int] = {}
    for term, x in zip(terms, xs, strict=True):
        shape = shape_of(x, "an operand")
        head, dots, tail = term.partition("...")
        named = len(head) + len(tail)
        fits = len(shape) >= named if dots else len(shape) == named
        require(fits, f"the term {term} has another rank than its operand")
        # The dots stand for axes without a letter: letters before count from the front, those behind from the
        # end.
        ends = [*zip(head, shape, strict=False), *zip(tail[::-1], shape[::-1], strict=False)]
        for letter, size in ends:
            # TensorFlow broadcasts the dots only: a letter has one size, even where another is 1.
            if size is not None:
                require(sizes.setdefault(letter, size) == size, f"the sizes of {letter} differ")
    return _by_weights(b, xs, terms, equation) or b.emit("Einsum", *xs, equation=equation)


def _by_weights(b: Builder, xs: Sequence[Tensor], terms: Sequence[str], equation: str) -> Tensor | None:
    """A product with weights as one matrix product, which is twice as fast; None if it is something else.

    Its first operand is [rows..., inner...], and what it gives [rows..., columns...].
    """
    if len(xs) != 2 or "->" not in equation or "." in equation or xs[0].is_constant:
        return None
    (x, w), (first, second) = xs, terms
    # Each letter is in two of three places: kept of x, summed over, or new from w.
    rows = "".join(c for c in first if c not in second)
    inner = "".join(c for c in first if c in second)
    columns = "".join(c for c in second if c not in first)
    result = equation.replace(" ", "").partition("->")[2]
    fits = all((rows, inner, columns)) and first == rows + inner and result == rows + columns
    is_plain = all(len(set(term)) == len(term) for term in terms)
    if not w.is_constant or not x.dtype.is_floating or not fits or not is_plain:
        return None
    array = w.array().transpose([second.index(c) for c in inner + columns])
    sizes = array.shape[: len(inner)], array.shape[len(inner) :]
    if shape_of(x)[len(rows) :] != sizes[0]:
        return None
    kept = tuple(shape_of(x)[: len(rows)])
    if len(inner) > 1:
        flat = b.ints([*[0] * len(rows), prod(sizes[0])], "shape")  # 0: the size that is there
        x = b.step("Reshape", x, flat, shape=(*kept, prod(sizes[0])))
    matrix = b.const(array.reshape(prod(sizes[0]), prod(sizes[1])), "weights", w.dtype)
    if len(columns) == 1:
        return b.emit("MatMul", x, matrix)
    product = b.step("MatMul", x, matrix, shape=(*kept, prod(sizes[1])))
    return b.emit("Reshape", product, b.ints([*[0] * len(rows), *sizes[1]]))


@lower("BiasAdd", "BiasAddV1", to="onnx")
def bias_add(b: Builder, node: Node, x: Tensor, bias: Tensor, *, data_format: str = "NHWC") -> Tensor:
    """One number per channel; fusion moves it into a convolution in front."""
    if data_format.startswith("NC"):
        rank = len(shape_of(x, "x"))
        require(rank >= 2, "a bias per channel needs a channel axis")
        bias = b.unsqueezed(bias, range(1, rank - 1))
    return b.emit("Add", x, bias)


@lower("MatrixDeterminant", "BatchMatrixDeterminant", to="onnx")
def determinant(b: Builder, node: Node, x: Tensor) -> Tensor:
    require(x.dtype is FLOAT, f"ONNX Runtime has no Det for {x.dtype}")
    sizes = shape_of(x, "x")
    require(len(sizes) >= 2, "a matrix is needed")
    return b.emit("Det", x)
