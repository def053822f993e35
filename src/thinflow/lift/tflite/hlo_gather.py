"""StableHLO's gather and scatter: windows of an array, each at a place that a vector of indices names.

The axes that indices name are brought to the front, where TensorFlow's GatherNd and TensorScatter* want them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32
from thinflow.lift.lifter import Call
from thinflow.lift.rules import lifts
from thinflow.lift.tflite.hlo_windows import computed_by
from thinflow.ops import registry


def _moved(c: Call, x: Value, order: Sequence[int]) -> Value:
    return (
        x if list(order) == sorted(order) else c.emit("Transpose", x, c.constant(tuple(order)), Tperm=INT32)
    )


def _vectors(c: Call, place: int) -> tuple[Value, tuple[int, ...]]:
    """The vectors of indices, along the last axis, and the sizes before it."""
    sizes, axis = list(c.sizes(place)), c.get("index_vector_dim", 0)
    indices = (
        c[place] if c[place].dtype is INT32 else c.emit("Cast", c[place], SrcT=c[place].dtype, DstT=INT32)
    )
    if axis == len(sizes):
        # Without an axis of their own, indices are vectors of one.
        return c.emit("Reshape", indices, c.constant((*sizes, 1)), Tshape=INT32), tuple(sizes)
    if not 0 <= axis < len(sizes):
        raise UnsupportedOp("the axis of its indices is not one of theirs")
    order = [n for n in range(len(sizes)) if n != axis]
    return _moved(c, indices, [*order, axis]), tuple(sizes[n] for n in order)


def _checked(named: Sequence[int], rank: int, what: str) -> list[int]:
    if len(set(named)) != len(named) or any(not 0 <= n < rank for n in named):
        raise UnsupportedOp(f"its {what} are not axes of its operand")
    return list(named)


@lifts("tfl.STABLEHLO_GATHER", ignores=("indices_are_sorted",))
def gather(c: Call) -> Value:
    """STABLEHLO_GATHER: places are moved inside where a slice would lie out."""
    sizes = c.sizes(0)
    rank, slices = len(sizes), tuple(c.get("slice_sizes") or ())
    mapped = _checked(c.get("start_index_map") or (), rank, "start_index_map")
    collapsed = _checked(c.get("collapsed_slice_dims") or (), rank, "collapsed_slice_dims")
    offsets = tuple(c.get("offset_dims") or ())
    if len(slices) != rank or any(not 0 <= s <= n for s, n in zip(slices, sizes, strict=True)):
        raise UnsupportedOp("its slices do not fit its operand")
    indices, batch = _vectors(c, 1)
    others = [n for n in range(rank) if n not in mapped]
    x = _moved(c, c[0], [*mapped, *others])
    if any(slices[n] != sizes[n] for n in others):
        # Axes that no index names begin at 0.
        kept = tuple(sizes[n] for n in mapped) + tuple(slices[n] for n in others)
        x = c.emit("Slice", x, c.constant((0,) * rank), c.constant(kept), Index=INT32)
    most = c.constant(tuple(sizes[n] - slices[n] for n in mapped))
    places = c.emit("Maximum", c.emit("Minimum", indices, most), c.constant(0, most))
    # Every place of a window is looked up: [*batch, 1..., k] + [slices of mapped axes..., k].
    spans = [slices[n] for n in mapped]
    grid = np.moveaxis(np.indices(spans, np.int32), 0, -1) if spans else np.zeros(0, np.int32)
    if any(n > 1 for n in spans):
        apart = c.emit("Reshape", places, c.constant((*batch, *[1] * len(spans), len(spans))), Tshape=INT32)
        places = c.emit("AddV2", apart, c.constant(grid))
    found = c.emit("GatherNd", x, places, Tparams=x.dtype, Tindices=INT32)
    # The axes are now those of the batch, of mapped slices and of the others; without the collapsed ones.
    window = [n for n in [*mapped, *others] if n not in collapsed]
    found = c.emit("Reshape", found, c.constant((*batch, *(slices[n] for n in window))), Tshape=INT32)
    total = len(batch) + len(window)
    if len(offsets) != len(window) or any(not 0 <= n < total for n in offsets):
        raise UnsupportedOp("its offset_dims do not fit its slices")
    rest = iter(range(len(batch)))
    in_order = sorted(window)
    order = [
        len(batch) + window.index(in_order[offsets.index(n)]) if n in offsets else next(rest)
        for n in range(total)
    ]
    return c.emit("Identity", _moved(c, found, order))


@lifts("tfl.STABLEHLO_SCATTER", ignores=("indices_are_sorted", "unique_indices"))
def scatter(c: Call) -> Value:
    """STABLEHLO_SCATTER: of single places in some axes and whole ones in the others."""
    sizes = c.sizes(0)
    rank = len(sizes)
    mapped = _checked(c.get("scatter_dims_to_operand_dims") or (), rank, "scatter_dims_to_operand_dims")
    inserted = _checked(c.get("inserted_window_dims") or (), rank, "inserted_window_dims")
    windows = tuple(c.get("update_window_dims") or ())
    if sorted(mapped) != sorted(inserted):
        raise UnsupportedOp("it scatters windows, not single places")
    body = c.body("update_computation_subgraph_index")
    # The update itself, whatever was there.
    replaces = len(body.inputs) == 2 and body.outputs[:1] == [body.inputs[1]]
    op = "TensorScatterUpdate"
    if not replaces:
        # TensorFlow's names: AddV2 becomes TensorScatterAdd, Maximum TensorScatterMax.
        step = computed_by(c, "update_computation_subgraph_index")
        op = f"TensorScatter{step.removesuffix('V2').removesuffix('imum')}"
    if registry.find(op) is None:
        raise UnsupportedOp("its subgraph is not one of the updates that are known here")
    indices, batch = _vectors(c, 1)
    others = [n for n in range(rank) if n not in mapped]
    updates = c.sizes(2)
    if len(windows) != len(others) or [updates[n] for n in windows] != [sizes[n] for n in others]:
        raise UnsupportedOp("its windows are not whole")
    front = [n for n in range(len(updates)) if n not in windows]
    y = _moved(c, c[2], [*front, *windows])
    x = _moved(c, c[0], [*mapped, *others])
    x, y, indices = _inside(c, x, y, indices, batch, [sizes[n] for n in mapped])
    done = c.emit(op, x, indices, y, Tindices=INT32)
    done = c.emit(
        "Slice",
        done,
        c.constant((0,) * rank),
        c.constant(tuple(sizes[n] for n in [*mapped, *others])),
        Index=INT32,
    )
    back = [[*mapped, *others].index(n) for n in range(rank)]
    return c.emit("Identity", _moved(c, done, back))


def _inside(
    c: Call, x: Value, y: Value, indices: Value, batch: Sequence[int], limits: Sequence[int]
) -> tuple[Value, Value, Value]:
    """Operands such that updates of places outside, which count for nothing, go to a place of their own."""
    rank = len(x.spec.shape or ())
    # One place more at the end of the first mapped axis; it is cut off again.
    widths = np.zeros((rank, 2), np.int32)
    widths[0, 1] = 1
    zero = c.emit("Reshape", c.constant(0, x), c.constant(()), Tshape=INT32)
    x = c.emit("PadV2", x, c.constant(widths), zero, Tpaddings=INT32)
    ends = c.constant(tuple(limits))
    low = c.emit("GreaterEqual", indices, c.constant((0,) * len(limits)))
    fits = c.emit("LogicalAnd", low, c.emit("Less", indices, ends), T=None)
    all_fit = c.emit("All", fits, c.constant((-1,)), keep_dims=True, Tidx=INT32, T=None)
    aside = c.constant((limits[0], *[0] * (len(limits) - 1)))
    whole = c.emit("BroadcastTo", all_fit, c.constant((*batch, len(limits))), Tidx=INT32)
    return x, y, c.emit("SelectV2", whole, indices, aside, T=INT32)
