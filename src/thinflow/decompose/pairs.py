"""Formulas of few steps over one or two tensors."""

from __future__ import annotations

import numpy as np

from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, refuse_unless, stacked, where
from thinflow.ir.types import INT32


@decompose("Xlog1py")
def xlog1py(x: Term, y: Term) -> Term:
    """0 wherever x is 0."""
    refuse_unless(x.dtype.is_floating, f"it has no form for {x.dtype}")
    value = x * y.apply("Log1p")
    return where(x.equals(0.0), value.of(0.0), value)


@decompose("Cross")
def cross(x: Term, y: Term) -> Term:
    """The vector product of vectors of three."""
    refuse_unless(x.shape[-1] == 3, "its vectors are not of three elements")
    a, b = ([t.at(-1, n) for n in range(3)] for t in (x, y))
    parts = [a[n - 2] * b[n - 1] - a[n - 1] * b[n - 2] for n in range(3)]
    return stacked(parts, -1)


@decompose("SoftmaxCrossEntropyWithLogits")
def cross_entropy(x: Term, labels: Term) -> tuple[Term, Term]:
    """The loss of each row, and softmax(x) - labels."""
    log = x.apply("LogSoftmax")
    # What has no share adds nothing, however unlikely it is.
    shares = where(labels.equals(0.0), 0.0, labels * log)
    return -shares.total(-1), x.apply("Softmax") - labels


@decompose("NthElement")
def nth_element(x: Term, n: Term, *, reverse: bool = False) -> Term:
    """The last of as many as it takes, sorted."""
    refuse_unless(n.known is not None, "its n is computed while the model runs")
    assert n.known is not None
    place, size = int(n.known), x.sized(-1, "the length of its rows")
    refuse_unless(0 <= place < size, f"n is {place}, a row has {size} elements")
    given = x if reverse else -x
    count = x.body.constant(place + 1, INT32)
    sorted_, _ = x.body.add("TopKV2", [given.value, count.value], ports=2, T=x.dtype, sorted=True)
    found = sorted_.at(-1, place)
    return found if reverse else -found


@decompose("Bincount")
def bincount(x: Term, size: Term, weights: Term) -> Term:
    flat = weights if weights.shape == (0,) else weights.reshaped([-1])
    return dense_bincount(x.reshaped([-1]), size, flat)


@decompose("DenseBincount")
def dense_bincount(x: Term, size: Term, weights: Term, *, binary_output: bool = False) -> Term:
    """Sums over a one-hot axis. Values of `size` and above count for nothing."""
    refuse_unless(size.known is not None, "its size is computed while the model runs")
    has_weights = weights.shape != (0,)
    refuse_unless(not has_weights or weights.shape == x.shape, "its weights are not like its values")
    assert size.known is not None
    bins, axis = int(size.known), len(x.shape) - 1
    refuse_unless(bins > 0, "its size is 0")
    hits = x.expanded(-1).equals(np.arange(bins)).cast(weights.dtype)
    if binary_output:
        return hits.reduced("Max", axis)
    return (hits * weights.expanded(-1) if has_weights else hits).total(axis)
