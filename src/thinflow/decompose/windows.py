"""Windows over images: an element of the window at a time, or an axis at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, concat, refuse_unless, where
from thinflow.ir.types import INT32, INT64, DType
from thinflow.ops._windows import Window, layout, window
from thinflow.typing import Array

_MOST_TAPS = 64
"""Elements of the largest window: three or four operators for each."""
_MOST_PLACES = 1 << 22
"""Of a constant that is made here and is in no file."""


@dataclass(frozen=True)
class _Seen:
    """Images padded for a window with known sizes.   padded [n, h', w', c]."""

    padded: Term
    win: Window
    sizes: tuple[int, int]

    @property
    def out(self) -> tuple[int, ...]:
        return self.win.output_sizes(self.sizes)

    def under(self, tap: Sequence[int]) -> Term:
        """The pixels under one element of the window at all its indices.   [n, oh, ow, c]."""
        parts = {}
        axes = zip(tap, self.out, self.win.strides, self.win.dilations, strict=True)
        for axis, (at, count, stride, dilation) in enumerate(axes, 1):
            start = at * dilation
            # The end is just behind the last one, so that no more than `count` are taken.
            parts[axis] = (start, start + (count - 1) * stride + 1, stride)
        return self.padded.slice(parts)

    def rows(self, tap: Sequence[int], axis: int) -> Array:
        """Indices of that in the image along an axis, those in the padding at its border.   [out]."""
        (before, _), size = self.win.pads(self.sizes)[axis], self.sizes[axis]
        first = tap[axis] * self.win.dilations[axis] - before
        return np.clip(first + np.arange(self.out[axis]) * self.win.strides[axis], 0, size - 1)


def _seen(
    x: Term,
    size: Sequence[int],
    strides: Sequence[int],
    padding: str,
    rates: Sequence[int] = (),
    *,
    border: float | None = None,
) -> _Seen:
    """Images under a window.

    Args:
        border: stands for the padding; None for the lowest number, which no maximum takes.
    """
    refuse_unless(len(x.shape) == 4, "a batch of images is needed")
    win = window(layout("NHWC"), size, strides, padding, rates)
    if border is None:
        refuse_unless(x.dtype.is_floating, f"it has no form for {x.dtype}")
        refuse_unless(int(np.prod(win.size)) <= _MOST_TAPS, f"its window has more than {_MOST_TAPS} elements")
        border = float(np.finfo(x.dtype.numpy()).min)
    sizes = x.static_size(1, "the height of its images"), x.static_size(2, "the width of its images")
    pads = [(0, 0), *win.pads(sizes), (0, 0)]
    padded = x.pad(pads, border) if any(map(any, pads)) else x
    return _Seen(padded, win, sizes)


@decompose("ExtractImagePatches")
def extract_image_patches(
    x: Term, *, ksizes: Sequence[int], strides: Sequence[int], rates: Sequence[int], padding: str
) -> Term:
    """The image shifted to each index of the window, side by side along the channels."""
    seen = _seen(x, ksizes[1:3], strides, padding, rates, border=0)
    taps = list(seen.win.taps())
    if len(taps) <= _MOST_TAPS:
        return concat([seen.under(tap) for tap in taps], -1)
    # So many slices would cost more than one look-up of all indices.
    height, width, depth = (seen.padded.static_size(axis, "the size of its images") for axis in (1, 2, 3))
    refuse_unless(len(taps) * int(np.prod(seen.out)) <= _MOST_PLACES, "the image is too large")
    sides = zip(seen.out, seen.win.strides, strict=True)
    # The pixel [row, column] is number row * width + column; an index of the window adds its own offset.
    rows, columns = (np.arange(count) * stride for count, stride in sides)
    dilated = np.array(taps) * seen.win.dilations
    places = (rows[:, None, None] + dilated[:, 0]) * width + columns[:, None] + dilated[:, 1]
    pixels = seen.padded.reshape([-1, height * width, depth])
    found = pixels.gather(x.body.constant(places, INT32), 1)
    return found.reshape([-1, *seen.out, len(taps) * depth])


@decompose("MaxPool3D", "AvgPool3D")
def pool_3d(
    x: Term, *, ksize: Sequence[int], strides: Sequence[int], padding: str, data_format: str = "NDHWC"
) -> Term:
    """Over height and width of each plane, then over the depth of each column.

    The mean of the means is the mean, also at the border: how many elements count there is a product.
    """
    refuse_unless(
        data_format == "NDHWC", f"data_format is {data_format}", "run the transform 'to_nhwc' first"
    )
    refuse_unless(len(x.shape) == 5, "a batch of volumes is needed")
    refuse_unless([*ksize[::4], *strides[::4]] == [1] * 4, "its windows lie over batch or channels")
    depth, height, width, channels = (x.static_size(axis, "the size of its volumes") for axis in (1, 2, 3, 4))
    op = x.body.op.removesuffix("3D")

    def pooled(planes: Term, sizes: Sequence[int], steps: Sequence[int]) -> Term:
        return planes.apply(op, ksize=(1, *sizes, 1), strides=(1, *steps, 1), padding=padding)

    # Planes as images of a larger batch, then columns as images of width 1.
    flat = pooled(x.reshape([-1, height, width, channels]), ksize[2:4], strides[2:4])
    sides = [flat.static_size(axis, "the size of the result") for axis in (1, 2)]
    columns = flat.reshape([-1, depth, sides[0] * sides[1], channels])
    deep = pooled(columns, (ksize[1], 1), (strides[1], 1))
    return deep.reshape([-1, deep.static_size(1, "the size of the result"), *sides, channels])


@decompose("Dilation2D")
def dilation(x: Term, w: Term, *, strides: Sequence[int], rates: Sequence[int], padding: str) -> Term:
    """The largest sum of an element and the filter's. What stands for the padding is the lowest number, which
    a filter of usual size does not move.
    """
    size = w.static_size(0, "the size of its filter"), w.static_size(1, "the size of its filter")
    seen = _seen(x, size, strides, padding, rates)
    best: Term | None = None
    for tap in seen.win.taps():
        found = seen.under(tap) + w.at(0, tap[0]).at(0, tap[1])
        best = found if best is None else best.maximum(found)
    assert best is not None
    return best


@decompose("MaxPoolWithArgmax")
def max_pool_with_argmax(
    x: Term,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    Targmax: DType = INT64,
    include_batch_in_index: bool = False,
) -> tuple[Term, Term]:
    """The first of equals wins. Its index in the image counts rows, columns, then channels."""
    refuse_unless(list(ksize[::3]) == [1, 1] == list(strides[::3]), "its windows lie over batch or channels")
    seen = _seen(x, ksize[1:3], strides, padding)
    channels = x.static_size(3, "the number of channels")
    width = seen.sizes[1]
    best: Term | None = None
    place: Term | None = None
    for tap in seen.win.taps():
        rows, columns = seen.rows(tap, 0), seen.rows(tap, 1)
        flat = (rows[:, None, None] * width + columns[:, None]) * channels + np.arange(channels)
        found, here = seen.under(tap), x.body.constant(flat[None], INT32)
        if best is None or place is None:
            # As many as there are images.
            best, place = found, found.equal(found).cast(INT32) * 0 + here
            continue
        # Strictly greater: of equals the first one stays.
        place = where(found > best, here, place)
        best = best.maximum(found)
    assert best is not None
    assert place is not None
    if include_batch_in_index:
        place = place + _numbers_of_images(x).reshape([-1, 1, 1, 1]) * (seen.sizes[0] * width * channels)
    return best, place.cast(Targmax)


def _numbers_of_images(x: Term) -> Term:
    """0, 1, 2... int32 [n]."""
    start, step = x.body.constant(0, INT32), x.body.constant(1, INT32)
    count = x.sizes().at(0, 0)
    return x.body.add("Range", [start.value, count.value, step.value], Tidx=INT32)[0]
