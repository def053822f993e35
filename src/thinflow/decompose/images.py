"""Images: colour and contrast, crops, and new sizes by weights."""

from __future__ import annotations

import numpy as np

from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, concat, refuse_unless, stack, where
from thinflow.ir.types import FLOAT, INT32
from thinflow.ops._interpolate import cubic, overlaps
from thinflow.ops.resample import spread_matrices
from thinflow.typing import Array

# Channels are taken apart without an axis of size 1: along one ONNX Runtime broadcasts 5 to 15 times slower.
# Of 224 x 224 pixels RGBToHSV takes 6.5 ms instead of 1.2, and HSVToRGB with a vector of three numbers 3.5
# instead of 0.24.


def _channels(x: Term) -> tuple[Term, ...]:
    """The three channels [...]."""
    refuse_unless(x.shape[-1:] == (3,), "a colour has three channels")
    return x.body.add("Unpack", [x.value], ports=3, T=x.dtype, num=3, axis=len(x.shape) - 1)


def _sectors(hue: Term) -> list[Term]:
    """The pure colour of a hue from 0 to 1, each channel within 0..1."""
    angle = hue * 6.0
    # Over six sectors each channel is 1 for two, 0 for two and a slope in between: a clipped triangle, around
    # the hues 0 (red, by its complement at 3), 2 (green) and 4 (blue).
    edges = (angle - 3.0).abs() - 1.0, 2.0 - (angle - 2.0).abs(), 2.0 - (angle - 4.0).abs()
    return [edge.clip(0.0, 1.0) for edge in edges]


def _to_rgb(hue: Term, saturation: Term, value: Term) -> Term:
    pale = 1.0 - saturation
    return stack([(c * saturation + pale) * value for c in _sectors(hue)], -1)


def _to_hsv(red: Term, green: Term, blue: Term) -> tuple[Term, Term, Term]:
    """Hue, saturation and value [...]; grey has hue 0."""
    high, low = red.maximum(green).maximum(blue), red.minimum(green).minimum(blue)
    spread = high - low
    is_grey = spread.equal(0.0)
    unit = (1 / 6) / where(is_grey, 1.0, spread)
    others = where(green.equal(high), (blue - red) * unit + 1 / 3, (red - green) * unit + 2 / 3)
    # Red first, then green, as TensorFlow decides where two channels are the largest.
    angle = where(red.equal(high), (green - blue) * unit, others)
    hue = where(is_grey, 0.0, where(angle < 0.0, angle + 1.0, angle))
    is_lit = high > 0.0
    return hue, where(is_lit, spread / where(is_lit, high, 1.0), 0.0), high


@decompose("RGBToHSV")
def rgb_to_hsv(x: Term) -> Term:
    return stack(_to_hsv(*_channels(x)), -1)


@decompose("HSVToRGB")
def hsv_to_rgb(x: Term) -> Term:
    return _to_rgb(*_channels(x))


@decompose("AdjustSaturation")
def adjust_saturation(x: Term, scale: Term) -> Term:
    hue, saturation, value = _to_hsv(*_channels(x.cast(FLOAT)))
    return _to_rgb(hue, (saturation * scale).clip(0.0, 1.0), value).cast(x.dtype)


@decompose("AdjustHue")
def adjust_hue(x: Term, delta: Term) -> Term:
    """The hue is turned; the largest and the smallest component of each pixel stay."""
    red, green, blue = _channels(x.cast(FLOAT))
    hue = _to_hsv(red, green, blue)[0] + delta
    high, low = red.maximum(green).maximum(blue), red.minimum(green).minimum(blue)
    spread = high - low
    # A whole turn is 1, so the fraction of the hue is the hue.
    parts = [low + spread * c for c in _sectors(hue - hue.apply("Floor"))]
    return stack(parts, -1).cast(x.dtype)


@decompose("AdjustContrastv2")
def adjust_contrast(x: Term, factor: Term) -> Term:
    """Each channel moves away from its mean over height and width."""
    refuse_unless(x.dtype is FLOAT, f"it has no form for {x.dtype}")
    refuse_unless(len(x.shape) >= 3, "the images have no height, width and channels")
    mean = x.mean(-3, -2, keep=True)
    return (x - mean) * factor + mean


@decompose("AdjustContrast")
def adjust_contrast_within(x: Term, factor: Term, least: Term, most: Term) -> Term:
    """As AdjustContrastv2, and clamped; the result is float whatever x is."""
    return adjust_contrast(x.cast(FLOAT), factor).clip(least, most)


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
    rows = _positions(corners, 0, x.static_size(1, "the height of its images"), height)  # [n, height]
    columns = _positions(corners, 1, x.static_size(2, "the width of its images"), width)
    picked = _Picked(images, box_ind.cast(INT32), height, width)
    y = picked.nearest(rows, columns) if method == "nearest" else picked.between(rows, columns)
    is_inside = rows.is_inside.expand_dims(-1) & columns.is_inside.expand_dims(-2)
    return where(is_inside.expand_dims(-1), y, extrapolation_value)


class _Positions:
    """Points of crops along one axis of the images.   at float [n, points]."""

    def __init__(self, at: Term, size: int) -> None:
        last = float(size - 1)
        self.is_inside = (at >= 0.0) & (at <= last)
        # Points outside read some pixel all the same, and are replaced at the end; a NaN is outside.
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
        # The kernel's roundf takes halves away from 0, which is up: points are not negative here.
        fraction = self.at - self.before
        return where(fraction >= 0.5, self.before + 1.0, self.before)


