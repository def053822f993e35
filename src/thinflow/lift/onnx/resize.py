"""ONNX's Resize and Upsample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.values import bounded, numbers, rank, text
from thinflow.lift.rules import lifts


@lifts("onnx.Upsample")
@lifts(
    "onnx.Resize",
    ignores=("cubic_coeff_a", "exclude_outside", "extrapolation_value", "nearest_mode"),
    unread=(1,),
)
def _resize(c: Call) -> Value:
    """Axis by axis: neighbours gathered, and mixed for linear. Sizes must be known."""
    mode = text(c, "mode", "nearest")
    if mode not in {"nearest", "linear"}:
        raise UnsupportedOp(f"it resizes in the mode '{mode}'")
    if c.get("axes") or c.get("antialias", 0) or text(c, "keep_aspect_ratio_policy", "stretch") != "stretch":
        raise UnsupportedOp("it names axes, keeps the proportions or smooths before it makes smaller")
    sizes = c.sizes(0)
    y = c[0]
    for axis, (old, new, scale) in enumerate(_targets(c, sizes)):
        # An axis of scale 1 whose size stays is not resampled.
        if new != old or scale != 1:
            places = _coordinates(c, old, new, scale)
            y = _nearest(c, y, axis, old, places) if mode == "nearest" else _linear(c, y, axis, old, places)
    return c.emit("Identity", y) if y is c[0] else y


def _targets(c: Call, sizes: Sequence[int]) -> list[tuple[int, int, float]]:
    """Old size, new size and scale per axis."""
    upsample = c.node.op == "onnx.Upsample"
    old_style = len(c.xs) == 2 and not upsample  # version 10: x, scales
    wanted = None if upsample or old_style else numbers(c, "", 3) if c.has(3) and c.known(3).size else None
    if wanted is not None:
        return [(n, m, m / n) for n, m in zip(sizes, wanted, strict=True)]
    place = 1 if upsample or old_style else 2
    scales = c.get("scales") if upsample and not c.has(1) else c.known(place).reshape(-1).tolist()
    # In float32, the type of scales: in double, 10 times float32's 0.7 is just below 7 and would give 6.
    exact = [np.float32(n) * np.float32(s) for n, s in zip(sizes, scales, strict=True)]
    return [(n, int(np.floor(e)), float(s)) for n, e, s in zip(sizes, exact, scales, strict=True)]


def _coordinates(c: Call, old: int, new: int, scale: float) -> np.ndarray:
    """The place of each new pixel among the old ones; in float32, as the rounding of the nearest needs it."""
    # Upsample and version 10 know no modes and always take pixels at x / scale.
    default = "asymmetric" if c.node.op == "onnx.Upsample" or len(c.xs) == 2 else "half_pixel"
    kind = text(c, "coordinate_transformation_mode", default)
    bounded(new)
    x, factor = np.arange(new, dtype=np.float32), np.float32(scale)
    if kind == "asymmetric":
        return np.asarray(x / factor)
    if kind == "align_corners":
        # The definition counts with the size before it is rounded down (ONNX Runtime with that after it).
        length = _unrounded(old, new, scale)
        # A single pixel has no distance to its neighbour to divide by: it is the first one.
        return x * np.float32(old - 1) / (length - 1) if new > 1 else x * 0
    if kind == "half_pixel" or (kind == "pytorch_half_pixel" and new > 1):
        return np.asarray((x + np.float32(0.5)) / factor - np.float32(0.5))
    if kind == "pytorch_half_pixel":
        return x * 0
    raise UnsupportedOp(f"its coordinates go by '{kind}'")


def _unrounded(old: int, new: int, scale: float) -> np.float32:
    """The new size with its fraction; what is there for the rounding of floats alone is none."""
    length = np.float32(old) * np.float32(scale)
    result: np.float32 = np.float32(new) if abs(length - round(length)) < 1e-5 * length else length
    return result


def _nearest(c: Call, x: Value, axis: int, old: int, places: np.ndarray) -> Value:
    default = "floor" if c.node.op == "onnx.Upsample" or len(c.xs) == 2 else "round_prefer_floor"
    mode = text(c, "nearest_mode", default)
    rounded = {
        "floor": np.floor(places),
        "ceil": np.ceil(places),
        # Halves go down: ceil(x - 0.5); `np.round` would take them to even.
        "round_prefer_floor": np.ceil(places - np.float32(0.5)),
        "round_prefer_ceil": np.floor(places + np.float32(0.5)),
    }.get(mode)
    if rounded is None:
        raise UnsupportedOp(f"it rounds by '{mode}'")
    return _taken(c, x, axis, rounded.clip(0, old - 1).astype(np.int64))


def _linear(c: Call, x: Value, axis: int, old: int, places: np.ndarray) -> Value:
    # Beyond the outermost pixels' centres their value goes on.
    places = places.clip(0, old - 1)
    low = np.floor(places).astype(np.int64)
    share = (places - low).astype(np.float32)
    before, behind = _taken(c, x, axis, low), _taken(c, x, axis, np.minimum(low + 1, old - 1))
    sides = [1] * rank(c)
    sides[axis] = -1
    weight = c.constant(share.reshape(sides))
    return c.emit("AddV2", before, c.emit("Mul", c.emit("Sub", behind, before), weight))


def _taken(c: Call, x: Value, axis: int, places: np.ndarray) -> Value:
    return c.emit(
        "GatherV2", x, c.constant(places), c.constant(axis), batch_dims=0, Tparams=x.dtype, Taxis=INT32
    )
