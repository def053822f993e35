"""Reductions, running sums and normalization."""

from __future__ import annotations

from typing import Any

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, INT32, INT64, DType
from thinflow.lower.onnx.builder import Builder, ints, require, shape_of
from thinflow.lower.onnx.conv import is_channels_first
from thinflow.lower.rules import lower
from thinflow.onnx.operators import Trait, same_in_onnx
from thinflow.onnx.program import Tensor

# Each factor is a Slice and a Mul.
_MOST_FACTORS = 8
_REDUCERS = same_in_onnx(Trait.REDUCTION)


@lower(*_REDUCERS, to="onnx")
def reduce(
    b: Builder, node: Node, x: Tensor, axes: Tensor, *, keep_dims: bool = False, _is_in_range: bool = False
) -> Tensor:
    """Over no axes at all, x stays as it is; to ONNX no axes mean all of them.

    Args:
        _is_in_range: a decomposition's word that 32 bits hold all numbers.
    """
    if node.op == "EuclideanNorm":
        require(x.dtype.is_floating, f"the norm of {x.dtype} has no ONNX form")
    if 0 in (axes.shape or ()):
        return b.emit("Abs", x) if node.op == "EuclideanNorm" else x
    if node.op == "Mean":
        require(0 not in (x.shape or ()), "the mean of nothing is NaN in TensorFlow, 0 in ONNX Runtime")
    if node.op == "Prod" and x.dtype.is_integer:
        return _product(b, x, b.axes(axes, len(shape_of(x, "x"))), keep_dims)
    if node.op in ("Max", "Min"):
        require(0 not in (x.shape or ()) or x.dtype.is_floating, f"{node.op} of nothing is {x.dtype}'s limit")
    if node.op in ("Max", "Min") and x.dtype.name in ("uint32", "int64") and not _is_in_range:
        return _extreme(b, node.op, x, axes, keep_dims)
    operands, options = _axes(b, _REDUCERS[node.op], x, axes)
    if node.op == "Sum" and x.dtype is INT32:  # ONNX Runtime's stops at the limits
        options["keepdims"] = int(keep_dims)
        total = b.step("ReduceSum", b.index(x), *operands, shape=b.result_spec().shape, **options)
        return b.typed(total)
    return b.emit(_REDUCERS[node.op], x, *operands, keepdims=int(keep_dims), **options)


def _extreme(b: Builder, op: str, x: Tensor, axes: Tensor, keep_dims: bool) -> Tensor:
    """By the place of the extreme: ONNX Runtime compares no more than 32 bits of an int64 elsewhere."""
    places = sorted(set(b.axes(axes, len(shape_of(x, "x")))))
    y = b.index(x)
    for axis in places:
        # One axis after the other: an Arg op knows one only.
        shape = tuple(1 if a == axis else n for a, n in enumerate(shape_of(y)))
        at = b.step(f"Arg{op}", y, shape=shape, element=INT64, axis=axis, keepdims=1)
        y = b.step("GatherElements", y, at, shape=shape, axis=axis)
    return b.result(b.cast(y if keep_dims else b.squeezed(y, places), x.dtype))


def _product(b: Builder, x: Tensor, axes: tuple[int, ...], keep_dims: bool) -> Tensor:
    """Factor by factor, which wraps around: ONNX Runtime's own product of integers is one of doubles."""
    for axis in sorted(set(axes)):
        count = shape_of(x)[axis]
        require(count is not None and 1 <= count <= _MOST_FACTORS,
                f"a product of {count or 'an unknown number of'} integers has no exact form")  # fmt: skip
        x = _along(b, x, axis, count or 0)
    return b.result(x if keep_dims else b.squeezed(x, sorted(set(axes))))


def _along(b: Builder, x: Tensor, axis: int, count: int) -> Tensor:
    """The product along one axis, which stays with size 1."""
    shape = tuple(1 if a == axis else n for a, n in enumerate(shape_of(x)))
    parts = [b.sliced(x, [i], [i + 1], [axis], shape=shape) for i in range(count)]
    product = parts[0]
    for part in parts[1:]:
        product = b.step("Mul", product, part)
    return product


