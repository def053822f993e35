"""Gradients of element-wise functions and of ops that move elements, which saliency graphs keep.

Named after the function; the operands are the gradient at its output and, depending on the op, its input or
its output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops._numeric import like, pick, quiet, widen
from thinflow.ops._quantized import scalar
from thinflow.ops._shapes import merge, shape_from
from thinflow.ops.activation import _SELU_ALPHA, _SELU_SCALE
from thinflow.ops.fake_quant import nudged_range
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.slicing import _index, _terms
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


# ---- Gradients of ops that move or quantize elements.


def _unpadded(x: TensorSpec, paddings: TensorSpec) -> TensorSpec:
    if x.shape is None:
        return x.with_shape(None)
    ints = paddings.elements
    if ints is None:
        return x.with_shape((None,) * len(x.shape))
    require(len(ints) == 2 * len(x.shape), f"paddings have {len(ints)} values for rank {len(x.shape)}")
    sizes = []
    for n, before, after in zip(x.shape, ints[::2], ints[1::2], strict=True):
        sizes.append(None if n is None or before is None or after is None else n - before - after)
    return x.with_shape(sizes)


@op("MirrorPadGrad")
class MirrorPadGrad(OpDef):
    """dx of MirrorPad: what fell on copies is added to the originals.   dy, paddings [rank,2] -> dx."""

    @staticmethod
    def infer(dy: TensorSpec, paddings: TensorSpec, *, mode: str) -> TensorSpec:
        return _unpadded(dy, paddings)

    @staticmethod
    def kernel(dy: Array, paddings: Array, *, mode: str) -> Array:
        require(paddings.shape == (dy.ndim, 2), f"paddings are {list(paddings.shape)} for rank {dy.ndim}")
        edge = 1 if mode == "REFLECT" else 0
        # Axis by axis: a corner of the margin was copied twice, and folds back twice.
        dx = widen(dy)
        for axis, (before, after) in enumerate(paddings.tolist()):
            size = dx.shape[axis] - before - after
            fits = min(before, after) >= 0 and max(before, after) <= size - edge
            require(fits, f"padding {[before, after]} exceeds the image of an axis of {size}")
            # Padding the places themselves tells for each element of dy which original it was copied from.
            places = np.pad(np.arange(size), (before, after), mode="reflect" if edge else "symmetric")
            folded = np.zeros((size, *np.delete(dx.shape, axis)), dx.dtype)
            np.add.at(folded, places, np.moveaxis(dx, axis, 0))
            dx = np.moveaxis(folded, 0, axis)
        return like(dx, dy)


@op("StridedSliceGrad")
class StridedSliceGrad(OpDef):
    """Zeros of a shape, but dy where the slice is.   shape, begin, end, strides vectors, dy -> y of shape."""

    @staticmethod
    def infer(
        shape: TensorSpec, begin: TensorSpec, end: TensorSpec, strides: TensorSpec, dy: TensorSpec
    ) -> TensorSpec:
        return dy.with_shape(shape_from(shape))

    @staticmethod
    def kernel(
        shape: Array, begin: Array, end: Array, strides: Array, dy: Array, *, begin_mask: int = 0,
        end_mask: int = 0, ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0,
    ) -> Array:  # fmt: skip
        sizes = [int(d) for d in shape]
        require(min(sizes, default=0) >= 0, f"negative size in {sizes}")
        bounds = begin.tolist(), end.tolist(), strides.tolist()
        masks = begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask
        y = np.full(sizes, b"" if dy.dtype.hasobject else 0, dy.dtype)
        index = _index(_terms(*bounds, *masks))
        assert index is not None
        require(y[index].shape == dy.shape, f"the slice is {list(y[index].shape)}, dy {list(dy.shape)}")
        y[index] = dy
        return y


@op("TileGrad")
class TileGrad(OpDef):
    """dx of Tile: the sum of all copies.   dy, multiples [rank] -> dx."""

    @staticmethod
    def infer(dy: TensorSpec, multiples: TensorSpec) -> TensorSpec:
        if dy.shape is None or multiples.elements is None:
            return dy.with_shape(None if dy.shape is None else (None,) * len(dy.shape))
        require(len(multiples.elements) == len(dy.shape), "multiples and dy differ in rank")
        pairs = zip(dy.shape, multiples.elements, strict=True)
        return dy.with_shape([None if n is None or not m else n // m for n, m in pairs])

    @staticmethod
    def kernel(dy: Array, multiples: Array) -> Array:
        counts = [int(m) for m in multiples]
        require(len(counts) == dy.ndim, "multiples and dy differ in rank")
        fits = all(m > 0 and n % m == 0 for n, m in zip(dy.shape, counts, strict=True))
        require(fits, f"{list(dy.shape)} is not tiled {counts} times")
        # Each axis as (copy, place); summing over the copies leaves the places.
        split = [d for n, m in zip(dy.shape, counts, strict=True) for d in (m, n // m)]
        return np.asarray(dy.reshape(split).sum(axis=tuple(range(0, 2 * dy.ndim, 2)), dtype=dy.dtype))


def _shares(dy: Array, x: Array, low: Any, high: Any, bits: int, narrow: bool) -> tuple[Array, ...]:
    """(dy inside the range, dy below it, dy above it)."""
    require(dy.shape == x.shape, f"shapes {list(dy.shape)} and {list(x.shape)} differ")
    floor, ceiling, _ = nudged_range(low, high, bits, narrow)
    nothing = (np.asarray(low) == 0) & (np.asarray(high) == 0)  # nothing to learn from: all passes
    below, above = (x < floor) & ~nothing, (x > ceiling) & ~nothing
    inside = nothing | ((x >= floor) & (x <= ceiling))
    return dy * inside, dy * below, dy * above


@op("FakeQuantWithMinMaxArgsGradient")
class FakeQuantWithMinMaxArgsGradient(OpDef):
    """dx = dy where x is in the range, else 0.   dy, x float of one shape."""

    @staticmethod
    def infer(dy: TensorSpec, x: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(
        dy: Array, x: Array, *, min: float = -6.0, max: float = 6.0, num_bits: int = 8,
        narrow_range: bool = False,
    ) -> Array:  # fmt: skip
        require(min < max, f"min {min} is not below max {max}")
        return _shares(dy, x, np.float32(min), np.float32(max), num_bits, narrow_range)[0]


class _Learned(OpDef):
    """(dx, dmin, dmax)."""

    num_outputs = 3

    @staticmethod
    def infer(dy: TensorSpec, x: TensorSpec, low: TensorSpec, high: TensorSpec) -> tuple[TensorSpec, ...]:
        return x.with_shape(x.shape), low.with_shape(low.shape), high.with_shape(high.shape)


@op("FakeQuantWithMinMaxVarsGradient")
class FakeQuantWithMinMaxVarsGradient(_Learned):
    """(dx, dmin, dmax): dy where x is in the range; the sums of dy below and above it."""

    @staticmethod
    def kernel(
        dy: Array, x: Array, low: Array, high: Array, *, num_bits: int = 8, narrow_range: bool = False
    ) -> tuple[Array, ...]:
        dx, below, above = _shares(dy, x, scalar(low), scalar(high), num_bits, narrow_range)
        return dx, np.asarray(below.sum(dtype=x.dtype)), np.asarray(above.sum(dtype=x.dtype))


@op("FakeQuantWithMinMaxVarsPerChannelGradient")
class FakeQuantWithMinMaxVarsPerChannelGradient(_Learned):
    """As FakeQuantWithMinMaxVarsGradient, a range per channel.   dy and x [...,d], min and max [d]."""

    @staticmethod
    def kernel(
        dy: Array, x: Array, low: Array, high: Array, *, num_bits: int = 8, narrow_range: bool = False
    ) -> tuple[Array, ...]:
        require(x.shape[-1:] == low.shape == high.shape, "the range needs one value per channel")
        dx, below, above = _shares(dy, x, low, high, num_bits, narrow_range)
        others = tuple(range(x.ndim - 1))
        return dx, below.sum(axis=others, dtype=x.dtype), above.sum(axis=others, dtype=x.dtype)


@op("QuantizeAndDequantizeV4Grad")
class QuantizeAndDequantizeV4Grad(OpDef):
    """(dx, 0, 0): dy where x is in the range.   dy, x [...], min and max scalars, or [n] along `axis`.

    TensorFlow lets nothing be learned about the range.
    """

    num_outputs = 3

    @staticmethod
    def infer(dy: TensorSpec, x: TensorSpec, low: TensorSpec, high: TensorSpec) -> tuple[TensorSpec, ...]:
        return x.with_shape(x.shape), low.with_shape(low.shape), high.with_shape(high.shape)

    @staticmethod
    def kernel(dy: Array, x: Array, low: Array, high: Array, *, axis: int = -1) -> tuple[Array, ...]:
        require(dy.shape == x.shape, f"shapes {list(dy.shape)} and {list(x.shape)} differ")
        sizes = [1] * x.ndim
        if axis >= 0:
            require(axis < x.ndim, f"axis {axis} is out of range for rank {x.ndim}")
            require(low.shape == high.shape == (x.shape[axis],), "the range needs one value per place")
            sizes[axis] = -1
        inside = (x >= low.reshape(sizes)) & (x <= high.reshape(sizes))
        return dy * inside, np.zeros_like(low), np.zeros_like(high)
