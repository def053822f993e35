"""Functions of numpy's that are a formula of a few ops."""

from __future__ import annotations

import math

from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, INT32, dtype
from thinflow.keras import activations
from thinflow.keras.call import Call
from thinflow.keras.operations.arrays import number, numbers
from thinflow.keras.operations.elementwise import first, floats, operands, tensor
from thinflow.keras.registry import Result, Rule, operation


def _both(c: Call) -> tuple[Value, Value]:
    x, y = operands(c)
    return floats(c, x), floats(c, y)


# --- one operand --------------------------------------------------------------------------------------------


def _scaled(factor: float) -> Rule:
    return lambda c: c.emit("Mul", floats(c, first(c)), factor)


operation("Deg2rad")(_scaled(math.pi / 180))
operation("Rad2deg")(_scaled(180 / math.pi))


@operation("Copy", "Array", "ConvertToTensor", "SaturateCast", ignores=("sparse", "ragged"))
def copy(c: Call) -> Result:
    """The tensor itself, in another type where one is named."""
    x, name = first(c), c.layer.options.get("dtype")
    c.read.add("dtype")
    if not isinstance(name, str):
        return x
    element = dtype(name)
    if c.layer.kind == "SaturateCast" and element is not c.type_of(x) and not element.is_floating:
        raise c.refuse(f"it casts to {name}, with the largest and smallest numbers for what is beyond them")
    return c.cast(x, element)


@operation("Fabs")
def fabs(c: Call) -> Result:
    return c.emit("Abs", floats(c, first(c)))


@operation("Exp2")
def exp2(c: Call) -> Result:
    x = floats(c, first(c))
    return c.emit("Pow", c.const(2.0, like=x), x)


@operation("Erfc", "math.erfc")
def erfc(c: Call) -> Result:
    return c.emit("Erfc", floats(c, first(c)))


@operation("Trunc")
def trunc(c: Call) -> Result:
    """The number without what is behind its point."""
    x = first(c)
    if not c.type_of(x).is_floating:
        return x
    below = c.emit("Less", x, 0.0)
    return activations.where(c, below, c.emit("Ceil", x), c.emit("Floor", x))


@operation("Cbrt")
def cube_root(c: Call) -> Result:
    x = first(c)
    x = c.cast(x, dtype("double")) if c.type_of(x).name == "int64" else floats(c, x)
    return c.emit("Mul", c.emit("Sign", x), c.emit("Pow", c.emit("Abs", x), 1 / 3))


def _special(op: str) -> Rule:
    def rule(c: Call) -> Value:
        x = first(c)
        return c.emit(op, c.cast(x, dtype("double")) if c.type_of(x).name == "int64" else floats(c, x))

    return rule


operation("I0")(_special("BesselI0"))
operation("Erfinv")(_special("Erfinv"))


@operation("Sinc")
def sinc(c: Call) -> Result:
    """sin(pi x) / (pi x), and 1 at 0."""
    x = c.emit("Mul", floats(c, first(c)), math.pi)
    is_zero = c.emit("Equal", x, 0.0)
    safe = activations.where(c, is_zero, 1.0, x)
    return activations.where(c, is_zero, 1.0, c.emit("RealDiv", c.emit("Sin", safe), safe))


@operation("NanToNum")
def nan_to_num(c: Call) -> Result:
    x, (nan, high, low) = first(c), (c.get(key) for key in ("nan", "posinf", "neginf"))
    if not c.type_of(x).is_floating:
        return x
    # The largest finite numbers, which numpy and Keras put for infinity unless told otherwise.
    most = {"float": 3.4028234663852886e38, "double": 1.7976931348623157e308, "half": 65504.0}
    largest = most.get(c.type_of(x).name)
    if largest is None:
        raise c.refuse(f"its input is of the type {c.type_of(x).name}")
    if any(isinstance(n, bool) or not isinstance(n, int | float | None) for n in (nan, high, low)):
        raise c.refuse("what it puts in is no number")
    y = activations.where(c, c.emit("IsNan", x), nan or 0.0, x)
    y = activations.where(c, c.emit("Equal", x, math.inf), largest if high is None else high, y)
    return activations.where(c, c.emit("Equal", x, -math.inf), -largest if low is None else low, y)


def _infinite(which: float) -> Rule:
    return lambda c: c.emit("Equal", floats(c, first(c)), which)


operation("Isposinf")(_infinite(math.inf))
operation("Isneginf")(_infinite(-math.inf))


