"""Functions of each element: arithmetic, comparisons, logic, activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, FLOAT, dtype
from thinflow.keras import activations
from thinflow.keras.call import Call
from thinflow.keras.nodes import common
from thinflow.keras.registry import Result, Rule, operation

Operands: TypeAlias = "tuple[Value, Value]"

# --- one operand --------------------------------------------------------------------------------------------


def first(c: Call) -> Value:
    """The first argument, under the names that functions give it."""
    c.read |= {"name", "x", "input", "features", "logits", "tensor", "input_tensor", "a"}
    given = (
        c.args[0]
        if c.args
        else next((c.kwargs[k] for k in ("x", "input", "features") if k in c.kwargs), None)
    )
    return c.literal(given)


def tensor(c: Call, name: str, place: int, like: Value | None = None) -> Value:
    """An argument as a tensor; numbers take the type of `like`."""
    return c.literal(c.argument(name, place), like)


def floats(c: Call, x: Value) -> Value:
    """The operand of a function that has no whole numbers for results: Keras 3 takes float32 then."""
    return x if c.type_of(x).is_floating else c.cast(x, FLOAT)


def _unary(op: str, is_real: bool) -> Rule:
    def rule(c: Call) -> Value:
        x = floats(c, first(c)) if is_real and c.generation >= 3 else first(c)
        return c.emit(op, x)

    return rule


for _op, _names in {
    "Abs": ("Absolute", "Abs", "math.abs", "abs"),
    "Neg": ("Negative", "math.negative", "negative", "__operators__.neg"),
    "Sign": ("Sign", "math.sign", "sign"),
    "Square": ("Square", "math.square", "square"),
    "LogicalNot": ("math.logical_not", "logical_not"),
}.items():
    operation(*_names)(_unary(_op, False))
for _op, _names in {
    "Exp": ("Exp", "math.exp", "exp"),
    "Expm1": ("Expm1", "math.expm1"),
    "Log": ("Log", "math.log"),
    "Log1p": ("Log1p", "math.log1p"),
    "Sqrt": ("Sqrt", "math.sqrt", "sqrt"),
    "Rsqrt": ("Rsqrt", "math.rsqrt"),
    "Reciprocal": ("Reciprocal", "math.reciprocal"),
    "Sin": ("Sin", "math.sin", "sin"),
    "Cos": ("Cos", "math.cos", "cos"),
    "Tan": ("Tan", "math.tan", "tan"),
    "Asin": ("Arcsin", "math.asin", "asin"),
    "Acos": ("Arccos", "math.acos", "acos"),
    "Atan": ("Arctan", "math.atan", "atan"),
    "Sinh": ("Sinh", "math.sinh", "sinh"),
    "Cosh": ("Cosh", "math.cosh", "cosh"),
    "Asinh": ("Arcsinh", "math.asinh"),
    "Acosh": ("Arccosh", "math.acosh"),
    "Atanh": ("Arctanh", "math.atanh"),
    "Erf": ("Erf", "math.erf"),
    "Floor": ("Floor", "math.floor", "floor"),
    "Ceil": ("Ceil", "math.ceil"),
}.items():
    operation(*_names)(_unary(_op, True))


def _tested(op: str) -> Rule:
    return lambda c: c.emit(op, first(c))


for _op, _names in {
    "IsNan": ("Isnan", "math.is_nan"),
    "IsInf": ("Isinf", "math.is_inf"),
    "IsFinite": ("Isfinite", "math.is_finite"),
}.items():
    operation(*_names)(_tested(_op))


@operation("Round", "math.round", "round")
def rounded(c: Call) -> Result:
    """To whole numbers, or to as many places behind the point."""
    x, decimals = first(c), c.get("decimals", 0)
    if not isinstance(decimals, int) or decimals < 0 or (decimals and not c.type_of(x).is_floating):
        raise c.refuse(f"it rounds to {decimals} places behind the point")
    if not decimals:
        return c.emit("Round", x)
    factor = float(10**decimals)
    return c.emit("RealDiv", c.emit("Round", c.emit("Mul", x, factor)), factor)


@operation("LogicalNot")
def logical_not(c: Call) -> Result:
    return c.emit("LogicalNot", c.cast(first(c), BOOL), T=None)


@operation("Log2")
def log2(c: Call) -> Result:
    # By ln 2: TensorFlow has the natural logarithm alone.
    return c.emit("RealDiv", c.emit("Log", floats(c, first(c))), 0.6931471805599453)


@operation("Log10")
def log10(c: Call) -> Result:
    return c.emit("RealDiv", c.emit("Log", floats(c, first(c))), 2.302585092994046)


@operation("Identity", "identity", "stop_gradient", "StopGradient", "math.real")
def identity(c: Call) -> Result:
    return first(c)


@operation("Cast", "cast", ignores=("dtype",))
def cast(c: Call) -> Result:
    """Of floats to whole numbers the part before the point."""
    name = c.kwargs.get("dtype", c.args[1] if len(c.args) > 1 else c.layer.options.get("dtype"))
    if not isinstance(name, str):
        raise c.refuse(f"it casts to {name}")
    return c.cast(first(c), dtype(name))


# --- two operands -------------------------------------------------------------------------------------------


def operands(c: Call) -> Operands:
    """Both operands in one type: numbers take that of the tensor, and floats win."""
    c.read |= {"x", "y", "x1", "x2", "name", "a", "b"}
    named = [c.kwargs[key] for key in ("x", "x1", "a", "y", "x2", "b") if key in c.kwargs]
    given = [*c.args, *named][:2]
    if len(given) != 2:
        raise c.refuse("it has not two operands")
    like = next((v for v in given if isinstance(v, Value)), None)
    if like is not None and any(isinstance(v, float) for v in given) and not c.type_of(like).is_floating:
        given = [c.cast(v, FLOAT) if isinstance(v, Value) else v for v in given]
        like = next(v for v in given if isinstance(v, Value))
    x, y = (c.literal(v, like) for v in given)
    both = common(c.type_of(x), c.type_of(y))
    return c.cast(x, both), c.cast(y, both)


def _binary(op: str) -> Rule:
    return lambda c: c.emit(op, *operands(c))


for _op, _names in {
    "AddV2": ("Add", "math.add", "add", "__operators__.add"),
    "Sub": ("Subtract", "math.subtract", "subtract", "__operators__.sub"),
    "Mul": ("Multiply", "math.multiply", "multiply", "__operators__.mul"),
    "FloorDiv": ("FloorDivide", "math.floordiv", "floor_div", "__operators__.floordiv"),
    "FloorMod": ("Mod", "math.floormod", "math.mod", "__operators__.mod"),
    "Pow": ("Power", "math.pow", "pow", "__operators__.pow"),
    "Maximum": ("Maximum", "math.maximum", "maximum"),
    "Minimum": ("Minimum", "math.minimum", "minimum"),
    "SquaredDifference": ("SquaredDifference", "math.squared_difference"),
    "Atan2": ("Arctan2", "math.atan2"),
    "Equal": ("Equal", "math.equal", "equal", "__operators__.eq"),
    "NotEqual": ("NotEqual", "math.not_equal", "not_equal", "__operators__.ne"),
    "Greater": ("Greater", "math.greater", "greater", "__operators__.gt"),
    "GreaterEqual": ("GreaterEqual", "math.greater_equal", "greater_equal", "__operators__.ge"),
    "Less": ("Less", "math.less", "less", "__operators__.lt"),
    "LessEqual": ("LessEqual", "math.less_equal", "less_equal", "__operators__.le"),
}.items():
    operation(*_names)(_binary(_op))


@operation("Divide", "TrueDivide", "math.divide", "divide", "math.truediv", "__operators__.truediv")
def divide(c: Call) -> Result:
    x, y = operands(c)
    if not c.type_of(x).is_floating:
        if c.generation < 3:
            raise c.refuse("whole numbers are divided, which gives float64")
        x, y = c.cast(x, FLOAT), c.cast(y, FLOAT)
    return c.emit("RealDiv", x, y)


@operation("math.divide_no_nan", "DivideNoNan")
def divide_no_nan(c: Call) -> Result:
    return c.emit("DivNoNan", *operands(c))


def _logical(op: str) -> Rule:
    def rule(c: Call) -> Value:
        x, y = operands(c)
        return c.emit(op, c.cast(x, BOOL), c.cast(y, BOOL), T=None)

    return rule


for _op, _names in {
    "LogicalAnd": ("LogicalAnd", "math.logical_and", "logical_and", "__operators__.and"),
    "LogicalOr": ("LogicalOr", "math.logical_or", "logical_or", "__operators__.or"),
}.items():
    operation(*_names)(_logical(_op))


@operation("LogicalXor", "math.logical_xor")
def logical_xor(c: Call) -> Result:
    return c.emit("NotEqual", *operands(c))


@operation("Clip", "clip_by_value")
def clip(c: Call) -> Result:
    low = _bound(c, "x_min", "clip_value_min", 1)
    high = _bound(c, "x_max", "clip_value_max", 2)
    # In tf.clip_by_value's order: where the limits are crossed the lower one wins.
    return c.emit("Maximum", c.emit("Minimum", first(c), high), low)


def _bound(c: Call, option: str, name: str, place: int) -> Value:
    given = c.argument(name, place, c.argument(option, place, c.get(option)))
    return c.literal(given, first(c))


@operation("Where", "where")
def where(c: Call) -> Result:
    condition = c.literal(c.argument("condition", 0))
    yes = c.argument("x1", 1, c.argument("x", 1))
    no = c.argument("x2", 2, c.argument("y", 2))
    if yes is None or no is None:
        raise c.refuse("it asks where something holds, which has no fixed number of answers")
    like = next((v for v in (yes, no) if isinstance(v, Value)), None)
    first_value, second = (c.literal(v, like) for v in (yes, no))
    both = common(c.type_of(first_value), c.type_of(second))
    return activations.where(c, c.cast(condition, BOOL), c.cast(first_value, both), c.cast(second, both))


# --- activations --------------------------------------------------------------------------------------------


_Function: TypeAlias = Callable[..., Value]


def _activation(function: _Function, *options: str) -> Rule:
    """The rule for a function that is an activation, with numbers among its options or arguments."""

    def rule(c: Call) -> Value:
        given: dict[str, float] = {}
        for option in options:
            value = c.argument(option, 1, c.get(option))
            if isinstance(value, int | float):
                given[option] = value
        return function(c, floats(c, first(c)), **given)

    return rule


def _op_of(op: str) -> _Function:
    return lambda c, x: c.emit(op, x)


for _function, _options, _names in (
    (activations.silu, (), ("Silu", "Swish", "nn.silu", "nn.swish")),
    (activations.elu, ("alpha",), ("Elu", "nn.elu")),
    (activations.celu, ("alpha",), ("Celu",)),
    (activations.glu, ("axis",), ("Glu",)),
    (activations.hard_sigmoid, (), ("HardSigmoid",)),
    (activations.hard_silu, (), ("HardSilu", "HardSwish")),
    (activations.hard_tanh, (), ("HardTanh",)),
    (activations.hard_shrink, ("threshold",), ("HardShrink",)),
    (activations.soft_shrink, ("threshold",), ("SoftShrink",)),
    (activations.tanh_shrink, (), ("TanhShrink",)),
    (activations.threshold, ("threshold", "default_value"), ("Threshold",)),
    (activations.log_sigmoid, (), ("LogSigmoid", "math.log_sigmoid")),
    (activations.mish, (), ("Mish",)),
    (activations.squareplus, ("b",), ("Squareplus",)),
    (activations.sparse_plus, (), ("SparsePlus",)),
    (activations.sparse_sigmoid, (), ("SparseSigmoid",)),
    (activations.sparsemax, ("axis",), ("Sparsemax",)),
    (activations.softmax, ("axis",), ("Softmax", "nn.softmax")),
    (activations.log_softmax, ("axis",), ("LogSoftmax", "nn.log_softmax")),
):
    operation(*_names)(_activation(_function, *_options))
for _op, _names in {
    "Relu": ("Relu", "nn.relu"),
    "Relu6": ("Relu6", "nn.relu6"),
    "Sigmoid": ("Sigmoid", "math.sigmoid", "nn.sigmoid"),
    "Tanh": ("Tanh", "math.tanh", "nn.tanh"),
    "Softplus": ("Softplus", "math.softplus", "nn.softplus"),
    "Softsign": ("Softsign", "nn.softsign"),
    "Selu": ("Selu", "nn.selu"),
}.items():
    operation(*_names)(_activation(_op_of(_op)))


@operation("LeakyRelu", "nn.leaky_relu")
def leaky_relu(c: Call) -> Result:
    # The default of functions, tf.nn's and keras.ops's; that of the layer is 0.3.
    slope = c.argument("alpha", 1, c.get("negative_slope", 0.2))
    if not isinstance(slope, int | float):
        raise c.refuse("its slope is a tensor")
    return c.emit("LeakyRelu", first(c), alpha=float(slope))


@operation("Gelu", "nn.gelu")
def gelu(c: Call) -> Result:
    # keras.ops approximates unless told otherwise, tf.nn does not.
    default = c.generation >= 3
    return activations.gelu(c, first(c), bool(c.argument("approximate", 1, c.get("approximate", default))))
