"""Spectrograms and mel-frequency cepstral coefficients."""

from __future__ import annotations

import math

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
_ONE = 1 << 30
"""1 in fixed point, of tables."""
_WEIGHT_BITS, _LOG_BITS = 15, 24
_TABLES = {"weights": "window", "cosines": "cosines", "sines": "sines"}
# kFilterbankFloor of TensorFlow's mfcc.cc.
_LEAST = 1e-12
"""What a filter lets through at least."""


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
    is_fixed = bool(op.options.get("fixed"))
    bins = b.shape(first.outputs[0])[2]
    settings = b.struct(
        "",
        channels=b.shape(b.input(0))[1],
        frames=b.shape(b.output())[1],
        stride=int(options_of(first)["stride"]),
        frame=_frame(b, first, is_fixed=is_fixed),
        mel=_mel(b, second, bins, _rate(b), is_fixed=is_fixed),
    )
    count = int(options_of(second)["filterbank_channel_count"])
    if is_fixed:
        memory = (*_parts(b, bins), b.scratch(8 * count))
        b.call("audio_features_fixed", b.input(0), b.output(), *memory, settings)
        return
    kind = b.input(0).dtype.name
    energies = b.scratch(4 * count)
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


def _frame(b: LayerBuilder, op: Operator, *, is_fixed: bool = False) -> Struct:
    """The struct of the spectrum of one frame; in fixed point with 30 bits behind the point."""
    window = int(options_of(op)["window_size"])
    # The transform is one of complex numbers of half the length, two samples in each.
    half = 1 << max((window - 1).bit_length() - 1, 0)
    # As TensorFlow's: the window divides by its length. A power of two more changes no digit of it.
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    angles = -np.pi * np.arange(half) / half
    if is_fixed:
        tables = [np.round(t * _ONE) for t in (hann, np.cos(angles), np.sin(angles))]
    else:
        tables = [hann * _SAMPLE[b.input(0).dtype.name], np.cos(angles), np.sin(angles)]
    kind = "int32" if is_fixed else "float32"
    return b.struct(
        "",
        window=window,
        half=half,
        log2=half.bit_length() - 1,
        step=b.shape(b.input(0))[1],
        **{
            member: b.constant(name, table, kind)
            for (member, name), table in zip(_TABLES.items(), tables, strict=True)
        },
    )


def _mel(b: LayerBuilder, op: Operator, bins: int, rate: int, *, is_fixed: bool = False) -> Struct:
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
    sizes = {"first": first, "last": last, "channels": channels, "coefficients": coefficients}
    filter_of_bin = b.constant("filter_of_bin", lower, "int16")
    dct = cosine_transform(channels, coefficients).T
    if not is_fixed:
        return b.struct(
            "mel_t",
            **sizes,
            filter=filter_of_bin,
            weights=b.constant("weights_of_bin", weights, "float32"),
            cosines=b.constant("dct", dct, "float32"),
        )
    # What 1 is in the sums of a filter: 15 bits of samples and 14 of the window, and those of the weights.
    unit = {"unit": 15 + 14 + _WEIGHT_BITS, "floor": round(math.log(_LEAST) * (1 << _LOG_BITS))}
    return b.struct(
        "mel_fixed_t",
        **sizes,
        **unit,
        filter=filter_of_bin,
        weights=b.constant("weights_of_bin", np.round(weights * (1 << _WEIGHT_BITS)), "uint16"),
        cosines=b.constant("dct", np.round(dct * _ONE), "int32"),
    )
