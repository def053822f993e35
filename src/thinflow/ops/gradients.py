"""Gradients of element-wise functions, which saliency and adversarial graphs keep.

Named after the function; the operands are the gradient at its output and, depending on the op, its input or
its output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops._numeric import like, pick, quiet, widen
from thinflow.ops._shapes import merge
from thinflow.ops.activation import _SELU_ALPHA, _SELU_SCALE
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array


class _Gradient(OpDef):
    """y has the shape and type of both inputs."""

    @staticmethod
    def infer(a: TensorSpec, b: TensorSpec) -> TensorSpec:
        return TensorSpec(pick(a, b), merge(a.shape, b.shape))


def _gradient(function: Any) -> Any:
    """A kernel of two inputs of one shape; narrow floats are computed in float32."""

    @quiet
    def kernel(a: Array, b: Array) -> Array:
        require(a.shape == b.shape, f"shapes {list(a.shape)} and {list(b.shape)} differ")
        return like(function(widen(a), widen(b)), a)

    return kernel


@op("ReluGrad")
class ReluGrad(_Gradient):
    """y = dy where x > 0, else 0.   dy, x (input or output of Relu) of one shape."""

    # 0 at 0, so that Relu's output can stand in for its input. A product, as in TensorFlow: infinite dy gives
    # NaN.
    kernel = staticmethod(_gradient(lambda dy, x: dy * (x > 0)))


@op("Relu6Grad")
class Relu6Grad(_Gradient):
    """y = dy where 0 < x < 6, else 0.   dy, x of one shape."""

    kernel = staticmethod(_gradient(lambda dy, x: dy * ((x > 0) & (x < 6))))


@op("LeakyReluGrad")
class LeakyReluGrad(_Gradient):
    """y = dy where x > 0, else alpha dy.   dy, x of one shape."""

    @staticmethod
    @quiet
    def kernel(dy: Array, x: Array, *, alpha: float = 0.2) -> Array:
        require(dy.shape == x.shape, f"shapes {list(dy.shape)} and {list(x.shape)} differ")
        wide = widen(dy)
        return like(np.where(widen(x) > 0, wide, wide * np.float32(alpha)), dy)


@op("EluGrad")
class EluGrad(_Gradient):
    """y = dy (out + 1) where the output of Elu is below 0, else dy.   dy, out of one shape."""

    kernel = staticmethod(_gradient(lambda dy, out: np.where(out < 0, (out + 1) * dy, dy)))


def _selu(dy: Array, out: Array) -> Any:
    scale, scaled_alpha = dy.dtype.type(_SELU_SCALE), dy.dtype.type(_SELU_SCALE * _SELU_ALPHA)
    # Below 0 out = scale alpha (e^x - 1), so its slope scale alpha e^x is out + scale alpha: x is not needed.
    return np.where(out < 0, dy * (out + scaled_alpha), dy * scale)


@op("SeluGrad")
class SeluGrad(_Gradient):
    """y = the gradient of Selu from its output.   dy, out of one shape."""

    kernel = staticmethod(_gradient(_selu))


@op("SoftplusGrad")
class SoftplusGrad(_Gradient):
    """y = dy / (1 + e^-x).   dy, x of one shape."""

    kernel = staticmethod(_gradient(lambda dy, x: dy / (np.exp(-x) + 1)))


@op("SoftsignGrad")
class SoftsignGrad(_Gradient):
    """y = dy / (1 + |x|)^2.   dy, x of one shape."""

    kernel = staticmethod(_gradient(lambda dy, x: dy / np.square(1 + np.abs(x))))


@op("SigmoidGrad")
class SigmoidGrad(_Gradient):
    """y = dy out (1 - out), of Sigmoid's output.   out, dy of one shape."""

    kernel = staticmethod(_gradient(lambda out, dy: dy * out * (1 - out)))


@op("TanhGrad")
class TanhGrad(_Gradient):
    """y = dy (1 - out^2), of Tanh's output.   out, dy of one shape."""

    kernel = staticmethod(_gradient(lambda out, dy: dy * (1 - out * out)))


@op("SqrtGrad")
class SqrtGrad(_Gradient):
    """y = dy / 2 out, of Sqrt's output.   out, dy of one shape."""

    # Gradients of complex functions take the conjugate of the slope.
    kernel = staticmethod(_gradient(lambda out, dy: dy * out.dtype.type(0.5) / np.conj(out)))


@op("RsqrtGrad")
class RsqrtGrad(_Gradient):
    """y = -dy out^3 / 2, of Rsqrt's output.   out, dy of one shape."""

    kernel = staticmethod(_gradient(lambda out, dy: out.dtype.type(-0.5) * (dy * np.conj(out**3))))


@op("ReciprocalGrad", "InvGrad")
class ReciprocalGrad(_Gradient):
    """y = -dy out^2, of Reciprocal's output.   out, dy of one shape."""

    kernel = staticmethod(_gradient(lambda out, dy: np.conj(out) * np.conj(out) * -dy))


@op("BiasAddGrad")
class BiasAddGrad(OpDef):
    """y = the sum of dy over all axes but that of the channels.   dy [...,c] (NCHW: [n,c,...]) -> y [c]."""

    @staticmethod
    def infer(dy: TensorSpec, *, data_format: str = "NHWC") -> TensorSpec:
        if dy.shape is None:
            return dy.with_shape((None,))
        require(len(dy.shape) >= 2, "dy must have rank 2 or more")
        return dy.with_shape((dy.shape[_channel(len(dy.shape), data_format)],))

    @staticmethod
    def kernel(dy: Array, *, data_format: str = "NHWC") -> Array:
        axis = _channel(dy.ndim, data_format)
        others = tuple(a for a in range(dy.ndim) if a != axis)
        wide = widen(dy)
        return like(wide.sum(axis=others, dtype=wide.dtype), dy)


def _channel(rank: int, data_format: str) -> int:
    return 1 if data_format == "NCHW" else rank - 1


@op("BroadcastGradientArgs")
class BroadcastGradientArgs(OpDef):
    """(r0, r1): the axes to sum the gradient over for each of two shapes that broadcast.   Vectors."""

    num_outputs = 2

    @staticmethod
    def infer(s0: TensorSpec, s1: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        unknown = TensorSpec(pick(s0, s1), (None,))
        if s0.ints is None or s1.ints is None:
            return unknown, unknown
        return tuple(  # type: ignore[return-value]
            TensorSpec(unknown.dtype, (len(axes),), tuple(axes)) for axes in _summed_axes(s0.ints, s1.ints)
        )

    @staticmethod
    def kernel(s0: Array, s1: Array) -> tuple[Array, Array]:
        first, second = _summed_axes(s0.tolist(), s1.tolist())
        return np.array(first, s0.dtype), np.array(second, s0.dtype)


def _summed_axes(s0: Sequence[int], s1: Sequence[int]) -> tuple[list[int], list[int]]:
    # Equal shapes need no sums at all, not even over axes of 1; TensorFlow returns nothing for them.
    if list(s0) == list(s1):
        return [], []
    rank = max(len(s0), len(s1))
    a, b = ([1] * (rank - len(s)) + list(s) for s in (s0, s1))
    for x, y in zip(a, b, strict=True):
        require(x == y or 1 in (x, y), f"shapes {list(s0)} and {list(s1)} do not broadcast")
    # An axis of 1 in both is summed in both; it changes nothing.
    return ([i for i in range(rank) if a[i] == 1], [i for i in range(rank) if b[i] == 1])
