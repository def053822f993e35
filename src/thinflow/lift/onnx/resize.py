"""ONNX's Resize and Upsample: TensorFlow's own op where that does the same, else axis by axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from thinflow.decompose.terms import Term
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, FLOAT, INT8, INT32, UINT8
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.formulas import Formula, Size, size, vector
from thinflow.lift.onnx.resampling import (
    Axis,
    clipped,
    open_nearest,
    open_places,
    pixels,
    places,
    weights,
)
from thinflow.lift.onnx.values import channels_first, channels_last, text
from thinflow.lift.rules import lifts
from thinflow.ops import _interpolate

Array = np.ndarray[Any, Any]
_HALF, _CORNERS, _PLAIN = (False, True), (True, False), (False, False)
"""Flags of TensorFlow's ops: align_corners and half_pixel_centers."""


@lifts("onnx.Upsample")
@lifts(
    "onnx.Resize",
    ignores=("cubic_coeff_a", "exclude_outside", "extrapolation_value", "nearest_mode"),
    unread=(1,),
)
def _resize(c: Call) -> Value:
    f, mode = Formula(c), text(c, "mode", "nearest")
    if c.node.op == "onnx.Upsample" and mode == "bilinear":  # of version 1
        mode = "linear"
    if mode not in {"nearest", "linear", "cubic"}:
        raise UnsupportedOp(f"it resizes in the mode '{mode}'")
    x = f.operand(0)
    if mode != "nearest" and not x.dtype.is_floating:
        # ONNX does not say how mixtures become whole numbers; its runtime cuts off, where it has a kernel.
        if mode != "linear" or x.dtype not in (INT8, UINT8):
            raise UnsupportedOp(f"it mixes pixels of {x.dtype}")
        return _resized(f, x.cast(FLOAT), mode).cast(x.dtype).value
    y = _resized(f, x, mode)
    return y.apply("Identity").value if y is x else y.value


def _resized(f: Formula, x: Term, mode: str) -> Term:
    """The pixels of the operand, which may be of another type here, in their new places."""
    c, kind = f.call, _coordinates(f.call)
    c.get("antialias")  # of no account where nothing is made smaller
    # An axis of scale 1 whose size stays is not resampled.
    axes = {n: axis for n, axis in enumerate(_axes(f, x)) if _changes(n, axis, kind)}
    own = _as_tensorflow(f, x, mode, kind, axes)
    if own is not None:
        return f.term(own)
    y = x
    for n, axis in axes.items():
        y = _along(f, y, n, axis, mode, kind)
    if kind == "tf_crop_and_resize" and axes:
        y = _extrapolated(f, y, {n: places(kind, axis) for n, axis in axes.items()}, axes)
    return y


def _is_old(c: Call) -> bool:
    """True for Upsample and Resize of version 10, which know no modes: pixels are at x / scale."""
    return c.node.op == "onnx.Upsample" or len(c.xs) == 2


def _coordinates(c: Call) -> str:
    return text(c, "coordinate_transformation_mode", "asymmetric" if _is_old(c) else "half_pixel")


def _changes(n: int, axis: Axis, kind: str) -> bool:
    if kind == "tf_crop_and_resize" and axis.ends != (0.0, 1.0):
        return True
    if isinstance(axis.old, Term) and isinstance(axis.new, Term) and axis.scale is None:
        # A batch of pictures stays one, if nothing else is said.
        return n > 0
    return axis.scale not in (None, 1.0) or axis.old != axis.new


def _axes(f: Formula, x: Term) -> list[Axis]:
    """What becomes of each axis."""
    c, count = f.call, len(x.shape)
    named = [int(a) % count for a in c.get("axes") or range(count)]
    if len(set(named)) < len(named):
        raise UnsupportedOp("it names an axis twice")
    axes = [Axis(size(x, n), size(x, n)) for n in range(count)]
    wanted = _sizes(f) if not _is_old(c) and c.has(3) else None
    if wanted is not None and c.has(2) and c[2].spec.shape != (0,):
        raise UnsupportedOp("it has both sizes and scales")
    given: Sequence[Size | float] = _scales(c) if wanted is None else wanted
    if len(given) != len(named):
        raise UnsupportedOp(f"it has {len(given)} sizes or scales for {len(named)} axes")
    for n, number in zip(named, given, strict=True):
        if wanted is None:
            axes[n] = _scaled(axes[n], float(number))  # type: ignore[arg-type]
        else:
            axes[n] = replace(axes[n], new=number)  # type: ignore[arg-type]
    policy = text(c, "keep_aspect_ratio_policy", "stretch")
    if policy != "stretch" and wanted is not None:
        axes = _in_proportion(axes, named, policy)
    if _coordinates(c) == "tf_crop_and_resize":
        roi = c.known(1).reshape(2, -1)
        if roi.shape[1] != len(named) or not np.isfinite(roi).all():
            raise UnsupportedOp(f"its region has not {2 * len(named)} ends that are numbers")
        for n, (start, end) in zip(named, roi.T.tolist(), strict=True):
            axes[n] = replace(axes[n], ends=(start, end))
    return axes


