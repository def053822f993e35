"""ONNX's ops that read and write single places of arrays, in TensorFlow's words."""

from __future__ import annotations

import numpy as np

from thinflow.decompose.index_ops import UNIQUE
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32, INT64
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.sizes import (
    Size,
    counted,
    flat,
    known_places,
    linear_places,
    product,
    scalar,
    size,
    sizes_of,
    vector,
    wrapped,
)
from thinflow.lift.onnx.values import along, integers, opset, rank, text, typed
from thinflow.lift.rules import lifts

_NEGATIVE = 11
"""The version of ONNX's op set from which on places below zero count from the end."""


def normal_axis(c: Call, default: int, count: int) -> int:
    """The option `axis`, counted from the front.

    Raises:
        UnsupportedOp: there is no such axis.
    """
    axis = int(c.get("axis", default))
    if not -count <= axis < count:
        raise UnsupportedOp(f"its axis is {axis} where there are {count}")
    return axis % count


@lifts("onnx.Gather")
def _gather(c: Call) -> Value:
    axis = normal_axis(c, 0, rank(c))
    places = c[1] if opset(c) < _NEGATIVE else _places(c, axis)
    return c.emit("GatherV2", c[0], places, c.constant(axis), batch_dims=0)


def _places(c: Call, axis: int) -> Value:
    """The second operand, with places below zero counted from the end of an axis."""
    number = size(c, c[0], axis)
    content = known_places(c, c[1], number)
    return c[1] if content is not None and (content >= 0).all() else wrapped(c, c[1], number)


@lifts("onnx.GatherElements")
def _gather_elements(c: Call) -> Value:
    """y[i, j] = x[index[i, j], j] for axis 0."""
    places = _linear(c)
    return c.emit("GatherV2", flat(c, c[0]), places, c.constant(0), batch_dims=0)


def _linear(c: Call) -> Value:
    """Where in the flattened array each element of the index points."""
    count = rank(c)
    axis = normal_axis(c, 0, count)
    if rank(c, 1) != count:
        raise UnsupportedOp("its index has another number of dimensions than what it is for")
    sizes = sizes_of(c, c[0], count)
    return linear_places(c, wrapped(c, c[1], sizes[axis]), sizes, axis)


@lifts("onnx.GatherND")
def _gather_nd(c: Call) -> Value:
    """Rows of the index are places; with batch dimensions, those come before."""
    batch = c.get("batch_dims", 0)
    places = _rows(c, batch)
    if batch:
        count = rank(c, 1)
        lead = [size(c, c[1], a) for a in range(count - 1)]
        grids = [_grid(c, a, lead) for a in range(batch)]
        places = c.emit("ConcatV2", *grids, places, c.constant(count - 1))
    return c.emit("GatherNd", c[0], places)


def _grid(c: Call, axis: int, sizes: list[Size]) -> Value:
    """[..., 1]: each place's own number along an axis."""
    line = along(c, counted(c, sizes[axis]), axis, len(sizes) + 1)
    return c.emit("BroadcastTo", line, vector(c, [*sizes, 1]))


def _rows(c: Call, batch: int = 0) -> Value:
    """The index of a GatherND or ScatterND, none below zero.

    Raises:
        UnsupportedOp: how many numbers a place has is not known.
    """
    content = c.content(c[1])
    if content is not None and (content >= 0).all():
        return c[1]
    width = (c[1].spec.shape or (None,))[-1]
    if width is None:
        raise UnsupportedOp("how many numbers a place of its index has is not known")
    sizes = [size(c, c[0], batch + a) for a in range(width)]
    known = [n for n in sizes if isinstance(n, int)]
    return wrapped(c, c[1], known if len(known) == len(sizes) else vector(c, sizes))


def _combined(c: Call, x: Value, places: Value, updates: Value, count: Size) -> Value:
    """x [n, ...] with rows written to places [m, 1], or combined with what is there.

    Args:
        c: the op; its `reduction` says how.
        x: rows.
        places: which rows.
        updates: [m, ...].
        count: n.

    Raises:
        UnsupportedOp: it combines in a way that is not known here.
    """
    how = text(c, "reduction", "none")
    # Products have no scatter of their own. A place that none goes to has the product 1.
    if how == "mul":
        factors = c.emit("UnsortedSegmentProd", updates, flat(c, places), scalar(c, count))
        return c.emit("Mul", x, factors)
    op = {"none": "Update", "add": "Add", "max": "Max", "min": "Min"}.get(how)
    if op is None:
        raise UnsupportedOp(f"it combines by '{how}'")
    # ONNX forbids places that are written twice where nothing is combined.
    known = UNIQUE if how == "none" else {}
    return c.emit(f"TensorScatter{op}", x, places, updates, **known)


