"""Finding and ranking in rows and lists."""

from __future__ import annotations

import numpy as np

from thinflow.decompose.places import where_true
from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, refuse_unless, where
from thinflow.ir.types import INT32, DType


@decompose("LowerBound", "UpperBound")
def bound(rows: Term, values: Term, *, out_type: DType = INT32) -> Term:
    """Counts of numbers in a sorted row [r,n] that are below (or not above) each value [r,m]."""
    refuse_unless(len(rows.shape) == 2, "a matrix of sorted rows is needed")
    edges, x = rows.expanded(1), values.expanded(2)
    hits = edges < x if rows.body.op == "LowerBound" else ~(x < edges)  # NaN comes last
    return hits.cast(rows.body.index).total(2).cast(out_type)


@decompose("InTopK")
def in_top_k(predictions: Term, targets: Term, *, k: int) -> Term:
    return in_top_k_v2(predictions, targets, targets.of(k))


@decompose("InTopKV2")
def in_top_k_v2(predictions: Term, targets: Term, k: Term) -> Term:
    """True if fewer than k classes beat the target's, which has to exist, and all are finite."""
    index = targets.body.index
    classes = predictions.sized(1, "the number of classes")
    is_class = (targets >= 0) & (targets < classes)
    # Some class for targets that are none; the result is false for them in any case.
    place = where(is_class, targets, 0).expanded(1)
    axis = predictions.body.constant(1, INT32)
    own = predictions.body.add(
        "GatherV2", [t.value for t in (predictions, place, axis)], batch_dims=1,
        Tparams=predictions.dtype, Tindices=place.dtype, Taxis=INT32,
    )[0]  # fmt: skip
    better = (predictions > own).cast(index).total(1)
    # NaN fails every comparison, so it counts as not finite here.
    odd = (~(predictions.magnitude() < np.inf)).cast(index).total(1)
    return is_class & odd.equals(0) & (better < k.cast(index))


@decompose("ListDiff")
def list_diff(x: Term, other: Term, *, out_idx: DType = INT32) -> tuple[Term, Term]:
    """The values that are equal to none of the others, and where they stood."""
    refuse_unless(len(x.shape) == 1 == len(other.shape), "two lists are needed")
    same = x.expanded(1).equals(other.expanded(0))
    kept = where_true(same.cast(x.body.index).total(1).equals(0))
    return x.gathered(kept), kept.cast(out_idx)
