"""One sample, or one input of it, from a file: arrays, numbers in text, pictures scaled to fit, sounds."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

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
            array = read_picture(file, spec, scaling or Scaling(), where)
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
    except FileNotFoundError as e:
        raise FeedError("there is no such file", where, hint="check the path") from e
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
    try:
        content = file.read_bytes()
    except OSError as e:
        raise FeedError(f"the file cannot be read: {e}", str(file)) from e
    return sample_of(content, file.suffix.lower(), inputs, scaling, str(file))


def sample_of(content: bytes, suffix: str, inputs: Inputs, scaling: Scaling, where: str) -> dict[str, Array]:
    """Input name -> array, of the content of a file with that suffix.

    Raises:
        FeedError: it cannot be read, or does not fit the inputs.
    """
    try:
        if suffix == ".npy":
            return fitted_sample(np.load(io.BytesIO(content), allow_pickle=False), inputs, where)
        if suffix == ".npz":
            with np.load(io.BytesIO(content), allow_pickle=False) as members:
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
        sound = read_sound(content, inputs, where)
        return {name: fit(x, name, inputs[name], where) for name, x in sound.items()}
    name = only_input(inputs, f"a {suffix} file")
    spec = inputs[name]
    if spec.dtype is STRING:
        return {name: fit(as_array(content), name, spec, where)}
    return {name: fit(read_picture(io.BytesIO(content), spec, scaling, where), name, spec, where)}


def read_sound(content: bytes, inputs: Mapping[str, TensorSpec], where: str) -> dict[str, Array]:
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
            f"a sound does not go into {wanted}", where, "save the samples as .npz, an array per input"
        )
    spec = inputs[sound[0]]
    sizes = [n for n in spec.shape or () if n != 1]
    if len(sizes) > 1:
        raise FeedError(
            f"input '{sound[0]}' wants {spec} and a sound file holds one row of samples",
            where,
            "save what is computed of each sound as .npy",
        )
    # -1 is DecodeWav's word for as many as there are.
    count = next((n for n in sizes if n is not None), -1)
    samples, found = DecodeWav.kernel(
        np.array(content, object), desired_channels=_CHANNEL, desired_samples=count
    )
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
_LONGEST_SIDE = 1 << 15


class UnreadableSample(FeedError):
    """The content of one sample is damaged; others may be well."""


@brief_repr
@dataclass(frozen=True)
class Scaling:
    """(value - mean) / std for picture values 0..255; one number, or one per channel.

    Attributes:
        mean, std: in the order in which the channels are fed.
        bgr: blue first.
        resize: of the picture before it is cut: its shorter side, or (height, width); None: the model's size.
        crop: "center" cuts the model's size out of the middle, or without `resize` the largest part of its
            shape; "" presses the whole picture into it.
        keeps_range: whether mean, std and order are left to the model's file, where that says them.
    """

    mean: float | Sequence[float] = 0.0
    std: float | Sequence[float] = 1.0
    bgr: bool = False
    resize: int | tuple[int, int] | None = None
    crop: str = ""
    keeps_range: bool = False

    def __post_init__(self) -> None:
        if np.any(np.asarray(self.std) == 0):
            raise ParameterError("std is 0")
        if self.crop not in ("", "center"):
            raise ParameterError(f"there is no crop '{self.crop}'", hint="give center, or leave it out")
        sides = () if self.resize is None else np.atleast_1d(self.resize)
        if any(not 0 < side <= _LONGEST_SIDE for side in sides):
            raise ParameterError(
                f"a picture cannot be resized to {self.resize}", hint=f"give 1 to {_LONGEST_SIDE} pixels"
            )

    def settled(self, stated: Scaling | None) -> Scaling:
        """With what the model's file says, where that was left to it."""
        if not self.keeps_range or stated is None:
            return self
        return replace(stated, resize=self.resize, crop=self.crop)

    def __call__(self, picture: Array) -> Array:
        mean, std = np.asarray(self.mean, np.float32), np.asarray(self.std, np.float32)
        return (self.ordered(picture).astype(np.float32) - mean) / std

    def ordered(self, picture: Array) -> Array:
        """A picture of red, green and blue with its channels as they are fed."""
        return picture[..., ::-1] if self.bgr and picture.shape[-1] == _COLOURS else picture

    def resized(self, picture: Any, size: tuple[int, int], where: str) -> Any:
        """A picture of Pillow's in the size (width, height) that is fed.

        Raises:
            FeedError: nothing of that size can be cut out of it.
        """
        # The shorter side, as torchvision's Resize has it: its pipelines cut the middle out of that.
        if isinstance(self.resize, int):
            factor = self.resize / min(picture.size)
            picture = _to_size(picture, tuple(max(1, round(side * factor)) for side in picture.size))
        elif self.resize is not None:
            picture = _to_size(picture, self.resize[::-1])
        if self.crop:
            cut = size if self.resize is not None else _largest(picture.size, size)
            if cut[0] > picture.width or cut[1] > picture.height:
                raise FeedError(
                    f"a part of {cut[0]}x{cut[1]} cannot be cut out of {picture.width}x{picture.height}",
                    where,
                    hint="resize pictures to at least that",
                )
            # As torchvision rounds: half a pixel goes to the even side.
            left, top = round((picture.width - cut[0]) / 2), round((picture.height - cut[1]) / 2)
            picture = picture.crop((left, top, left + cut[0], top + cut[1]))
        return _to_size(picture, size)

    def text(self) -> str:
        """All of it in words: `shorter side 256, centre cut, -1..1, BGR`."""
        size = f"shorter side {self.resize}" if isinstance(self.resize, int) else ""
        if isinstance(self.resize, tuple):
            size = f"{self.resize[1]}x{self.resize[0]}"
        parts = [size, "centre cut" if self.crop else "", f"pixels as {self.range_text()}"]
        return ", ".join(filter(None, [*parts, "BGR" if self.bgr else ""]))

    def range_text(self) -> str:
        """The range of pixels 0..255: `0..255`, `-1..1`; from the lowest to the highest of all channels."""
        ends = [(np.float64(pixel) - np.asarray(self.mean)) / np.asarray(self.std) for pixel in (0, 255)]
        low, high = min(float(np.min(e)) for e in ends), max(float(np.max(e)) for e in ends)
        return f"{low:.4g}..{high:.4g}"


