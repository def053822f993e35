"""ONNX's support vector machines in TensorFlow's words: kernels of rows and vectors, and sums of them.

x [n,features], vectors [m,features] -> k [n,m]
    x v, or (gamma x v + coef0)^degree, or exp(-gamma |x - v|^2), or tanh(gamma x v + coef0)
"""

from __future__ import annotations

import itertools

import numpy as np

from thinflow.decompose.loops import while_loop
from thinflow.decompose.terms import Term, concat, stack, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32, INT64
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.formulas import Formula
from thinflow.lift.onnx.ml import class_labels, floats, real, transformed
from thinflow.lift.onnx.values import rank, text
from thinflow.lift.rules import lifts
from thinflow.typing import Array

_LEAST = 1e-7
"""The least probability of a pair, that of libsvm."""
_MOST_CLASSES = 32
"""Classes whose probabilities are found one by one in each turn of a loop."""


def _kernel(c: Call, body: Formula, count: int) -> Term:
    """What each row has in common with each of so many vectors [n,count]."""
    vectors = floats(c, "support_vectors")
    if vectors is None or count < 1 or vectors.size % count or rank(c) != 2:
        raise UnsupportedOp(f"its support vectors are not {count} rows")
    matrix = vectors.reshape(count, -1)
    x = body.term(real(c, c[0]))
    given = floats(c, "kernel_params")
    gamma, shift, degree = (0.0, 0.0, 3.0) if given is None else (float(n) for n in given)
    kind = text(c, "kernel_type", "LINEAR")
    products = x.apply("MatMul", body.constant(matrix.T, x.dtype))
    if kind == "LINEAR":
        return products
    if kind == "RBF":
        apart = x.expand_dims(1).apply("SquaredDifference", body.constant(matrix[np.newaxis], x.dtype))
        return (apart.sum(2) * -gamma).apply("Exp")
    bent = products * gamma + shift
    if kind == "SIGMOID":
        return bent.apply("Tanh")
    if kind == "POLY":
        return bent.apply("Pow", degree)
    raise UnsupportedOp(f"its kernel '{kind}' is not known here")


@lifts("onnx.ai.onnx.ml.SVMRegressor")
def _regressor(c: Call) -> Value:
    """[n,1]: sums of kernels; of one class alone 1 for what belongs to it and -1 for what does not."""
    body, count = Formula(c), int(c.get("n_supports", 0))
    kernel = _kernel(c, body, count)
    weights, rho = floats(c, "coefficients"), floats(c, "rho")
    if weights is None or weights.size != count or rho is None or rho.size != 1:
        raise UnsupportedOp(f"its coefficients are not those of {count} vectors")
    y = kernel.apply("MatMul", body.constant(weights.reshape(count, 1), kernel.dtype)) + float(rho[0])
    if c.flag("one_class"):
        y = where(y > 0.0, y.of(1.0), -1.0)
    return transformed(c, y.value, text(c, "post_transform", "NONE"))


@lifts("onnx.ai.onnx.ml.SVMClassifier")
def _classifier(c: Call) -> list[Value]:
    """The class that most of the others lose to, and probabilities, or what decides between each two."""
    body, labels = Formula(c), class_labels(c, ("classlabels_ints", "classlabels_strings"))
    sizes = [int(n) for n in c.get("vectors_per_class", ())]
    weights, rho = floats(c, "coefficients"), floats(c, "rho")
    classes, count = len(sizes), sum(sizes)
    pairs = list(itertools.combinations(range(classes), 2))
    if classes != labels.size or not 2 <= classes <= _MOST_CLASSES:
        raise UnsupportedOp(f"it has {labels.size} classes, and vectors of {classes}")
    if weights is None or rho is None or weights.size != (classes - 1) * count or rho.size != len(pairs):
        raise UnsupportedOp(f"its coefficients are not those of {classes} classes and {count} vectors")
    if (weights >= 0).all():
        # ONNX Runtime decides at 0.5 then.
        raise UnsupportedOp("none of its coefficients is negative")
    kernel = _kernel(c, body, count)
    table = body.constant(_decisions(weights.reshape(classes - 1, count), sizes, pairs), kernel.dtype)
    scores = kernel.apply("MatMul", table) + body.constant(rho, kernel.dtype)
    won = (scores > 0.0).cast(INT32)
    votes = _votes(won, classes, pairs)
    label = c.emit("GatherV2", c.constant(labels), _first_most(c, votes), c.constant(0), batch_dims=0)
    how = text(c, "post_transform", "NONE")
    first, second = floats(c, "prob_a"), floats(c, "prob_b")
    if first is not None and second is not None and first.size:
        y = _probabilities(scores, first, second, classes, pairs)
    elif classes == 2:
        if how not in ("NONE", "LOGISTIC"):
            raise UnsupportedOp(f"it changes the scores of two classes by '{how}'")
        y = concat([-scores, scores], 1)
    else:
        y = scores
    return [label, transformed(c, y.value, how)]


