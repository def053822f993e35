"""Functions that sort, and those that pick, write or count by places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, FLOAT, INT32, dtype
from thinflow.keras import activations
from thinflow.keras.call import Call
from thinflow.keras.config import Literal
from thinflow.keras.nodes import common
from thinflow.keras.operations.arrays import from_front, number, numbers
from thinflow.keras.operations.elementwise import first, tensor
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


def ascending_order(c: Call, x: Value, count: Value) -> Value:
    """The places of a vector's elements from the smallest on; of equal ones the first comes first."""
    return c.node("TopKV2", _mirrored(c, x), count, name="TopKV2", sorted=True).output(1)


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
    counted = from_front(c, c.cast(places, INT32), c.size(x, axis))
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


# --- parts and single elements ------------------------------------------------------------------------------


def _starts(c: Call, rank: int) -> Value:
    """The place at which a part begins: a vector, or numbers and scalars."""
    given = c.argument("start_indices", 1)
    given = given.value if isinstance(given, Literal) else given
    if isinstance(given, Value):
        return c.cast(given, INT32)
    items = given if isinstance(given, list | tuple) else [given]
    parts = [c.cast(n, INT32) if isinstance(n, Value) else n for n in items]
    found = [n for n in parts if isinstance(n, Value | int) and not isinstance(n, bool)]
    if len(found) != len(items) or len(found) != rank:
        raise c.refuse(f"it begins at {str(given)[:60]}")
    return c.sizes_vector(found)


@operation("Slice")
def part(c: Call) -> Result:
    """So many elements of each axis behind a place."""
    x = tensor(c, "inputs", 0)
    sizes = c.const(numbers(c, "shape", 2) or [], "size")
    return c.emit("Slice", x, _starts(c, c.rank(x)), sizes, Index=INT32)


@operation("SliceUpdate")
def written(c: Call) -> Result:
    """With a block written at a place, which is moved inside where the block lies out."""
    x, block = tensor(c, "inputs", 0), tensor(c, "updates", 2)
    block = c.cast(block, c.type_of(x))
    whole, size = (c.emit("Shape", v, out_type=INT32) for v in (x, block))
    begin = c.emit("Minimum", _starts(c, c.rank(x)), c.emit("Sub", whole, size))
    begin = c.emit("Maximum", begin, c.const([0] * c.rank(x), "least"))
    strides = c.const([1] * c.rank(x), "strides")
    end = c.emit("AddV2", begin, size)
    return c.emit("TensorStridedSliceUpdate", x, begin, end, strides, block, Index=INT32)


@operation("Scatter")
def scatter(c: Call) -> Result:
    """Zeros with values added at places."""
    places, values = tensor(c, "indices", 0), tensor(c, "values", 1)
    shape = c.const(numbers(c, "shape", 2) or [], "shape")
    return c.emit("ScatterNd", c.cast(places, INT32), values, shape, T=c.type_of(values), Tindices=INT32)


@operation("ScatterUpdate")
def scatter_update(c: Call) -> Result:
    """With other elements at places, or with numbers added to them, or the larger or smaller of both."""
    x = tensor(c, "inputs", 0)
    places, values = c.cast(tensor(c, "indices", 1), INT32), tensor(c, "updates", 2, x)
    how = {None: "Update", "add": "Add", "max": "Max", "min": "Min"}
    reduction = c.get("reduction")
    if not isinstance(reduction, str | None) or reduction not in how:
        raise c.refuse(f"its reduction is '{reduction}'")
    op = f"TensorScatter{how[reduction]}"
    return c.emit(op, x, places, c.cast(values, c.type_of(x)), Tindices=INT32)


@operation("UnravelIndex")
def unravel_index(c: Call) -> Result:
    """The place along each axis, of a place in a row of all."""
    places, shape = tensor(c, "indices", 0), numbers(c, "shape", 1) or []
    if c.rank(places) != 1:
        raise c.refuse("its places are no vector, for which Keras's backends make different things")
    found = []
    for size in reversed(shape):
        found.append(c.emit("FloorMod", places, size))
        places = c.emit("FloorDiv", places, size)
    return found[::-1]


@operation("Digitize")
def digitize(c: Call) -> Result:
    """The number of the bin, by edges that are numbers."""
    x, bins = tensor(c, "x", 0), c.argument("bins", 1)
    edges = bins.value if isinstance(bins, Literal) else bins
    if not isinstance(edges, list) or any(not isinstance(n, int | float) for n in edges):
        raise c.refuse("the edges of its bins are computed")
    x = x if c.type_of(x).itemsize >= 4 else c.cast(x, FLOAT if c.type_of(x).is_floating else INT32)
    return c.emit("Bucketize", x, boundaries=tuple(float(n) for n in edges))


@operation("SearchSorted")
def search_sorted(c: Call) -> Result:
    """Where values would stand in a row that is sorted."""
    values = tensor(c, "values", 1)
    row = tensor(c, "sorted_sequence", 0, values)
    op = {"left": "LowerBound", "right": "UpperBound"}[c.choice("side", "left", "right")]
    both = common(c.type_of(row), c.type_of(values))
    row, one = c.expand(c.cast(row, both), 0), c.reshape(c.cast(values, both), (1, None))
    found = c.emit(op, row, one, out_type=INT32)
    return c.shaped(found, [c.dim(values, n) for n in range(c.rank(values))])


@operation("IsIn", ignores=("assume_unique",))
def is_in(c: Call) -> Result:
    """True for elements that a list has."""
    x, members = tensor(c, "x1", 0), tensor(c, "x2", 1)
    both = common(c.type_of(x), c.type_of(members))
    x, members = c.expand(c.cast(x, both), -1), c.reshape(c.cast(members, both), (None,))
    found = c.reduce("Any", c.emit("Equal", x, members), [-1])
    return c.emit("LogicalNot", found, T=None) if c.flag("invert") else found


@operation("Select")
def select(c: Call) -> Result:
    """Of each place the choice of the first condition that holds."""
    conditions, choices = (c.argument(*item) for item in (("condlist", 0), ("choicelist", 1)))
    if not isinstance(conditions, list) or not isinstance(choices, list) or not choices:
        raise c.refuse("its conditions or its choices are no list")
    like = next((v for v in choices if isinstance(v, Value)), None)
    values = [c.literal(v, like) for v in (*choices, c.argument("default", 2, 0))]
    element = c.type_of(values[0])
    for value in values:
        element = common(element, c.type_of(value))
    *values, y = (c.cast(v, element) for v in values)
    for condition, value in reversed(list(zip(conditions, values, strict=True))):
        y = activations.where(c, c.cast(c.literal(condition), BOOL), value, y)
    return y
