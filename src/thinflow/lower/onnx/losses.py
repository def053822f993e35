"""Losses, which exported training graphs keep."""

from __future__ import annotations

import math

import numpy as np

from thinflow.ir.graph import Node
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor


def _probabilities(b: Builder, x: Tensor) -> tuple[Term, Term]:
    """Softmax of rows, and its logarithm."""
    return Term(b, b.step("Softmax", x, axis=-1)), Term(b, b.step("LogSoftmax", x, axis=-1))


@lower("SoftmaxCrossEntropyWithLogits", to="onnx")
def cross_entropy(b: Builder, node: Node, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """A label of 0 takes no part, even where its class is infinitely unlikely."""
    require(len(shape_of(x, "x")) == 2 == len(shape_of(labels, "the labels")), "matrices are needed")
    same = shape_of(x)[1] == shape_of(labels)[1] is not None
    require(same, "the classes of x and of the labels are not known to be the same")
    target, (soft, logs) = Term(b, labels), _probabilities(b, x)
    # 0 times minus infinity is no number: it has to be chosen away, not multiplied.
    terms = choose(target.equals(0), target * 0, target * logs)
    loss = -terms.reduced("ReduceSum", 1)
    return b.result(loss.tensor), b.result((soft - target).tensor, 1)


@lower("SparseSoftmaxCrossEntropyWithLogits", to="onnx")
def sparse_cross_entropy(b: Builder, node: Node, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Labels are class numbers; one that is none gives NaN."""
    classes = shape_of(x, "x", 2)[1]
    require(bool(classes), "the number of classes is not known")
    soft, logs = _probabilities(b, x)
    number = Term(b, b.index(labels)).unsqueezed(1)
    inside = (number >= 0) & (number < (classes or 0))
    hit = number.equals(np.arange(classes or 0))
    loss = -choose(hit, logs, 0).reduced("ReduceSum", 1, keep=True)
    loss = choose(inside, loss, math.nan)
    rows = None if labels.shape is None else labels.shape
    flat = b.step("Squeeze", loss.tensor, b.ints([1]), shape=rows)
    slope = choose(inside, soft - hit.cast(x.dtype), math.nan)
    return b.result(flat), b.result(slope.tensor, 1)