@operation("Size")
def size(c: Call) -> Result:
    return c.emit("Size", first(c), out_type=INT32)


def _reversed(axis: int) -> Rule:
    return lambda c: c.emit("ReverseV2", first(c), c.const([axis], "axis"), Tidx=INT32)


operation("Flipud")(_reversed(0))
operation("Fliplr")(_reversed(1))


@operation("Diff")
def diff(c: Call) -> Result:
    """Each element minus the one before, n times."""
    x, count = first(c), number(c, "n", 1, 1)
    axis = c.axis(number(c, "axis", 2, -1), c.rank(x))
    if count < 0 or count > c.size(x, axis):
        raise c.refuse(f"it takes the differences {count} times")
    for _ in range(count):
        begin, end = [0] * axis, c.size(x, axis)
        after = c.sliced(x, [*begin, 1], [*[None] * axis, end])
        x = c.emit("Sub", after, c.sliced(x, [*begin, 0], [*[None] * axis, end - 1]))
    return x


# --- two operands -------------------------------------------------------------------------------------------


@operation("Hypot")
def hypot(c: Call) -> Result:
    """sqrt(x^2 + y^2), with the larger of both taken out."""
    x, y = (c.emit("Abs", v) for v in _both(c))
    high, low = c.emit("Maximum", x, y), c.emit("Minimum", x, y)
    ratio = c.emit("DivNoNan", low, high)
    return c.emit("Mul", high, c.emit("Sqrt", c.emit("AddV2", c.emit("Square", ratio), 1.0)))


def _logaddexp(base: float) -> Rule:
    def rule(c: Call) -> Value:
        """log(base^x + base^y) to the base."""
        x, y = _both(c)
        gap = c.emit("Sub", x, y)
        small = c.emit("Exp", c.emit("Mul", c.emit("Abs", gap), -math.log(base)))
        rest = c.emit("Mul", c.emit("Log1p", small), 1 / math.log(base))
        found = c.emit("AddV2", c.emit("Maximum", x, y), rest)
        # Equal infinities have no difference.
        return activations.where(c, c.emit("IsNan", gap), c.emit("AddV2", x, y), found)

    return rule


operation("Logaddexp")(_logaddexp(math.e))
operation("Logaddexp2")(_logaddexp(2.0))


def _extreme(op: str) -> Rule:
    def rule(c: Call) -> Value:
        """The larger or smaller one; the other one where one is no number."""
        x, y = operands(c)
        found = c.emit(op, x, y)
        if not c.type_of(x).is_floating:
            return found
        found = activations.where(c, c.emit("IsNan", x), y, found)
        return activations.where(c, c.emit("IsNan", y), x, found)

    return rule


operation("Fmax")(_extreme("Maximum"))
operation("Fmin")(_extreme("Minimum"))


@operation("Fmod")
def fmod(c: Call) -> Result:
    """What is left of a division, with the sign of what is divided."""
    x, y = operands(c)
    given = c.type_of(x)
    if given.kind in "bu":
        # Without a sign nothing is to be done but to have a type that the op takes.
        x, y = (c.cast(v, INT32) for v in (x, y))
    rest = c.emit("FloorMod", c.emit("Abs", x), c.emit("Abs", y))
    return c.cast(c.emit("Mul", c.emit("Sign", x), rest), INT32 if given is BOOL else given)


@operation("Heaviside")
def heaviside(c: Call) -> Result:
    """0 below 0, 1 above, and the second operand at 0."""
    x, middle = _both(c)
    step = c.cast(c.emit("Greater", x, 0.0), c.type_of(x))
    return activations.where(c, c.emit("Equal", x, 0.0), middle, step)


