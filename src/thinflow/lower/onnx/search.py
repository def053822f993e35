"""Finding, ranking and counting."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import DOUBLE, INT32, INT64, DType
from thinflow.lower.onnx import kernels
from thinflow.lower.onnx.builder import Builder, number, require, shape_of
from thinflow.lower.onnx.places import Steps
from thinflow.lower.onnx.terms import Term, choose, known_sizes
from thinflow.lower.ragged import counted
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor


def _counted(b: Builder, hits: Term, axis: int, element: DType) -> Tensor:
    """How often a condition holds along an axis."""
    return b.cast(hits.index().reduced("ReduceSum", axis).tensor, element)


@lower("LowerBound", "UpperBound", to="onnx")
def bound(b: Builder, node: Node, rows: Tensor, values: Tensor, *, out_type: DType = INT32) -> Tensor:
    """How many numbers of a sorted row [r,n] are below (or not above) each value [r,m]."""
    shape_of(rows, "the rows", 2)
    edges, x = Term(b, b.unsqueezed(rows, [1])), Term(b, b.unsqueezed(values, [2]))
    hits = edges < x if node.op == "LowerBound" else ~(x < edges)  # NaN comes last
    return b.result(_counted(b, hits, 2, out_type))


@lower("InTopK", to="onnx")
def in_top_k(b: Builder, node: Node, predictions: Tensor, targets: Tensor, *, k: int) -> Tensor:
    return _in_top(b, predictions, targets, b.int64(k))


@lower("InTopKV2", to="onnx")
def in_top_k_v2(b: Builder, node: Node, predictions: Tensor, targets: Tensor, k: Tensor) -> Tensor:
    return _in_top(b, predictions, targets, b.index(k))


def _in_top(b: Builder, predictions: Tensor, targets: Tensor, k: Tensor) -> Tensor:
    """Whether fewer than k classes beat the target's, which has to exist, and all are finite."""
    classes = shape_of(predictions, "the predictions", 2)[1]
    require(bool(classes), "the number of classes is not known")
    x, target = Term(b, predictions), Term(b, b.index(targets))
    valid = (target >= 0) & (target < (classes or 0))
    place = choose(valid, target, 0).unsqueezed(1).tensor
    rows = None if target.shape is None else (target.shape[0], 1)
    own = b.step("GatherElements", predictions, place, shape=rows, axis=1)
    better = (x > own).index().reduced("ReduceSum", 1)
    odd = (~(x.magnitude() < np.inf)).index().reduced("ReduceSum", 1)
    return b.result((valid & odd.equals(0) & (better < k)).tensor)


@lower("ListDiff", to="onnx")
def list_diff(b: Builder, node: Node, x: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """What is equal to none of the others, and where it stood."""
    shape_of(x, "x", 1)
    shape_of(other, "the other list", 1)
    run = kernels.fitting("Equal", x.dtype)
    same = Term(b, b.unsqueezed(b.cast(x, run), [1])).equals(b.unsqueezed(b.cast(other, run), [0]))
    alone = same.index().reduced("ReduceSum", 1).equals(0)
    places = b.squeezed(b.step("NonZero", alone.tensor, shape=(1, None), element=INT64), [0])
    return Term(b, x).gathered(places).tensor, b.typed(places, 1)


def _bins(b: Builder, x: Term, size: int, weights: Tensor, axis: int, binary: bool) -> Term:
    """The weights (or ones) of the elements along an axis, added up by value: that axis becomes the bins."""
    values = b.const(np.arange(size, dtype=np.int64), "values")
    hits = x.unsqueezed(axis + 1).equals(values)
    if binary:
        return hits.index().reduced("ReduceMax", axis)
    if 0 in (weights.shape or (None,)):
        return hits.index().reduced("ReduceSum", axis)
    require(weights.shape is not None and None not in weights.shape, "it is not known if there are weights")
    own = Term(b, b.reshaped(weights, x.shape or ())).unsqueezed(axis + 1)
    return choose(hits, own, 0).reduced("ReduceSum", axis)


@lower("Bincount", "DenseBincount", to="onnx")
def bincount(
    b: Builder, node: Node, x: Tensor, size: Tensor, weights: Tensor, *, binary_output: bool = False
) -> Tensor:
    shape = shape_of(x, "x")
    if node.op == "Bincount" or not shape:
        x = b.reshaped(x, (None,) if None in shape else (int(np.prod(known_sizes(shape))),))
    if not size.is_constant:
        return counted(Steps(b), x, size, weights, binary=binary_output)
    count = int(number(size, "the number of bins"))
    elements = np.prod([n or 1 for n in shape_of(x)])
    require(0 <= count * elements < 1 << 26, f"{count} bins are too many")
    run = kernels.fitting("ReduceSum", weights.dtype)
    axis = len(shape_of(x)) - 1
    y = _bins(b, Term(b, b.index(x)), count, b.cast(weights, run), axis, binary_output)
    return b.result(b.cast(y.tensor, weights.dtype))


@lower("HistogramFixedWidth", to="onnx")
def histogram(
    b: Builder, node: Node, x: Tensor, limits: Tensor, bins: Tensor, *, dtype: DType = INT32
) -> Tensor:
    count = int(number(bins, "the number of bins"))
    shape = shape_of(x, "x")
    require(0 < count * np.prod([n or 1 for n in shape]) < 1 << 26, f"{count} bins are too many")
    ends = Term(b, b.cast(limits, DOUBLE))
    low, high = (ends.gathered(np.int64(n)) for n in (0, 1))
    flat = Term(
        b, b.cast(b.reshaped(x, (None,) if None in shape else (int(np.prod(known_sizes(shape))),)), DOUBLE)
    )
    step = (high - low) / float(count)
    places = ((flat - low) / step).floor().most(0).least(count - 1).index()
    empty = b.const(np.zeros(0), "weights")
    return b.result(b.cast(_bins(b, places, count, empty, 0, False).tensor, dtype))
