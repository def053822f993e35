"""Convolutions fused with what stands before or after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops._shapes import Dim, rank_of
from thinflow.ops._windows import widened
from thinflow.ops.conv import Conv2D, DepthwiseConv2dNative
from thinflow.ops.linear import fused_activation
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.ops.resize import resize_bilinear
from thinflow.ops.traits import Trait
from thinflow.typing import Array


def _padded_dims(dims: Sequence[Dim], paddings: TensorSpec) -> tuple[Dim, ...]:
    """Sizes after adding the [4,2] paddings."""
    known = paddings.elements
    if known is None:
        return (None,) * len(dims)
    require(len(known) == 2 * len(dims), f"paddings have {len(known)} values, {2 * len(dims)} are needed")
    sides = zip(dims, known[::2], known[1::2], strict=True)
    return tuple(None if d is None or b is None or a is None else d + b + a for d, b, a in sides)


def _mirror(x: Array, paddings: Array, mode: str) -> Array:
    """x with each side mirrored outwards; SYMMETRIC repeats the edge, REFLECT does not."""
    require(paddings.shape == (4, 2), f"paddings have shape {list(paddings.shape)}, [4,2] is needed")
    require(mode in {"REFLECT", "SYMMETRIC"}, f"mode {mode} is not known")
    pairs = [(int(b), int(a)) for b, a in paddings]
    for size, pair in zip(x.shape, pairs, strict=True):
        # REFLECT leaves the edge out, so it has one element less to mirror.
        room = size - (mode == "REFLECT")
        require(
            min(pair) >= 0 and max(pair) <= max(room, 0),
            f"padding {pair} does not fit a mirrored size of {size}",
        )
    return np.pad(x, pairs, mode="reflect" if mode == "REFLECT" else "symmetric")


@op("FusedPadConv2D")
class FusedPadConv2D(OpDef):
    """Conv2D(MirrorPad(x)).   x [n,h,w,c], paddings [4,2], filter [kh,kw,c,m] -> y [n,oh,ow,m]."""

    traits = Trait.FUSED_CONV

    @staticmethod
    def infer(
        x: TensorSpec, paddings: TensorSpec, w: TensorSpec, *, strides: Sequence[int], padding: str
    ) -> TensorSpec:
        padded = x.with_shape(_padded_dims(rank_of(x, 4, "x"), paddings))
        return Conv2D.infer(padded, w, strides=strides, padding=padding)

    @staticmethod
    def kernel(
        x: Array, paddings: Array, w: Array, *, mode: str, strides: Sequence[int], padding: str
    ) -> Array:
        return Conv2D.kernel(_mirror(x, paddings, mode), w, strides=strides, padding=padding)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, paddings: TensorSpec, w: TensorSpec) -> Cost:
        return Conv2D.cost(y, x, w)


@op("FusedResizeAndPadConv2D")
class FusedResizeAndPadConv2D(OpDef):
    """Conv2D(MirrorPad(ResizeBilinear(x))).

    x [n,h,w,c], size [2], paddings [4,2], filter [kh,kw,c,m] -> y [n,oh,ow,m].
    """

    traits = Trait.FUSED_CONV

    @staticmethod
    def infer(
        x: TensorSpec,
        size: TensorSpec,
        paddings: TensorSpec,
        w: TensorSpec,
        *,
        strides: Sequence[int],
        padding: str,
    ) -> TensorSpec:
        n, _, _, c = rank_of(x, 4, "x")
        sides = (None, None) if size.elements is None else size.elements
        padded = x.with_shape(_padded_dims((n, *sides, c), paddings))
        return Conv2D.infer(padded, w, strides=strides, padding=padding)

    @staticmethod
    def kernel(
        x: Array,
        size: Array,
        paddings: Array,
        w: Array,
        *,
        mode: str,
        strides: Sequence[int],
        padding: str,
        resize_align_corners: bool = False,
    ) -> Array:
        height, width = (int(d) for d in size)
        require(min(height, width) > 0, f"output size {height} x {width} is not positive")
        resized = resize_bilinear(x, height, width, resize_align_corners, False).astype(x.dtype, copy=False)
        return Conv2D.kernel(_mirror(resized, paddings, mode), w, strides=strides, padding=padding)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, size: TensorSpec, paddings: TensorSpec, w: TensorSpec) -> Cost:
        return Conv2D.cost(y, x, w)


def _finish(
    y: Array, args: Sequence[Array], fused_ops: Sequence[str], epsilon: float, alpha: float, axis: int
) -> Array:
    """Apply what TensorFlow's remapper fused behind a convolution, in order."""
    # All steps in float32 and one rounding at the end, as the fused kernel's output stage.
    dtype, left = y.dtype, list(args)
    y = widened(y)
    shape = [1] * y.ndim
    shape[axis] = -1
    # Each op takes its operands from the front of the list; those without operands take none.
    with np.errstate(over="ignore", invalid="ignore"):
        for name in fused_ops:
            if name == "BiasAdd":
                y = y + widened(left.pop(0)).reshape(shape)
            elif name == "FusedBatchNorm":
                scale, offset, mean, variance = (widened(left.pop(0)).reshape(shape) for _ in range(4))
                y = (y - mean) * (scale / np.sqrt(variance + np.asarray(epsilon, variance.dtype))) + offset
            elif name == "Add":
                y = y + widened(left.pop(0))
            else:
                y = fused_activation(name, y, alpha)
    return y.astype(dtype, copy=False)


@op("_FusedConv2D")
class FusedConv2D(OpDef):
    """Conv2D followed by fused_ops (BiasAdd, Relu...), which use up the other inputs in order."""

    plain: ClassVar[type[Conv2D | DepthwiseConv2dNative]] = Conv2D

    @classmethod
    def infer(
        cls,
        x: TensorSpec,
        w: TensorSpec,
        *args: TensorSpec,
        strides: Sequence[int],
        padding: str,
        explicit_paddings: Sequence[int] = (),
        data_format: str = "NHWC",
        dilations: Sequence[int] = (1, 1, 1, 1),
    ) -> TensorSpec:
        return cls.plain.infer(
            x,
            w,
            strides=strides,
            padding=padding,
            explicit_paddings=explicit_paddings,
            data_format=data_format,
            dilations=dilations,
        )

    @classmethod
    def kernel(
        cls,
        x: Array,
        w: Array,
        *args: Array,
        strides: Sequence[int],
        padding: str,
        explicit_paddings: Sequence[int] = (),
        data_format: str = "NHWC",
        dilations: Sequence[int] = (1, 1, 1, 1),
        fused_ops: Sequence[str] = (),
        epsilon: float = 1e-4,
        leakyrelu_alpha: float = 0.2,
    ) -> Array:
        y = cls.plain.kernel(
            x,
            w,
            strides=strides,
            padding=padding,
            explicit_paddings=explicit_paddings,
            data_format=data_format,
            dilations=dilations,
        )
        return _finish(y, args, fused_ops, epsilon, leakyrelu_alpha, 1 if data_format == "NCHW" else 3)

    @classmethod
    def cost(
        cls, y: TensorSpec, x: TensorSpec, w: TensorSpec, *args: TensorSpec, fused_ops: Sequence[str] = ()
    ) -> Cost:
        return cls.plain.cost(y, x, w) + Cost(flops=len(fused_ops) * (y.size or 0))


@op("_FusedDepthwiseConv2dNative")
class FusedDepthwiseConv2dNative(FusedConv2D):
    """DepthwiseConv2dNative followed by fused_ops, as in _FusedConv2D."""

    plain = DepthwiseConv2dNative