def _sizes(f: Formula) -> list[Size] | None:
    """The sizes that are asked for; None where the operand is empty."""
    sizes = f.operand(3)
    known = sizes.elements
    if sizes.shape == (0,):
        return None
    if known is None and sizes.shape[0] is None:
        raise UnsupportedOp("the number of its sizes is not known")
    count = len(known) if known is not None else int(sizes.shape[0] or 0)
    parts = known or (None,) * count
    return [sizes.at(0, i).cast(INT32) if n is None else n for i, n in enumerate(parts)]


def _scales(c: Call) -> list[float]:
    scales: list[float]
    if c.node.op == "onnx.Upsample" and not c.has(1):
        # Version 1 says how pictures grow, the next of all axes.
        sides = [c.get("height_scale"), c.get("width_scale")]
        scales = [1.0, 1.0, *map(float, sides)] if None not in sides else list(c.get("scales") or ())
    else:
        scales = c.known(1 if _is_old(c) else 2).reshape(-1).tolist()
    if not scales or min(scales) <= 0 or not np.isfinite(scales).all():
        raise UnsupportedOp("its scales are missing, or not positive")
    return scales


def _scaled(axis: Axis, scale: float) -> Axis:
    """In float32, the type of scales: in double, 10 times float32's 0.7 is just below 7 and would give 6."""
    if not isinstance(axis.old, Term):
        exact = np.float32(axis.old) * np.float32(scale)
        return replace(axis, new=int(np.floor(exact)), scale=scale)
    if scale == int(scale):
        return replace(axis, new=axis.old * int(scale) if scale != 1 else axis.old, scale=scale)
    return replace(axis, new=(axis.old.cast(FLOAT) * scale).apply("Floor").cast(INT32), scale=scale)


def _in_proportion(axes: list[Axis], named: Sequence[int], policy: str) -> list[Axis]:
    """One scale for all axes, by which none is larger, or none smaller, than asked for."""
    if policy not in {"not_larger", "not_smaller"}:
        raise UnsupportedOp(f"it keeps proportions by '{policy}'")
    sizes = [axes[n].known for n in named]
    known = [s for s in sizes if s is not None]
    if len(known) < len(sizes):
        raise UnsupportedOp("it keeps proportions, and its sizes are open")
    scales = [new / old for old, new in known]
    scale = min(scales) if policy == "not_larger" else max(scales)
    made = list(axes)
    for n, (old, _) in zip(named, known, strict=True):
        made[n] = Axis(old, int(np.floor(scale * old + 0.5)), scale)
    return made


def _nearest_mode(c: Call, axis: Axis) -> str:
    if _is_old(c):
        # So the old version's kernels do: what is made smaller takes the pixel behind.
        return "ceil" if axis.scale is not None and axis.scale < 1 else "floor"
    return text(c, "nearest_mode", "round_prefer_floor")


def _smooths(c: Call, axis: Axis) -> bool:
    """True if the axis is made smaller, and what is between the new pixels is mixed in."""
    if not c.flag("antialias"):
        return False
    if axis.scale is not None:
        return axis.scale < 1
    if axis.known is None:
        raise UnsupportedOp("it smooths what it makes smaller, and its sizes are open")
    return axis.known[1] < axis.known[0]


# --- as one of TensorFlow's ops -----------------------------------------------------------------------------


def _as_tensorflow(f: Formula, x: Term, mode: str, kind: str, axes: Mapping[int, Axis]) -> Value | None:
    """By ResizeBilinear or ResizeNearestNeighbor; None if they do something else."""
    c, count = f.call, len(x.shape)
    is_picture = count in (3, 4) and set(axes) <= {2, 3} and axes
    if not is_picture or mode == "cubic" or kind == "tf_crop_and_resize":
        return None
    if mode == "linear" and (x.dtype is not FLOAT or any(_smooths(c, a) for a in axes.values())):
        return None
    if any(0 in (a.known or ()) for a in axes.values()):
        return None
    # First those that the file's own mode is called in TensorFlow.
    alike = _HALF if "half" in kind else _CORNERS if kind == "align_corners" else _PLAIN
    for flags in (alike, _HALF, _CORNERS, _PLAIN):
        if all(_agrees(c, mode, kind, axis, flags) for axis in axes.values()):
            break
    else:
        return None
    picture = f.term(channels_last(c, x.value, count))
    sizes = [axes[n].new if n in axes else size(x, n) for n in range(2, count)]
    if count == 3:
        picture, sizes = picture.expand_dims(1), [1, *sizes]
    op = "ResizeBilinear" if mode == "linear" else "ResizeNearestNeighbor"
    operands = [picture.value, vector(f, sizes).value]
    y = f.add(op, operands, align_corners=flags[0], half_pixel_centers=flags[1])[0]
    if count == 3:
        y = f.add("Squeeze", [y.value], squeeze_dims=(1,))[0]
    return channels_first(c, y.value, count)


