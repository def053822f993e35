"""Spectrograms and mel-frequency cepstral coefficients, in double precision as TensorFlow computes them."""

from __future__ import annotations

import math

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import DOUBLE, FLOAT
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor

_MOST = 1 << 14


@lower("AudioSpectrogram", to="onnx")
def audio_spectrogram(
    b: Builder, node: Node, audio: Tensor, *, window_size: int, stride: int, magnitude_squared: bool = False
) -> Tensor:
    """Frames of a Hann window, and the size of their spectra: audio [samples,channels] -> [channels,...]."""
    require(2 <= window_size <= _MOST and stride >= 1, f"a window of {window_size} has no form")
    samples, channels = shape_of(audio, "the audio", 2)
    frames = _frames(b, b.transposed(audio, (1, 0)), samples, window_size, stride)
    # The periodic window, over window_size and not window_size - 1: TensorFlow's spectrogram uses that.
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window_size) / window_size)
    # TensorFlow's transform has a power of two points: frames are filled up with zeros, which DFT does
    # itself.
    points = 1 << (window_size - 1).bit_length()
    windowed = frames.cast(DOUBLE) * hann
    count = shape_of(frames.tensor)[1]
    flat = (
        b.reshaped(windowed.tensor, (None, window_size, 1))
        if (channels or 0) != 1 or count is None
        else (b.reshaped(windowed.tensor, (count, window_size, 1)))
    )
    rows = shape_of(flat)[0]
    bins = points // 2 + 1
    # Opset 20 made the axis an input.
    if b.opset >= 20:
        spectrum = b.step("DFT", flat, b.int64(points), b.int64(1), shape=(rows, bins, 2), onesided=1)
    else:
        spectrum = b.step("DFT", flat, b.int64(points), shape=(rows, bins, 2), axis=1, onesided=1)
    parts = Term(b, spectrum)
    power = (parts * parts).reduced("ReduceSum", 2).cast(FLOAT)
    y = power if magnitude_squared else power.apply("Sqrt")
    if channels is None and count is None:
        require(False, "neither the number of channels nor that of samples is known")
    return b.result(b.reshaped(y.tensor, (channels, count, bins)))


def _frames(b: Builder, audio: Tensor, samples: int | None, window: int, stride: int) -> Term:
    """audio [channels,samples] as [channels,frames,window]."""
    taps = np.arange(window, dtype=np.int64)
    if samples is not None:
        count = max(1 + (samples - window) // stride, 0)
        require(count > 0, "the audio is shorter than a window")
        require(count * window <= 1 << 24, "the audio is too long")
        return Term(b, audio).gathered(np.arange(count)[:, None] * stride + taps, 1)
    length = b.squeezed(b.sliced(b.sizes_of(audio), [1], [2], [0], shape=(1,)), [0])
    # Div truncates: what is divided must not be negative, or a little less than a window made one frame.
    count_now = ((Term(b, length) - (window - stride)).most(0) / stride).tensor
    first = Term(b, b.step("Range", b.int64(0), count_now, b.int64(1), shape=(None,))) * stride
    return Term(b, audio).gathered((first.unsqueezed(1) + taps).tensor, 1)


@lower("Mfcc", to="onnx")
def mfcc(
    b: Builder,
    node: Node,
    spectrogram: Tensor,
    sample_rate: Tensor,
    *,
    upper_frequency_limit: float = 4000.0,
    lower_frequency_limit: float = 20.0,
    filterbank_channel_count: int = 40,
    dct_coefficient_count: int = 13,
) -> Tensor:
    """The filters are computed from the sample rate, which the model may learn only when it runs."""
    channels, frames, bins = shape_of(spectrogram, "the spectrogram", 3)
    require(bins is not None and bins >= 2, "the number of bins is not known")
    count, kept = filterbank_channel_count, dct_coefficient_count
    require(0 < kept <= count <= _MOST, f"{kept} coefficients of {count} channels")
    require(0 <= lower_frequency_limit < upper_frequency_limit, "the frequency limits are not in order")
    rate = Term(b, b.cast(b.reshaped(sample_rate, ()), DOUBLE))
    filters, used, fits = _mel_filters(
        b, rate, bins or 0, count, lower_frequency_limit, upper_frequency_limit
    )
    power = choose(used, Term(b, b.cast(spectrogram, DOUBLE)), 0)
    energies = b.step("MatMul", power.apply("Sqrt").tensor, filters.tensor, shape=(channels, frames, count))
    # The floor of energies before their logarithm is TensorFlow's.
    logs = Term(b, energies).most(1e-12).apply("Log")
    # The DCT-II, with TensorFlow's factor sqrt(2 / n) for all coefficients, the first included.
    angles = (np.arange(count)[:, None] + 0.5) * np.arange(kept) * (np.pi / count)
    cosines = b.const(np.sqrt(2.0 / count) * np.cos(angles), "dct", DOUBLE)
    y = Term(b, b.step("MatMul", logs.tensor, cosines, shape=(channels, frames, kept)))
    return b.result(choose(fits, y, 0).cast(FLOAT).tensor)


def _mel(frequency: float) -> float:
    return 1127.0 * math.log1p(frequency / 700.0)


def _mel_filters(
    b: Builder, rate: Term, bins: int, channels: int, lower_hz: float, upper_hz: float
) -> tuple[Term, Term, Term]:
    """Triangular filters [bins,channels], which bins they read, and whether the limits fit the spectrum."""
    spacing = (_mel(upper_hz) - _mel(lower_hz)) / (channels + 1)
    centres = _mel(lower_hz) + spacing * (np.arange(channels) + 1)
    hz_per_bin = rate * (0.5 / (bins - 1))
    # TensorFlow rounds up by half a bin more, so that bin 0, the mean, is never read (as HTK does).
    first = (lower_hz / hz_per_bin + 1.5).floor()
    last = (upper_hz / hz_per_bin).floor()
    numbers = Term(b, b.const(np.arange(bins, dtype=np.float64), "bins"))
    mel = (numbers * hz_per_bin / 700.0 + 1).apply("Log") * 1127.0
    triangles = (1 - (mel.unsqueezed(1) - centres).magnitude() / spacing).most(0)
    used = (numbers >= first) & (numbers <= last)
    return choose(used.unsqueezed(1), triangles, 0), used, last < float(bins)
