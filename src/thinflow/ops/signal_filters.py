"""TFLite Micro's signal ops on the channels of a filter bank, in unsigned whole numbers; bit by bit."""

from __future__ import annotations

import math

import numpy as np

from thinflow.ir.types import TensorSpec, dtype
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array

_INT16, _UINT32, _UINT64 = dtype("int16"), dtype("uint32"), dtype("uint64")
_MOST_32 = (1 << 32) - 1
_SNR_BITS, _OUTPUT_BITS = 12, 6
"""Fractions in PCAN: of the ratio of signal and noise, and of what comes out."""
_LOG_BITS, _SEGMENT_BITS = 16, 9
# log2(1 + f) - f on 129 places, and log(2), in 16 bits of fraction.
LOG_TABLE = [round((math.log2(1 + n / 128) - n / 128) * (1 << _LOG_BITS)) for n in range(129)]
_LN_2 = round(math.log(2) * (1 << _LOG_BITS))


@op("SignalFilterBank")
class SignalFilterBank(OpDef):
    """Energies in overlapping filters: what one weighs with w, the next weighs with what is left of 1.

    x [bins] uint32, weights [m] int16, unweights [m] int16, frequency_starts, weight_starts, widths
    [num_channels+1] int16 -> y [num_channels] uint64.
    """

    @staticmethod
    def infer(x: TensorSpec, *rest: TensorSpec, num_channels: int) -> TensorSpec:
        return TensorSpec(_UINT64, (num_channels,))

    @staticmethod
    def kernel(
        x: Array,
        weights: Array,
        unweights: Array,
        frequency_starts: Array,
        weight_starts: Array,
        widths: Array,
        *,
        num_channels: int,
    ) -> Array:
        places = [a.tolist() for a in (frequency_starts, weight_starts, widths)]
        require(all(len(p) == num_channels + 1 for p in places), f"the filters are not {num_channels + 1}")
        # Sums wrap as those of the runtime do, which a damaged file can ask for.
        energies = x.astype(np.uint64)
        rising, falling = ((w.astype(np.int64).astype(np.uint64)) for w in (weights, unweights))
        y = np.zeros(num_channels + 1, np.uint64)
        for channel, (bin_, weight, width) in enumerate(zip(*places, strict=True)):
            fits = 0 <= bin_ <= x.size - width and 0 <= weight <= weights.size - width and width >= 0
            require(fits, f"filter {channel} reaches beyond {x.size} bins or {weights.size} weights")
            part, own = energies[bin_ : bin_ + width], slice(weight, weight + width)
            y[channel] += (part * rising[own]).sum(dtype=np.uint64)
            if channel < num_channels:
                y[channel + 1] = (part * falling[own]).sum(dtype=np.uint64)
        return y[1:]  # the first only collects what the second weighs less


@op("SignalFilterBankSquareRoot")
class SignalFilterBankSquareRoot(OpDef):
    """The nearest whole number to the square root, >> bits.   x [n] uint64, bits [] int32 -> y [n] uint32."""

    @staticmethod
    def infer(x: TensorSpec, bits: TensorSpec) -> TensorSpec:
        return TensorSpec(_UINT32, x.shape)

    @staticmethod
    def kernel(x: Array, bits: Array) -> Array:
        shift = int(bits)
        require(0 <= shift < 32, f"{shift} bits cannot be left out of 32")
        y: Array = np.array([_root(n) >> shift for n in x.ravel().tolist()], np.uint32).reshape(x.shape)
        return y


def _root(number: int) -> int:
    root = math.isqrt(number)
    # The largest of 16 and of 32 bits are not rounded up, each in its range of numbers.
    largest = 0xFFFF if number <= _MOST_32 else _MOST_32
    return root + (number - root * root > root and root != largest)


@op("SignalFilterBankSpectralSubtractionStep")
class SignalFilterBankSpectralSubtractionStep(OpDef):
    """The signal without the noise that is heard all the time, and the new estimate of that noise.

    x [n] uint32, noise [n] uint32 -> y [n] uint32, noise [n] uint32. Coefficients have
    spectral_subtraction_bits bits of fraction, those of odd channels are the alternate ones; the noise has
    smoothing_bits more than x.
    """

    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, noise: TensorSpec, **options: int) -> tuple[TensorSpec, ...]:
        return x.with_shape(x.shape), noise.with_shape(noise.shape)

    @staticmethod
    def kernel(
        x: Array,
        noise: Array,
        *,
        smoothing: int = 0,
        one_minus_smoothing: int = 0,
        alternate_smoothing: int = 0,
        alternate_one_minus_smoothing: int = 0,
        min_signal_remaining: int = 0,
        smoothing_bits: int = 0,
        spectral_subtraction_bits: int = 0,
        clamping: bool = False,
    ) -> tuple[Array, Array]:
        is_odd = np.arange(x.size) % 2 == 1
        new, old = (
            np.where(is_odd, np.uint64(b & _MOST_32), np.uint64(a & _MOST_32))
            for a, b in (
                (smoothing, alternate_smoothing),
                (one_minus_smoothing, alternate_one_minus_smoothing),
            )
        )
        # All in 64 bits, cut to 32 where the runtime stores it.
        most, shift, more = (
            np.uint64(_MOST_32),
            np.uint64(spectral_subtraction_bits),
            np.uint64(smoothing_bits),
        )
        signal, before = x.astype(np.uint64), noise.astype(np.uint64)
        scaled = (signal << more) & most
        estimate = ((scaled * new + before * old) >> shift) & most
        # Of a signal below the noise nothing is left but the floor.
        taken = np.minimum(estimate, scaled)
        floor = ((signal * np.uint64(min_signal_remaining & _MOST_32)) >> shift) & most
        y = np.maximum((scaled - taken) >> more, floor)
        return y.astype(np.uint32), (taken if clamping else estimate).astype(np.uint32)


