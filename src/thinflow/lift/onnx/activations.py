"""ONNX's activations, as TensorFlow's own exporters spell them.

Lowering and quantizing know those forms: one op where TensorFlow has one, else the chain its layers write.
"""

from __future__ import annotations

import math

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT64, Shape
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.values import along, integers, like, opset, rank, text, transposed
from thinflow.lift.rules import Rule, lifts, same
from thinflow.lift.tflite.math import gelu, hard_swish, prelu


def _is_real(x: Value) -> bool:
    return x.dtype is None or x.dtype.is_floating


def _only(value: Value | None) -> float | None:
    """The number that a constant of one element is; None for anything else."""
    tensor = None if value is None else value.node.tensor
    if tensor is None or tensor.size != 1:
        return None
    return float(tensor.numpy().reshape(()))


def _is_near(given: float, wanted: float) -> bool:
    """True if a number is one that a file holds as float32, or in fewer bits where its text was cut."""
    return math.isclose(given, wanted, rel_tol=1e-6)


# ---- Clips.


@lifts("onnx.Clip")
def _clip(c: Call) -> Value:
    """Bounds are options before version 11, inputs since; an input of its own may be computed."""
    ends: list[Value | None] = []
    for place, option in ((1, "min"), (2, "max")):
        given = c.get(option)
        ends.append(c[place] if c.has(place) else None if given is None else like(c, given, c[0]))
    named = _clip_by_name(c, ends)
    if named:
        return c.emit(named, c[0])
    y = c[0]
    for op, end in zip(("Maximum", "Minimum"), ends, strict=True):
        y = y if end is None else c.emit(op, y, end)
    return y


def _clip_by_name(c: Call, ends: list[Value | None]) -> str:
    """The op that is this clip and nothing else; "" if there is none."""
    low, high = ends
    # Exporters write the limits of the type for an end that is open.
    if low is None and high is None:
        return "Identity"
    if not _is_real(c[0]) or _only(low) != 0:
        return ""
    if high is None or _is_no_limit(c[0], _only(high)):
        return "Relu"
    return "Relu6" if _only(high) == 6 else ""


def _is_no_limit(x: Value, high: float | None) -> bool:
    """True if no finite value of x's type is above."""
    if high is None or x.dtype is None:
        return False
    return high == math.inf or (x.dtype.numpy().kind == "f" and high >= float(np.finfo(x.dtype.numpy()).max))


@lifts("onnx.ThresholdedRelu")
def _thresholded(c: Call) -> Value:
    over = c.emit("Greater", c[0], like(c, c.get("alpha", 1.0), c[0]))
    return c.emit("SelectV2", over, c[0], like(c, 0, c[0]), T=c[0].dtype)


# ---- Slopes below zero.


@lifts("onnx.LeakyRelu")
def _leaky(c: Call) -> Value:
    return c.emit("LeakyRelu", c[0], alpha=c.get("alpha", 0.01))


@lifts("onnx.PRelu")
def _prelu(c: Call) -> Value:
    """Before version 7 a vector of slopes goes along the channels; since then it is broadcast."""
    slope, alone = c[1], _only(c[1])
    if opset(c) >= _BROADCASTS and not _fits(slope.spec.shape, c[0].spec.shape):
        raise UnsupportedOp(f"its slopes of shape {list(slope.spec.shape or ())} do not fit its input")
    # One slope for all, which makes x no larger; above 1 the op would be the smaller of both.
    if alone is not None and 0 <= alone <= 1 and _is_real(c[0]) and rank(c, 1) <= rank(c):
        return c.emit("LeakyRelu", c[0], alpha=alone)
    if opset(c) < _BROADCASTS and rank(c, 1) == 1 and rank(c) > 1 and c.sizes(1) != (1,):
        slope = along(c, slope, 1, rank(c))
    return prelu(c, slope)


def _fits(small: Shape, large: Shape) -> bool:
    """True if the one may be broadcast to the other."""
    if small is None or large is None:
        return True
    pairs = zip(reversed(small), reversed(large), strict=False)
    return len(small) <= len(large) and all(n in (None, 1, m) or m is None for n, m in pairs)