def _largest(of: tuple[int, int], shape: tuple[int, int]) -> tuple[int, int]:
    """The largest size within one that has the shape of another."""
    factor = min(side / wanted for side, wanted in zip(of, shape, strict=True))
    return max(1, int(shape[0] * factor)), max(1, int(shape[1] * factor))


def _to_size(picture: Any, size: tuple[int, ...]) -> Any:
    """A picture of Pillow's in the size (width, height); itself if it has that."""
    from PIL import Image

    # Pillow widens the filter where it makes a picture smaller; TensorFlow's resize takes four pixels
    # whatever the factor, so the two differ there.
    # Across before down, each by itself: Pillow 13 chooses the order by the sizes, older ones and the code of
    # apps do not, and bytes are rounded in between.
    for step in ((size[0], picture.height), size):
        if picture.size != step:
            picture = picture.resize(step, Image.Resampling.BILINEAR)
    return picture


def read_picture(file: Path | IO[bytes], spec: TensorSpec, scaling: Scaling, where: str) -> Array:
    """float32 or uint8 [H, W, C], resized if the model has a fixed size."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as e:
        raise FeedError("reading pictures needs Pillow", where, hint="pip install 'thinflow[image]'") from e
    # [..., H, W, C] with or without a batch. A matrix is no picture, and is refused below.
    height, width, channels = (
        (spec.shape or (None, None, None))[-3:] if spec.rank != 2 else (None, None, None)
    )
    # Pillow converts to gray or drops transparency as the model wants; an open channel count means colour.
    mode = {1: "L", 3: "RGB", 4: "RGBA"}.get(3 if channels is None else channels)
    if mode is None or spec.rank not in (None, 3, 4):
        raise FeedError(f"a picture does not fit an input of shape {shape_text(spec.shape)}", where)
    try:
        with Image.open(file) as opened:
            picture = opened.convert(mode)
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError, SyntaxError, ValueError) as e:
        raise UnreadableSample(f"the picture cannot be read: {e}", where) from e
    given = scaling.resize if isinstance(scaling.resize, tuple) else (picture.height, picture.width)
    size = (width or given[1], height or given[0])
    values = np.asarray(scaling.resized(picture, size, where)).reshape(size[1], size[0], -1)
    # A uint8 input takes pixels; the model scales them itself.
    return scaling.ordered(values) if spec.dtype is UINT8 else scaling(values)
