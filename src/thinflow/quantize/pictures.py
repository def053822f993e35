"""Pictures as arrays of the size and the range of values that a model wants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from thinflow.errors import FeedError, ParameterError
from thinflow.ir.brief import brief_repr
from thinflow.ir.types import UINT8, TensorSpec, shape_text
from thinflow.typing import Array

PICTURES = frozenset((".jpg", ".jpeg", ".png", ".bmp"))


@brief_repr
@dataclass(frozen=True)
class Scaling:
    """(value - mean) / std for picture values 0..255; one number, or one per channel."""

    mean: float | Sequence[float] = 0.0
    std: float | Sequence[float] = 1.0

    def __post_init__(self) -> None:
        if np.any(np.asarray(self.std) == 0):
            raise ParameterError("std is 0")

    def __call__(self, picture: Array) -> Array:
        return (picture.astype(np.float32) - np.asarray(self.mean, np.float32)) / np.asarray(
            self.std, np.float32
        )

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
    return values if spec.dtype is UINT8 else scaling(values)