def _axes(b: Builder, code: str, x: Tensor, axes: Tensor) -> tuple[list[Tensor], dict[str, Any]]:
    if axes.is_constant:
        places = ints(axes, "the axes") if x.shape is None else b.axes(axes, len(x.shape))
        return b.reduction_operands(code, tuple(sorted(set(places))))
    axes = b.index(axes)
    if x.shape is not None:  # of nothing, ONNX Runtime does not know axes counted from the end
        axes = b.step("Mod", axes, b.int64(max(len(x.shape), 1), "rank"))
    operands, options = b.reduction_operands(code, b.reshaped(axes, (None,)) if axes.shape != (1,) else axes)
    # An empty list of axes is known only at run time; it means none in TensorFlow and all in ONNX.
    return operands, options | {"noop_with_empty_axes": int(code != "ReduceL2")}


@lower("Any", "All", to="onnx")
def any_(b: Builder, node: Node, x: Tensor, axes: Tensor, *, keep_dims: bool = False) -> Tensor:
    """The largest or smallest of 0 and 1."""
    if 0 in (axes.shape or ()):
        return x
    code = "ReduceMax" if node.op == "Any" else "ReduceMin"
    operands, options = _axes(b, code, x, axes)
    found = b.step(
        code, b.cast(x, INT32), *operands, shape=b.result_spec().shape, keepdims=int(keep_dims), **options
    )
    # Of nothing, the largest is the lowest number there is.
    return b.emit("Greater", found, b.scalar(0, found, "zero"), like=_BOOL)


@lower("ArgMax", "ArgMin", to="onnx")
def arg_max(b: Builder, node: Node, x: Tensor, axis: Tensor, *, output_type: DType = INT64) -> Tensor:
    """The first of several equal ones, as in TensorFlow."""
    (place,) = b.axes(axis, len(shape_of(x, "x")))
    found = b.step(node.op, x, shape=b.result_spec().shape, element=INT64, axis=place, keepdims=0)
    return b.typed(found)


@lower("Cumsum", to="onnx")
def cumsum(
    b: Builder, node: Node, x: Tensor, axis: Tensor, *, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    require(len(shape_of(x, "x")) > 0, "x has no axis to sum along")
    return b.emit("CumSum", x, axis, exclusive=int(exclusive), reverse=int(reverse))


_BOOL = Tensor("", None, BOOL)


# ---- Normalization.


@lower("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", to="onnx")
def fused_batch_norm(
    b: Builder,
    node: Node,
    x: Tensor,
    scale: Tensor,
    offset: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float = 1e-4,
    data_format: str = "NHWC",
    is_training: bool = True,
) -> tuple[Tensor, ...]:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, with parameters of its own."""
    require(not is_training, "ONNX Runtime normalizes by the statistics of a batch in training builds only")
    first = is_channels_first(data_format)
    y = _normalized(b, x, scale, offset, mean, variance, epsilon, first)
    # The other outputs are the statistics that went in: nothing new was measured.
    return y, mean, variance, mean, variance


def _normalized(
    b: Builder,
    x: Tensor,
    scale: Tensor,
    offset: Tensor,
    mean: Tensor,
    variance: Tensor,
    epsilon: float,
    first: bool,
) -> Tensor:
    """A BatchNormalization over the channels, which run-time optimizers fold into a convolution in front."""
    rank = len(shape_of(x, "x"))
    # FusedBatchNormV2 and V3 have half x with float parameters; ONNX Runtime normalizes in one type.
    element, x = x.dtype, b.cast(x, scale.dtype)
    require(2 <= rank <= 5, f"no batch norm of rank {rank}")
    moves = not first and rank > 2
    moved = b.channels_first(x) if moves else x
    y = b.step(
        "BatchNormalization", moved, scale, offset, mean, variance, shape=moved.shape, epsilon=float(epsilon)
    )
    y = b.emit_channels_last(y) if moves and element is y.dtype else _back(b, y, moves)
    return b.cast(y, element)


def _back(b: Builder, y: Tensor, moves: bool) -> Tensor:
    rank = len(shape_of(y))
    return b.transposed(y, (0, *range(2, rank), 1)) if moves else y


@lower("LRN", to="onnx")
def lrn(
    b: Builder,
    node: Node,
    x: Tensor,
    *,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
) -> Tensor:
    """ONNX divides alpha by the number of channels that are summed."""
    shape_of(x, "x", 4)
    size = 2 * depth_radius + 1
    moved = b.channels_first(x)
    y = b.step("LRN", moved, size=size, alpha=float(alpha) * size, beta=float(beta), bias=float(bias))
    return b.emit_channels_last(y)
