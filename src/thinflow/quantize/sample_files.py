"""One sample, or one input of it, from a file: arrays, numbers in text, pictures scaled to fit, sounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.errors import FeedError, ParameterError
from thinflow.ir.brief import brief_repr
from thinflow.ir.types import STRING, UINT8, TensorSpec, shape_text
from thinflow.ops.audio import DecodeWav
from thinflow.quantize.fitting import Inputs, as_array, fit, fitted_sample, only_input
from thinflow.quantize.stored import UNREADABLE
from thinflow.typing import Array

ARRAYS = frozenset((".npy", ".npz"))
TEXTS = frozenset((".txt", ".csv"))
LABELS = "labels"
SOUNDS = frozenset((".wav",))
_CHANNEL = 1
"""Models of more than one channel say so in their shape, [samples, channels]; others take the first."""


def read_input(file: Path, name: str, spec: TensorSpec, *, scaling: Scaling | None = None) -> Array:
    """One input's array from one file: `.npy`, `.npz` (first member), numbers in `.txt` or `.csv`, a picture.

    A string input gets the file's bytes, whatever the file is.

    Raises:
        FeedError: the file cannot be read, or does not fit the input.
    """
    where, suffix = str(file), file.suffix.lower()
    try:
        if spec.dtype is STRING and suffix not in ARRAYS:
            array = as_array(file.read_bytes())
        elif suffix in ARRAYS:
            loaded = np.load(file, allow_pickle=False)
            array = loaded if isinstance(loaded, np.ndarray) else _first_member(loaded)
        elif suffix in PICTURES:
            array = read_picture(file, spec, scaling or Scaling())
        elif suffix in TEXTS:
            array = np.loadtxt(file, delimiter="," if suffix == ".csv" else None, ndmin=1)
            # Text has rows and columns at most; where the count fits, the numbers are meant in the model's
            # shape.
            if spec.size == array.size and spec.shape is not None:
                array = array.reshape([n or 0 for n in spec.shape])
        else:
            raise FeedError(f"an input cannot be read from a {suffix or 'suffixless'} file", where)
    except FeedError:
        raise
    except UNREADABLE as e:
        raise FeedError(f"the file cannot be read: {e}", where) from e
    return fit(array, name, spec, where)


def _first_member(members: Any) -> Array:
    with members:
        if not members.files:
            raise ValueError("it has no arrays")
        return np.asarray(members[members.files[0]])


def read_sample(file: Path, inputs: Inputs, scaling: Scaling) -> dict[str, Array]:
    """Input name -> array, of one file of a folder of samples.

    Raises:
        FeedError: the file cannot be read, or does not fit the inputs.
    """
    where, suffix = str(file), file.suffix.lower()
    try:
        if suffix == ".npy":
            return fitted_sample(np.load(file, allow_pickle=False), inputs, where)
        if suffix == ".npz":
            with np.load(file, allow_pickle=False) as members:
                arrays = {name: members[name] for name in members.files}
            return fitted_sample(
                {k: v for k, v in arrays.items() if k != LABELS or k in inputs}, inputs, where
            )
    except FeedError:
        raise
    except UNREADABLE as e:
        raise FeedError(f"the file cannot be read: {e}", where) from e
    # A model that takes text decodes the file by itself, and gets its bytes below.
    if suffix in SOUNDS and all(spec.dtype is not STRING for spec in inputs.values()):
        return {name: fit(x, name, inputs[name], where) for name, x in _read_sound(file, inputs).items()}
    name = only_input(inputs, f"a {suffix} file")
    spec = inputs[name]
    if spec.dtype is STRING:
        return {name: fit(as_array(file.read_bytes()), name, spec, where)}
    return {name: fit(read_picture(file, spec, scaling), name, spec, where)}


def _read_sound(file: Path, inputs: Mapping[str, TensorSpec]) -> dict[str, Array]:
    """Inputs of a model of numbers from a WAV file, by name: the samples as float32 in -1..1, cut or followed
    by silence where the model states a length, and the rate where it also takes one whole number.

    Raises:
        FeedError: the inputs are of other kinds.
        FormatError: the file holds no 16-bit PCM sound.
    """
    sound = [name for name, spec in inputs.items() if spec.dtype is not None and spec.dtype.is_floating]
    rate = [name for name, spec in inputs.items() if spec.dtype is not None and _is_one_integer(spec)]
    if len(sound) != 1 or len(sound) + len(rate) != len(inputs) or len(rate) > 1:
        wanted = ", ".join(f"{name} {spec}" for name, spec in inputs.items())
        raise FeedError(
            f"a sound does not go into {wanted}", str(file), "save the samples as .npz, an array per input"
        )
    spec = inputs[sound[0]]
    sizes = [n for n in spec.shape or () if n != 1]
    if len(sizes) > 1:
        raise FeedError(
            f"input '{sound[0]}' wants {spec} and a sound file holds one row of samples",
            str(file),
            "save what is computed of each sound as .npy",
        )
    # -1 is DecodeWav's word for as many as there are.
    count = next((n for n in sizes if n is not None), -1)
    contents = np.array(file.read_bytes(), object)
    samples, found = DecodeWav.kernel(contents, desired_channels=_CHANNEL, desired_samples=count)
    return {sound[0]: _shaped(samples, spec)} | {name: found for name in rate}


def _is_one_integer(spec: TensorSpec) -> bool:
    return (
        spec.dtype is not None and spec.dtype.is_integer and math.prod(n or 1 for n in spec.shape or ()) == 1
    )


def _shaped(samples: Array, spec: TensorSpec) -> Array:
    """Samples [n,1] in the shape of an input of one size other than 1."""
    if spec.shape is None:
        return samples
    length = [n != 1 for n in spec.shape]
    return samples.reshape([-1 if is_length else 1 for is_length in length] if any(length) else [-1])


# --------------------------------------------------------------------------------------------------- pictures

PICTURES = frozenset((".jpg", ".jpeg", ".png", ".bmp"))
_COLOURS = 3


@brief_repr
@dataclass(frozen=True)
class Scaling:
    """(value - mean) / std for picture values 0..255; one number, or one per channel.

    Attributes:
        mean, std: in the order in which the channels are fed.
        bgr: blue first.
    """

    mean: float | Sequence[float] = 0.0
    std: float | Sequence[float] = 1.0
    bgr: bool = False

    def __post_init__(self) -> None:
        if np.any(np.asarray(self.std) == 0):
            raise ParameterError("std is 0")

    def __call__(self, picture: Array) -> Array:
        mean, std = np.asarray(self.mean, np.float32), np.asarray(self.std, np.float32)
        return (self.ordered(picture).astype(np.float32) - mean) / std

    def ordered(self, picture: Array) -> Array:
        """A picture of red, green and blue with its channels as they are fed."""
        return picture[..., ::-1] if self.bgr and picture.shape[-1] == _COLOURS else picture

    def range_text(self) -> str:
        """The range of pixels 0..255: `0..255`, `-1..1`; from the lowest to the highest of all channels."""
        ends = [(np.float64(pixel) - np.asarray(self.mean)) / np.asarray(self.std) for pixel in (0, 255)]
        low, high = min(float(np.min(e)) for e in ends), max(float(np.max(e)) for e in ends)
        return f"{low:.4g}..{high:.4g}"


def read_picture(file: Path, spec: TensorSpec, scaling: Scaling) -> Array:
    """float32 or uint8 [H, W, C], resized if the model has a fixed size."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as e:
        raise FeedError(
            "reading pictures needs Pillow", str(file), hint="pip install 'thinflow[image]'"
        ) from e
    # [..., H, W, C] with or without a batch. A matrix is no picture, and is refused below.
    height, width, channels = (
        (spec.shape or (None, None, None))[-3:] if spec.rank != 2 else (None, None, None)
    )
    # Pillow converts to gray or drops transparency as the model wants; an open channel count means colour.
    mode = {1: "L", 3: "RGB", 4: "RGBA"}.get(3 if channels is None else channels)
    if mode is None or spec.rank not in (None, 3, 4):
        raise FeedError(f"a picture does not fit an input of shape {shape_text(spec.shape)}", str(file))
    try:
        with Image.open(file) as opened:
            picture = opened.convert(mode)
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as e:
        raise FeedError(f"the picture cannot be read: {e}", str(file)) from e
    size = (width or picture.width, height or picture.height)
    if picture.size != size:
        # Pillow widens the filter where it makes a picture smaller; TensorFlow's resize takes four pixels
        # whatever the factor, so the two differ there.
        picture = picture.resize(size, Image.Resampling.BILINEAR)
    values = np.asarray(picture).reshape(size[1], size[0], -1)
    # A uint8 input takes pixels; the model scales them itself.
    return scaling.ordered(values) if spec.dtype is UINT8 else scaling(values)