_BROADCASTS = 7
"""The version of ONNX's op set from which on operands are broadcast as numpy's."""


@lifts("onnx.Elu")
def _elu(c: Call) -> Value:
    """Where alpha is not 1: the op above 0, and alpha times the op below, as Keras has it."""
    alpha = c.get("alpha", 1.0)
    return _stretched(c, c.emit("Elu", c[0]), 1.0, alpha)


def _stretched(c: Call, y: Value, above: float, below: float) -> Value:
    """y times one factor where x is above 0, times another elsewhere."""
    left, right = (y if n == 1 else c.emit("Mul", y, like(c, n, y)) for n in (above, below))
    if above == below:
        return left
    positive = c.emit("Greater", c[0], like(c, 0, c[0]))
    return c.emit("SelectV2", positive, left, right, T=y.dtype)


@lifts("onnx.Selu")
def _selu(c: Call) -> Value:
    # Klambauer et al., 2017; ONNX states the same numbers, rounded to float32.
    gamma, alpha = c.get("gamma", _GAMMA), c.get("alpha", _ALPHA)
    if _is_near(gamma, _GAMMA) and _is_near(alpha, _ALPHA):
        return c.emit("Selu", c[0])
    return _stretched(c, c.emit("Elu", c[0]), gamma, gamma * alpha)


_GAMMA, _ALPHA = 1.0507009873554805, 1.6732632423543772


@lifts("onnx.Celu")
def _celu(c: Call) -> Value:
    """max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1)."""
    alpha = c.get("alpha", 1.0)
    if alpha == 1:
        return c.emit("Elu", c[0])
    # The minimum first, so that what is above 0 is not divided and multiplied again.
    below = c.emit("RealDiv", c.emit("Minimum", c[0], like(c, 0, c[0])), like(c, alpha, c[0]))
    tail = c.emit("Mul", c.emit("Elu", below), like(c, alpha, c[0]))
    return c.emit("AddV2", c.emit("Relu", c[0]), tail)


# ---- Gates.


@lifts("onnx.HardSigmoid")
def _hard_sigmoid(c: Call) -> Value:
    """clip(alpha * x + beta, 0, 1)."""
    alpha, beta = c.get("alpha", 0.2), c.get("beta", 0.5)
    # TensorFlow's form of the one that MobileNetV3 has: times x it is one operator of LiteRT.
    if _is_near(alpha, 1 / 6) and beta == 0.5:
        bent = c.emit("Relu6", c.emit("AddV2", c[0], like(c, 3, c[0])))
        return c.emit("Mul", bent, like(c, 1 / 6, c[0]))
    y = c.emit("AddV2", c.emit("Mul", c[0], like(c, alpha, c[0])), like(c, beta, c[0]))
    return c.emit("Maximum", c.emit("Minimum", y, like(c, 1, c[0])), like(c, 0, c[0]))


@lifts("onnx.HardSwish")
def _hard_swish(c: Call) -> Value:
    return hard_swish(c)


@lifts("onnx.Swish")
def _swish(c: Call) -> Value:
    """x * sigmoid(alpha * x)."""
    alpha = c.get("alpha", 1.0)
    inner = c[0] if alpha == 1 else c.emit("Mul", c[0], like(c, alpha, c[0]))
    return c.emit("Mul", c[0], c.emit("Sigmoid", inner))


@lifts("onnx.Mish")
def _mish(c: Call) -> Value:
    return c.emit("Mul", c[0], c.emit("Tanh", c.emit("Softplus", c[0])))


@lifts("onnx.Gelu", "onnx.com.microsoft.Gelu")
def _gelu(c: Call) -> Value:
    how = text(c, "approximate", "none")
    if how not in ("none", "tanh"):
        raise UnsupportedOp(f"its option 'approximate' is '{how}', which is not known here")
    return gelu(c, c[0], how == "tanh")


# ---- Formulas of versions before 10, and of converters of that time.


@lifts("onnx.Affine")
def _affine(c: Call) -> Value:
    """alpha * x + beta."""
    y = c.emit("Mul", c[0], like(c, c.get("alpha", 1.0), c[0]))
    return c.emit("AddV2", y, like(c, c.get("beta", 0.0), y))


