"""What the weights look like: statistics, histogram, a picture of filters, the first values.

Read lazily, a bounded piece at a time; of very large ones an even sample.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from thinflow.explorer.document import Numbers, Picture, Statistics
from thinflow.explorer.facts import shortened
from thinflow.explorer.filters import filter_picture
from thinflow.ir.tensor import Tensor
from thinflow.typing import Array

BINS = 32
CHUNK = 1 << 20
"""Elements looked at in one go, 8 MB as float64."""
MOST_ELEMENTS = 1 << 22
"""Elements of a constant that are all looked at; of more, pieces spread evenly."""
_PIECE = 1 << 12
_FIRST_VALUES = 8
_NUMBERS = "fiubq"
_WORTH_A_HISTOGRAM = 8


def statistics(tensor: Tensor) -> Statistics | None:
    """Statistics of a constant of numbers; None for others and for empty ones. Two walks over it.

    Raises:
        ThinflowError: the file does not hold what it says.
    """
    if tensor.dtype.kind not in _NUMBERS or not tensor.size or not tensor.dtype.numpy_name:
        return None
    if tensor.is_splat:
        # One number stands for all: it is looked at once, and counts as often as it stands there.
        array, repeats = tensor.numpy().flat[:1], tensor.size
    else:
        array, repeats = tensor.numpy().reshape(-1), 1
    count = zeros = finite = 0
    low, high, total = np.inf, -np.inf, 0.0
    for piece in _pieces(array):
        known = piece[np.isfinite(piece)]
        count, finite = count + piece.size, finite + known.size
        zeros += int(np.count_nonzero(known == 0))
        if known.size:
            low, high = min(low, float(known.min())), max(high, float(known.max()))
            total += float(known.sum())
    sampled = count if count < array.size else None
    histogram = _histogram(array, low, high) if finite >= _WORTH_A_HISTOGRAM else ()
    lost = (count - finite) * repeats
    if not finite:
        return Statistics(None, None, None, 0.0, lost, (), sampled)
    # A sum may overflow where no number does; JSON has no infinity.
    mean = total / finite if np.isfinite(total) else None
    return Statistics(low, high, mean, zeros / count, lost, histogram, sampled)


def _histogram(array: Array, low: float, high: float) -> tuple[int, ...]:
    # Where the width overflows there are no equal bins of it.
    if high <= low or not np.isfinite(high - low):
        return ()
    counts = np.zeros(BINS, np.int64)
    for piece in _pieces(array):
        counts += np.histogram(piece[np.isfinite(piece)], BINS, (low, high))[0]
    return tuple(counts.tolist())


def _pieces(array: Array) -> Iterator[Array]:
    """The elements in float64, a bounded number at a time; evenly spread pieces of a very large array."""
    if array.size <= MOST_ELEMENTS:
        for start in range(0, array.size, CHUNK):
            yield array[start : start + CHUNK].astype(np.float64)
        return
    # Whole pieces, not every n-th element: that would read all of a mapped file, and may meet one channel.
    pieces = MOST_ELEMENTS // _PIECE
    for number in range(pieces):
        start = number * (array.size - _PIECE) // (pieces - 1)
        yield array[start : start + _PIECE].astype(np.float64)


def first_values(tensor: Tensor) -> str:
    """The first elements as text."""
    return shortened(tensor.preview(_FIRST_VALUES), 120)


@dataclass
class Allowance:
    """Bytes of numbers that a page may still take.

    Attributes:
        each: of one constant at most.
        left: of all that come.
    """

    each: int
    left: int


def few_values() -> Allowance:
    """What every page holds: biases, norms, axes; not filters."""
    return Allowance(4 << 10, 48 << 10)


def all_values() -> Allowance:
    """What a page holds that is asked for values: more, and no browser opens it."""
    return Allowance(256 << 20, 256 << 20)


def numbers(tensor: Tensor, allowance: Allowance) -> Numbers | None:
    """All numbers of a constant, taken off the allowance; None of words, and where it does not suffice.

    Formats that neither numpy nor JavaScript knows (bfloat16, eight-bit floats) become float32.
    """
    if tensor.dtype.kind not in _NUMBERS or not tensor.size or not tensor.dtype.numpy_name:
        return None
    if tensor.size > allowance.each or tensor.size > allowance.left:
        return None  # before anything is read
    array = tensor.numpy()
    if array.dtype.kind not in "fiub" or (array.dtype.itemsize == 1 and array.dtype.kind == "f"):
        array = array.astype(np.float32)
    # Browsers read them as typed arrays, which have the machine's order of bytes: little-endian, by now.
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    if array.nbytes > allowance.each or array.nbytes > allowance.left:
        return None
    allowance.left -= array.nbytes
    return Numbers(array.dtype.str, base64.b64encode(array.tobytes()).decode())


def picture(tensor: Tensor, layout: str) -> Picture | None:
    """The filters of a weight side by side; None if it has none that can be seen.

    Args:
        tensor: the weight.
        layout: its axes, as `filters.layout_of` tells.
    """
    return filter_picture(tensor, layout) if layout else None
