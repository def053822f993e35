"""ONNX's activations, as TensorFlow spells them."""

from __future__ import annotations

from thinflow.ir.graph import Value
from thinflow.ir.types import INT64
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.values import along, integers, like, opset, rank, text
from thinflow.lift.rules import Rule, lifts, same
from thinflow.lift.tflite.math import gelu, prelu


@lifts("onnx.Clip")
def _clip(c: Call) -> Value:
    """Bounds are options before version 11, inputs since."""
    y = c[0]
    low, high = c.get("min"), c.get("max")
    if c.has(1) or low is not None:
        y = c.emit("Maximum", y, c[1] if c.has(1) else like(c, low, y))
    if c.has(2) or high is not None:
        y = c.emit("Minimum", y, c[2] if c.has(2) else like(c, high, y))
    return c.emit("Identity", y) if y is c[0] else y


@lifts("onnx.LeakyRelu")
def _leaky(c: Call) -> Value:
    return c.emit("LeakyRelu", c[0], alpha=c.get("alpha", 0.01))


@lifts("onnx.PRelu")
def _prelu(c: Call) -> Value:
    """Before version 7 a vector of slopes goes along the channels; since then it is broadcast."""
    slope = c[1]
    if opset(c) < _BROADCASTS and rank(c, 1) == 1 and rank(c) > 1 and c.sizes(1) != (1,):
        slope = along(c, slope, 1, rank(c))
    return prelu(c, slope)


_BROADCASTS = 7
"""The version of ONNX's op set from which on operands are broadcast as numpy's."""


def _bent(c: Call, scale: float, alpha: float, inner: float) -> Value:
    """scale * (max(x, 0) + alpha * (exp(min(x, 0) / inner) - 1))."""
    zero = like(c, 0, c[0])
    # The minimum first: of large x the exponential would be infinite.
    below = c.emit("RealDiv", c.emit("Minimum", c[0], zero), like(c, inner, c[0]))
    tail = c.emit("Mul", c.emit("Expm1", below), like(c, alpha, c[0]))
    both = c.emit("AddV2", c.emit("Maximum", c[0], zero), tail)
    return c.emit("Mul", both, like(c, scale, c[0]))


@lifts("onnx.Elu")
def _elu(c: Call) -> Value:
    return _bent(c, 1.0, c.get("alpha", 1.0), 1.0)


@lifts("onnx.Selu")
def _selu(c: Call) -> Value:
    # Klambauer et al., 2017; ONNX states the same numbers, rounded to float32.
    return _bent(c, c.get("gamma", 1.0507009873554805), c.get("alpha", 1.6732632423543772), 1.0)


@lifts("onnx.Celu")
def _celu(c: Call) -> Value:
    alpha = c.get("alpha", 1.0)
    return _bent(c, 1.0, alpha, alpha)


def _line(c: Call, slope: float, offset: float) -> Value:
    """slope * x + offset between 0 and 1."""
    y = c.emit("AddV2", c.emit("Mul", c[0], like(c, slope, c[0])), like(c, offset, c[0]))
    return c.emit("Minimum", c.emit("Maximum", y, like(c, 0, c[0])), like(c, 1, c[0]))


@lifts("onnx.HardSwish")
def _hard_swish(c: Call) -> Value:
    return c.emit("Mul", c[0], _line(c, 1 / 6, 0.5))


@lifts("onnx.Mish")
def _mish(c: Call) -> Value:
    return c.emit("Mul", c[0], c.emit("Tanh", c.emit("Softplus", c[0])))


@lifts("onnx.ThresholdedRelu")
def _thresholded(c: Call) -> Value:
    over = c.emit("Greater", c[0], like(c, c.get("alpha", 1.0), c[0]))
    return c.emit("SelectV2", over, c[0], like(c, 0, c[0]), T=c[0].dtype)


@lifts("onnx.Gelu", "onnx.com.microsoft.Gelu")
def _gelu(c: Call) -> Value:
    return gelu(c, text(c, "approximate", "none") == "tanh")


def _softmax(op: str) -> Rule:
    """Before version 13 over all axes from the named one on, together; since then over that one alone."""

    def rule(c: Call) -> Value:
        old = opset(c) < _ONE_AXIS
        axis = c.get("axis", 1 if old else -1)
        count = rank(c)
        axis %= count
        axes = integers(c, tuple(range(axis, count)) if old else (axis,))
        high = c.emit("Max", c[0], axes, keep_dims=True, Tidx=INT64)
        # The same quotient, in which no exponential is above 1: none overflows, and the sum is 1 or more.
        shifted = c.emit("Sub", c[0], high)
        total = c.emit("Sum", c.emit("Exp", shifted), axes, keep_dims=True, Tidx=INT64)
        if op == "LogSoftmax":
            return c.emit("Sub", shifted, c.emit("Log", total))
        return c.emit("RealDiv", c.emit("Exp", shifted), total)

    return rule


_ONE_AXIS = 13


lifts("onnx.Relu")(same("Relu"))
lifts("onnx.HardSigmoid")(lambda c: _line(c, c.get("alpha", 0.2), c.get("beta", 0.5)))
lifts("onnx.Softmax")(_softmax("Softmax"))
lifts("onnx.LogSoftmax")(_softmax("LogSoftmax"))
