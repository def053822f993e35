"""Activation functions."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, require
from thinflow.lower.tflite.program import Tensor

_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


@lower("Relu", to="tflite")
def relu(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit("RELU", x) if x.dtype is FLOAT else b.emit("MAXIMUM", x, b.scalar(0, x, "zero"))


@lower("Relu6", to="tflite")
def relu6(b: Builder, node: Node, x: Tensor) -> Tensor:
    if x.dtype is FLOAT:
        return b.emit("RELU6", x)
    return b.emit(
        "MINIMUM", b.step("MAXIMUM", x, b.scalar(0, x, "zero"), shape=x.shape), b.scalar(6, x, "six")
    )


@lower("LeakyRelu", to="tflite")
def leaky_relu(b: Builder, node: Node, x: Tensor, *, alpha: float = 0.2) -> Tensor:
    return b.emit("LEAKY_RELU", x, alpha=alpha)


@lower("Elu", to="tflite")
def elu(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit("ELU", x)


@lower("Selu", to="tflite")
def selu(b: Builder, node: Node, x: Tensor) -> Tensor:
    """scale * relu(x) + scale * alpha * elu(min(x, 0))."""
    below = b.step("ELU", b.step("MINIMUM", x, b.scalar(0, x, "zero"), shape=x.shape), shape=x.shape)
    below = b.step("MUL", below, b.scalar(_SELU_SCALE * _SELU_ALPHA, x, "scale_alpha"), shape=x.shape)
    above = b.step("MUL", b.step("RELU", x, shape=x.shape), b.scalar(_SELU_SCALE, x, "scale"), shape=x.shape)
    return b.emit("ADD", above, below)


@lower("Softplus", to="tflite")
def softplus(b: Builder, node: Node, x: Tensor) -> Tensor:
    """relu(x) + log(1 + exp(-|x|)), which overflows nowhere."""
    size = b.step("ABS", x, shape=x.shape)
    decay = b.step("EXP", b.step("NEG", size, shape=x.shape), shape=x.shape)
    rest = b.step("LOG", b.step("ADD", decay, b.scalar(1, x, "one"), shape=x.shape), shape=x.shape)
    return b.emit("ADD", b.step("RELU", x, shape=x.shape), rest)


@lower("Softsign", to="tflite")
def softsign(b: Builder, node: Node, x: Tensor) -> Tensor:
    size = b.step("ABS", x, shape=x.shape)
    return b.emit("DIV", x, b.step("ADD", size, b.scalar(1, x, "one"), shape=x.shape))


@lower("Softmax", to="tflite")
def softmax(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit("SOFTMAX", x, beta=1.0)


@lower("LogSoftmax", to="tflite")
def log_softmax(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit("LOG_SOFTMAX", x)


@lower("L2Loss", to="tflite")
def l2_loss(b: Builder, node: Node, x: Tensor) -> Tensor:
    """Half the sum of squares."""
    require(x.dtype is FLOAT and x.shape is not None, "L2Loss needs a float tensor of known rank")
    squares = b.step("SQUARE", x, shape=x.shape)
    total = b.step("SUM", squares, b.ints(range(len(x.shape or ())), "axes"), shape=(), keep_dims=False)
    return b.emit("MUL", total, b.scalar(0.5, x, "half"))
