"""Layers that make pictures of sounds."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32
from thinflow.keras.call import Call
from thinflow.keras.config import LayerConfig
from thinflow.keras.layers.convolution import convolved
from thinflow.keras.registry import Inside, Result, Slot, layer
from thinflow.typing import Array

_WINDOWS = {"hann": (0.5, 0.5), "hamming": (0.54, 0.46)}
"""Cosine windows by Keras's names: the mean, and the height of the cosine."""
# Those of tf.signal, which Keras took over: 1127 ln is 2595 log10.
_MEL_SCALE, _MEL_BREAK = 1127.0, 700.0
"""mel(f) = scale * ln(1 + f / break), f in hertz."""


@layer("MelSpectrogram")
def mel_spectrogram(c: Call) -> Result:
    """Energy by time and mel band of sounds.   [batch, samples] or [samples] -> [..., bands, frames]"""
    x, rank = c.cast(c[0], FLOAT), c.rank(c[0])
    if rank not in (1, 2):
        raise c.refuse(f"its input has {rank} axes; sounds [batch, samples] or [samples] are known")
    size = c.integer("fft_length", 2048)
    power = _power(c, c.expand(x, 0) if rank == 1 else x, size)
    exponent = c.number("mag_exp", 2.0) / 2
    if exponent == 0.5:
        power = c.emit("Sqrt", power)
    elif exponent != 1:
        power = c.emit("Pow", power, exponent)
    bands = c.matmul(power, c.const(_bands(c, size // 2 + 1), "bands"))
    if c.flag("power_to_db", True):
        bands = _decibels(c, bands)
    else:
        c.read.update(("min_power", "ref_power", "top_db"))
    y = c.transpose(bands, (0, 2, 1))
    return c.cast(c.squeeze(y, 0) if rank == 1 else y, c.compute)


def _power(c: Call, x: Value, size: int) -> Value:
    """Squared magnitudes of a short-time Fourier transform.   [batch, samples] -> [batch, frames, bins]"""
    waves = transformed(c, x, size, c.integer("sequence_stride", 512))
    real, imaginary = halves(c, c.emit("Square", waves))
    return c.emit("AddV2", real, imaginary)


def transformed(c: Call, x: Value, size: int, step: int, is_centred: bool = True) -> Value:
    """A short-time Fourier transform.   [batch, samples] -> [batch, frames, 2 * bins]: cosines, then sines

    A convolution with the transform's basis, as every runtime has one.
    """
    if is_centred:
        around = c.const([[0, 0], [size // 2, size // 2]], "paddings")
        x = c.emit("MirrorPad", x, around, mode="REFLECT", Tpaddings=INT32)
    return convolved(c, c.expand(x, 2), _basis(c, size), (step,), "VALID", (1,), "Conv2D")


def halves(c: Call, x: Value) -> tuple[Value, Value]:
    """The first and the second half of the last axis."""
    axis = c.const(c.rank(x) - 1, "axis")
    parts = c.node("Split", axis, x, T=c.type_of(x), num_split=2)
    return parts.output(0), parts.output(1)


def window_of(c: Call, size: int) -> Array:
    """The layer's window in the middle of what the transform takes.   [size]"""
    stated, given = c.get("sequence_length"), c.get("window", "hann")
    # Without a window Keras takes all that the transform takes, however long a sequence is to be.
    length = size if stated is None or given is None else c.integer("sequence_length")
    if given is None:
        window = np.ones(length)
    elif isinstance(given, list):
        window = np.asarray(given, np.float64)
    else:
        mean, height = _WINDOWS[c.choice("window", *_WINDOWS)]
        # TensorFlow's windows of odd sizes end where they began.
        period = length - length % 2
        window = mean - height * np.cos(2 * np.pi * np.arange(length) / period) if period else np.ones(1)
    if len(window) != length or length > size:
        raise c.refuse(f"its window of {len(window)} does not fit its sequence of {length} and size {size}")
    before = (size - length) // 2
    return np.pad(window, (before, size - length - before))


def waves_of(size: int, bins: int) -> Array:
    """Cosines, then sines of each frequency.   [size, 2 * bins]"""
    angles = 2 * np.pi * np.outer(np.arange(size), np.arange(bins)) / size
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


def _basis(c: Call, size: int) -> Array:
    """Cosines, then sines of each frequency under the window.   [size, 1, 2 * bins]"""
    waves = waves_of(size, size // 2 + 1) * window_of(c, size)[:, None]
    return waves.astype(np.float32)[:, None]


def _bands(c: Call, bins: int) -> Array:
    """The share of each frequency in each mel band, by triangles.   [bins, bands]"""
    rate, count = c.integer("sampling_rate", 16000), c.integer("num_mel_bins", 128)
    highest = c.get("max_freq")
    ends = c.number("min_freq", 20.0), c.number("max_freq") if highest else int(rate / 2)
    low, high = (_mel(np.asarray(f, np.float32)) for f in ends)
    edges = np.linspace(low, high, count + 2, dtype=np.float32)
    # The first bin is the mean of the sound, and in no band.
    mels = _mel(np.linspace(0, rate / 2, bins, dtype=np.float32)[1:])[:, None]
    rising = (mels - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - mels) / (edges[2:] - edges[1:-1])
    triangles = np.maximum(0, np.minimum(rising, falling))
    return np.pad(triangles, ((1, 0), (0, 0))).astype(np.float32)


def _mel(hertz: Array) -> Array:
    return np.asarray(np.float32(_MEL_SCALE) * np.log(1 + hertz / np.float32(_MEL_BREAK)), np.float32)


def _decibels(c: Call, x: Value) -> Value:
    """Ten times the logarithm, and nothing farther below the loudest of all than `top_db`."""
    least = c.number("min_power", 1e-10)
    reference = 10 * np.log10(max(abs(c.number("ref_power", 1.0)), least))
    y = c.emit("Mul", c.emit("Log", c.emit("Maximum", x, least)), 10 / np.log(10))
    if reference:
        y = c.emit("Sub", y, reference)
    loudest = c.reduce("Max", y, range(c.rank(y)))
    return c.emit("Maximum", y, c.emit("Sub", loudest, c.number("top_db", 80.0)))


# --- spectrograms by kernels --------------------------------------------------------------------------------


def _kernels(mode: object) -> list[str]:
    return [f"{part}_kernel" for part in ("real", "imag") if mode not in {"real", "imag"} - {part}]


def _kernel_slots(config: LayerConfig, inside: Inside) -> list[Slot]:
    return [Slot(name) for name in _kernels(config.options.get("mode", "log"))]


_BAKED = ("fft_length", "window", "periodic", "scaling")
"""Options that the kernels are made by."""


@layer("STFTSpectrogram", weights=_kernel_slots, ignores=_BAKED)
def stft_spectrogram(c: Call) -> Result:
    """A short-time Fourier transform of each channel, by kernels that may have learnt.

    [batch, samples, channels] -> [batch, frames, channels * bins], or [..., bins, channels] with expand_dims
    """
    mode = c.choice("mode", "log", "magnitude", "psd", "real", "imag", "angle", "stft")
    length = c.integer("frame_length", 256)
    step = length // 2 if c.get("frame_step") is None else c.integer("frame_step")
    padding = c.choice("padding", "valid", "same").upper()
    is_first, is_spread = c.is_channels_first, c.flag("expand_dims")
    x = c[0] if is_first else c.transpose(c[0], (0, 2, 1))
    channels, samples = c.size(x, 1), c.dim(x, 2)
    kernel = np.concatenate([c.array(name, (length, 1, None)) for name in _kernels(mode)], axis=-1)
    rows = c.shaped(x, [None, samples, 1])
    y = _picture(c, convolved(c, rows, kernel, (step,), padding, (1,)), mode)
    bins = c.size(y, -1)
    y = c.shaped(y, [None if channels > 1 else c.dim(x, 0), channels, c.dim(y, 1), bins])
    if is_spread:
        return y if is_first else c.transpose(y, (0, 2, 3, 1))
    if is_first:
        y = c.transpose(y, (0, 1, 3, 2))
        return c.shaped(y, [c.dim(x, 0), channels * bins, c.dim(y, 3)])
    y = c.transpose(y, (0, 2, 1, 3))
    return c.shaped(y, [c.dim(x, 0), c.dim(y, 1), channels * bins])


def _picture(c: Call, waves: Value, mode: str) -> Value:
    """What the mode makes of real and imaginary parts.   [..., 2 * bins] -> [..., bins]"""
    if mode in ("real", "imag", "stft"):
        return waves
    if mode == "angle":
        real, imaginary = halves(c, waves)
        return c.emit("Atan2", imaginary, real)
    power = c.emit("AddV2", *halves(c, c.emit("Square", waves)))
    if mode == "psd":
        # All but the ends stand for two frequencies.
        twice = np.full(c.size(power, -1), 2.0)
        twice[[0, -1]] = 1
        return c.emit("Mul", power, twice.astype(c.compute.numpy()))
    size = c.emit("Sqrt", c.emit("Maximum", power, _LEAST))
    return size if mode == "magnitude" else c.emit("Log", c.emit("Maximum", size, _LEAST))


_LEAST = 1e-7
"""Keras's epsilon."""
