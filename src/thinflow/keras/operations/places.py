"""Functions that sort, and those that pick or count by places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, FLOAT, INT32, dtype
from thinflow.keras import activations
from thinflow.keras.call import Call
from thinflow.keras.operations.arrays import number
from thinflow.keras.operations.elementwise import first
from thinflow.keras.registry import Result, Rule, operation


def _row(c: Call, x: Value, default: int | None = -1, place: int = 1) -> tuple[Value, int]:
    """A tensor and the axis along which something is done: all elements in a row where it is None."""
    axis = c.argument("axis", place, c.get("axis", default))
    if axis is None:
        return c.reshape(x, (None,)), 0
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise c.refuse(f"its axis is {str(axis)[:40]}")
    return x, c.axis(axis, c.rank(x))


def _along_last(c: Call, x: Value, axis: int, function: Callable[[Value], Value]) -> Value:
    order = list(range(c.rank(x)))
    order[axis], order[-1] = order[-1], order[axis]
    return c.transpose(function(c.transpose(x, order)), order, "transpose_1")


def _mirrored(c: Call, x: Value) -> Value:
    """Numbers whose order is the other way round, as TensorFlow takes them to sort upwards."""
    if c.type_of(x).is_floating:
        return c.emit("Neg", x)
    if c.type_of(x).name.startswith("uint") or c.type_of(x) is BOOL:
        raise c.refuse(f"it sorts elements of the type {c.type_of(x).name}")
    # The smallest whole number has no negative.
    return c.emit("Sub", c.const(-1, like=x), x)


def _sorted(port: int) -> Rule:
    def rule(c: Call) -> Value:
        x, axis = _row(c, first(c) if c.generation >= 3 else c.literal(c.argument("values", 0)))
        way = str(c.argument("direction", 2, "ASCENDING"))
        if way not in ("ASCENDING", "DESCENDING"):
            raise c.refuse(f"its direction is {way[:40]}")
        c.read.add("stable")  # of equal numbers the op takes the first one first

        def row(values: Value) -> Value:
            keys = values if way == "DESCENDING" else _mirrored(c, values)
            node = c.node("TopKV2", keys, c.const(c.size(values, -1), "k"), name="TopKV2", sorted=True)
            if port:
                return node.output(1)
            return node.output(0) if keys is values else _mirrored(c, node.output(0))

        return _along_last(c, x, axis, row)

    return rule


operation("Sort", "sort")(_sorted(0))
operation("Argsort", "argsort")(_sorted(1))


@operation("TakeAlongAxis")
def take_along_axis(c: Call) -> Result:
    """From each row the elements at the row's own places; those below 0 count from the end."""
    places = c.literal(c.argument("indices", 1))
    x, axis = _row(c, c.literal(c.argument("x", 0)), None, 2)
    sizes = [(n, m) for k, (n, m) in enumerate(zip(c.shape(x), c.shape(places), strict=True)) if k != axis]
    if any(n != m for n, m in sizes):
        raise c.refuse(f"the shapes {c.shape(x)} and {c.shape(places)} are not alike but for its axis")
    places = c.cast(places, INT32)
    below = c.emit("Less", places, 0)
    counted = activations.where(
        c, below, c.emit("AddV2", places, c.const(c.size(x, axis), like=places)), places
    )
    order = list(range(c.rank(x)))
    order[axis], order[-1] = order[-1], order[axis]
    last = c.const(len(order) - 1, "axis")
    kinds: dict[str, Any] = {"T": None, "Tparams": c.type_of(x), "Tindices": INT32, "Taxis": INT32}
    table, rows = c.transpose(x, order), c.transpose(counted, order)
    y = c.emit("GatherV2", table, rows, last, batch_dims=len(order) - 1, **kinds)
    return c.transpose(y, order, "transpose_1")


def _triangle(lower: bool) -> Rule:
    def rule(c: Call) -> Value:
        """What is on one side of a diagonal, which is above the middle one for k > 0."""
        import numpy as np

        x, k = first(c), number(c, "k", 1, 0)
        if k >= 0 if lower else k <= 0:
            bands = [c.const(n, "band") for n in ((-1, k) if lower else (-k, -1))]
            return c.emit("MatrixBandPart", x, *bands, Tindex=INT32)
        # The op has the middle diagonal in any case.
        ones = np.ones((c.size(x, -2), c.size(x, -1)), bool)
        return activations.where(c, c.const(np.tril(ones, k) if lower else np.triu(ones, k), "mask"), x, 0)

    return rule


operation("Tril")(_triangle(True))
operation("Triu")(_triangle(False))


@operation("MultiHot", ignores=("num_tokens",))
def multi_hot(c: Call) -> Result:
    """Ones at the places that a row names."""
    places = c.literal(c.argument("inputs", 0))
    if c.flag("sparse"):
        raise c.refuse("its result is sparse")
    count, axis = c.integer("num_classes", 0) or c.integer("num_tokens", 0), c.integer("axis", -1)
    if axis != -1 or not c.type_of(places).is_integer:
        raise c.refuse(f"its axis is {axis}, or its input is no whole numbers")
    name = c.layer.options.get("dtype")
    element = dtype(name) if isinstance(name, str) else FLOAT
    ends = [c.cast(c.const(n), FLOAT) for n in (1, 0)]
    hot = c.emit("OneHot", places, c.const(count, "depth"), *ends, axis=-1, T=FLOAT, TI=c.type_of(places))
    return c.cast(c.reduce("Max", hot, [1 if c.rank(places) > 1 else 0]), element)


def _segments(op: str) -> Rule:
    def rule(c: Call) -> Value:
        """Rows that have one number become one row."""
        c.read.add("sorted")  # says what is known of the numbers, and changes nothing
        rows, numbers = (
            c.literal(c.argument("data", 0)),
            c.cast(c.literal(c.argument("segment_ids", 1)), INT32),
        )
        count = c.const(number(c, "num_segments", 2), "num_segments")
        return c.emit(op, rows, numbers, count, Tindices=INT32, Tnumsegments=INT32)

    return rule


for _op in ("Sum", "Max", "Min", "Prod"):
    operation(f"Segment{_op}")(_segments(f"UnsortedSegment{_op}"))


@operation("InTopK")
def in_top_k(c: Call) -> Result:
    targets, scores = c.literal(c.argument("targets", 0)), c.literal(c.argument("predictions", 1))
    return c.emit("InTopKV2", scores, targets, c.const(number(c, "k", 2), "k", targets), T=c.type_of(targets))