@lifts("onnx.ScatterElements", "onnx.Scatter")
def _scatter_elements(c: Call) -> Value:
    """y[index[i, j], j] = updates[i, j] for axis 0."""
    sizes = sizes_of(c, c[0], rank(c))
    places = c.emit("Reshape", _linear(c), integers(c, (-1, 1)))
    y = _combined(c, flat(c, c[0]), places, flat(c, c[2]), product(c, sizes))
    return c.emit("Reshape", y, vector(c, sizes))


@lifts("onnx.ScatterND")
def _scatter_nd(c: Call) -> Value:
    places = _rows(c)
    if text(c, "reduction", "none") != "mul":
        return _combined(c, c[0], places, c[2], 0)
    sizes, width = sizes_of(c, c[0], rank(c)), c.sizes(1)[-1]
    # A row of the index as one number, and what it points at as one row.
    steps = [product(c, sizes[a + 1 : width]) for a in range(width)]
    numbered = c.emit("Mul", typed(c, places, INT64), vector(c, steps))
    rows = c.emit("Sum", numbered, integers(c, (-1,)), keep_dims=False)
    count, rest = product(c, sizes[:width]), sizes[width:]
    updates = c.emit("Reshape", c[2], vector(c, [-1, *rest]))
    whole = c.emit("Reshape", c[0], vector(c, [count, *rest]))
    return c.emit("Reshape", _combined(c, whole, rows, updates, count), vector(c, sizes))


@lifts("onnx.TensorScatter")
def _tensor_scatter(c: Call) -> Value:
    """New steps written into a cache, from a place on that each row of the batch tells."""
    count = rank(c)
    axis = int(c.get("axis", -2)) % count
    mode = text(c, "mode", "linear")
    if mode not in {"linear", "circular"} or not axis:
        raise UnsupportedOp(f"its mode is '{mode}', its axis {axis}")
    sizes, own = sizes_of(c, c[0], count), sizes_of(c, c[1], count)
    places = along(c, counted(c, own[axis]), axis, axis + 1)
    if c.has(2):
        places = c.emit("AddV2", along(c, typed(c, c[2], INT64), 0, axis + 1), places)
    if mode == "circular":
        places = c.emit("FloorMod", places, scalar(c, sizes[axis]))
    # All that lies behind the axis is a row.
    places = c.emit("BroadcastTo", places, vector(c, own[: axis + 1]))
    places = c.emit("Reshape", linear_places(c, places, sizes[: axis + 1], axis), integers(c, (-1, 1)))
    rest = sizes[axis + 1 :]
    rows, updates = (c.emit("Reshape", c[i], vector(c, [-1, *rest])) for i in (0, 1))
    return c.emit("Reshape", c.emit("TensorScatterUpdate", rows, places, updates, **UNIQUE), vector(c, sizes))


@lifts("onnx.Compress")
def _compress(c: Call) -> Value:
    """The slices along an axis for which a condition holds; of the flattened array without one."""
    content = c.content(c[1])
    known = None if content is None else np.flatnonzero(content)
    places = flat(c, c.emit("Where", c[1])) if known is None else integers(c, known)
    if c.get("axis") is None:
        return c.emit("GatherV2", flat(c, c[0]), places, c.constant(0), batch_dims=0)
    return c.emit("GatherV2", c[0], places, c.constant(normal_axis(c, 0, rank(c))), batch_dims=0)


@lifts("onnx.ReverseSequence")
def _reverse_sequence(c: Call) -> Value:
    """The first steps of each row in reverse order, as many as the row has."""
    axes = {"seq_dim": c.get("time_axis", 0), "batch_dim": c.get("batch_axis", 1)}
    return c.emit("ReverseSequence", c[0], c[1], **axes)


@lifts("onnx.ai.onnx.ml.ArrayFeatureExtractor")
def _array_feature_extractor(c: Call) -> Value:
    """Columns by their numbers; of a vector as a row."""
    count = rank(c)
    y = c.emit("GatherV2", c[0], flat(c, c[1]), c.constant(count - 1), batch_dims=0)
    return c.emit("Reshape", y, integers(c, (1, -1))) if count == 1 else y


@lifts("onnx.OneHot")
def _one_hot(c: Call) -> Value:
    """Indices from -depth on count from the end, others beyond it give no 1; values are [off, on]."""
    depth = c.emit("Reshape", typed(c, c[1], INT64), integers(c, ()))
    content = c.content(depth)
    if content is not None:
        depth = integers(c, content)
    raw = typed(c, c[0], INT64)
    indices = c.emit("SelectV2", c.emit("Less", raw, integers(c, 0)), c.emit("AddV2", raw, depth), raw)
    off, on = (c.emit("GatherV2", c[2], c.constant(i), c.constant(0)) for i in (0, 1))
    axis = normal_axis(c, -1, rank(c) + 1)
    # TensorFlow says the last axis by -1.
    place = -1 if axis == rank(c) else axis
    return c.emit("OneHot", indices, typed(c, depth, INT32), on, off, axis=place)
