"""Resizing, and blocks of pixels."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.coreml.builder import Builder, Var, whole
from thinflow.lower.coreml.rules import says
from thinflow.onnx.program import Operator
from thinflow.typing import Array

_BILINEAR = {
    "asymmetric": "DEFAULT",
    "align_corners": "STRICT_ALIGN_CORNERS",
    "half_pixel": "UNALIGN_CORNERS",
}
"""Where ONNX takes samples -> the same of MIL's resize_bilinear."""


@says("Resize")
def resize(b: Builder, o: Operator) -> Var:
    """x [n,c,h,w] with other sides: MIL's own where it is bilinear, else rows and columns are picked."""
    x = b.require_float(b.read(o, 0))
    if len(x.shape) != 4:
        raise UnsupportedOp(f"it resizes {len(x.shape)} axes; pictures have 4")
    sides = b.sizes(x)[2:] if None not in b.shape(x)[2:] else _open_sides(b, x)
    wanted = _wanted(b, o, sides)
    mode, where = (
        o.options.get("mode", "nearest"),
        o.options.get("coordinate_transformation_mode", "half_pixel"),
    )
    if any(key in o.options for key in ("antialias", "axes", "exclude_outside")):
        raise UnsupportedOp("it resizes with more than two neighbours")
    if mode == "nearest":
        for axis, (n, m) in enumerate(zip(sides, wanted, strict=True), 2):
            places = _nearest(n, m, where, o.options.get("nearest_mode", "round_prefer_floor"))
            if not np.array_equal(places, np.arange(n)):
                x = b.mb.gather(x=x, indices=places, axis=axis)
        return b.mb.identity(x=x)
    if mode != "linear" or where not in _BILINEAR:
        raise UnsupportedOp(f"it resizes in the mode {mode}, {where}")
    return b.mb.resize_bilinear(
        x=x,
        target_size_height=wanted[0],
        target_size_width=wanted[1],
        sampling_mode=_BILINEAR[where],
    )


def _open_sides(b: Builder, x: Var) -> tuple[int, ...]:
    raise UnsupportedOp("the sides of its picture are not known", hint="give them: --shape NAME=...")


def _wanted(b: Builder, o: Operator, sides: tuple[int, ...]) -> list[int]:
    if b.has(o, 3):
        return whole(b.known(o, 3, "the wanted size"))[2:]
    scales = b.known(o, 2, "by how much").reshape(-1)[2:]
    return [int(np.floor(n * s)) for n, s in zip(sides, scales, strict=True)]


def _nearest(size: int, wanted: int, where: str, rounding: str) -> Array:
    """The places that are picked along one side, as ONNX defines them."""
    at = np.arange(wanted, dtype=np.float32)
    scale = np.float32(wanted) / np.float32(size)
    if where == "asymmetric":
        at = at / scale
    elif where == "half_pixel":
        at = (at + np.float32(0.5)) / scale - np.float32(0.5)
    elif where == "align_corners":
        at = at * np.float32(size - 1) / np.float32(max(wanted - 1, 1))
    else:
        raise UnsupportedOp(f"it picks places by {where}")
    half = np.float32(0.5)
    rounded = {
        "floor": np.floor(at),
        "ceil": np.ceil(at),
        "round_prefer_ceil": np.floor(at + half),
        "round_prefer_floor": np.ceil(at - half),
    }[rounding]
    places: Array = np.clip(rounded, 0, size - 1).astype(np.int32)
    return places


@says("DepthToSpace")
def depth_to_space(b: Builder, o: Operator) -> Var:
    x, block = b.require_float(b.read(o, 0)), int(o.options["blocksize"])
    if o.options.get("mode", "DCR") == "CRD":
        return b.mb.pixel_shuffle(x=x, upscale_factor=block)
    return b.mb.depth_to_space(x=x, block_size=block)


@says("SpaceToDepth")
def space_to_depth(b: Builder, o: Operator) -> Var:
    return b.mb.space_to_depth(x=b.require_float(b.read(o, 0)), block_size=int(o.options["blocksize"]))
