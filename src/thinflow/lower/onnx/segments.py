"""Rows combined by segment, sorted or gathered."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import INT64
from thinflow.lower.onnx import kernels
from thinflow.lower.onnx.builder import END, Builder, ints, require, shape_of
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor

_WAYS = {"Sum": "add", "Mean": "add", "SqrtN": "add", "Prod": "mul", "Max": "max", "Min": "min"}


def inner_sizes(b: Builder, x: Tensor) -> Tensor:
    """The sizes of x but for the first, int64 [rank - 1]."""
    shape = shape_of(x, "x")
    if None not in shape[1:]:
        return b.ints([n or 0 for n in shape[1:]], "inner")
    return b.sliced(b.sizes_of(x), [1], [END], [0], shape=(len(shape) - 1,))


def _count(b: Builder, segments: Tensor, given: tuple[Tensor, ...]) -> Tensor:
    """How many segments there are, int64 [1]."""
    if given:
        return b.reshaped(b.index(given[0]), (1,))
    if segments.is_constant:
        return b.ints([max(ints(segments, "the segment numbers"), default=-1) + 1], "count")
    return b.step("Add", b.reduce("ReduceMax", segments, [0], keep=True), b.ints([1]), shape=(1,))


def _combined(b: Builder, x: Tensor, places: Tensor, count: Tensor, how: str) -> Tensor:
    """Rows of x [n,...] combined at places [n,1] -> [count,...]; the neutral number where there is none."""
    require(how in ("add", "mul") or b.opset >= 18, "ScatterND takes max and min since opset 18 only")
    limits = np.finfo(x.dtype.numpy()) if x.dtype.is_floating else np.iinfo(x.dtype.numpy())
    start = {"add": 0, "mul": 1, "max": limits.min, "min": limits.max}[how]
    rows = b.filled(b.joined(count, inner_sizes(b, x)), start, x.dtype)
    return b.step("ScatterND", rows, places, x, shape=rows.shape, reduction=how)


def _members(b: Builder, x: Tensor, places: Tensor, count: Tensor) -> Term:
    """The number of rows of each segment, shaped to meet a result with the rank of x."""
    ones = b.filled(b.sliced(b.sizes_of(x), [0], [1], [0], shape=(1,)), 1, INT64)
    found = b.step("ScatterND", b.filled(count, 0, INT64), places, ones, shape=(None,), reduction="add")
    return Term(b, b.unsqueezed(found, range(1, len(shape_of(x)))))


def segmented(
    b: Builder, x: Tensor, segments: Tensor, given: tuple[Tensor, ...], kind: str, rounds: bool = True
) -> Tensor:
    """y[s] = rows of x with segment number s, combined; 0 (for products 1) where there is none."""
    element, run = x.dtype, kernels.combining(x.dtype)
    x, segments = b.cast(x, run), b.index(segments)
    shape_of(segments, "the segment numbers", 1)
    count, places = _count(b, segments, given), b.unsqueezed(segments, [1])
    y = Term(b, _combined(b, x, places, count, _WAYS[kind]))
    if kind in ("Max", "Min"):
        y = choose(_members(b, x, places, count) > 0, y, 0)
    elif kind in ("Mean", "SqrtN"):
        is_whole = kind == "Mean" and x.dtype.itemsize >= 4  # the sums of smaller ones would have to wrap
        require(x.dtype.is_floating or is_whole, f"a quotient of {x.dtype} has no ONNX form")
        members = _members(b, x, places, count).most(1).cast(x.dtype)
        y = y / (members if kind == "Mean" else members.apply("Sqrt"))
    return b.result(b.cast(y.tensor, element))


_SORTED = [f"Segment{kind}{version}" for kind in ("Max", "Min", "Prod") for version in ("", "V2")]


@lower("SegmentSum", "SegmentMean", "SegmentSumV2", *_SORTED, to="onnx")
def segment(b: Builder, node: Node, x: Tensor, segments: Tensor, *count: Tensor) -> Tensor:
    """As many segments as the highest number says, or `count`."""
    return segmented(b, x, segments, count, node.op.removeprefix("Segment").removesuffix("V2"))


_SPARSE = [
    f"SparseSegment{kind}{more}" for kind in ("Sum", "Mean", "SqrtN") for more in ("", "WithNumSegments")
]


@lower(*_SPARSE, to="onnx")
def sparse_segment(
    b: Builder, node: Node, x: Tensor, indices: Tensor, segments: Tensor, *count: Tensor
) -> Tensor:
    """The segments are of rows that are gathered first."""
    rows = Term(b, x).gathered(b.index(indices)).tensor
    kind = node.op.removeprefix("SparseSegment").removesuffix("WithNumSegments")
    return segmented(b, rows, segments, count, kind)
