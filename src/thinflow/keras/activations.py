"""Activation functions: by their names in configs, and as TensorFlow spells them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from thinflow.errors import FormatError, closest
from thinflow.ir.graph import Value
from thinflow.ir.types import dtype
from thinflow.keras.call import Call
from thinflow.keras.config import parse_layer

Function: TypeAlias = "Callable[..., Value]"

_FUNCTIONS: dict[str, Function] = {}
_FUNCTION_CLASSES = frozenset({"function", "builtin_function_or_method"})
# Klambauer et al., Self-Normalizing Neural Networks (2017): the fixed point is mean 0 and variance 1.
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def activation(*names: str) -> Callable[[Function], Function]:
    """Function decorator: the activation of these names. It gets the call and a value, and by their names the
    parameters that Keras's function has.
    """

    def register(function: Function) -> Function:
        _FUNCTIONS.update(dict.fromkeys(names, function))
        return function

    return register


def activate(c: Call, x: Value, given: object) -> Value:
    """A value behind the activation that a config names: by a word, by a dict, or none.

    Raises:
        UnsupportedOp: it is not known.
    """
    if given is None:
        return x
    if isinstance(given, Mapping) and given.get("class_name") in _FUNCTION_CLASSES:
        given = given.get("config")
    # Keras 3 wraps some names once more: {"config": {"name": ...}}; layers stand there as layers.
    if isinstance(given, Mapping):
        layer = parse_layer(given, c.generation, c.where)
        result = c.apply(layer, "activation", x)
        if not isinstance(result, Value):
            raise FormatError("its activation gives no tensor", c.where)
        return result
    if not isinstance(given, str):
        raise FormatError(f"its activation {str(given)[:60]!r} is no name", c.where)
    function = _FUNCTIONS.get(given.removeprefix("keras.activations."))
    if function is None:
        raise c.refuse(f"the activation '{given}' is not known", closest(given, _FUNCTIONS))
    return function(c, x)


def _unary(op: str) -> Function:
    return lambda c, x: c.emit(op, x)


for _name, _op in {
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softplus": "Softplus",
    "softsign": "Softsign",
    "exponential": "Exp",
    "relu6": "Relu6",
    "selu": "Selu",
}.items():
    activation(_name)(_unary(_op))


@activation("linear")
def linear(c: Call, x: Value) -> Value:
    return x


@activation("relu")
def relu(
    c: Call, x: Value, negative_slope: float = 0.0, max_value: float | None = None, threshold: float = 0.0
) -> Value:
    """max(x, 0), with a slope for what is below, a limit, and a threshold below which all is below."""
    if negative_slope and max_value is None and not threshold:
        return c.emit("LeakyRelu", x, alpha=negative_slope)
    negative = c.emit("Neg", x) if negative_slope else None
    if negative is not None and threshold:
        negative = c.emit("AddV2", negative, threshold)
    if threshold:
        y = c.emit("Mul", x, c.cast(c.emit("Greater", x, threshold), c.type_of(x)))
    else:
        y = c.emit("Relu6" if max_value == 6 else "Relu", x)
    if max_value is not None and (threshold or max_value != 6):
        y = clip(c, y, 0.0, max_value)
    if negative is not None:
        y = c.emit("Sub", y, c.emit("Mul", c.emit("Relu", negative), negative_slope))
    return y


def clip(c: Call, x: Value, low: float, high: float) -> Value:
    return c.emit("Maximum", c.emit("Minimum", x, high), low)


@activation("leaky_relu")
def leaky_relu(c: Call, x: Value, negative_slope: float = 0.2) -> Value:
    return c.emit("LeakyRelu", x, alpha=negative_slope)


@activation("elu")
def elu(c: Call, x: Value, alpha: float = 1.0) -> Value:
    y = c.emit("Elu", x)
    if alpha == 1:
        return y
    return where(c, c.emit("Greater", x, 0.0), y, c.emit("Mul", y, alpha))


def where(c: Call, condition: Value, yes: Any, no: Any) -> Value:
    """`yes` where the condition holds, else `no`; one of them may be a number."""
    like = yes if isinstance(yes, Value) else no
    values = [v if isinstance(v, Value) else c.const(v, like=like) for v in (yes, no)]
    return c.emit("SelectV2", condition, *values, T=c.type_of(like))


@activation("celu")
def celu(c: Call, x: Value, alpha: float = 1.0) -> Value:
    negative = c.emit("RealDiv", c.emit("Minimum", x, 0.0), alpha)
    return c.emit("AddV2", c.emit("Maximum", x, 0.0), c.emit("Mul", c.emit("Expm1", negative), alpha))


@activation("swish", "silu")
def silu(c: Call, x: Value) -> Value:
    return c.emit("Mul", x, c.emit("Sigmoid", x))


@activation("gelu")
def gelu(c: Call, x: Value, approximate: bool = False) -> Value:
    if approximate:
        # Hendrycks and Gimpel, Gaussian Error Linear Units (2016).
        cube = c.emit("Mul", c.emit("Pow", x, 3.0), 0.044715)
        inner = c.emit("Mul", c.emit("AddV2", x, cube), math.sqrt(2 / math.pi))
        gate = c.emit("AddV2", c.emit("Tanh", inner), 1.0)
    else:
        gate = c.emit("AddV2", c.emit("Erf", c.emit("RealDiv", x, math.sqrt(2))), 1.0)
    return c.emit("Mul", c.emit("Mul", x, 0.5), gate)


@activation("softmax")
def softmax(c: Call, x: Value, axis: int = -1, op: str = "Softmax") -> Value:
    rank = c.rank(x)
    place = c.axis(axis, rank)
    if place == rank - 1:
        return c.emit(op, x)
    perm = [n for n in range(rank) if n != place]
    back = [*range(place), rank - 1, *range(place, rank - 1)]
    return c.transpose(c.emit(op, c.transpose(x, [*perm, place])), back, "transpose_1")


def hidden(c: Call, scores: Value, mask: Value) -> Value:
    """Scores with a number where they are masked that is so low that a softmax leaves nothing of it."""
    # As Keras adds it: -1e9 would be infinite in two bytes, and 0 times that is no number.
    low = -3e4 if c.type_of(scores).itemsize == 2 else -1e9
    masked = c.emit("Sub", c.const(1.0, like=scores), c.cast(mask, c.type_of(scores)))
    return c.emit("AddV2", scores, c.emit("Mul", masked, low))


@activation("log_softmax")
def log_softmax(c: Call, x: Value, axis: int = -1) -> Value:
    return softmax(c, x, axis, "LogSoftmax")


@activation("log_sigmoid")
def log_sigmoid(c: Call, x: Value) -> Value:
    # The logarithm of a sigmoid would be that of 0 far below zero.
    return c.emit("Neg", c.emit("Softplus", c.emit("Neg", x)))


@activation("hard_sigmoid")
def hard_sigmoid(c: Call, x: Value) -> Value:
    """relu6(x + 3) / 6; before Keras 3 it was another line, x / 5 + 1/2 between 0 and 1."""
    if c.generation < 3:
        return clip(c, c.emit("AddV2", c.emit("Mul", x, 0.2), 0.5), 0.0, 1.0)
    return c.emit("RealDiv", c.emit("Relu6", c.emit("AddV2", x, 3.0)), 6.0)


@activation("hard_swish", "hard_silu")
def hard_silu(c: Call, x: Value) -> Value:
    return c.emit("Mul", x, c.emit("RealDiv", c.emit("Relu6", c.emit("AddV2", x, 3.0)), 6.0))


@activation("hard_tanh")
def hard_tanh(c: Call, x: Value) -> Value:
    return clip(c, x, -1.0, 1.0)


@activation("hard_shrink")
def hard_shrink(c: Call, x: Value, threshold: float = 0.5) -> Value:
    return where(c, c.emit("Greater", c.emit("Abs", x), threshold), x, 0.0)


@activation("soft_shrink")
def soft_shrink(c: Call, x: Value, threshold: float = 0.5) -> Value:
    above = where(c, c.emit("Greater", x, threshold), c.emit("Sub", x, threshold), 0.0)
    return where(c, c.emit("Less", x, -threshold), c.emit("AddV2", x, threshold), above)


@activation("tanh_shrink")
def tanh_shrink(c: Call, x: Value) -> Value:
    return c.emit("Sub", x, c.emit("Tanh", x))


@activation("mish")
def mish(c: Call, x: Value) -> Value:
    return c.emit("Mul", x, c.emit("Tanh", c.emit("Softplus", x)))


@activation("squareplus")
def squareplus(c: Call, x: Value, b: float = 4.0) -> Value:
    root = c.emit("Sqrt", c.emit("AddV2", c.emit("Square", x), b))
    return c.emit("Mul", c.emit("AddV2", x, root), 0.5)


@activation("sparse_plus")
def sparse_plus(c: Call, x: Value) -> Value:
    middle = c.emit("Mul", c.emit("Square", c.emit("AddV2", x, 1.0)), 0.25)
    return where(c, c.emit("LessEqual", x, -1.0), 0.0, where(c, c.emit("Less", x, 1.0), middle, x))


@activation("sparse_sigmoid")
def sparse_sigmoid(c: Call, x: Value) -> Value:
    return clip(c, c.emit("Mul", c.emit("AddV2", x, 1.0), 0.5), 0.0, 1.0)


@activation("threshold")
def threshold(c: Call, x: Value, threshold: float = 0.0, default_value: float = 0.0) -> Value:
    return where(c, c.emit("Greater", x, threshold), x, default_value)


@activation("glu")
def glu(c: Call, x: Value, axis: int = -1) -> Value:
    place = c.axis(axis, c.rank(x))
    halves = c.node("Split", c.const(place, "split/split_dim"), x, name="split", num_split=2, T=c.type_of(x))
    return c.emit("Mul", halves.output(0), c.emit("Sigmoid", halves.output(1)))


@activation("sparsemax")
def sparsemax(c: Call, x: Value, axis: int = -1) -> Value:
    """The projection onto the simplex: x less a number, so that what is positive sums to 1."""
    import numpy as np

    rank = c.rank(x)
    place = c.axis(axis, rank)
    if place != rank - 1:
        perm = [n for n in range(rank) if n != place]
        back = [*range(place), rank - 1, *range(place, rank - 1)]
        return c.transpose(sparsemax(c, c.transpose(x, [*perm, place])), back, "transpose_1")
    count = c.size(x, -1)
    ordered = c.node("TopKV2", x, c.const(count, "k"), name="TopKV2", sorted=True).output()
    sums = c.emit("Cumsum", ordered, c.const(rank - 1, "axis"), Tidx=dtype("int32"))
    ranks = c.const(np.arange(1, count + 1), like=x)
    less_one = c.emit("Sub", sums, 1.0)
    support = c.emit("Greater", ordered, c.emit("RealDiv", less_one, ranks))
    size = c.reduce("Sum", c.cast(support, c.type_of(x)), [rank - 1], True)
    # The sum of the running sums, where the projection would take the last of them: so Keras computes it.
    inside = c.reduce("Sum", where(c, support, sums, 0.0), [rank - 1], True)
    tau = c.emit("RealDiv", c.emit("Sub", inside, 1.0), size)
    return c.emit("Maximum", c.emit("Sub", x, tau), 0.0)


def names() -> list[str]:
    """All that are known."""
    return sorted(_FUNCTIONS)
