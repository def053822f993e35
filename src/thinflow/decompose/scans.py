"""Running totals along an axis, in as many steps as its length has binary digits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, refuse_unless, where


@decompose("Cumprod")
def cumprod(x: Term, axis: Term, *, exclusive: bool = False, reverse: bool = False) -> Term:
    return _scanned(x, axis, lambda a, b: a * b, 1.0, exclusive=exclusive, reverse=reverse)


@decompose("CumulativeLogsumexp")
def cumulative_logsumexp(x: Term, axis: Term, *, exclusive: bool = False, reverse: bool = False) -> Term:
    return _scanned(x, axis, _log_of_sum, -np.inf, exclusive=exclusive, reverse=reverse)


def _log_of_sum(a: Term, b: Term) -> Term:
    """log(e^a + e^b); of infinities the larger."""
    largest = a.maximum(b)
    is_finite = largest.abs() < np.inf
    # -inf less -inf would be NaN.
    distance = where(is_finite, a.minimum(b) - largest, 0.0)
    return where(is_finite, largest + (distance.apply("Exp") + 1.0).log(), largest)


def _scanned(
    x: Term,
    axis: Term,
    total: Callable[[Term, Term], Term],
    nothing: float,
    *,
    exclusive: bool,
    reverse: bool,
) -> Term:
    """y[i] = total of x[..i], each step over twice as many elements as the one before."""
    refuse_unless(x.dtype.kind in "iuf", f"it has no form for {x.dtype}")
    refuse_unless(axis.known is not None, "its axis is computed while the model runs")
    assert axis.known is not None
    where_ = int(axis.known) % len(x.shape)
    size = x.static_size(where_, "the length of its axis")
    refuse_unless(size > 0, "its axis is empty")
    y = x.reverse(where_) if reverse else x
    if exclusive:
        y = _later(y, where_, 1, nothing)
    # After a step of s each element is the total of 2 s (Hillis and Steele).
    for step in (1 << n for n in range((size - 1).bit_length())):
        y = total(y, _later(y, where_, step, nothing))
    return y.reverse(where_) if reverse else y


def _later(x: Term, axis: int, step: int, nothing: float) -> Term:
    """The elements some indices later on an axis, behind elements that add nothing."""
    pads = [(step if a == axis else 0, 0) for a in range(len(x.shape))]
    size = x.static_size(axis, "the length of its axis")
    # Cut behind, as runtimes have no slices without elements.
    return x.pad(pads, nothing).cut(axis, 0, size)
