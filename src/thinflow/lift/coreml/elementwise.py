"""MIL's functions of each number."""

from __future__ import annotations

import math

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, FLOAT, HALF, INT32, DType, dtype
from thinflow.lift.coreml.rules import mil, number, onnx, word
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.values import along, like, rank, typed
from thinflow.lift.rules import Rule, same

_SAME = {
    "abs": "Abs",
    "acos": "Acos",
    "asin": "Asin",
    "atan": "Atan",
    "atanh": "Atanh",
    "ceil": "Ceil",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "identity": "Identity",
    "logical_not": "LogicalNot",
    "relu": "Relu",
    "relu6": "Relu6",
    "round": "Rint",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sin": "Sin",
    "sinh": "Sinh",
    "softplus": "Softplus",
    "softsign": "Softsign",
    "sqrt": "Sqrt",
    "square": "Square",
    "tan": "Tan",
    "tanh": "Tanh",
}
_BINARY = {
    "add": "AddV2",
    "equal": "Equal",
    "floor_div": "FloorDiv",
    "greater": "Greater",
    "greater_equal": "GreaterEqual",
    "less": "Less",
    "less_equal": "LessEqual",
    "logical_and": "LogicalAnd",
    "logical_or": "LogicalOr",
    "logical_xor": "NotEqual",
    "maximum": "Maximum",
    "minimum": "Minimum",
    "mod": "FloorMod",
    "mul": "Mul",
    "not_equal": "NotEqual",
    "pow": "Pow",
    "sub": "Sub",
}
_KINDS: dict[str, DType] = {"fp16": HALF, "fp32": FLOAT, "int32": INT32, "bool": BOOL} | {
    name: dtype(name) for name in ("int8", "uint8", "int16", "uint16")
}
_NOTHING = 1e-30
"""Below it something that is added to a number of float32 that matters changes nothing."""

for _mil, _op in _SAME.items():
    mil(_mil)(same(_op))


def _binary(op: str) -> Rule:
    return lambda c: c.emit(op, c[0], c[1])


for _mil, _op in _BINARY.items():
    mil(_mil)(_binary(_op))


@mil("real_div")
def _real_div(c: Call) -> Value:
    kind = c[0].dtype
    if kind is None or not kind.is_floating:
        raise UnsupportedOp("it divides whole numbers, into what is not known")
    return c.emit("RealDiv", c[0], c[1])


@mil("cast", "constexpr_cast")
def _cast(c: Call) -> Value:
    """Truths are what is not 0."""
    name = word(c, "dtype") or word(c, "output_dtype")
    kind = _KINDS.get(name)
    if kind is None:
        raise UnsupportedOp(f"it makes '{name[:20]}'")
    if kind is BOOL and c[0].dtype is not BOOL:
        return c.emit("NotEqual", c[0], like(c, 0, c[0]))
    return typed(c, c[0], kind) if c[0].dtype is not kind else c.emit("Identity", c[0])


@mil("select")
def _select(c: Call) -> Value:
    return c.emit("SelectV2", c[0], c[1], c[2], T=c[1].dtype)


def _shifted(c: Call, default: float) -> Value:
    """x + epsilon, where that is not the same."""
    epsilon = number(c, "epsilon", default)
    return c[0] if abs(epsilon) < _NOTHING else c.emit("AddV2", c[0], like(c, epsilon, c[0]))


@mil("log")
def _log(c: Call) -> Value:
    return c.emit("Log", _shifted(c, 1e-45))


@mil("rsqrt")
def _rsqrt(c: Call) -> Value:
    return c.emit("Rsqrt", _shifted(c, 1e-12))


@mil("inverse")
def _inverse(c: Call) -> Value:
    return c.emit("Reciprocal", _shifted(c, 1e-4))


@mil("exp2")
def _exp2(c: Call) -> Value:
    return c.emit("Pow", like(c, 2, c[0]), c[0])


@mil("clip")
def _clip(c: Call) -> Value:
    low, high = number(c, "alpha", -math.inf), number(c, "beta", math.inf)
    if (low, high) == (0, 6):
        return c.emit("Relu6", c[0])
    return c.emit("Minimum", c.emit("Maximum", c[0], like(c, low, c[0])), like(c, high, c[0]))


@mil("threshold")
def _threshold(c: Call) -> Value:
    return c.emit("Maximum", c[0], like(c, number(c, "alpha", 0), c[0]))


@mil("silu")
def _silu(c: Call) -> Value:
    return c.emit("Mul", c[0], c.emit("Sigmoid", c[0]))


@mil("leaky_relu")
def _leaky_relu(c: Call) -> Value:
    return onnx(c, "LeakyRelu", c[0], alpha=number(c, "alpha", 0.01))


@mil("elu")
def _elu(c: Call) -> Value:
    return onnx(c, "Elu", c[0], alpha=number(c, "alpha", 1.0))


@mil("prelu")
def _prelu(c: Call) -> Value:
    """A slope for each channel, which is axis 1."""
    return onnx(c, "PRelu", c[0], along(c, c[1], 1, rank(c)))


@mil("sigmoid_hard")
def _sigmoid_hard(c: Call) -> Value:
    return onnx(c, "HardSigmoid", c[0], alpha=number(c, "alpha", 0.2), beta=number(c, "beta", 0.5))


@mil("thresholded_relu")
def _thresholded_relu(c: Call) -> Value:
    return onnx(c, "ThresholdedRelu", c[0], alpha=number(c, "alpha", 1.0))


@mil("linear_activation")
def _linear_activation(c: Call) -> Value:
    y = c.emit("Mul", c[0], like(c, number(c, "alpha", 1.0), c[0]))
    return c.emit("AddV2", y, like(c, number(c, "beta", 0.0), c[0]))


@mil("scaled_tanh")
def _scaled_tanh(c: Call) -> Value:
    y = c.emit("Tanh", c.emit("Mul", c[0], like(c, number(c, "beta", 1.0), c[0])))
    return c.emit("Mul", y, like(c, number(c, "alpha", 1.0), c[0]))


@mil("gelu")
def _gelu(c: Call) -> Value:
    mode = word(c, "mode", "EXACT")
    if mode == "SIGMOID_APPROXIMATION":
        return c.emit("Mul", c[0], c.emit("Sigmoid", c.emit("Mul", c[0], like(c, 1.702, c[0]))))
    if mode not in ("EXACT", "TANH_APPROXIMATION"):
        raise UnsupportedOp(f"its mode is '{mode[:20]}'")
    return onnx(c, "Gelu", c[0], approximate="none" if mode == "EXACT" else "tanh")


@mil("softmax")
def _softmax(c: Call) -> Value:
    return onnx(c, "Softmax", c[0], axis=int(number(c, "axis", -1)))
