"""Functions over axes: sums, means, extremes, places of extremes."""

from __future__ import annotations

from typing import Any

from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, FLOAT, INT32, dtype
from thinflow.keras.call import Call
from thinflow.keras.layers.normalization import moments
from thinflow.keras.operations.arrays import number, numbers
from thinflow.keras.operations.elementwise import first
from thinflow.keras.registry import Result, Rule, operation


def places(c: Call, x: Value, place: int = 1) -> tuple[list[int], bool]:
    """The axes, all where none are named, and whether they stay with size 1."""
    axes = numbers(c, "axis", place)
    rank = c.rank(x)
    keeps = bool(c.argument("keepdims", place + 1, c.get("keepdims")))
    return list(range(rank)) if axes is None else [c.axis(n, rank) for n in axes], keeps


def widened(c: Call, x: Value) -> Value:
    """Small whole numbers in 32 bits, in which Keras 3 adds them up."""
    small = {"b": INT32, "i": INT32, "u": dtype("uint32")}.get(c.type_of(x).kind)
    return x if small is None or c.type_of(x).itemsize >= 4 else c.cast(x, small)


def _reduction(op: str, is_real: bool = False) -> Rule:
    def rule(c: Call) -> Value:
        x, initial = first(c), c.get("initial")
        of_truth = {"All": "All", "Any": "Any"}
        if c.type_of(x) is BOOL and c.generation >= 3:
            of_truth |= {"Max": "Any", "Min": "All"}
        if is_real and not c.type_of(x).is_floating:
            if c.generation < 3:
                raise c.refuse("it takes the mean of whole numbers as a whole number")
            x = c.cast(x, FLOAT)
        axes, keeps = places(c, x)
        if op in of_truth and initial is None:
            return c.reduce(of_truth[op], c.cast(x, BOOL), axes, keeps)
        x = widened(c, x) if op in ("Sum", "Prod") and c.generation >= 3 else x
        y = c.reduce(op, x, axes, keeps)
        if initial is None:
            return y
        if op not in ("Max", "Min") or c.type_of(x) is BOOL:
            raise c.refuse("it begins with a number of its own")
        return c.emit(f"{op}imum", y, c.literal(initial, y))

    return rule


for _op, _names in {
    "Sum": ("Sum", "math.reduce_sum", "reduce_sum"),
    "Max": ("Max", "Amax", "math.reduce_max", "reduce_max"),
    "Min": ("Min", "Amin", "math.reduce_min", "reduce_min"),
    "Prod": ("Prod", "math.reduce_prod", "reduce_prod"),
    "All": ("All", "math.reduce_all", "reduce_all"),
    "Any": ("Any", "math.reduce_any", "reduce_any"),
}.items():
    operation(*_names, ignores=("dtype",))(_reduction(_op))
operation("Mean", "math.reduce_mean", "reduce_mean")(_reduction("Mean", is_real=True))


@operation("Var", "math.reduce_variance")
def variance(c: Call) -> Result:
    x = first(c)
    if not c.type_of(x).is_floating and c.generation >= 3:
        x = c.cast(x, FLOAT)
    axes, keeps = places(c, x)
    found = moments(c, x, axes)[1]
    return found if keeps else c.emit("Squeeze", found, squeeze_dims=tuple(axes))


@operation("Std", "math.reduce_std")
def deviation(c: Call) -> Result:
    found = variance(c)
    assert isinstance(found, Value)
    return c.emit("Sqrt", found)


@operation("Logsumexp", "math.reduce_logsumexp", "reduce_logsumexp")
def logsumexp(c: Call) -> Result:
    x = first(c)
    axes, keeps = places(c, x)
    top = c.reduce("Max", x, axes, True)
    total = c.reduce("Sum", c.emit("Exp", c.emit("Sub", x, top)), axes, True)
    y = c.emit("AddV2", c.emit("Log", total), top)
    return y if keeps else c.emit("Squeeze", y, squeeze_dims=tuple(axes))


def _argument(op: str) -> Rule:
    def rule(c: Call) -> Value:
        x = first(c)
        # TensorFlow's default is the first axis, Keras's that of all elements in a row.
        axis = c.argument("axis", 1, c.get("axis"))
        if axis is None and c.generation >= 3:
            x = c.reshape(x, (None,))
        place = c.axis(axis if isinstance(axis, int) else 0, c.rank(x))
        name = c.argument("output_type", 2, "int64" if c.generation < 3 else "int32")
        kinds: dict[str, Any] = {"output_type": dtype(str(name)), "Tidx": INT32}
        y = c.emit(op, x, c.const(place, "dimension"), **kinds)
        return c.expand(y, place) if c.argument("keepdims", 2, c.get("keepdims")) else y

    return rule


operation("Argmax", "math.argmax", "argmax")(_argument("ArgMax"))
operation("Argmin", "math.argmin", "argmin")(_argument("ArgMin"))


@operation("TopK", "math.top_k", "nn.top_k")
def top_k(c: Call) -> Result:
    count = number(c, "k", 1, 1)
    is_sorted = bool(c.argument("sorted", 2, c.get("sorted", True)))
    node = c.node("TopKV2", first(c), c.const(count, "k"), name="TopKV2", sorted=is_sorted)
    return [node.output(0), node.output(1)]


@operation("Normalize", "math.l2_normalize", "nn.l2_normalize", "linalg.l2_normalize")
def l2_normalize(c: Call) -> Result:
    """x / sqrt(max(sum(x^2), epsilon))."""
    x = first(c)
    order = number(c, "order", 9, 2)
    axes = numbers(c, "axis", 1, -1 if c.generation >= 3 else None)
    places = list(range(c.rank(x))) if axes is None else axes
    epsilon = c.argument("epsilon", 2, c.get("epsilon", 1e-12))
    total = c.reduce("Sum", c.emit("Square", x), places, True)
    if c.generation >= 3:
        # Keras 3 divides by the norm, which is at least epsilon.
        floor = epsilon if isinstance(epsilon, float) else 1e-7
        if order != 2:
            power = c.reduce("Sum", c.emit("Pow", c.emit("Abs", x), float(order)), places, True)
            root = c.emit("Pow", power, 1.0 / order)
            return c.emit("RealDiv", x, c.emit("Maximum", root, floor))
        return c.emit("Mul", x, c.emit("Rsqrt", c.emit("Maximum", total, floor**2)))
    return c.emit("Mul", x, c.emit("Rsqrt", c.emit("Maximum", total, c.literal(epsilon, x))))
