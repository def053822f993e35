"""TFLite Micro's signal ops on one frame of sound: window, spectrum, its energy; bit by bit."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import FLOAT, INT32, Shape, TensorSpec, dtype
from thinflow.ops._fixed_fft import FixedFFT
from thinflow.ops._fixed_point import saturated
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array

_UINT32 = dtype("uint32")


def resized(shape: Shape, size: int | None) -> Shape:
    """A shape with another last size."""
    return None if shape is None else (*shape[:-1], size)


@op("SignalWindow")
class SignalWindow(OpDef):
    """y = (x * window) >> shift, saturated.   x [...,n] int16, window [n] int16 -> y [...,n] int16."""

    @staticmethod
    def infer(x: TensorSpec, window: TensorSpec, *, shift: int = 0) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array, window: Array, *, shift: int = 0) -> Array:
        return saturated((x.astype(np.int64) * window) >> shift, 16).astype(np.int16)


@op("SignalFftAutoScale")
class SignalFftAutoScale(OpDef):
    """y = x << bits, as far as its largest value leaves room.   x [n] int16 -> y [n] int16, bits [] int32."""

    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec) -> tuple[TensorSpec, ...]:
        return x.with_shape(x.shape), TensorSpec(INT32, ())

    @staticmethod
    def kernel(x: Array) -> tuple[Array, Array]:
        largest = _largest(x)
        bits = max(15 - largest.bit_length(), 0) if largest > 0 else 0
        return (x * np.int16(1 << bits)).astype(np.int16), np.array(bits, np.int32)


def _largest(x: Array) -> int:
    """The largest absolute value, in an int16 that -32768 makes negative until something larger comes."""
    values = x.astype(np.int64).ravel()
    if not (values == -(1 << 15)).any():
        return int(np.abs(values).max(initial=0))
    # One by one: what comes after -32768 decides what becomes of it.
    largest = 0
    for value in values.tolist():
        if value > largest:
            largest = value
        elif -value > largest:
            largest = -value if -value < 1 << 15 else value
    return largest


@op("SignalRfft")
class SignalRfft(OpDef):
    """The spectrum of real numbers, as real and imaginary parts by turns; that of whole numbers / fft_length.

    x [...,n], int16, int32 or float; zeros are added up to fft_length -> y [...,fft_length+2], of its type.
    """

    @staticmethod
    def infer(x: TensorSpec, *, fft_length: int) -> TensorSpec:
        return x.with_shape(resized(x.shape, fft_length + 2))

    @staticmethod
    def kernel(x: Array, *, fft_length: int) -> Array:
        _require_length(fft_length)
        require(x.shape[-1] <= fft_length, f"{x.shape[-1]} samples for a transform of {fft_length}")
        padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, fft_length - x.shape[-1])])
        # In float nothing has to be bit by bit: runtimes differ in the last digits anyway.
        if x.dtype == FLOAT.numpy():
            spectrum = np.fft.rfft(padded)
            pairs = np.stack([spectrum.real, spectrum.imag], -1)
            return pairs.reshape(*x.shape[:-1], fft_length + 2).astype(x.dtype)
        return FixedFFT(fft_length, 8 * x.itemsize).forward(padded).astype(x.dtype)


@op("SignalIrfft")
class SignalIrfft(OpDef):
    """The real numbers of a spectrum.   x [...,fft_length+2], as of `SignalRfft` -> y [...,fft_length]."""

    @staticmethod
    def infer(x: TensorSpec, *, fft_length: int) -> TensorSpec:
        return x.with_shape(resized(x.shape, fft_length))

    @staticmethod
    def kernel(x: Array, *, fft_length: int) -> Array:
        _require_length(fft_length)
        require(x.shape[-1] == fft_length + 2, f"{x.shape[-1]} numbers for a transform of {fft_length}")
        if x.dtype == FLOAT.numpy():
            return np.fft.irfft(x[..., ::2] + 1j * x[..., 1::2], fft_length).astype(x.dtype)
        return FixedFFT(fft_length, 8 * x.itemsize, inverse=True).backward(x).astype(x.dtype)


def _require_length(length: int) -> None:
    known = 4 <= length <= 1 << 16 and length & (length - 1) == 0
    require(known, f"a transform of {length} is no power of two", "choose 4 to 65536")


@op("SignalEnergy")
class SignalEnergy(OpDef):
    """re * re + im * im of bins from start_index to below end_index; 0 elsewhere, which TFLite Micro skips.

    x [2*bins] int16 -> y [bins] uint32.
    """

    @staticmethod
    def infer(x: TensorSpec, *, start_index: int, end_index: int) -> TensorSpec:
        size = x.shape[-1] if x.shape else None
        return TensorSpec(_UINT32, resized(x.shape, None if size is None else size // 2))

    @staticmethod
    def kernel(x: Array, *, start_index: int, end_index: int) -> Array:
        bins = x.shape[-1] // 2
        require(0 <= start_index <= end_index <= bins, f"bins {start_index} to {end_index} of {bins}")
        wide = x.astype(np.int64)
        energy = wide[..., ::2] ** 2 + wide[..., 1::2] ** 2
        y = np.zeros_like(energy)
        y[..., start_index:end_index] = energy[..., start_index:end_index]
        return y.astype(np.uint32)
