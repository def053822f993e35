"""Activations that are layers, with parameters of their own."""

from __future__ import annotations

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.keras import activations
from thinflow.keras.call import Call
from thinflow.keras.registry import Result, layer


@layer("ReLU", masks="pass")
def relu(c: Call) -> Result:
    limit = None if c.get("max_value") is None else c.number("max_value")
    return activations.relu(c, c[0], _optional(c, "negative_slope"), limit, _optional(c, "threshold"))


def _optional(c: Call, option: str, default: float = 0.0) -> float:
    return default if c.get(option) is None else c.number(option)


@layer("LeakyReLU", masks="pass")
def leaky_relu(c: Call) -> Result:
    """The slope was called alpha before Keras 3."""
    slope = "negative_slope" if "negative_slope" in c.layer.options else "alpha"
    return c.emit("LeakyRelu", c[0], alpha=_optional(c, slope, 0.3))


@layer("PReLU", weights="alpha", masks="pass")
def prelu(c: Call) -> Result:
    """relu(x) - alpha * relu(-x).   alpha: the shape of x without the batch, 1 along shared axes."""
    c.read.add("shared_axes")
    alpha = c.array("alpha")
    if alpha.ndim != c.rank(c[0]) - 1:
        raise UnsupportedOp(f"its slopes have {alpha.ndim} axes, and its input {c.rank(c[0])}", c.where)
    positive = c.emit("Relu", c[0])
    negative = c.emit("Relu", c.emit("Neg", c[0]))
    # As Keras does it: the negated slopes times relu(-x).
    return c.emit("AddV2", positive, c.emit("Mul", negative, c.const(-alpha, "Neg")))


@layer("ELU", masks="pass")
def elu(c: Call) -> Result:
    return activations.elu(c, c[0], _optional(c, "alpha", 1.0))


@layer("ThresholdedReLU", masks="pass")
def thresholded_relu(c: Call) -> Result:
    """x where it is larger than theta, else 0."""
    is_above = c.emit("Greater", c[0], c.number("theta", 1.0))
    return c.emit("Mul", c[0], c.cast(is_above, c.type_of(c[0])))


@layer("Softmax", masks="pass")
def softmax(c: Call) -> Result:
    x = c[0]
    mask = c.argument("mask", 1)
    if isinstance(mask, Value):
        x = activations.hidden(c, x, mask)
    axes = c.ints("axis", default=-1)
    if len(axes) == 1:
        return activations.softmax(c, x, axes[0])
    top = c.reduce("Max", x, axes, True)
    powers = c.emit("Exp", c.emit("Sub", x, top))
    return c.emit("RealDiv", powers, c.reduce("Sum", powers, axes, True))