def _positions(boxes: Term, axis: int, size: int, out: int) -> _Positions:
    """Along one axis, computed in the order TensorFlow does."""
    start, stop = boxes.cut(-1, axis, axis + 1), boxes.cut(-1, axis + 2, axis + 3)  # [n, 1]
    span = float(size - 1)
    if out == 1:
        # A single point lies in the middle of the box.
        return _Positions((start + stop) * 0.5 * span, size)
    scale = (stop - start) * span / float(out - 1)
    return _Positions(start * span + scale * np.arange(out)[None], size)


class _Picked:
    """Pixels of images [b, h, w, c] at points of crops, each of one image."""

    def __init__(self, images: Term, numbers: Term, height: int, width: int) -> None:
        self.images = images
        zeros = numbers.body.constant(np.zeros((1, height, width, 1)), INT32)
        # GatherNd wants whole index triples: sums with zeros broadcast rows against columns.
        self._spread = zeros
        self._image = numbers.reshape([-1, 1, 1, 1]) + zeros

    def at(self, rows: Term, columns: Term) -> Term:
        """[n, height, width, c]."""
        row = rows.cast(INT32).expand_dims(-1).expand_dims(-1) + self._spread
        column = columns.cast(INT32).expand_dims(-2).expand_dims(-1) + self._spread
        return self.images.gather_nd(concat([self._image, row, column], -1))

    def nearest(self, rows: _Positions, columns: _Positions) -> Term:
        return self.at(rows.nearest, columns.nearest)

    def between(self, rows: _Positions, columns: _Positions) -> Term:
        """Along the rows first."""
        x = (columns.at - columns.before).expand_dims(-2).expand_dims(-1)
        y = (rows.at - rows.before).expand_dims(-1).expand_dims(-1)
        top, bottom = (self._line(row, columns, x) for row in (rows.before, rows.after))
        return top + (bottom - top) * y

    def _line(self, rows: Term, columns: _Positions, fraction: Term) -> Term:
        left = self.at(rows, columns.before)
        return left + (self.at(rows, columns.after) - left) * fraction


# --- by weighted sums along each side -----------------------------------------------------------------------

# Elements of a matrix of weights, which is part of the model.
_MOST_WEIGHTS = 1 << 22


@decompose("ResizeBicubic", "ResizeArea")
def resize_by_weights(
    x: Term, size: Term, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Term:
    """rows @ image @ columns: each side of the result is a weighted sum of the same side of the image."""
    refuse_unless(not (align_corners and half_pixel_centers), "align_corners excludes half_pixel_centers")
    refuse_unless(len(x.shape) == 4, "a batch of images is needed")
    height, width = (x.static_size(axis, "the size of its images") for axis in (1, 2))
    matrices = []
    for old, new in zip((height, width), size.ints("its size"), strict=True):
        refuse_unless(0 < old * new <= _MOST_WEIGHTS, f"{old} pixels as {new} take too many weights")
        if x.body.op == "ResizeArea":
            matrices.append(_area_weights(old, new, align_corners))
        else:
            matrices.append(_dense(*cubic(old, new, align_corners, half_pixel_centers), old))
    return _weighted(x, *matrices)


@decompose("ScaleAndTranslate")
def scale_and_translate(
    x: Term, size: Term, scale: Term, shift: Term, *, kernel_type: str = "lanczos3", antialias: bool = True
) -> Term:
    """The same with weights that depend on what is asked for."""
    refuse_unless(len(x.shape) == 4, "a batch of images is needed")
    refuse_unless(scale.known is not None and shift.known is not None, "its scale is computed")
    assert scale.known is not None
    assert shift.known is not None
    sides = [x.static_size(axis, "the size of its images") for axis in (1, 2)]
    height, width = size.ints("its size")
    refuse_unless(0 < max(height, width) * max(sides) <= _MOST_WEIGHTS, "it takes too many weights")
    shape = (1, *sides, 1)
    return _weighted(
        x, *spread_matrices(shape, (height, width), scale.known, shift.known, kernel_type, antialias)
    )


def _weighted(x: Term, *matrices: Array) -> Term:
    height, width, depth = (x.static_size(axis, "the size of its images") for axis in (1, 2, 3))
    rows, columns = (x.body.constant(m, FLOAT) for m in matrices)
    # [new_h,h] @ [h, w c], then [new_w,w] @ [w,c] for each row.
    tall = rows @ x.cast(FLOAT).reshape([-1, height, width * depth])
    wide = columns @ tall.reshape([-1, width, depth])
    return wide.reshape([-1, len(matrices[0]), len(matrices[1]), depth])


def _dense(index: Array, weights: Array, size: int) -> Array:
    """A matrix [new,size] of weights [taps,new] at indices [taps,new]."""
    matrix = np.zeros((index.shape[1], size), np.float32)
    for taken, weight in zip(index, weights, strict=True):
        np.add.at(matrix, (np.arange(len(taken)), taken), weight)
    return matrix


def _area_weights(old: int, new: int, align_corners: bool) -> Array:
    """float [new,old]; pixels past the end repeat the last one."""
    first, weights, scale = overlaps(old, new, align_corners)
    taken = np.minimum(first + np.arange(len(weights))[:, None], old - 1)
    # Overlaps are in pixels of the old image; divided by how many a new one covers they are a mean.
    return np.asarray(_dense(taken, weights, old) / scale, np.float32)