def _decisions(weights: Array, sizes: list[int], pairs: list[tuple[int, int]]) -> Array:
    """[vectors,pairs]: how much each vector says for the first class of each pair.

    Args:
        weights: [classes - 1,vectors]; a vector has a row for each class that is not its own.
    """
    starts = np.cumsum([0, *sizes])
    table = np.zeros((weights.shape[1], len(pairs)), np.float32)
    for n, (i, j) in enumerate(pairs):
        of_i, of_j = (slice(starts[k], starts[k + 1]) for k in (i, j))
        table[of_i, n], table[of_j, n] = weights[j - 1, of_i], weights[i, of_j]
    return table


def _votes(won: Term, classes: int, pairs: list[tuple[int, int]]) -> Term:
    """How many pairs each class wins [n,classes], from whether the first of each pair does [n,pairs]."""
    signs, starts = np.zeros((len(pairs), classes)), np.zeros(classes)
    for n, (i, j) in enumerate(pairs):
        signs[n, i], signs[n, j] = 1, -1
        # The second of a pair wins unless the first does: it begins with that vote, and the sign takes it.
        starts[j] += 1
    return (won.expand_dims(2) * signs).sum(1) + starts


def _first_most(c: Call, votes: Term) -> Value:
    return c.emit("ArgMax", votes.value, c.constant(-1), output_type=INT64)


def _probabilities(
    scores: Term, first: Array, second: Array, classes: int, pairs: list[tuple[int, int]]
) -> Term:
    """[n,classes], coupled from those of each pair.

    Wu, Lin and Weng, 2004, second method: p minimizes the sum over pairs of (r_ji p_i - r_ij p_j)^2.
    """
    of_pairs = (-(scores * first + second)).apply("Sigmoid").clip(_LEAST, 1 - _LEAST)
    r: dict[tuple[int, int], Term] = {}
    for n, (i, j) in enumerate(pairs):
        r[i, j] = of_pairs.cut(1, n, n + 1)
        r[j, i] = 1.0 - r[i, j]
    rows = []
    for i in range(classes):
        squares = concat([r[j, i].square() for j in range(classes) if j != i], 1).sum(1, keep=True)
        rows.append(concat([squares if i == j else -(r[j, i] * r[i, j]) for j in range(classes)], 1))
    q = stack(rows, 1)
    start = q.at(1, 0) * 0.0 + 1 / classes
    # As exact as libsvm asks for, and with it the file's own runtime.
    enough = 0.005 / classes

    def products(p: Term, q: Term) -> tuple[Term, Term]:
        qp = (q * p.expand_dims(1)).sum(2)
        return qp, (p * qp).sum(1, keep=True)

    def error(p: Term, q: Term) -> Term:
        qp, whole = products(p, q)
        return (qp - whole).abs().reduced("Max", 1, keep=True)

    def turn(_: Term, p: Term, q: Term) -> tuple[list[Term], list[Term]]:
        qp, whole = products(p, q)
        is_done, new = error(p, q) < enough, p
        # multiclass_probability of libsvm: both products are kept up with each step, none is made anew.
        for t in range(classes):
            row = q.at(1, t)
            own = row.cut(1, t, t + 1)
            step = (whole - qp.cut(1, t, t + 1)) / own
            grown = step + 1.0
            whole = (whole + step * (step * own + qp.cut(1, t, t + 1) * 2.0)) / grown.square()
            qp = (qp + step * row) / grown
            unit = np.zeros((1, classes))
            unit[0, t] = 1
            new = (new + step * unit) / grown
        return [where(is_done, p, new)], []

    # As many turns at most as libsvm takes, max(100, classes).
    (p,), _, _ = while_loop(
        100, turn, [start], [q], goes_on=lambda p, q: error(p, q).reduced("Max", 0, 1) >= enough
    )
    return p
