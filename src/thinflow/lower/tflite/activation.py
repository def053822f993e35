"""Activation functions."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.program import Tensor

_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


@lower("Relu", to="tflite")
def relu(b: Builder, node: Node, x: Tensor) -> Tensor:
    # LiteRT's RELU has float and quantized kernels: an int32 would be refused.
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


@lower("Softmax", to="tflite")
def softmax(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit("SOFTMAX", x, beta=1.0)
