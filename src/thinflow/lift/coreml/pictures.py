"""MIL's resizing, and blocks of pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.lift.coreml.rules import mil, number, onnx, word
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.values import channels_first, channels_last, rank

_SAMPLING = {
    "DEFAULT": {},
    "STRICT_ALIGN_CORNERS": {"align_corners": True},
    "ALIGN_CORNERS": {"align_corners": True},
    "UNALIGN_CORNERS": {"half_pixel_centers": True},
}


def _resized(c: Call, op: str, sides: Sequence[int], **options: bool) -> Value:
    """x [n,c,h,w] with other sides."""
    if rank(c) != 4:
        raise UnsupportedOp(f"it resizes a picture of {rank(c)} axes")
    x = channels_last(c, c[0], 4)
    settings = {"align_corners": False, "half_pixel_centers": False} | options
    return channels_first(c, c.emit(op, x, c.constant(tuple(sides)), **settings), 4)


def _scaled_sides(c: Call) -> list[int]:
    """The sides that factors make of those of x."""
    shape = c[0].spec.shape or ()
    factors = [number(c, f"scale_factor_{side}", 1) for side in ("height", "width")]
    if len(shape) < 2 or None in shape[-2:]:
        raise UnsupportedOp("the sides of its picture are open")
    return [math.floor((n or 0) * f) for n, f in zip(shape[-2:], factors, strict=True)]


@mil("resize_bilinear")
def _resize_bilinear(c: Call) -> Value:
    mode = word(c, "sampling_mode", "DEFAULT")
    sides = [int(number(c, f"target_size_{side}", 1)) for side in ("height", "width")]
    # Where one row is made of several, the strict mode alone takes the first.
    if mode not in _SAMPLING or (mode == "ALIGN_CORNERS" and 1 in sides):
        raise UnsupportedOp(f"it takes samples by '{mode[:20]}'")
    return _resized(c, "ResizeBilinear", sides, **_SAMPLING[mode])


@mil("upsample_bilinear")
def _upsample_bilinear(c: Call) -> Value:
    """Without aligned corners samples lie in the middle of pixels."""
    is_aligned = c.flag("align_corners", default=True)
    half = c.get("half_pixel_centers")
    is_half = not is_aligned if half is None else bool(half)
    return _resized(
        c, "ResizeBilinear", _scaled_sides(c), align_corners=is_aligned, half_pixel_centers=is_half
    )


@mil("upsample_nearest_neighbor")
def _upsample_nearest(c: Call) -> Value:
    """Each pixel several times."""
    factors = [number(c, f"scale_factor_{side}", 1) for side in ("height", "width")]
    if any(f != int(f) for f in factors):
        raise UnsupportedOp("its factors are no whole numbers")
    return _resized(c, "ResizeNearestNeighbor", _scaled_sides(c))


@mil("depth_to_space")
def _depth_to_space(c: Call) -> Value:
    return onnx(c, "DepthToSpace", c[0], blocksize=int(number(c, "block_size", 1)), mode="DCR")


@mil("pixel_shuffle")
def _pixel_shuffle(c: Call) -> Value:
    return onnx(c, "DepthToSpace", c[0], blocksize=int(number(c, "upscale_factor", 1)), mode="CRD")


@mil("space_to_depth")
def _space_to_depth(c: Call) -> Value:
    return onnx(c, "SpaceToDepth", c[0], blocksize=int(number(c, "block_size", 1)))
