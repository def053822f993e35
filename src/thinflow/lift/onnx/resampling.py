"""Where ONNX's Resize looks for the pixels of its result, along one axis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thinflow.decompose.terms import Term, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import FLOAT, INT32
from thinflow.lift.onnx.formulas import Formula, Size, counted, scalar
from thinflow.lift.onnx.values import bounded

_F = np.float32
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Axis:
    """How an axis is resized.

    Attributes:
        old, new: its sizes.
        scale: None for the quotient of both.
        ends: the part of the axis that is resized, as shares of it, for `tf_crop_and_resize`.
    """

    old: Size
    new: Size
    scale: float | None = None
    ends: tuple[float, float] = (0.0, 1.0)

    @property
    def known(self) -> tuple[int, int] | None:
        """Both sizes, None where one is open."""
        if isinstance(self.old, Term) or isinstance(self.new, Term):
            return None
        return self.old, self.new

    @property
    def is_exact(self) -> bool:
        """True if the scale is the quotient of the sizes for certain."""
        if self.scale is None or self.scale == int(self.scale):
            return True
        return self.known is not None and self.known[1] == _F(self.known[0]) * _F(self.scale)

    def sized(self, old: int) -> Axis:
        """The same with a size, for a scale that is known."""
        return replace(self, old=old, new=int(old * (self.scale or 1)))


def pixels(kind: str, rounding: str, axis: Axis) -> Array:
    """The nearest old pixel of each new one, int [new].

    Raises:
        UnsupportedOp: there is no such mode.
    """
    assert axis.known is not None
    old, new = axis.known
    at = places(kind, axis)
    # Halves of sizes are halves: float32 would put 3 * 7 / 6 a little below. Where the runtime does not round
    # to the nearest it does count in float32, so that a whole place may end up below.
    if rounding.startswith("round") and axis.scale is None and kind in {"asymmetric", "half_pixel"}:
        x = np.arange(new)
        at = x * old / new if kind == "asymmetric" else ((2 * x + 1) * old - new) / (2 * new)
    if kind == "half_pixel_symmetric":
        # The middles of both are one place, which rounding must not move.
        halves = np.round(2 * at) / 2
        at = np.where(np.abs(at - halves) < 1e-5, halves, at)
    return nearest(rounding, at).clip(0, old - 1).astype(np.int64)


def places(kind: str, axis: Axis) -> Array:
    """The place of each new pixel among the old ones, float32 [new]; see the coordinate modes of Resize.

    Raises:
        UnsupportedOp: there is no such mode.
    """
    assert axis.known is not None
    old, new = axis.known
    bounded(new)
    x, factor = np.arange(new, dtype=_F), _F(new / old if axis.scale is None else axis.scale)
    length = _F(new) if axis.scale is None else _unrounded(old, new, axis.scale)
    half = (x + _F(0.5)) / factor - _F(0.5)
    if kind == "align_corners":
        # A single pixel has no distance to its neighbour to divide by: it is the first one.
        return np.asarray(x * _F(old - 1) / (length - 1) if new > 1 else x * 0)
    if kind == "tf_crop_and_resize":
        start, end = (_F(n) for n in axis.ends)
        if length == 1:
            return np.asarray(x * 0 + (start + end) * _F(old - 1) / 2)
        return np.asarray(start * _F(old - 1) + x * (end - start) * _F(old - 1) / (length - 1))
    if kind == "half_pixel_symmetric":
        # The middles of both stay one above the other, whatever is rounded away.
        return np.asarray(_F(old) / 2 * (1 - _F(new) / length) + (x + _F(0.5)) / factor - _F(0.5))
    if kind == "pytorch_half_pixel":
        return half if new > 1 else x * 0
    found: dict[str, Array] = {
        "half_pixel": half,
        "asymmetric": x / factor,
        "tf_half_pixel_for_nn": (x + _F(0.5)) / factor,
    }
    if kind not in found:
        raise UnsupportedOp(f"its coordinates go by '{kind}'")
    return found[kind]


def _unrounded(old: int, new: int, scale: float) -> np.float32:
    """The new size with its fraction; what is there for the rounding of floats alone is none.

    ONNX's definition counts with that, its runtime with the size that is rounded down.
    """
    length = _F(old) * _F(scale)
    result: np.float32 = _F(new) if abs(length - round(length)) < 1e-5 * length else length
    return result


def open_places(f: Formula, kind: str, axis: Axis) -> Term:
    """As `places`, where sizes are open.

    Raises:
        UnsupportedOp: the mode needs them.
    """
    old, new = (scalar(f, n).cast(FLOAT) for n in (axis.old, axis.new))
    x = counted(f, axis.new).cast(FLOAT)
    factor = new / old if axis.scale is None else f.constant(axis.scale, FLOAT)
    length = new if axis.is_exact else old * factor
    half = (x + 0.5) / factor - 0.5
    if kind == "half_pixel":
        return half
    if kind == "half_pixel_symmetric":
        return half if axis.is_exact else half + old * 0.5 * (1.0 - new / length)
    if kind == "pytorch_half_pixel":
        return where(new > 1.0, half, 0.0)
    if kind == "asymmetric":
        return x / factor
    if kind == "align_corners":
        # Of a single pixel x is 0, and so is its place.
        return x * (old - 1.0) / (length - 1.0).maximum(1e-6)
    if kind == "tf_half_pixel_for_nn":
        return (x + 0.5) / factor
    raise UnsupportedOp(f"its coordinates go by '{kind}', and its sizes are open")


def nearest(mode: str, at: Array) -> Array:
    """Places rounded to pixels, which may lie outside.

    Raises:
        UnsupportedOp: there is no such mode.
    """
    found: dict[str, Array] = {
        "floor": np.floor(at),
        "ceil": np.ceil(at),
        # Halves go down: ceil(x - 0.5); `np.round` would take them to even.
        "round_prefer_floor": np.ceil(at - at.dtype.type(0.5)),
        "round_prefer_ceil": np.floor(at + at.dtype.type(0.5)),
    }
    if mode not in found:
        raise UnsupportedOp(f"it rounds by '{mode}'")
    return found[mode]


def open_nearest(mode: str, at: Term) -> Term:
    """As `nearest`, for places that are computed."""
    if mode in {"floor", "ceil"}:
        return at.apply("Floor" if mode == "floor" else "Ceil")
    if mode == "round_prefer_floor":
        return (at - 0.5).apply("Ceil")
    if mode == "round_prefer_ceil":
        return (at + 0.5).apply("Floor")
    raise UnsupportedOp(f"it rounds by '{mode}'")


def clipped(at: Term, old: Size) -> Term:
    """Places within an axis."""
    last = old - 1
    return at.clip(0.0, last.cast(at.dtype) if isinstance(last, Term) and at.dtype is not INT32 else last)


def weights(at: Array, old: int, scale: float, cubic: float | None, *, drops_outside: bool) -> Array:
    """Each new pixel as a weighted sum of old ones, float32 [new, old].

    Args:
        at: places of the new pixels.
        scale: at most 1: by so much the kernel is stretched, to smooth what is made smaller.
        cubic: the coefficient of cubic interpolation; None for linear.
        drops_outside: pixels beyond the edge do not count; else the edge's stands for them.
    """
    reach = (1 if cubic is None else 2) / scale
    taps = np.arange(-int(np.ceil(reach)), int(np.ceil(reach)) + 2)
    bounded(len(at) * max(len(taps), old))
    pixels = np.floor(at).astype(np.int64)[:, None] + taps
    distance = np.abs(pixels - at.astype(np.float64)[:, None]) * scale
    kernel = np.clip(1 - distance, 0, 1) if cubic is None else _keys(distance, cubic)
    if drops_outside:
        kernel = np.where((pixels >= 0) & (pixels < old), kernel, 0)
    kernel = kernel / kernel.sum(1, keepdims=True)
    matrix = np.zeros((len(at), old))
    np.add.at(matrix, (np.arange(len(at))[:, None], pixels.clip(0, old - 1)), kernel)
    return matrix.astype(_F)


def _keys(d: Array, a: float) -> Array:
    """The kernel of cubic convolution (Keys 1981), at distances."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.asarray(np.where(d <= 1, near, np.where(d < 2, far, 0)))
