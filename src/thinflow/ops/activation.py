"""Activation functions, softmax, and the losses built on them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops._numeric import like, pick, quiet, unary, widen
from thinflow.ops._shapes import broadcast, merge
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.ops.unary import Unary
from thinflow.typing import Array

# G. Klambauer et al., "Self-normalizing neural networks", 2017: with these two, mean 0 and variance 1 are a
# fixed point of the layer.
_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_ALPHA = 1.6732632423543772848170429916717


@op("Relu")
class Relu(Unary):
    """y = max(x, 0).   Numbers; NaN stays."""

    traits = Trait.NOT_NEGATIVE | Trait.RECTIFIER
    kernel = staticmethod(unary(lambda x: np.maximum(x, x.dtype.type(0))))


@op("Relu6")
class Relu6(Unary):
    """y = min(max(x, 0), 6).   Numbers; NaN stays."""

    traits = Trait.NOT_NEGATIVE | Trait.RECTIFIER
    kernel = staticmethod(unary(lambda x: np.minimum(np.maximum(x, x.dtype.type(0)), x.dtype.type(6))))


@op("LeakyRelu")
class LeakyRelu(Unary):
    """y = x if x > 0 else alpha x.   Floats."""

    @staticmethod
    @quiet
    def kernel(x: Array, *, alpha: float = 0.2) -> Array:
        # The attribute is a float32 in the file, whatever the type of x.
        wide = widen(x)
        return like(np.where(wide > 0, wide, wide * wide.dtype.type(np.float32(alpha))), x)


def _elu(x: Array) -> Any:
    return np.where(x < 0, np.expm1(np.minimum(x, 0)), x)


@op("Elu")
class Elu(Unary):
    """y = x if x > 0 else e^x - 1.   Floats."""

    kernel = staticmethod(unary(_elu))


@op("Selu")
class Selu(Unary):
    """y = scale * (x if x > 0 else alpha (e^x - 1)), scale 1.0507, alpha 1.6733.   Floats."""

    @staticmethod
    def compute(x: Array) -> Any:
        # minimum keeps expm1 from overflowing where the other branch is taken.
        scale, scaled_alpha = x.dtype.type(_SELU_SCALE), x.dtype.type(_SELU_SCALE * _SELU_ALPHA)
        return np.where(x < 0, scaled_alpha * np.expm1(np.minimum(x, 0)), scale * x)

    kernel = staticmethod(unary(compute))


@op("Softplus")
class Softplus(Unary):
    """y = log(1 + e^x).   Floats."""

    traits = Trait.NOT_NEGATIVE

    # log(e^x + e^0) without overflow.
    kernel = staticmethod(unary(lambda x: np.logaddexp(x, x.dtype.type(0))))


@op("Softsign")
class Softsign(Unary):
    """y = x / (1 + |x|).   Floats."""

    kernel = staticmethod(unary(lambda x: x / (1 + np.abs(x))))


# ---- Softmax over the last axis


def _log_softmax(x: Array) -> Array:
    """x - log(sum(exp(x))) over the last axis, which may be empty."""
    if x.size == 0:
        return x
    # Softmax does not change with a shift, and with the largest at 0 no power overflows.
    shifted = x - x.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def _softmax(x: Array) -> Array:
    if x.size == 0:
        return x
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


class _OverLastAxis(OpDef):
    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        require(x.shape is None or len(x.shape) > 0, "logits must have rank 1 or more")
        return x.with_shape(x.shape)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec) -> Cost:
        return Cost(flops=5 * (y.size or 0))  # maximum, difference, exponential, sum, quotient


@op("Softmax")
class Softmax(_OverLastAxis):
    """y = e^x / sum of e^x over the last axis.   x [..., n] -> y [..., n], floats."""

    traits = Trait.SOFTMAX | Trait.T_OF_FIRST_INPUT | Trait.NOT_NEGATIVE
    kernel = staticmethod(unary(_softmax))


@op("LogSoftmax")
class LogSoftmax(_OverLastAxis):
    """y = x - log(sum of e^x over the last axis).   x [..., n] -> y [..., n], floats."""

    traits = Trait.SOFTMAX | Trait.T_OF_FIRST_INPUT
    kernel = staticmethod(unary(_log_softmax))


# ---- Losses


@op("L2Loss")
class L2Loss(OpDef):
    """y = sum(x^2) / 2, a scalar.   Floats."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return x.with_shape(())

    @staticmethod
    @quiet
    def kernel(x: Array) -> Array:
        return like(np.sum(np.square(widen(x))) / 2, x)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec) -> Cost:
        return Cost(flops=2 * (x.size or 0))


@op("SoftmaxCrossEntropyWithLogits")
class SoftmaxCrossEntropyWithLogits(OpDef):
    """loss = -sum(labels * log softmax(x)) [n]; backprop = softmax(x) - labels [n,c].

    x, labels [n,c], they broadcast.
    """

    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, labels: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        shape = broadcast(x.shape, labels.shape)
        require(shape is None or len(shape) == 2, "logits and labels must broadcast to rank 2")
        rows, classes = (None, None) if shape is None else shape
        element = pick(x, labels)
        return TensorSpec(element, (rows,)), TensorSpec(element, (rows, classes))

    @staticmethod
    @quiet
    def kernel(x: Array, labels: Array) -> tuple[Array, Array]:
        # One of the two may be [1, c] or [n, 1].
        logits, target = np.broadcast_arrays(widen(x), widen(labels))
        # A label of 0 takes no part, even where its class is infinitely unlikely.
        terms = np.where(target == 0, 0, target * _log_softmax(logits))
        return like(-terms.sum(axis=-1), x), like(_softmax(logits) - target, x)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, labels: TensorSpec) -> Cost:
        return Cost(flops=8 * (x.size or 0))


@op("SparseSoftmaxCrossEntropyWithLogits")
class SparseSoftmaxCrossEntropyWithLogits(OpDef):
    """As SoftmaxCrossEntropyWithLogits with labels [n] of class numbers; one outside 0..c-1 gives NaN."""

    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, labels: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        require(x.shape is None or len(x.shape) == 2, "logits must have rank 2")
        rows, classes = (None, None) if x.shape is None else x.shape
        rows = (merge((rows,), labels.shape) or (None,))[0]
        return x.with_shape((rows,)), x.with_shape((rows, classes))

    @staticmethod
    @quiet
    def kernel(x: Array, labels: Array) -> tuple[Array, Array]:
        logits = widen(x)
        inside = (labels >= 0) & (labels < logits.shape[1])
        rows, columns = np.arange(len(labels)), np.where(inside, labels, 0)
        loss = np.where(inside, -_log_softmax(logits)[rows, columns], math.nan)
        backprop = np.array(_softmax(logits))
        backprop[rows, columns] -= 1
        # NaN instead of an error, for loss and gradient alike: so the bad row is seen, and only that.
        backprop[~inside] = math.nan
        return like(loss, x), like(backprop, x)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, labels: TensorSpec) -> Cost:
        return Cost(flops=6 * (x.size or 0))