def _agrees(c: Call, mode: str, kind: str, axis: Axis, flags: tuple[bool, bool]) -> bool:
    """True if TensorFlow's op looks for the pixels of an axis where ONNX's does."""
    if axis.known is not None:
        return _agree(c, mode, kind, axis, flags)
    if not axis.is_exact:
        return False
    if axis.scale is not None:
        # A whole scale: what one size does, all do.
        return all(_agree(c, mode, kind, axis.sized(old), flags) for old in _TRIED)
    way = kind if mode == "linear" else (kind, _nearest_mode(c, axis))
    return way in _SAME_AT_ANY_SIZE[flags]


_TRIED = (1, 2, 3, 7, 32, 61)
"""Sizes that stand for all others."""
_SAME_AT_ANY_SIZE: Mapping[tuple[bool, bool], frozenset[str | tuple[str, str]]] = {
    _HALF: frozenset({"half_pixel", "half_pixel_symmetric", ("half_pixel", "round_prefer_ceil")}),
    _CORNERS: frozenset({"align_corners", ("align_corners", "round_prefer_ceil")}),
    _PLAIN: frozenset({"asymmetric", ("asymmetric", "floor")}),
}
"""Coordinates, for nearest with the rounding, that are TensorFlow's by definition."""


def _agree(c: Call, mode: str, kind: str, axis: Axis, flags: tuple[bool, bool]) -> bool:
    assert axis.known is not None
    old, new = axis.known
    if mode == "nearest":
        taken = pixels(kind, _nearest_mode(c, axis), axis)
        return bool((taken == _interpolate.nearest(old, new, *flags)).all())
    at = places(kind, axis)
    line = _interpolate.linear(old, new, *flags)
    theirs = line.low + (line.high - line.low) * line.fraction
    return bool(np.abs(theirs - at.clip(0, old - 1)).max() <= 1e-6 * old)


# --- axis by axis -------------------------------------------------------------------------------------------


def _along(f: Formula, x: Term, n: int, axis: Axis, mode: str, kind: str) -> Term:
    """One axis resized."""
    c = f.call
    smooths = mode != "nearest" and _smooths(c, axis)
    if axis.known is None:
        if mode == "cubic" or smooths:
            raise UnsupportedOp(f"its mode is '{mode}', and its sizes are open")
        at = open_places(f, kind, axis)
        if mode == "nearest":
            taken = clipped(open_nearest(_nearest_mode(c, axis), at), axis.old)
            return x.gather(taken.cast(INT32), n)
        return _mixed(x, n, clipped(at, axis.old), axis.old)
    old, new = axis.known
    if 0 in (old, new):
        raise UnsupportedOp(f"it makes {new} pixels of {old}")
    if mode == "nearest":
        return x.gather(f.constant(pixels(kind, _nearest_mode(c, axis), axis), INT32), n)
    at_known = places(kind, axis)
    if mode == "linear" and not smooths:
        # Beyond the outermost pixels' centres their value goes on.
        return _mixed(x, n, f.constant(at_known.clip(0, old - 1), FLOAT), old)
    scale = min(new / old if axis.scale is None else axis.scale, 1.0) if smooths else 1.0
    cubic = float(c.get("cubic_coeff_a", -0.75)) if mode == "cubic" else None
    matrix = weights(at_known, old, scale, cubic, drops_outside=c.flag("exclude_outside"))
    return _weighted(x, n, matrix)


def _mixed(x: Term, n: int, at: Term, old: Size) -> Term:
    """Linear interpolation at places on an axis."""
    body = x.body
    if at.known is not None:
        low = np.floor(at.known)
        before, share = body.constant(low, INT32), body.constant(at.known - low, FLOAT)
        behind = body.constant(np.minimum(low + 1, int(old) - 1 if isinstance(old, int) else low), INT32)
    else:
        floor = at.apply("Floor")
        before, share = floor.cast(INT32), at - floor
        behind = clipped(before + 1, old)
    sides = [1] * len(x.shape)
    sides[n] = -1
    first, second = x.gather(before, n), x.gather(behind, n)
    return first + (second - first) * share.cast(x.dtype).reshape(sides)


def _weighted(x: Term, n: int, matrix: Array) -> Term:
    """Weighted sums along an axis, by a product with a matrix [new, old]."""
    count = len(x.shape)
    if n == count - 2:
        return x.body.constant(matrix, x.dtype) @ x
    behind = x.body.constant(matrix.T, x.dtype)
    if n == count - 1 and count > 1:
        return x @ behind
    if count == 1:
        return (x.expand_dims(0) @ behind).reshape([-1])
    order = [*(a for a in range(count) if a != n), n]
    back = [order.index(a) for a in range(count)]
    return (x.transpose(order) @ behind).transpose(back)


def _extrapolated(f: Formula, y: Term, at: Mapping[int, Array], axes: Mapping[int, Axis]) -> Term:
    """A number in place of what lies outside of the picture."""
    outside = np.zeros((), bool)
    for n in range(len(y.shape)):
        old = axes[n].known if n in axes else None
        beyond = (at[n] < 0) | (at[n] > old[0] - 1) if old is not None else np.zeros(1, bool)
        outside = outside[..., None] | beyond
    if not outside.any():
        return y
    fill = y.of(float(f.call.get("extrapolation_value", 0.0)))
    return f.add("SelectV2", [f.constant(outside, BOOL).value, fill.value, y.value])[0]
