"""The sample of a self-test: a picture, a sound or numbers of the user's, or made up; before and after it is
prepared.
"""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from thinflow.datasets.fields import Feeding
from thinflow.datasets.shard import Record
from thinflow.deploy.contract import PICTURE, QUANTIZED, RATE, SOUND, AppInput
from thinflow.errors import FeedError, ParameterError
from thinflow.ir.types import FLOAT, TensorSpec
from thinflow.ops.audio import DecodeWav
from thinflow.quantize.sample_files import PICTURES, SOUNDS, UnreadableSample, read_sample
from thinflow.synthetic.files import synthetic_wav
from thinflow.typing import Array

if TYPE_CHECKING:
    from thinflow.deploy.opened import OpenedModel

_LONGEST_SIDE, _SMALL_SIDE = 512, 64
"""Pixels: a self-test needs no more, and the folder stays small; so does the firmware of a board."""
_WAVES = 5
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's names of pictures, by how many channels they have."""


@dataclass(frozen=True)
class Sample:
    """What is fed, by name of input; what it was made of, and where that comes from; see `SelfTest`."""

    raw: Array | None
    feed: dict[str, Array]
    origin: str


def sample_for(model: OpenedModel, path: str | None, *, is_small: bool = False) -> Sample:
    """The sample in a file, or one that is made up: always the same for the same model.

    Args:
        model: that it is for.
        path: of the file.
        is_small: whether a picture has to be small, whatever the model's size.

    Raises:
        FeedError: it cannot be read, or does not fit.
    """
    origin = "made up" if path is None else Path(path).name
    main = next((one for one in model.inputs if one.kind in (PICTURE, SOUND)), None)
    if main is None:
        return Sample(None, _numbers(model, path), origin)
    rng = np.random.default_rng(0)
    if main.kind == PICTURE:
        most = _SMALL_SIDE if is_small else _LONGEST_SIDE
        raw = _made_up_picture(main, rng, most) if path is None else _read_picture(path, main, most)
        fed = fed_picture(raw, main, model.feeding)
    else:
        raw = _made_up_sound(main, rng) if path is None else _read_sound(path)
        fed = fed_sound(raw, main)
    rates = {one.name: np.full(one.shape, one.value, one.dtype) for one in model.inputs if one.kind == RATE}
    # What else it takes no file gives.
    others = {} if len(rates) + 1 == len(model.inputs) else model.made_up()
    return Sample(raw, {**others, **rates, main.name: fed}, origin)


def fed_picture(raw: Array, one: AppInput, feeding: Feeding) -> Array:
    """What is fed of a picture [height, width, channels], by the same functions as samples of `evaluate`."""
    assert one.picture is not None
    record = Record({"png": png_bytes(raw)}, "sample.png")
    if one.picture.store != QUANTIZED:
        return feeding.feed(record)[one.name].reshape(one.shape)
    # As an input of reals would be fed, and then put on the grid of this one.
    specs = {one.name: TensorSpec(FLOAT, one.shape)}
    return quantized(Feeding(specs, feeding.scaling).feed(record)[one.name], one)


def quantized(reals: Array, one: AppInput) -> Array:
    """Real numbers as the codes of an input."""
    limits = np.iinfo(one.dtype)
    codes = np.round(reals.astype(np.float32) / np.float32(one.scale)) + one.zero_point
    found: Array = codes.clip(limits.min, limits.max).astype(one.dtype)
    return found.reshape(one.shape)


def fed_sound(raw: Array, one: AppInput) -> Array:
    """What is fed of samples [n] of 16 bits: cut, or followed by silence."""
    assert one.sound is not None
    samples: Array = np.zeros(one.sound.samples, np.int16)
    count = min(len(raw), len(samples))
    samples[:count] = raw[:count]
    if one.dtype != "int16":
        # As DecodeWav of TensorFlow has it.
        samples = samples.astype(np.float32) / np.float32(32768)
    return samples.reshape(one.shape)


# ------------------------------------------------------------------------------------------------ made up


