"""One number of many: sums, means, extremes, their places; softmax, sorting, running sums."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.coreml.builder import Builder, Var, whole
from thinflow.lower.coreml.rules import says
from thinflow.onnx.program import Operator

_REDUCTIONS = {
    "ReduceMean": "reduce_mean",
    "ReduceSum": "reduce_sum",
    "ReduceProd": "reduce_prod",
    "ReduceMax": "reduce_max",
    "ReduceMin": "reduce_min",
    "ReduceL1": "reduce_l1_norm",
    "ReduceL2": "reduce_l2_norm",
    "ReduceLogSumExp": "reduce_log_sum_exp",
    "ReduceSumSquare": "reduce_sum_square",
}


@says(*_REDUCTIONS)
def reduction(b: Builder, o: Operator) -> Var:
    """Over some axes, or all where none are named and nothing says that this means none."""
    x = b.read(o, 0)
    axes = whole(o.options["axes"]) if "axes" in o.options else None
    if axes is None and b.has(o, 1):
        axes = whole(b.known(o, 1, "which axes"))
    if not axes:
        if o.options.get("noop_with_empty_axes", 0):
            return b.mb.identity(x=x)
        axes = list(range(len(x.shape)))
    if not axes:
        return b.mb.identity(x=x)
    keep = bool(o.options.get("keepdims", 1))
    return getattr(b.mb, _REDUCTIONS[o.code])(x=x, axes=axes, keep_dims=keep)


@says("ArgMax", "ArgMin")
def place_of_extreme(b: Builder, o: Operator) -> Var:
    if o.options.get("select_last_index", 0):
        raise UnsupportedOp("it takes the last of equal numbers")
    reduce = b.mb.reduce_argmax if o.code == "ArgMax" else b.mb.reduce_argmin
    axis, keep = int(o.options.get("axis", 0)), bool(o.options.get("keepdims", 1))
    return reduce(x=b.read(o, 0), axis=axis, keep_dims=keep)


@says("Softmax")
def softmax(b: Builder, o: Operator) -> Var:
    return b.mb.softmax(x=b.require_float(b.read(o, 0)), axis=int(o.options.get("axis", -1)))


@says("LogSoftmax")
def log_softmax(b: Builder, o: Operator) -> Var:
    """x - max - log(sum(exp(x - max))), which no number is too large for."""
    x, axis = b.require_float(b.read(o, 0)), [int(o.options.get("axis", -1))]
    moved = b.mb.sub(x=x, y=b.mb.reduce_max(x=x, axes=axis, keep_dims=True))
    return b.mb.sub(x=moved, y=b.mb.reduce_log_sum_exp(x=moved, axes=axis, keep_dims=True))


@says("CumSum")
def cumsum(b: Builder, o: Operator) -> Var:
    return b.mb.cumsum(
        x=b.read(o, 0),
        axis=int(b.known(o, 1, "its axis").reshape(-1)[0]),
        exclusive=bool(o.options.get("exclusive", 0)),
        reverse=bool(o.options.get("reverse", 0)),
    )


@says("TopK")
def topk(b: Builder, o: Operator) -> list[Var]:
    if not o.options.get("sorted", 1) and b.target >= 16:
        # No order is asked for; the largest first is one.
        pass
    count = int(b.known(o, 1, "how many").reshape(-1)[0])
    values, places = b.mb.topk(
        x=b.read(o, 0),
        k=np.int32(count),
        axis=int(o.options.get("axis", -1)),
        ascending=not o.options.get("largest", 1),
    )
    return [values, places]
