"""WAV files, spectrograms and mel-frequency cepstral coefficients."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import numpy as np

from thinflow.errors import FormatError
from thinflow.ir.types import FLOAT, INT32, STRING, TensorSpec
from thinflow.ops._shapes import Dim, rank_of
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.ops.traits import Role, Trait
from thinflow.typing import Array


def scalar_bytes(contents: Array) -> bytes:
    """The bytes in a string scalar."""
    require(contents.size == 1, f"contents have shape {list(contents.shape)}, one string is needed")
    value = contents.reshape(-1)[0]
    return value.encode() if isinstance(value, str) else bytes(value)


@op("DecodeWav")
class DecodeWav(OpDef):
    """16-bit PCM samples / 32768.

    Contents: the bytes of a WAV file -> audio float [samples,channels], sample_rate int32.

    desired_channels and desired_samples (-1: as in the file) cut, or pad with the last channel and with
    silence.
    """

    decodes = "a WAV"

    num_outputs = 2

    @staticmethod
    def infer(
        contents: TensorSpec, *, desired_channels: int = -1, desired_samples: int = -1
    ) -> tuple[TensorSpec, TensorSpec]:
        samples = None if desired_samples == -1 else desired_samples
        channels = None if desired_channels == -1 else desired_channels
        return TensorSpec(FLOAT, (samples, channels)), TensorSpec(INT32, ())

    @staticmethod
    def kernel(
        contents: Array, *, desired_channels: int = -1, desired_samples: int = -1
    ) -> tuple[Array, Array]:
        samples, rate = _read_wav(scalar_bytes(contents))
        count = samples.shape[0] if desired_samples == -1 else desired_samples
        channels = samples.shape[1] if desired_channels == -1 else desired_channels
        audio = np.zeros((count, channels), np.float32)
        kept = min(count, samples.shape[0])
        # Missing channels repeat the last one.
        source = np.minimum(np.arange(channels), samples.shape[1] - 1)
        audio[:kept] = samples[:kept, source] * np.float32(1 / 32768)
        return audio, np.array(rate, np.int32)


def _read_wav(data: bytes) -> tuple[Array, int]:
    """Samples int16 [samples,channels] and sample rate of a RIFF file.

    Raises:
        FormatError: this is no 16-bit PCM WAV.
    """
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise FormatError("the bytes are no WAV file", hint="feed the contents of a RIFF/WAVE file")
    at, channels, rate = 12, 0, 0
    # Chunks of other kinds (LIST, fact...) may stand anywhere; they are passed over.
    while at + 8 <= len(data):
        name, length = data[at : at + 4], struct.unpack_from("<I", data, at + 4)[0]
        at += 8
        if name == b"fmt ":
            if length < 16 or at + 16 > len(data):
                raise FormatError("the WAV format chunk is cut short", where=f"byte {at}")
            kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", data, at)
            # 1 is PCM; 0xFFFE is WAVE_FORMAT_EXTENSIBLE, whose longer chunk starts with the same fields.
            if kind not in {1, 0xFFFE} or bits != 16 or channels < 1:
                raise FormatError(
                    f"the WAV has format {kind}, {bits} bits, {channels} channels",
                    hint="convert it to 16-bit PCM first",
                )
        elif name == b"data":
            if not channels:
                raise FormatError("the WAV has no format chunk before its data", where=f"byte {at}")
            # Tools that stream write a length of 0 or more than there is; what the file holds counts.
            count = min(length, len(data) - at) // (2 * channels)
            samples = np.frombuffer(data, "<i2", count * channels, at)
            return samples.reshape(count, channels), rate
        # RIFF chunks start at even places.
        at += length + (length & 1)
    raise FormatError("the WAV has no data chunk")


@op("EncodeWav")
class EncodeWav(OpDef):
    """A 16-bit PCM WAV file.

    audio float [samples,channels] in -1..1, sample_rate int32 scalar -> string scalar.
    """

    roles = (Role.SOUND, Role.RATE)

    @staticmethod
    def infer(audio: TensorSpec, sample_rate: TensorSpec) -> TensorSpec:
        rank_of(audio, 2, "audio")
        return TensorSpec(STRING, ())

    @staticmethod
    def kernel(audio: Array, sample_rate: Array) -> Array:
        require(audio.ndim == 2, f"audio has rank {audio.ndim}, 2 is needed")
        rate, channels = int(sample_rate), audio.shape[1]
        scaled = (audio * np.float32(32768)).astype(np.float64)
        # TensorFlow's roundf takes halves away from zero; in double the half is added without rounding.
        whole = np.trunc(scaled + np.copysign(0.5, scaled))
        samples = np.clip(whole, -32768, 32767).astype("<i2").tobytes()
        # 16 bytes of format: PCM, channels, rate, bytes a second, bytes a frame, bits a sample.
        head = b"WAVEfmt " + struct.pack(
            "<IHHIIHH", 16, 1, channels, rate, rate * channels * 2, channels * 2, 16
        )
        body = head + b"data" + struct.pack("<I", len(samples)) + samples
        result = np.empty((), object)
        result[()] = b"RIFF" + struct.pack("<I", len(body)) + body
        return result


@op("AudioSpectrogram")
class AudioSpectrogram(OpDef):
    """|FFT| (or its square) of Hann-windowed frames.

    audio [samples,channels] -> float [channels,frames,bins].

    frames = 1 + (samples - window_size) // stride; bins = n/2 + 1 with n the power of two >= window_size.
    """

    traits = Trait.LITERT_CUSTOM

    roles = (Role.SOUND,)

    @staticmethod
    def infer(audio: TensorSpec, *, window_size: int, stride: int) -> TensorSpec:
        samples, channels = rank_of(audio, 2, "audio")
        frames: Dim = None if samples is None else _frames(samples, window_size, stride)
        return TensorSpec(FLOAT, (channels, frames, _fft_length(window_size) // 2 + 1))

    @staticmethod
    def kernel(audio: Array, *, window_size: int, stride: int, magnitude_squared: bool = False) -> Array:
        require(audio.ndim == 2, f"audio has rank {audio.ndim}, 2 is needed")
        samples, channels = audio.shape
        frames, length = _frames(samples, window_size, stride), _fft_length(window_size)
        y = np.empty((channels, frames, length // 2 + 1), np.float32)
        if not frames:
            return y
        # The periodic window: it divides by the length, not by the length minus 1.
        hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window_size) / window_size)
        for channel in range(channels):
            framed = np.lib.stride_tricks.sliding_window_view(audio[:, channel], window_size)[::stride]
            # In double, as TensorFlow's FFT; only the power is rounded to float32.
            spectrum = np.fft.rfft(framed.astype(np.float64) * hann, length)
            power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32)
            y[channel] = power if magnitude_squared else np.sqrt(power)
        return y

    @staticmethod
    def cost(y: TensorSpec, audio: TensorSpec, *, window_size: int) -> Cost:
        # 2.5 n log2 n is the usual count for a real FFT of length n.
        assert y.shape is not None
        channels, frames, _ = (d or 0 for d in y.shape)
        length = _fft_length(window_size)
        return Cost(flops=channels * frames * int(2.5 * length * length.bit_length()))


def _frames(samples: int, window_size: int, stride: int) -> int:
    require(
        window_size >= 2 and stride >= 1,
        f"window_size {window_size} and stride {stride} must be at least 2 and 1",
    )
    return max(1 + (samples - window_size) // stride, 0)


def _fft_length(window_size: int) -> int:
    return 1 << (window_size - 1).bit_length()


@op("Mfcc")
class Mfcc(OpDef):
    """Cosine transform of log mel energies.

    squared spectrogram [channels,frames,bins], sample_rate int32 -> float
    [channels,frames,dct_coefficient_count].
    """

    traits = Trait.LITERT_CUSTOM
    roles = (None, Role.RATE)

    @staticmethod
    def infer(
        spectrogram: TensorSpec, sample_rate: TensorSpec, *, dct_coefficient_count: int = 13
    ) -> TensorSpec:
        channels, frames, _ = rank_of(spectrogram, 3, "spectrogram")
        return TensorSpec(FLOAT, (channels, frames, dct_coefficient_count))

    @staticmethod
    def kernel(
        spectrogram: Array,
        sample_rate: Array,
        *,
        upper_frequency_limit: float = 4000.0,
        lower_frequency_limit: float = 20.0,
        filterbank_channel_count: int = 40,
        dct_coefficient_count: int = 13,
    ) -> Array:
        require(spectrogram.ndim == 3, f"spectrogram has rank {spectrogram.ndim}, 3 is needed")
        require(
            dct_coefficient_count <= filterbank_channel_count,
            "there are more coefficients than filterbank channels",
        )
        filters = mel_filters(
            spectrogram.shape[2],
            int(sample_rate.reshape(-1)[0]),
            filterbank_channel_count,
            lower_frequency_limit,
            upper_frequency_limit,
        )
        if filters is None:
            return np.zeros((*spectrogram.shape[:2], dct_coefficient_count), np.float32)
        used = np.any(filters != 0, axis=1)  # bins outside the limits are not read, whatever they hold
        energies = np.sqrt(spectrogram[:, :, used].astype(np.float64)) @ filters[used]
        # TensorFlow's floor of the filter bank, for the logarithm of silence.
        logs = np.log(np.maximum(energies, 1e-12))
        return np.asarray(
            logs @ cosine_transform(filterbank_channel_count, dct_coefficient_count), np.float32
        )

    @staticmethod
    def cost(
        y: TensorSpec, spectrogram: TensorSpec, rate: TensorSpec, *, filterbank_channel_count: int = 40
    ) -> Cost:
        macs = (y.size or 0) * filterbank_channel_count
        return Cost(flops=2 * macs + 6 * (spectrogram.size or 0), macs=macs)


def _mel(frequency: Array | float) -> Any:
    """Mel scale of a frequency in Hz."""
    return 1127.0 * np.log1p(np.asarray(frequency, np.float64) / 700.0)


@cache
def mel_filters(bins: int, rate: int, channels: int, lower: float, upper: float) -> Array | None:
    """Triangular filters [bins, channels] in double; neighbours overlap by half and sum to 1.

    None where a limit is beyond the spectrum: TensorFlow logs an error and leaves the output 0.
    """
    require(
        bins >= 2 and rate > 0 and channels >= 1, "Mfcc needs at least 2 bins, a sample rate and a channel"
    )
    require(0 <= lower < upper, f"frequency limits {lower} and {upper} are not in order")
    low = _mel(lower)
    spacing = (_mel(upper) - low) / (channels + 1)
    edges = low + spacing * np.arange(channels + 2)  # centre of channel k is edge k + 1
    hz_per_bin = 0.5 * rate / (bins - 1)
    # TensorFlow's rounding: bins from just above the lower limit (never bin 0) to the last within the upper
    # one.
    first, last = int(1.5 + lower / hz_per_bin), int(upper / hz_per_bin)
    filters = np.zeros((bins, channels))
    if last >= bins:
        return None
    for k in range(first, last + 1):
        mel = _mel(k * hz_per_bin)
        falling = (
            int(np.searchsorted(edges[1:], mel, side="left")) - 1
        )  # channel whose slope falls here, -1 before the first
        weight = (
            (edges[falling + 2] - mel) / (edges[falling + 2] - edges[falling + 1])
            if falling + 2 < edges.size
            else 0.0
        )
        # A bin between two centres belongs to both filters: what one loses the next gains.
        if falling >= 0:
            filters[k, falling] += weight
        if falling + 1 < channels:
            filters[k, falling + 1] += 1.0 - weight
    return filters


@cache
def cosine_transform(inputs: int, outputs: int) -> Array:
    """DCT-II matrix [inputs, outputs] with the scale sqrt(2 / inputs), also for coefficient 0."""
    step = np.pi / inputs
    angles = (np.arange(inputs)[:, None] + 0.5) * np.arange(outputs) * step
    return np.asarray(np.sqrt(2.0 / inputs) * np.cos(angles))
