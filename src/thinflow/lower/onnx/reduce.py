"""Reductions and running sums."""

from __future__ import annotations

from typing import Any

from thinflow.ir.graph import Node
from thinflow.ir.types import INT32, INT64, DType
from thinflow.lower.onnx.builder import Builder, ints, require, shape_of
from thinflow.lower.onnx.program import Tensor
from thinflow.lower.rules import lower

_REDUCERS = {
    "Mean": "ReduceMean",
    "Sum": "ReduceSum",
    "Prod": "ReduceProd",
    "Max": "ReduceMax",
    "Min": "ReduceMin",
    "EuclideanNorm": "ReduceL2",
}


@lower(*_REDUCERS, to="onnx")
def reduce(b: Builder, node: Node, x: Tensor, axes: Tensor, *, keep_dims: bool = False) -> Tensor:
    """Over no axes at all, x stays as it is; to ONNX no axes mean all of them."""
    if 0 in (axes.shape or ()):
        return b.emit("Abs", x) if node.op == "EuclideanNorm" else x
    operands, options = _axes(b, _REDUCERS[node.op], x, axes)
    return b.emit(_REDUCERS[node.op], x, *operands, keepdims=int(keep_dims), **options)


def _axes(b: Builder, code: str, x: Tensor, axes: Tensor) -> tuple[list[Tensor], dict[str, Any]]:
    if axes.is_constant:
        places = ints(axes, "the axes") if x.shape is None else b.axes(axes, len(x.shape))
        return b.reduction_operands(code, tuple(sorted(set(places))))
    axes = b.index(axes)
    return b.reduction_operands(code, b.reshaped(axes, (None,)) if axes.shape != (1,) else axes)


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
    return b.typed(found)


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
