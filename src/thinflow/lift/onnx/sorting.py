"""ONNX's ops that order and compare elements along an axis, in TensorFlow's words."""

from __future__ import annotations

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32, INT64, STRING
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.gathers import normal_axis
from thinflow.lift.onnx.sizes import counted, flat, product, scalar, size, sizes_of, vector
from thinflow.lift.onnx.values import integers, like, opset, rank, transposed, typed
from thinflow.lift.rules import Rule, lifts

_ONE_AXIS = 13
"""The version of ONNX's op set from which on Hardmax goes along one axis, not over all from it on."""
_MOST_COLUMNS = 64
"""Columns by which Unique orders rows: each is an op of its own in the graph."""


def _turned(c: Call, x: Value) -> Value:
    """Numbers in the opposite order, each from another; doing it again gives them back exactly."""
    # -x of the lowest whole number is itself; ~x = -x - 1 has no such hole, and orders unsigned ones too.
    is_whole = x.dtype is not None and x.dtype.is_integer
    return c.emit("Invert" if is_whole else "Neg", x)


@lifts("onnx.TopK", ignores=("sorted",))
def _top_k(c: Call) -> list[Value]:
    """Along the last axis, to which another one is moved; of equal numbers the first comes first."""
    count = rank(c)
    axis = normal_axis(c, -1, count)
    order = [*(i for i in range(count) if i != axis), axis]
    k = c.emit("Reshape", typed(c, c[1], INT32), integers(c, ())) if c.has(1) else c.constant(c.get("k"))
    x, is_largest = transposed(c, c[0], order), c.flag("largest", default=True)
    node = c.many("TopKV2", x if is_largest else _turned(c, x), k, sorted=True)
    values, places = node.output(0), node.output(1)
    back = [order.index(i) for i in range(count)]
    values = values if is_largest else _turned(c, values)
    return [transposed(c, values, back), transposed(c, typed(c, places, INT64), back)]


def _arg(op: str) -> Rule:
    def rule(c: Call) -> Value:
        axis = normal_axis(c, 0, rank(c))
        is_last = c.flag("select_last_index")
        # TensorFlow takes the first of equal values: the last one is that from the end.
        x = c.emit("ReverseV2", c[0], c.constant([axis])) if is_last else c[0]
        y = c.emit(op, x, c.constant(axis), output_type=INT64)
        if is_last:
            last = c.emit("Sub", scalar(c, size(c, c[0], axis)), integers(c, 1))
            y = c.emit("Sub", last, y)
        return c.emit("ExpandDims", y, c.constant(axis)) if c.flag("keepdims", default=True) else y

    return rule


@lifts("onnx.Hardmax")
def _hardmax(c: Call) -> Value:
    """1 at the first of the largest numbers along an axis, 0 elsewhere."""
    old, count = opset(c) < _ONE_AXIS, rank(c)
    axis = normal_axis(c, 1 if old else -1, count)
    if not old:
        return _first_largest(c, c[0], axis)
    sizes = sizes_of(c, c[0], count)
    # Over all axes from the named one on, together.
    rows = c.emit("Reshape", c[0], vector(c, [product(c, sizes[:axis]), product(c, sizes[axis:])]))
    return c.emit("Reshape", _first_largest(c, rows, 1), vector(c, sizes))


def _first_largest(c: Call, x: Value, axis: int) -> Value:
    places = c.emit("ArgMax", x, c.constant(axis), output_type=INT64)
    depth = typed(c, scalar(c, size(c, x, axis)), INT32)
    is_last = axis == len(x.spec.shape or ()) - 1
    return c.emit("OneHot", places, depth, like(c, 1, x), like(c, 0, x), axis=-1 if is_last else axis)


@lifts("onnx.Unique")
def _unique(c: Call) -> list[Value]:
    """Each value or slice once: these, where they are first, which one each element is, and how often.

    Raises:
        UnsupportedOp: it sorts texts, or wide slices.
    """
    axis = c.get("axis")
    if axis is None:
        x, along = flat(c, c[0]), 0
    else:
        x, along = c[0], normal_axis(c, 0, rank(c))
    node = c.many("UniqueWithCountsV2", x, c.constant([along]), out_idx=INT64)
    y, inverse, counts = (node.output(i) for i in range(3))
    number = scalar(c, size(c, x, along))
    distinct = c.emit("Reshape", c.emit("Shape", counts, out_type=INT64), integers(c, ()))
    all_places = c.emit("Range", integers(c, 0), number, integers(c, 1))
    first = c.emit("UnsortedSegmentMin", all_places, inverse, distinct)
    if not c.flag("sorted", default=True):
        return [y, first, inverse, counts][: len(c.node.outputs)]
    order = _ascending(c, y, along, distinct)
    ranks = c.emit("InvertPermutation", order)
    return [
        c.emit("GatherV2", y, order, c.constant(along), batch_dims=0),
        c.emit("GatherV2", first, order, c.constant(0), batch_dims=0),
        c.emit("GatherV2", ranks, inverse, c.constant(0), batch_dims=0),
        c.emit("GatherV2", counts, order, c.constant(0), batch_dims=0),
    ][: len(c.node.outputs)]


@lifts("onnx.com.microsoft.Unique")
def _unique_unsorted(c: Call) -> list[Value]:
    """Each value of a row once, as they come first: these, which one each element is, and how often."""
    node = c.many("UniqueWithCountsV2", c[0], c.constant([0]), out_idx=INT64)
    return [node.output(i) for i in range(3)]


def _ascending(c: Call, y: Value, axis: int, number: Value) -> Value:
    """The order of the slices of y along an axis, compared number by number: [n], int64."""
    if y.dtype is STRING:
        raise UnsupportedOp("it sorts texts")
    count = len(y.spec.shape or ())
    order = [axis, *(a for a in range(count) if a != axis)]
    width = product(c, [size(c, y, a) for a in order[1:]])
    if not isinstance(width, int) or width > _MOST_COLUMNS:
        raise UnsupportedOp(f"it sorts slices of more than {_MOST_COLUMNS} numbers, or of an open number")
    columns = c.emit("Reshape", transposed(c, y, order), integers(c, (-1, width)))
    found, k = counted(c, 0), typed(c, number, INT32)
    # By the last column first: each further sort keeps the order of what is equal.
    for column in reversed(range(width)):
        keys = c.emit("GatherV2", columns, c.constant(column), c.constant(1), batch_dims=0)
        is_first = column == width - 1
        keys = keys if is_first else c.emit("GatherV2", keys, found, c.constant(0), batch_dims=0)
        node = c.many("TopKV2", _turned(c, keys), k, sorted=True)
        step = typed(c, node.output(1), INT64)
        found = step if is_first else c.emit("GatherV2", found, step, c.constant(0), batch_dims=0)
    return found


lifts("onnx.ArgMax")(_arg("ArgMax"))
lifts("onnx.ArgMin")(_arg("ArgMin"))
