"""The state of each variable of a checkpoint: whether its bytes are sound, and what its numbers are like."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from thinflow.errors import FormatError
from thinflow.formats._slices import Place
from thinflow.formats.checkpoint import Checkpoint
from thinflow.ir.brief import brief_repr
from thinflow.ir.types import STRING, VARIANT, TensorSpec
from thinflow.typing import Array

_CHUNK = 1 << 20  # elements looked at together, so that large variables take little memory


@dataclass(frozen=True)
class NumberStats:
    """Statistics of the numbers of a variable.

    Attributes:
        minimum, maximum, mean: of those that are finite; None if none is, or if their sum overflows.
        nans, infinities: how many are not.
    """

    minimum: float | None
    maximum: float | None
    mean: float | None
    nans: int
    infinities: int


@brief_repr
@dataclass(frozen=True)
class VariableState:
    """A variable as it stands in the files.

    Attributes:
        name: its key.
        spec: element type and shape.
        places: shards and bytes, one for each part.
        problem: what is wrong with it, and where; "" if its checksum is right.
        stats: None for text, complex numbers, objects, and what cannot be read.
    """

    name: str
    spec: TensorSpec
    places: list[Place]
    problem: str
    stats: NumberStats | None = None


def variable_states(checkpoint: Checkpoint, *, with_stats: bool = False) -> Iterator[VariableState]:
    """The state of each variable, in order. Every byte is read; damage to one leaves the others.

    Args:
        checkpoint: open.
        with_stats: look at the numbers, too.
    """
    for name in checkpoint.keys_of_all():
        yield _state(checkpoint, name, with_stats)


def _state(checkpoint: Checkpoint, name: str, with_stats: bool) -> VariableState:
    spec = checkpoint.spec(name)
    places: list[Place] = []
    try:
        places = checkpoint.places(name)
        if spec.dtype is VARIANT:  # an object that only TensorFlow can build, numbers it has none
            return VariableState(name, spec, places, "")
        value = checkpoint.tensor(name).numpy()
    except FormatError as error:
        return VariableState(name, spec, places, error.message)
    stats = number_stats(value) if with_stats and spec.dtype is not STRING else None
    return VariableState(name, spec, places, "", stats)


def number_stats(values: Array) -> NumberStats | None:
    """Statistics of the numbers of an array; None if it holds no ordered ones."""
    if values.dtype.kind in "cOSU":
        return None
    flat = values.reshape(-1)
    lows, highs, total, count, nans, infinities = [], [], 0.0, 0, 0, 0
    for start in range(0, flat.size, _CHUNK):
        with np.errstate(all="ignore"):  # any bits may stand in a file
            # In float64, where sums of float16 and of large integers do not overflow.
            chunk = flat[start : start + _CHUNK].astype(np.float64)
            finite = chunk[np.isfinite(chunk)]
            total += float(finite.sum())
        missing = int(np.isnan(chunk).sum())
        nans, infinities = nans + missing, infinities + chunk.size - finite.size - missing
        count += finite.size
        if finite.size:
            lows.append(float(finite.min()))
            highs.append(float(finite.max()))
    if not count:
        return NumberStats(None, None, None, nans, infinities)
    # float64 values near the limit may still add up to infinity.
    mean = total / count if math.isfinite(total) else None
    return NumberStats(min(lows), max(highs), mean, nans, infinities)