@op("SignalPCAN")
class SignalPCAN(OpDef):
    """Gain for each channel by its noise (per-channel amplitude normalization), and a soft lower bound.

    x [n] uint32, noise [n] uint32, gains int16, parabolas of the noise between powers of two -> y [n] uint32.
    """

    @staticmethod
    def infer(x: TensorSpec, noise: TensorSpec, gains: TensorSpec, *, snr_shift: int = 0) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array, noise: Array, gains: Array, *, snr_shift: int = 0) -> Array:
        # Four entries for each power of two, one of them unused; the first three are for 0, 1 and 2.
        table = gains.astype(int).tolist()
        highest = int(noise.max(initial=0)).bit_length()
        require(len(table) > max(4 * highest - 4, 2), f"{len(table)} gains for noise of {highest} bits")
        pairs = zip(x.tolist(), noise.tolist(), strict=True)
        ratios = [((signal * (_gain(n, table) & _MOST_32)) >> snr_shift) & _MOST_32 for signal, n in pairs]
        return np.array([_shrunk(ratio) for ratio in ratios], np.uint32)


def _gain(noise: int, table: list[int]) -> int:
    """A parabola in ten bits behind the highest of the noise."""
    if noise <= 2:
        return table[noise]
    bits = noise.bit_length()
    first, second, third = table[4 * bits - 6 : 4 * bits - 3]
    place = (noise << (11 - bits) if bits < 11 else noise >> (bits - 11)) & 0x3FF
    sum_ = _int(((third * place) >> 5) + (second << 5), 32)
    return _int(((_int(sum_ * place, 32) + (1 << 14)) >> 15) + first, 16)


def _int(number: int, bits: int) -> int:
    """A whole number in so few bits."""
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


def _shrunk(x: int) -> int:
    """x^2 / 4 below 2, from there on x - 1."""
    if x < 2 << _SNR_BITS:
        return (x * x) >> (2 + 2 * _SNR_BITS - _OUTPUT_BITS)
    return (x >> (_SNR_BITS - _OUTPUT_BITS)) - (1 << _OUTPUT_BITS)


@op("SignalFilterBankLog")
class SignalFilterBankLog(OpDef):
    """y = log(x << input_correction_bits) * output_scale, at most 32767; 0 for 0 and 1.

    x [n] uint32 -> y [n] int16.
    """

    @staticmethod
    def infer(x: TensorSpec, *, output_scale: int = 0, input_correction_bits: int = 0) -> TensorSpec:
        return TensorSpec(_INT16, x.shape)

    @staticmethod
    def kernel(x: Array, *, output_scale: int = 0, input_correction_bits: int = 0) -> Array:
        scaled = [(n << input_correction_bits) & _MOST_32 for n in x.ravel().tolist()]
        logs = [min(_log(n, output_scale), (1 << 15) - 1) if n > 1 else 0 for n in scaled]
        y: Array = np.array(logs, np.int16).reshape(x.shape)
        return y


def _log(number: int, scale: int) -> int:
    """The logarithm times a scale, by a table and lines between."""
    whole = number.bit_length() - 1
    rest = number - (1 << whole)
    place = rest << (_LOG_BITS - whole) if whole < _LOG_BITS else rest >> (whole - _LOG_BITS)
    segment, inside = place >> _SEGMENT_BITS, place & ((1 << _SEGMENT_BITS) - 1)
    left, right = LOG_TABLE[segment], LOG_TABLE[segment + 1]
    base_2 = (whole << _LOG_BITS) + place + left + (((right - left) * inside) >> _LOG_BITS)
    half = 1 << (_LOG_BITS - 1)
    natural = (_LN_2 * base_2 + half) >> _LOG_BITS
    return ((scale * natural + half) & _MOST_32) >> _LOG_BITS
