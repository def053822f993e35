"""Discrete Fourier transforms over the last one, two or three axes."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from thinflow.ir.types import FLOAT, DType, Shape, TensorSpec, dtype
from thinflow.ops._numeric import quiet
from thinflow.ops._shapes import known_list
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.typing import Array

_COMPLEX64 = dtype("complex64")


class _Fourier(OpDef):
    """Base of the transforms: over how many axes they go, and what they cost."""

    rank: ClassVar[int] = 1

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        # The usual count for a fast transform: 5 n log2 n per n points, over all of them.
        size = max(y.size or 0, xs[0].size or 0)
        return Cost(flops=5 * size * max(math.ceil(math.log2(max(size, 2))), 1))


def _same(x: TensorSpec, rank: int) -> TensorSpec:
    require(x.shape is None or len(x.shape) >= rank, f"x is {x}, rank {rank} or more is needed")
    return x.with_shape(x.shape)


def _resized(shape: Shape, fft_length: TensorSpec, rank: int, halved: bool) -> Shape:
    if shape is None:
        return None
    require(len(shape) >= rank, f"x has rank {len(shape)}, {rank} or more is needed")
    lengths = list(known_list(fft_length) or (None,) * rank)
    require(len(lengths) == rank, f"{len(lengths)} lengths for {rank} axes")
    if halved and lengths[-1] is not None:
        # A real signal's spectrum is symmetric: half of it and the middle say all.
        lengths[-1] = lengths[-1] // 2 + 1 if lengths[-1] else 0
    return (*shape[: len(shape) - rank], *lengths)


def _axes(x: Array, rank: int) -> tuple[int, ...]:
    require(x.ndim >= rank, f"x has rank {x.ndim}, {rank} or more is needed")
    return tuple(range(-rank, 0))


@quiet
def _forward(x: Array, rank: int) -> Array:
    # numpy before 2 transforms everything in double.
    return np.fft.fftn(x, axes=_axes(x, rank)).astype(x.dtype, copy=False) if x.size else x


@quiet
def _backward(x: Array, rank: int) -> Array:
    return np.fft.ifftn(x, axes=_axes(x, rank)).astype(x.dtype, copy=False) if x.size else x


def _lengths(fft_length: Array, rank: int) -> tuple[int, ...]:
    require(fft_length.shape == (rank,), f"fft_length has shape {list(fft_length.shape)}, [{rank}] is needed")
    require(bool((fft_length >= 0).all()), f"negative length in {fft_length.tolist()}")
    return tuple(int(n) for n in fft_length)


def _require_room(x: Array, lengths: tuple[int, ...]) -> None:
    sizes = x.shape[-len(lengths) :]
    fits = all(size >= n for size, n in zip(sizes, lengths, strict=True))
    require(fits, f"axes {list(sizes)} are shorter than the {list(lengths)} places that fft_length needs")


@quiet
def _real_forward(x: Array, fft_length: Array, rank: int, result: DType) -> Array:
    """x cut to fft_length, transformed; the last axis keeps n // 2 + 1 places."""
    axes, lengths = _axes(x, rank), _lengths(fft_length, rank)
    # numpy refuses a length of 0.
    last = lengths[-1] // 2 + 1 if lengths[-1] else 0
    if 0 in lengths or not x.size:
        return np.zeros((*x.shape[:-rank], *lengths[:-1], last), result.numpy())
    # numpy would fill up with zeros; TensorFlow refuses.
    _require_room(x, lengths)
    return np.fft.rfftn(x, s=lengths, axes=axes).astype(result.numpy(), copy=False)


@quiet
def _real_backward(x: Array, fft_length: Array, rank: int, result: DType) -> Array:
    axes, lengths = _axes(x, rank), _lengths(fft_length, rank)
    if 0 in lengths or not x.size:
        return np.zeros((*x.shape[:-rank], *lengths), result.numpy())
    _require_room(x, (*lengths[:-1], lengths[-1] // 2 + 1))
    return np.fft.irfftn(x, s=lengths, axes=axes).astype(result.numpy(), copy=False)


@op("FFT", "BatchFFT")
class FFT(_Fourier):
    """y[k] = sum over n of x[n] exp(-2 pi i k n / N), over the last axis; complex like x."""

    @classmethod
    def infer(cls, x: TensorSpec) -> TensorSpec:
        return _same(x, cls.rank)

    @classmethod
    def kernel(cls, x: Array) -> Array:
        return _forward(x, cls.rank)


@op("IFFT", "BatchIFFT")
class IFFT(_Fourier):
    """The inverse of FFT, divided by the number of points."""

    @classmethod
    def infer(cls, x: TensorSpec) -> TensorSpec:
        return _same(x, cls.rank)

    @classmethod
    def kernel(cls, x: Array) -> Array:
        return _backward(x, cls.rank)


@op("RFFT")
class RFFT(_Fourier):
    """FFT of real x, cut to fft_length [1]; the last axis keeps its n // 2 + 1 first places."""

    @classmethod
    def infer(cls, x: TensorSpec, fft_length: TensorSpec, *, Tcomplex: DType = _COMPLEX64) -> TensorSpec:
        return TensorSpec(Tcomplex, _resized(x.shape, fft_length, cls.rank, True))

    @classmethod
    def kernel(cls, x: Array, fft_length: Array, *, Tcomplex: DType = _COMPLEX64) -> Array:
        return _real_forward(x, fft_length, cls.rank, Tcomplex)


@op("IRFFT")
class IRFFT(_Fourier):
    """The inverse of RFFT: x is cut to what fft_length [1] needs, the result is real."""

    @classmethod
    def infer(cls, x: TensorSpec, fft_length: TensorSpec, *, Treal: DType = FLOAT) -> TensorSpec:
        return TensorSpec(Treal, _resized(x.shape, fft_length, cls.rank, False))

    @classmethod
    def kernel(cls, x: Array, fft_length: Array, *, Treal: DType = FLOAT) -> Array:
        return _real_backward(x, fft_length, cls.rank, Treal)


@op("FFT2D", "BatchFFT2D")
class FFT2D(FFT):
    """FFT over the last two axes."""

    rank = 2


@op("IFFT2D", "BatchIFFT2D")
class IFFT2D(IFFT):
    """The inverse of FFT2D, divided by the number of points."""

    rank = 2


@op("RFFT2D")
class RFFT2D(RFFT):
    """FFT2D of real x, cut to fft_length [2]; the last axis keeps its n // 2 + 1 first places."""

    rank = 2


@op("IRFFT2D")
class IRFFT2D(IRFFT):
    """The inverse of RFFT2D: x is cut to what fft_length [2] needs, the result is real."""

    rank = 2


@op("FFT3D", "BatchFFT3D")
class FFT3D(FFT):
    """FFT over the last three axes."""

    rank = 3


@op("IFFT3D", "BatchIFFT3D")
class IFFT3D(IFFT):
    """The inverse of FFT3D, divided by the number of points."""

    rank = 3


@op("RFFT3D")
class RFFT3D(RFFT):
    """FFT3D of real x, cut to fft_length [3]; the last axis keeps its n // 2 + 1 first places."""

    rank = 3


@op("IRFFT3D")
class IRFFT3D(IRFFT):
    """The inverse of RFFT3D: x is cut to what fft_length [3] needs, the result is real."""

    rank = 3