@operation("Isclose", "AllClose")
def isclose(c: Call) -> Result:
    """|x - y| <= atol + rtol |y|; infinities are close to themselves."""
    x, y = operands(c)
    tolerances = [
        c.argument(name, place, c.get(name, default))
        for name, place, default in (("rtol", 2, 1e-5), ("atol", 3, 1e-8))
    ]
    if any(isinstance(n, bool) or not isinstance(n, int | float) for n in tolerances):
        raise c.refuse("its tolerance is no number")
    takes_all, equals_nan = c.layer.kind == "AllClose", c.flag("equal_nan")
    near = c.emit("Equal", x, y)
    if c.type_of(x).is_floating:
        relative, absolute = (c.const(float(n), like=x) for n in tolerances if isinstance(n, int | float))
        gap = c.emit("Abs", c.emit("Sub", x, y))
        allowed = c.emit("AddV2", absolute, c.emit("Mul", relative, c.emit("Abs", y)))
        close = c.emit("LogicalAnd", c.emit("LessEqual", gap, allowed), c.emit("IsFinite", y), T=None)
        near = c.emit("LogicalOr", close, near, T=None)
        if equals_nan:
            both = c.emit("LogicalAnd", c.emit("IsNan", x), c.emit("IsNan", y), T=None)
            near = c.emit("LogicalOr", near, both, T=None)
    return c.reduce("All", near, range(c.rank(near))) if takes_all else near


@operation("Outer")
def outer(c: Call) -> Result:
    """All products of an element of each, as a matrix."""
    x, y = operands(c)
    return c.emit("Mul", c.reshape(x, (None, 1)), c.reshape(y, (1, None)))


@operation("Append")
def append(c: Call) -> Result:
    x, y = operands(c)
    axis = c.argument("axis", 2, c.get("axis"))
    if axis is None:
        return c.concat([c.reshape(v, (None,)) for v in (x, y)], 0)
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise c.refuse(f"its axis is {str(axis)[:40]}")
    return c.concat([x, y], c.axis(axis, c.rank(x)))


@operation("FullLike")
def full_like(c: Call) -> Result:
    x, name = first(c), c.layer.options.get("dtype")
    c.read.add("dtype")
    zeros = c.emit("ZerosLike", c.cast(x, dtype(name)) if isinstance(name, str) else x)
    if c.type_of(zeros) is BOOL:
        raise c.refuse("it is filled with yes or no")
    return c.emit("AddV2", zeros, c.cast(c.literal(c.argument("fill_value", 1), zeros), c.type_of(zeros)))


# --- over axes ----------------------------------------------------------------------------------------------


def _axes(c: Call, x: Value) -> list[int]:
    given = numbers(c, "axis", 2)
    return list(range(c.rank(x))) if given is None else [c.axis(n, c.rank(x)) for n in given]


@operation("Ptp")
def peak_to_peak(c: Call) -> Result:
    x = first(c)
    axes, keeps = _axes(c, x), c.flag("keepdims")
    return c.emit("Sub", c.reduce("Max", x, axes, keeps), c.reduce("Min", x, axes, keeps))


@operation("CountNonzero")
def count_nonzero(c: Call) -> Result:
    x = first(c)
    found = x if c.type_of(x) is BOOL else c.emit("NotEqual", x, 0)
    return c.reduce("Sum", c.cast(found, INT32), _axes(c, x))


@operation("Average")
def average(c: Call) -> Result:
    """The mean, or that with a weight for each element."""
    x, given = floats(c, first(c)), c.argument("weights", 1)
    axes = _axes(c, x)
    if given is None:
        return c.reduce("Mean", x, axes)
    weights = c.cast(c.literal(given, x), c.type_of(x))
    if c.rank(weights) == 1 < c.rank(x) and len(axes) == 1:
        weights = c.reshape(weights, [None if n == axes[0] else 1 for n in range(c.rank(x))])
        total = c.reduce("Sum", weights, range(c.rank(x)))
        return c.emit("RealDiv", c.reduce("Sum", c.emit("Mul", x, weights), axes), total)
    if c.shape(weights) != c.shape(x):
        raise c.refuse("its weights are of another shape than its input")
    return c.emit("RealDiv", c.reduce("Sum", c.emit("Mul", x, weights), axes), c.reduce("Sum", weights, axes))


