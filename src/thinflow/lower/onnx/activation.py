"""Activation functions."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.lower.onnx.builder import Builder
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor

# From Klambauer et al., Self-Normalizing Neural Networks (2017). ONNX's defaults are these rounded to
# float32.
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


@lower("Relu", to="onnx")
def relu(b: Builder, node: Node, x: Tensor) -> Tensor:
    # ONNX's Relu takes integers only since opset 14.
    return b.emit("Relu", x) if x.dtype.is_floating else b.emit("Max", x, b.scalar(0, x, "zero"))


@lower("Relu6", to="onnx")
def relu6(b: Builder, node: Node, x: Tensor) -> Tensor:
    return clipped(b, x, 0, 6)


def clipped(b: Builder, x: Tensor, low: float, high: float) -> Tensor:
    """The node's output: x within fixed limits."""
    return b.emit("Clip", x, b.scalar(low, x, "low"), b.scalar(high, x, "high"), like=x)


@lower("LeakyRelu", to="onnx")
def leaky_relu(b: Builder, node: Node, x: Tensor, *, alpha: float = 0.2) -> Tensor:
    return b.emit("LeakyRelu", x, alpha=float(alpha))


@lower("Selu", to="onnx")
def selu(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit("Selu", x, alpha=_SELU_ALPHA, gamma=_SELU_SCALE)


@lower("Softmax", "LogSoftmax", to="onnx")
def softmax(b: Builder, node: Node, x: Tensor) -> Tensor:
    # TensorFlow's runs along the last axis always; ONNX's default was axis 1 before opset 13.
    return b.emit(node.op, x, axis=-1)