@lifts("onnx.Scale")
def _scale(c: Call) -> Value:
    return c.emit("Mul", c[0], like(c, c.get("scale", 1.0), c[0]))


@lifts("onnx.ImageScaler")
def _image_scaler(c: Call) -> Value:
    """scale * x, and a number for each channel."""
    bias = np.array(c.get("bias", ()), np.float32)
    y = c.emit("Mul", c[0], like(c, c.get("scale", 1.0), c[0]))
    return c.emit("AddV2", y, like(c, bias.reshape(-1, 1, 1), y)) if bias.size else y


@lifts("onnx.ScaledTanh")
def _scaled_tanh(c: Call) -> Value:
    """alpha * tanh(beta * x)."""
    y = c.emit("Tanh", c.emit("Mul", c[0], like(c, _stated(c, "beta"), c[0])))
    return c.emit("Mul", y, like(c, _stated(c, "alpha"), y))


@lifts("onnx.ParametricSoftplus")
def _parametric_softplus(c: Call) -> Value:
    """alpha * log(exp(beta * x) + 1)."""
    y = c.emit("Softplus", c.emit("Mul", c[0], like(c, _stated(c, "beta"), c[0])))
    return c.emit("Mul", y, like(c, _stated(c, "alpha"), y))


def _stated(c: Call, option: str) -> float:
    """An option that has no usual value.

    Raises:
        UnsupportedOp: it is not there.
    """
    given = c.get(option)
    if given is None:
        raise UnsupportedOp(f"its option '{option}' is missing")
    return float(given)


# ---- Softmax.


def _softmax(op: str) -> Rule:
    """Before version 13 over all axes from the named one on, together; since then over that one alone."""

    def rule(c: Call) -> Value:
        count, old = rank(c), opset(c) < _ONE_AXIS
        axis = c.get("axis", 1 if old else -1)
        if not -count <= axis < count + old:
            raise UnsupportedOp(f"its axis is {axis} where there are {count}")
        # Of a flattened tensor, the axis behind the last is an empty product: every element for itself.
        axis = axis + count if axis < 0 else axis
        if axis == count - 1:
            return c.emit(op, c[0])
        if old:
            return _flattened(c, op, axis)
        # TensorFlow has the last axis only. The others keep their order, as for images in NHWC.
        order = [*(n for n in range(count) if n != axis), axis]
        y = c.emit(op, transposed(c, c[0], order))
        return transposed(c, y, [order.index(n) for n in range(count)])

    return rule


_ONE_AXIS = 13


def _flattened(c: Call, op: str, axis: int) -> Value:
    """An op along the last axis over all axes from one on, as if they were one."""
    shape = c[0].spec.shape or ()
    sizes = [n for n in shape[axis:] if n is not None]
    if len(sizes) < len(shape) - axis:
        return _spelled(c, op, integers(c, tuple(range(axis, len(shape)))))
    rows = c.emit("Reshape", c[0], integers(c, (-1, math.prod(sizes))), Tshape=INT64)
    y = c.emit(op, rows)
    if shape.count(None) > 1:
        return c.emit("Reshape", y, c.emit("Shape", c[0], out_type=INT64), Tshape=INT64)
    return c.emit("Reshape", y, integers(c, [-1 if n is None else n for n in shape]), Tshape=INT64)


def _spelled(c: Call, op: str, axes: Value) -> Value:
    """The same in arithmetic, over several axes whose sizes are open."""
    high = c.emit("Max", c[0], axes, keep_dims=True, Tidx=INT64)
    # The same quotient, in which no exponential is above 1: none overflows, and the sum is 1 or more.
    shifted = c.emit("Sub", c[0], high)
    total = c.emit("Sum", c.emit("Exp", shifted), axes, keep_dims=True, Tidx=INT64)
    if op == "LogSoftmax":
        return c.emit("Sub", shifted, c.emit("Log", total))
    return c.emit("RealDiv", c.emit("Exp", shifted), total)


lifts("onnx.Relu")(same("Relu"))
lifts("onnx.Softmax")(_softmax("Softmax"))
lifts("onnx.LogSoftmax")(_softmax("LogSoftmax"))