@operation("Norm", "linalg.norm")
def norm(c: Call) -> Result:
    """The norm of vectors along an axis, or of matrices along two."""
    order = c.argument("ord", 1, c.get("ord"))
    x = floats(c, first(c))
    given = numbers(c, "axis", 2)
    axes = list(range(c.rank(x))) if given is None else [c.axis(n, c.rank(x)) for n in given]
    keeps = bool(c.argument("keepdims", 3, c.get("keepdims")))
    is_euclidean = order is None or order == "euclidean" or (order == 2 and len(axes) == 1)
    if is_euclidean or (order == "fro" and len(axes) == 2):
        return c.emit("Sqrt", c.reduce("Sum", c.emit("Square", x), axes, keeps))
    if not isinstance(order, int | float) or isinstance(order, bool) or c.generation < 3:
        raise c.refuse(f"its order is {str(order)[:40]}")
    size = c.emit("Abs", x)
    if len(axes) == 1 and order == 0:
        return c.reduce("Sum", c.cast(c.emit("NotEqual", x, 0.0), c.type_of(x)), axes, keeps)
    if len(axes) == 1 and math.isinf(order):
        return c.reduce("Max" if order > 0 else "Min", size, axes, keeps)
    if len(axes) == 1:
        total = c.reduce("Sum", c.emit("Pow", size, float(order)), axes, keeps)
        return c.emit("Pow", total, 1.0 / order)
    if len(axes) != 2 or (abs(order) != 1 and not math.isinf(order)):
        raise c.refuse(f"its order is {str(order)[:40]} for {len(axes)} axes")
    # The extreme of the sums of columns (1), or of rows (inf).
    summed, kept = axes if abs(order) == 1 else axes[::-1]
    sums = c.reduce("Max" if order > 0 else "Min", c.reduce("Sum", size, [summed], True), [kept], True)
    return sums if keeps else c.emit("Squeeze", sums, squeeze_dims=tuple(axes))


# --- how far off --------------------------------------------------------------------------------------------


@operation("PSNR")
def signal_to_noise(c: Call) -> Result:
    """20 log10(largest) - 10 log10(mean((x - y)^2))."""
    x, y = operands(c)
    error = c.reduce("Mean", c.emit("SquaredDifference", x, y), range(c.rank(x)))
    most = 20 * math.log10(c.number("max_val"))
    return c.emit("Sub", c.const(most, like=x), c.emit("Mul", c.emit("Log", error), 10 / math.log(10)))


def _pair(c: Call) -> tuple[Value, Value]:
    """What should have come, and what came, in its type."""
    output = tensor(c, "output", 1)
    return c.cast(tensor(c, "target", 0, output), c.type_of(output)), output


def _inside(c: Call, x: Value) -> Value:
    """Without the ends, which have no logarithm."""
    return c.emit("Minimum", c.emit("Maximum", x, 1e-7), 1.0 - 1e-7)


@operation("BinaryCrossentropy")
def binary_crossentropy(c: Call) -> Result:
    target, y = _pair(c)
    if c.flag("from_logits"):
        # log(1 + e^y) - y target, of the larger side
        above = c.emit("Sub", c.emit("Maximum", y, 0.0), c.emit("Mul", y, target))
        return c.emit("AddV2", above, c.emit("Log1p", c.emit("Exp", c.emit("Neg", c.emit("Abs", y)))))
    y = _inside(c, y)
    one = c.const(1.0, like=y)
    yes = c.emit("Mul", target, c.emit("Log", y))
    no = c.emit("Mul", c.emit("Sub", one, target), c.emit("Log", c.emit("Sub", one, y)))
    return c.emit("Neg", c.emit("AddV2", yes, no))


@operation("CategoricalCrossentropy")
def categorical_crossentropy(c: Call) -> Result:
    target, y = _pair(c)
    axis = c.axis(c.integer("axis", -1), c.rank(y))
    if c.flag("from_logits"):
        logs = activations.log_softmax(c, y, axis)
    else:
        logs = c.emit("Log", _inside(c, c.emit("RealDiv", y, c.reduce("Sum", y, [axis], True))))
    return c.emit("Neg", c.reduce("Sum", c.emit("Mul", target, logs), [axis]))


@operation("SparseCategoricalCrossentropy")
def sparse_categorical_crossentropy(c: Call) -> Result:
    """The negative logarithm of the share of one class."""
    y = tensor(c, "output", 1)
    target, rank = c.cast(tensor(c, "target", 0), INT32), c.rank(y)
    if c.axis(c.integer("axis", -1), rank) != rank - 1:
        raise c.refuse("its axis is not the last one")
    if c.rank(target) == rank:
        target = c.squeeze(target, rank - 1)
    y = y if c.flag("from_logits") else c.emit("Log", _inside(c, y))
    ends = [c.const(n, like=y) for n in (1.0, 0.0)]
    depth = c.const(c.size(y, -1), "depth")
    hot = c.emit("OneHot", target, depth, *ends, axis=-1, T=c.type_of(y), TI=INT32)
    logs = activations.log_softmax(c, y, rank - 1)
    return c.emit("Neg", c.reduce("Sum", c.emit("Mul", hot, logs), [-1]))
