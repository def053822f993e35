"""Matrix products, bias and pooling; convolutions are in `conv`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT
from thinflow.lower.onnx.builder import Builder, ints, require, shape_of
from thinflow.lower.onnx.conv import geometry, is_channels_first, sizes_inside, spatial
from thinflow.lower.onnx.spatial import padded
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor
from thinflow.ops.traits import Trait, has


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
        # Broadcasting lines axes up from the end: [c,1,1] beside [n,c,h,w].
        bias = b.unsqueezed(bias, range(1, rank - 1))
    return b.emit("Add", x, bias)


@lower("MatrixDeterminant", "BatchMatrixDeterminant", to="onnx")
def determinant(b: Builder, node: Node, x: Tensor) -> Tensor:
    require(x.dtype is FLOAT, f"ONNX Runtime has no Det for {x.dtype}")
    sizes = shape_of(x, "x")
    require(len(sizes) >= 2, "a matrix is needed")
    return b.emit("Det", x)


# ---- Pooling.


def _pool(
    b: Builder,
    code: str,
    x: Tensor,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    data_format: str,
    explicit: Sequence[int] = (),
    **more: Any,
) -> Tensor:
    first = is_channels_first(data_format)
    rank = len(shape_of(x, "x"))
    require(len(ksize) == len(strides) == rank, f"ksize and strides need {rank} values")
    window = spatial(ksize, first, "the window")
    ones = (1,) * len(window)
    options = geometry(
        sizes_inside(x, first),
        window,
        spatial(strides, first, "strides"),
        ones,
        padding,
        explicit,
        first=first,
    )
    if "auto_pad" in more:
        # ONNX takes pads or auto_pad, not both.
        options.pop("pads", None)
    options |= more
    if first:
        return b.emit(code, x, **options)
    result = b.result_spec().shape
    shape = None if result is None else (result[0], result[-1], *result[1:-1])
    return b.emit_channels_last(b.step(code, b.channels_first(x), shape=shape or (None,) * rank, **options))


def _unfused(node: Node, padding: str) -> dict[str, Any]:
    """Options that keep ONNX Runtime from taking a border of zeros in front into the pool.

    Its pools fill borders with the lowest number, so the maximum of negative numbers at the edge, which is
    that zero, would come out too low. Pools that say how they pad by name are left alone.
    """
    source = node.inputs[0].node
    while has(source.op, Trait.PASSES_THROUGH) and source.inputs:
        source = source.inputs[0].node
    named = {"VALID": "VALID", "SAME": "SAME_UPPER"}
    if source.op not in ("Pad", "PadV2") or padding not in named:
        return {}
    return {"auto_pad": named[padding]}


@lower("AvgPool", "AvgPool3D", to="onnx")
def avg_pool(
    b: Builder,
    node: Node,
    x: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    data_format: str = "NHWC",
) -> Tensor:
    """The border does not count in the average, as in TensorFlow."""
    return _pool(b, "AveragePool", x, ksize, strides, padding, data_format, count_include_pad=0)


@lower("MaxPool", "MaxPool3D", to="onnx")
def max_pool(
    b: Builder,
    node: Node,
    x: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
) -> Tensor:
    """A border wider than the window, which MaxPool refuses, becomes a Pad with the lowest number."""
    if padding == "EXPLICIT":
        require(len(explicit_paddings) == 2 * len(ksize), "explicit_paddings needs two values per axis")
        pairs = list(zip(explicit_paddings[::2], explicit_paddings[1::2], strict=True))
        # A window that lies in the border altogether has no greatest element.
        if any(max(pair) >= size > 0 and any(pair) for pair, size in zip(pairs, ksize, strict=True)):
            element = x.dtype.numpy()
            limits = np.finfo(element) if x.dtype.is_floating else np.iinfo(element)
            x, padding = padded(b, x, pairs, b.scalar(limits.min, x, "lowest")), "VALID"
    own = _unfused(node, padding)
    return _pool(b, "MaxPool", x, ksize, strides, padding, data_format, explicit_paddings, **own)


@lower("MaxPoolV2", to="onnx")
def max_pool_v2(
    b: Builder,
    node: Node,
    x: Tensor,
    ksize: Tensor,
    strides: Tensor,
    *,
    padding: str,
    data_format: str = "NHWC",
) -> Tensor:
    sizes = ints(ksize, "ksize"), ints(strides, "strides")
    return _pool(b, "MaxPool", x, *sizes, padding, data_format, **_unfused(node, padding))