def _made_up_picture(one: AppInput, rng: np.random.Generator, most: int) -> Array:
    """Waves of colour, larger than the input and of another shape, so that every step has something to do."""
    assert one.picture is not None
    height, width = one.picture.height * 5 // 4 + 3, one.picture.width * 3 // 2 + 5
    if most < _LONGEST_SIDE:
        height, width = min(height, most - 15), min(width, most)
    sides = one.picture.resize
    if isinstance(sides, int):
        factor = max(1.0, min(sides, most) / min(height, width))
        height, width = round(height * factor), round(width * factor)
    rows, columns = np.linspace(0, 1, height)[:, None], np.linspace(0, 1, width)
    channels = one.picture.channels
    made = np.zeros((height, width, channels))
    for channel in range(channels):
        for _ in range(_WAVES):
            a, b, phase = rng.uniform(-20, 20), rng.uniform(-20, 20), rng.uniform(0, 6)
            made[..., channel] += np.sin(a * rows + b * columns + phase)
    made += rng.normal(0, 0.3, made.shape)
    low, high = made.min(), made.max()
    pixels: Array = np.round((made - low) / (high - low) * 255)
    return pixels.astype(np.uint8)


def _made_up_sound(one: AppInput, rng: np.random.Generator) -> Array:
    """Gliding tones in noise; shorter than the input, so that silence follows."""
    assert one.sound is not None
    count = max(1, one.sound.samples * 15 // 16)
    return _samples(synthetic_wav(rng, count, one.sound.sample_rate), "made up")


# ------------------------------------------------------------------------------------------------- from files


def _numbers(model: OpenedModel, path: str | None) -> dict[str, Array]:
    """What is fed of an .npy, .npz or the like; without one, what the graph's ops can take."""
    if path is None:
        return model.made_up()
    found = read_sample(Path(path), model.specs, model.feeding.scaling)
    return {one.name: np.asarray(found[one.name]).reshape(one.shape) for one in model.inputs}


def _read_picture(path: str, one: AppInput, most: int) -> Array:
    assert one.picture is not None
    if Path(path).suffix.lower() not in PICTURES:
        hint = f"give one of {', '.join(sorted(PICTURES))}"
        raise ParameterError("the model takes a picture, and this is none", path, hint)
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as e:
        raise FeedError("reading pictures needs Pillow", path, hint="pip install 'thinflow[image]'") from e
    try:
        with Image.open(path) as opened:
            picture = opened.convert(_MODES[one.picture.channels])
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError, SyntaxError, ValueError) as e:
        raise UnreadableSample(f"the picture cannot be read: {e}", path) from e
    picture.thumbnail((most, most))
    return np.asarray(picture).reshape(picture.height, picture.width, -1)


def _read_sound(path: str) -> Array:
    if Path(path).suffix.lower() not in SOUNDS:
        raise ParameterError("the model takes a sound, and this is none", path, "give a .wav file")
    try:
        return _samples(Path(path).read_bytes(), path)
    except OSError as e:
        raise FeedError(f"the file cannot be read: {e}", path) from e


def _samples(content: bytes, where: str) -> Array:
    """The samples [n] of 16 bits of a WAV file's first channel.

    Raises:
        FormatError: it holds no such sound.
    """
    reals, _ = DecodeWav.kernel(np.array(content, object), desired_channels=1, desired_samples=-1)
    samples: Array = np.round(reals.reshape(-1) * 32768).clip(-32768, 32767)
    return samples.astype(np.int16)


# ------------------------------------------------------------------------------------------- files of apps


def png_bytes(picture: Array) -> bytes:
    """A picture [height, width, 1, 3 or 4] of uint8 as PNG."""
    height, width, channels = picture.shape
    # 0 before each row: it is stored as it is.
    rows = np.zeros((height, 1 + width * channels), np.uint8)
    rows[:, 1:] = picture.reshape(height, -1)
    # 8 bits, then PNG's kinds of colour: 0 grey, 2 RGB, 6 RGB with opacity.
    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")]
    found = io.BytesIO()
    found.write(b"\x89PNG\r\n\x1a\n")
    for kind, content in parts:
        found.write(struct.pack(">I", len(content)) + kind + content)
        # Over kind and content; the length is not in it.
        found.write(struct.pack(">I", zlib.crc32(kind + content)))
    return found.getvalue()


def ppm_bytes(picture: Array) -> bytes:
    """A picture as PPM, or as PGM where it is grey: a format that takes ten lines to read."""
    height, width, channels = picture.shape
    return f"P{6 if channels == 3 else 5}\n{width} {height}\n255\n".encode() + picture.tobytes()


def wav_bytes(samples: Array, rate: int) -> bytes:
    """Samples [n] of 16 bits as a WAV file of one channel."""
    data = samples.astype("<i2").tobytes()
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    # RIFF counts all behind its size: "WAVE" and the form are 28 bytes, what stands before the samples 8.
    return b"RIFF" + struct.pack("<I", 28 + len(data) + 8) + b"WAVE" + form + struct.pack(
        "<4sI", b"data", len(data)
    ) + data  # fmt: skip
