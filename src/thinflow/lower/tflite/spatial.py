"""Spatial axes: borders, blocks as batch or channels, other sizes of images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, ints, require, require_nhwc, shape_of
from thinflow.program.model import Dims
from thinflow.tflite.model import Tensor


def grown(shape: Dims, pairs: Sequence[tuple[int, int]]) -> Dims:
    if shape is None:
        return None
    return tuple(None if n is None else n + low + high for n, (low, high) in zip(shape, pairs, strict=True))


def padded(b: Builder, x: Tensor, pairs: Sequence[tuple[int, int]]) -> Tensor:
    """x with zeros around it; x itself when there are none to add."""
    if not any(low or high for low, high in pairs):
        return x
    return b.step("PAD", x, b.const(np.array(pairs, np.int32), "paddings"), shape=grown(x.shape, pairs))


def mirrored(b: Builder, x: Tensor, paddings: Tensor, mode: str) -> Tensor:
    """x with each side mirrored outwards."""
    flat = ints(paddings, "paddings")
    pairs = list(zip(flat[::2], flat[1::2], strict=True))
    if not any(flat):
        return x
    return b.step("MIRROR_PAD", x, b.index(paddings), shape=grown(x.shape, pairs), mode=mode)


def _require_not_negative(paddings: Tensor) -> None:
    if paddings.is_constant:
        require(min(ints(paddings, "paddings"), default=0) >= 0, "a padding is negative")


@lower("Pad", to="tflite")
def pad(b: Builder, node: Node, x: Tensor, paddings: Tensor) -> Tensor:
    _require_not_negative(paddings)
    return _with_border(b, "PAD", x, paddings)


@lower("PadV2", to="tflite")
def pad_v2(b: Builder, node: Node, x: Tensor, paddings: Tensor, value: Tensor) -> Tensor:
    """PAD where the value is 0: accelerated kernels know only that."""
    _require_not_negative(paddings)
    if value.is_constant and not np.asarray(value.array()).any():
        return _with_border(b, "PAD", x, paddings)
    return _with_border(b, "PADV2", x, paddings, value)


_MOST_PADDED = 5
"""The rank up to which LiteRT pads."""


def _with_border(b: Builder, code: str, x: Tensor, paddings: Tensor, *value: Tensor) -> Tensor:
    """A PAD; beyond the rank that LiteRT takes, neighbouring axes that get no border are one."""
    flat = ints(paddings, "paddings") if paddings.is_constant else ()
    pairs = list(zip(flat[::2], flat[1::2], strict=True))
    if len(pairs) <= _MOST_PADDED:
        return b.emit(code, x, b.index(paddings), *value)
    shape = shape_of(x, "x")
    result = grown(shape, pairs) or ()
    runs: list[list[int]] = []
    for axis, pair in enumerate(pairs):
        if runs and not any(pair) and not any(pairs[runs[-1][0]]):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    sides = [
        None if None in (own := [shape[n] for n in run]) else math.prod(n or 0 for n in own) for run in runs
    ]
    # A RESHAPE computes one size at most, and of nothing it cannot.
    require(sides.count(None) <= 1 and result.count(None) <= 1, "several of its sizes are open")
    require(
        0 not in (*sides, *result) or None not in (*sides, *result), "it pads nothing, and a size is open"
    )
    merged = b.reshape(x, [-1 if n is None else n for n in sides], tuple(sides), "merged")
    borders = [pairs[run[0]] for run in runs]
    table = b.const(np.array(borders, np.int32), "paddings")
    wide = b.step(code, merged, table, *value, shape=grown(merged.shape, borders))
    inputs, options = b.reshape_operands([-1 if n is None else n for n in result], wide)
    return b.emit("RESHAPE", *inputs, **options)


@lower("MirrorPad", to="tflite")
def mirror_pad(b: Builder, node: Node, x: Tensor, paddings: Tensor, *, mode: str) -> Tensor:
    require(mode in ("REFLECT", "SYMMETRIC"), f"mode {mode} is not known")
    return b.emit("MIRROR_PAD", x, b.index(paddings), mode=mode)


def _reversed(b: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """REVERSE_V2 takes neighbouring axes only, so one at a time."""
    if not axes:
        return x
    for axis in axes[:-1]:
        x = b.step("REVERSE_V2", x, b.ints([axis], "axis"), shape=x.shape)
    return b.emit("REVERSE_V2", x, b.ints([axes[-1]], "axis"))


@lower("ReverseV2", to="tflite")
def reverse_v2(b: Builder, node: Node, x: Tensor, axis: Tensor) -> Tensor:
    return _reversed(b, x, b.axes(axis, len(shape_of(x, "x"))))


@lower("Reverse", to="tflite")
def reverse(b: Builder, node: Node, x: Tensor, flags: Tensor) -> Tensor:
    return _reversed(b, x, [axis for axis, chosen in enumerate(ints(flags, "dims")) if chosen])


@lower("ReverseSequence", to="tflite")
def reverse_sequence(
    b: Builder, node: Node, x: Tensor, lengths: Tensor, *, seq_dim: int, batch_dim: int = 0
) -> Tensor:
    require(0 not in (x.shape or ()), "LiteRT crashes on sequences without elements")
    return b.emit("REVERSE_SEQUENCE", x, lengths, seq_dim=seq_dim, batch_dim=batch_dim)


@lower("Roll", to="tflite")
def roll(b: Builder, node: Node, x: Tensor, shift: Tensor, axis: Tensor) -> Tensor:
    """The two parts of x along each axis, in the other order; sizes must be known."""
    shape = shape_of(x, "x")
    moves = list(zip(ints(shift, "shift"), b.axes(axis, len(shape)), strict=True))
    # One axis after the other: each is a SPLIT_V and a CONCATENATION.
    for where, by in ((a, s) for s, a in moves):
        size = shape[where]
        require(size is not None, "the size of a rolled axis is not known")
        # Rolling by s moves the last s elements to the front: what stands before them comes second.
        cut = -by % (size or 1)
        if cut:
            sizes = b.ints([cut, (size or 0) - cut], "sizes")
            shapes = [(*shape[:where], n, *shape[where + 1 :]) for n in (cut, (size or 0) - cut)]
            place = b.const(np.int32(where), "axis")
            parts = b.step_ports(
                "SPLIT_V", x, sizes, place, shapes=shapes, elements=[x.dtype, x.dtype], num_splits=2
            )
            x = b.step("CONCATENATION", *reversed(parts), shape=shape, axis=where)
    return x


# ---- Blocks of space as batch or channels, and back.


@lower("SpaceToBatchND", to="tflite")
def space_to_batch_nd(b: Builder, node: Node, x: Tensor, block: Tensor, paddings: Tensor) -> Tensor:
    return b.emit("SPACE_TO_BATCH_ND", x, b.index(block), b.index(paddings))


@lower("BatchToSpaceND", to="tflite")
def batch_to_space_nd(b: Builder, node: Node, x: Tensor, block: Tensor, crops: Tensor) -> Tensor:
    return b.emit("BATCH_TO_SPACE_ND", x, b.index(block), b.index(crops))


def _square(b: Builder, block_size: int) -> Tensor:
    return b.const(np.array([block_size] * 2, np.int32), "block")


@lower("SpaceToBatch", to="tflite")
def space_to_batch(b: Builder, node: Node, x: Tensor, paddings: Tensor, *, block_size: int) -> Tensor:
    return b.emit("SPACE_TO_BATCH_ND", x, _square(b, block_size), b.index(paddings))


@lower("BatchToSpace", to="tflite")
def batch_to_space(b: Builder, node: Node, x: Tensor, crops: Tensor, *, block_size: int) -> Tensor:
    return b.emit("BATCH_TO_SPACE_ND", x, _square(b, block_size), b.index(crops))


@lower("SpaceToDepth", "DepthToSpace", to="tflite")
def space_to_depth(
    b: Builder, node: Node, x: Tensor, *, block_size: int, data_format: str = "NHWC"
) -> Tensor:
    require_nhwc(data_format)
    # TensorFlow and LiteRT count channels alike: the place in the block is the outer part of a channel's
    # number.
    code = "SPACE_TO_DEPTH" if node.op == "SpaceToDepth" else "DEPTH_TO_SPACE"
    return b.emit(code, x, block_size=block_size)


# ---- Resizing images.


@lower("ResizeBilinear", to="tflite")
def resize_bilinear(
    b: Builder,
    node: Node,
    x: Tensor,
    size: Tensor,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Tensor:
    """The result is float whatever x is."""
    x = b.cast(x, FLOAT)
    return b.emit(
        "RESIZE_BILINEAR",
        x,
        b.index(size),
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
    )


@lower("ResizeNearestNeighbor", to="tflite")
def resize_nearest(
    b: Builder,
    node: Node,
    x: Tensor,
    size: Tensor,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Tensor:
    return b.emit(
        "RESIZE_NEAREST_NEIGHBOR",
        x,
        b.index(size),
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
    )
