"""Sounds as arrays of the length that a model wants."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from thinflow.errors import FeedError
from thinflow.ir.types import TensorSpec
from thinflow.ops.audio import DecodeWav
from thinflow.typing import Array

SOUNDS = frozenset((".wav",))
_CHANNEL = 1
"""Models of more than one channel say so in their shape, [samples, channels]; others take the first."""


def read_sound(file: Path, inputs: Mapping[str, TensorSpec]) -> dict[str, Array]:
    """What a model of numbers takes of a WAV file, by input: the samples as float32 in -1..1, cut or followed
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
