"""Spectrograms and mel-frequency cepstral coefficients."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import Scratch, Struct
from thinflow.lower.c.sound import FEATURES, options_of
from thinflow.ops.audio import cosine_transform, mel_filters
from thinflow.tflite.model import Operator

_SAMPLE = {"float": 1.0, "int16": 1 / 32768}
"""What a stored 1 stands for."""


@form("AudioSpectrogram", types="float int16")
def audio_spectrogram(b: LayerBuilder, op: Operator) -> None:
    """audio [samples,channels] -> [channels,frames,bins]."""
    kind = b.input(0).dtype.name
    _, frames, bins = b.shape(b.output())
    settings = b.struct(
        "",
        channels=b.shape(b.input(0))[1],
        frames=frames,
        stride=int(options_of(op)["stride"]),
        squared=int(bool(options_of(op).get("magnitude_squared"))),
        frame=_frame(b, op),
    )
    b.call("audio_spectrogram", b.input(0), b.output(), *_parts(b, bins), settings, type=kind)


@form("Mfcc", types="float")
def mfcc(b: LayerBuilder, op: Operator) -> None:
    """squared spectrogram [channels,frames,bins] -> [channels,frames,coefficients]."""
    channels, frames, bins = b.shape(b.input(0))
    energies = b.scratch(4 * int(options_of(op)["filterbank_channel_count"]))
    mel = _mel(b, op, bins, _rate(b))
    b.call("mfcc", b.input(0), b.output(), energies, channels * frames, bins, mel)


@form(FEATURES, types="float int16")
def audio_features(b: LayerBuilder, op: Operator) -> None:
    """audio [samples,channels] -> [channels,frames,coefficients]; the spectrogram of one frame at a time."""
    first, second = op.options["first"], op.options["second"]
    bins = b.shape(first.outputs[0])[2]
    settings = b.struct(
        "",
        channels=b.shape(b.input(0))[1],
        frames=b.shape(b.output())[1],
        stride=int(options_of(first)["stride"]),
        frame=_frame(b, first),
        mel=_mel(b, second, bins, _rate(b)),
    )
    energies = b.scratch(4 * int(options_of(second)["filterbank_channel_count"]))
    kind = b.input(0).dtype.name
    b.call("audio_features", b.input(0), b.output(), *_parts(b, bins), energies, settings, type=kind)


def _rate(b: LayerBuilder) -> int:
    """Samples a second, which filters are made for.

    Raises:
        UnsupportedOp: they are known only when it runs.
    """
    tensor = b.input(1)
    if not tensor.is_constant:
        raise UnsupportedOp(
            f"its sample rate '{tensor.name}' is computed, and its filters are made for one rate when the C"
            " is written; where the rate is an input by itself, --sample-rate gives it"
        )
    return int(tensor.array().reshape(-1)[0])


def _parts(b: LayerBuilder, bins: int) -> tuple[Scratch, Scratch]:
    return b.scratch(4 * bins), b.scratch(4 * bins)


def _frame(b: LayerBuilder, op: Operator) -> Struct:
    """The struct of the spectrum of one frame."""
    window = int(options_of(op)["window_size"])
    half = 1 << max((window - 1).bit_length() - 1, 0)
    # As TensorFlow's: the window divides by its length. A power of two more changes no digit of it.
    hann = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)) * _SAMPLE[b.input(0).dtype.name]
    angles = -np.pi * np.arange(half) / half
    return b.struct(
        "",
        window=window,
        half=half,
        log2=half.bit_length() - 1,
        step=b.shape(b.input(0))[1],
        weights=b.constant("window", hann, "float32"),
        cosines=b.constant("cosines", np.cos(angles), "float32"),
        sines=b.constant("sines", np.sin(angles), "float32"),
    )


def _mel(b: LayerBuilder, op: Operator, bins: int, rate: int) -> Struct:
    """The struct of filters and of the cosine transform.

    Raises:
        UnsupportedOp: a limit is beyond the spectrum.
    """
    options = options_of(op)
    channels, coefficients = (int(options[n]) for n in ("filterbank_channel_count", "dct_coefficient_count"))
    limits = (float(options[f"{side}_frequency_limit"]) for side in ("lower", "upper"))
    filters = mel_filters(bins, rate, channels, *limits)
    if filters is None:
        raise UnsupportedOp(f"its upper limit is beyond what {rate} samples a second hold")
    used = np.flatnonzero(filters.any(1))
    first, last = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 0)
    part = filters[first:last]
    # Neighbours share a bin, two at most: which is the first of them, and what each gets.
    lower = np.array([int(np.flatnonzero(row)[0]) if row.any() else 0 for row in part], np.int64)
    upper = np.minimum(lower + 1, channels - 1)
    rows = np.arange(len(part))
    weights = np.stack([part[rows, lower], np.where(upper > lower, part[rows, upper], 0)], 1)
    return b.struct(
        "mel_t",
        first=first,
        last=last,
        channels=channels,
        coefficients=coefficients,
        filter=b.constant("filter_of_bin", lower, "int16"),
        weights=b.constant("weights_of_bin", weights, "float32"),
        cosines=b.constant("dct", cosine_transform(channels, coefficients).T, "float32"),
    )
