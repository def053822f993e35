"""Boxes cut from images and resized, from the four pixels around every point."""

from __future__ import annotations

import numpy as np

from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, joined, refuse_unless, where
from thinflow.ir.types import FLOAT, INT32


@decompose("CropAndResize")
def crop_and_resize(
    x: Term,
    boxes: Term,
    box_ind: Term,
    size: Term,
    *,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Term:
    """Points outside of the image get the extrapolation value."""
    refuse_unless(method in {"bilinear", "nearest"}, f"its method '{method}' is not known")
    refuse_unless(size.known is not None, "its size is computed while the model runs")
    refuse_unless(len(x.shape) == 4, "a batch of images is needed")
    assert size.known is not None
    height, width = (int(n) for n in size.known)
    refuse_unless(min(height, width) > 0, "its crops are empty")
    images, corners = x.cast(FLOAT), boxes.cast(FLOAT)
    rows = _positions(corners, 0, x.sized(1, "the height of its images"), height)  # [n, height]
    columns = _positions(corners, 1, x.sized(2, "the width of its images"), width)
    picked = _Picked(images, box_ind.cast(INT32), height, width)
    y = picked.nearest(rows, columns) if method == "nearest" else picked.between(rows, columns)
    is_inside = rows.is_inside.expanded(-1) & columns.is_inside.expanded(-2)
    return where(is_inside.expanded(-1), y, extrapolation_value)


class _Positions:
    """Where the points of crops lie along one axis of the images.   at float [n, points]."""

    def __init__(self, at: Term, size: int) -> None:
        last = float(size - 1)
        self.is_inside = (at >= 0.0) & (at <= last)
        self.at = where(self.is_inside, at, 0.0)

    @property
    def before(self) -> Term:
        return self.at.apply("Floor")

    @property
    def after(self) -> Term:
        return self.at.apply("Ceil")

    @property
    def nearest(self) -> Term:
        """Halves up."""
        fraction = self.at - self.before
        return where(fraction >= 0.5, self.before + 1.0, self.before)


def _positions(boxes: Term, axis: int, size: int, out: int) -> _Positions:
    """Along one axis, computed in the order TensorFlow does."""
    start, stop = boxes.cut(-1, axis, axis + 1), boxes.cut(-1, axis + 2, axis + 3)  # [n, 1]
    span = float(size - 1)
    if out == 1:
        return _Positions((start + stop) * 0.5 * span, size)
    scale = (stop - start) * span / float(out - 1)
    return _Positions(start * span + scale * np.arange(out)[None], size)


class _Picked:
    """Pixels of images [b, h, w, c] at points of crops, each of one image."""

    def __init__(self, images: Term, numbers: Term, height: int, width: int) -> None:
        self.images = images
        zeros = numbers.body.constant(np.zeros((1, height, width, 1)), INT32)
        self._spread = zeros
        self._image = numbers.reshaped([-1, 1, 1, 1]) + zeros

    def at(self, rows: Term, columns: Term) -> Term:
        """[n, height, width, c]."""
        row = rows.cast(INT32).expanded(-1).expanded(-1) + self._spread
        column = columns.cast(INT32).expanded(-2).expanded(-1) + self._spread
        return self.images.gathered_nd(joined([self._image, row, column], -1))

    def nearest(self, rows: _Positions, columns: _Positions) -> Term:
        return self.at(rows.nearest, columns.nearest)

    def between(self, rows: _Positions, columns: _Positions) -> Term:
        """Along the rows first."""
        x = (columns.at - columns.before).expanded(-2).expanded(-1)
        y = (rows.at - rows.before).expanded(-1).expanded(-1)
        top, bottom = (self._line(row, columns, x) for row in (rows.before, rows.after))
        return top + (bottom - top) * y

    def _line(self, rows: Term, columns: _Positions, fraction: Term) -> Term:
        left = self.at(rows, columns.before)
        return left + (self.at(rows, columns.after) - left) * fraction
