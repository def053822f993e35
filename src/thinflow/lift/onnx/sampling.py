"""ONNX's GridSample, AffineGrid and DeformConv: pictures looked at in places that the model computes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.decompose.terms import Term, stack, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.formulas import Formula, Size, product, reshaped, scalar, size
from thinflow.lift.onnx.values import bounded, rank, text
from thinflow.lift.onnx.windows import biased
from thinflow.lift.rules import lifts

_MOST_TAPS = 1 << 8
"""Pixels that are mixed for one of the result."""
# The coefficient of ONNX's definition, which is PyTorch's.
_CUBIC = -0.75


@dataclass(frozen=True)
class Taps:
    """Pixels along one axis that are mixed for each place.

    Attributes:
        at: [..., taps], int32, within the axis.
        weights: the same; None for a single pixel that counts whole.
    """

    at: Term
    weights: Term | None


def mixed(x: Term, axes: Sequence[Taps], sizes: Sequence[Size]) -> Term:
    """Pixels of pictures [n, h * w, c] at n lists of places [n, places], by weights -> [n, places, c].

    Args:
        axes: taps of each axis, [n, places, taps].
        sizes: of the pictures' axes.
    """
    batch, count = size(axes[0].at, 0), size(axes[0].at, 1)
    at, shares = axes[0].at, axes[0].weights
    taps = int(axes[0].at.shape[2] or 0)
    for axis, length in zip(axes[1:], sizes[1:], strict=True):
        more = int(axis.at.shape[2] or 0)
        # Each tap so far with each of this axis.
        at = (at * scalar(x.body, length)).expand_dims(3) + axis.at.expand_dims(2)
        at = reshaped(at, [batch, count, taps * more])
        if shares is not None and axis.weights is not None:
            shares = reshaped(
                shares.expand_dims(3) * axis.weights.expand_dims(2), [batch, count, taps * more]
            )
        taps *= more
    if taps > _MOST_TAPS:
        raise UnsupportedOp(f"it mixes {taps} pixels")
    found = looked_up(x, reshaped(at, [batch, product([count, taps])]))
    if shares is None:
        return found
    each = reshaped(found, [batch, count, taps, size(x, 2)])
    return (each * shares.cast(x.dtype).expand_dims(3)).sum(2)


def looked_up(x: Term, at: Term) -> Term:
    """Rows of x [n, rows, c] at n lists of places [n, places] -> [n, places, c]."""
    axis = x.body.constant(1, INT32)
    return x.body.add("GatherV2", [x.value, at.value, axis.value], batch_dims=1)[0]


# --- GridSample ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Side:
    """An axis of pictures, and what lies beyond its ends."""

    length: Size
    padding: str
    corners: bool

    def place(self, share: Term) -> Term:
        """Places of shares of the axis, of which -1 and 1 are the ends."""
        length = scalar(share.body, self.length).cast(share.dtype)
        if self.corners:
            return (share + 1.0) / 2.0 * (length - 1.0)
        return ((share + 1.0) * length - 1.0) / 2.0

    def ends(self, like: Term) -> tuple[Term, Term]:
        """The outermost places that are inside."""
        last = scalar(like.body, self.length).cast(like.dtype) - 1.0
        half = 0.0 if self.corners else 0.5
        return like.of(-half), last + half

    def within(self, at: Term) -> Term:
        """Places outside brought inside, but for zeros, which are outside."""
        if self.padding == "zeros":
            return at
        low, high = self.ends(at)
        if self.padding == "reflection":
            return self.reflected(at)
        last = scalar(at.body, self.length).cast(at.dtype) - 1.0
        return where((at < low) | (at > high), at.clip(0.0, last), at)

    def reflected(self, at: Term) -> Term:
        """As in two mirrors at the ends."""
        if self.length == 1 and self.corners:
            return at * 0.0
        low, high = self.ends(at)
        span = high - low
        turned = (at - low).abs().apply("FloorMod", span * 2.0)
        # Even a place that is inside stays the same number.
        return where((at < low) | (at > high), low + (span - (turned - span).abs()), at)

    def taps(self, pixels: Term, weights: Term | None) -> Taps:
        """Pixels [..., taps], which may be outside, with what counts there."""
        last = scalar(pixels.body, self.length).cast(pixels.dtype) - 1.0
        if self.padding == "zeros":
            inside = ((pixels >= 0.0) & (pixels <= last)).cast(pixels.dtype)
            weights = inside if weights is None else weights * inside
        if self.padding == "reflection":
            pixels = self.reflected(pixels)
        return Taps(pixels.clip(0.0, last).cast(INT32), weights)


def _interpolated(side: _Side, at: Term, mode: str) -> Taps:
    """Pixels that are mixed at places [n, places], whose last axis is new."""
    if mode == "nearest":
        return side.taps(side.within(at.apply("Rint")).expand_dims(2), None)
    # Places beyond a border are mixed of what the border's pixels stand for, as in PyTorch and ONNX Runtime;
    # only ONNX's definition in Python moves them to the border first, which differs for cubic.
    at = at if side.padding == "border" else side.within(at)
    floor = at.apply("Floor")
    share = at - floor
    if mode == "linear":
        pixels, weights = [0.0, 1.0], [1.0 - share, share]
    else:
        pixels = [-1.0, 0.0, 1.0, 2.0]
        left, right = share, 1.0 - share
        weights = [_keys(left + 1.0), _keys(left, near=True), _keys(right, near=True), _keys(right + 1.0)]
    return side.taps(floor.expand_dims(2) + np.array(pixels), stack(weights, 2))


def _keys(d: Term, *, near: bool = False) -> Term:
    """The kernel of cubic convolution (Keys 1981), at distances up to 1 or beyond."""
    a = _CUBIC
    if near:
        return (d * (a + 2) - (a + 3)) * d * d + 1.0
    return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a


_MODES = {"bilinear": "linear", "bicubic": "cubic"}
"""What the modes were called before version 20."""


@lifts("onnx.GridSample")
def _grid_sample(c: Call) -> Value:
    """x [n, c, ...] at grid [n, ..., axes], whose numbers name the axes from the last on."""
    f, mode = Formula(c), text(c, "mode", "linear")
    mode, padding = _MODES.get(mode, mode), text(c, "padding_mode", "zeros")
    if mode not in {"nearest", "linear", "cubic"}:
        raise UnsupportedOp(f"it interpolates by '{mode}'")
    if padding not in {"zeros", "border", "reflection"}:
        raise UnsupportedOp(f"it pads by '{padding}'")
    x, grid = f.operand(0), f.operand(1)
    count = rank(c) - 2
    if count < 1 or len(grid.shape) != count + 2 or grid.shape[-1] not in (count, None):
        raise UnsupportedOp(f"its grid does not name {count} axes")
    corners = c.flag("align_corners")
    sides = [_Side(size(x, axis + 2), padding, corners) for axis in range(count)]
    outs = [size(grid, axis + 1) for axis in range(count)]
    batch, depth = size(x, 0), size(x, 1)
    points = reshaped(grid, [batch, product(outs), count])
    taps = [
        _interpolated(side, side.place(points.at(2, count - 1 - axis)), mode)
        for axis, side in enumerate(sides)
    ]
    lengths = [side.length for side in sides]
    rows = reshaped(x, [batch, depth, product(lengths)]).transpose((0, 2, 1))
    y = mixed(rows, taps, lengths).transpose((0, 2, 1))
    return reshaped(y, [batch, depth, *outs]).value


@lifts("onnx.AffineGrid")
def _affine_grid(c: Call) -> Value:
    """The places of pixels of a picture that is turned, [n, ..., axes], for GridSample."""
    f, theta = Formula(c), Formula(c).operand(0)
    sizes = [int(n) for n in c.known(1).reshape(-1)][2:]
    count = len(sizes)
    if count not in (2, 3) or min(sizes) < 1:
        raise UnsupportedOp(f"its grid has the sizes {sizes}")
    bounded(math.prod(sizes) * (count + 1))
    lines = []
    for n in sizes:
        # With aligned corners the outermost pixels' centres are the ends, else their edges.
        if c.flag("align_corners"):
            lines.append(np.linspace(-1, 1, n) if n > 1 else np.array([-1.0]))
        else:
            lines.append((2 * np.arange(n) + 1) / n - 1)
    axes = np.meshgrid(*lines, indexing="ij")
    pixels = np.stack([*reversed(axes), np.ones(sizes)], -1).reshape(-1, count + 1)
    operands = [f.constant(pixels, theta.dtype).value, theta.value]
    y = f.add("BatchMatMulV2", operands, adj_x=False, adj_y=True)[0]
    return reshaped(y, [size(theta, 0), *sizes, count]).value


# --- DeformConv ---------------------------------------------------------------------------------------------


@lifts("onnx.DeformConv", ignores=("kernel_shape",))
def _deform_conv(c: Call) -> Value:
    """A convolution whose window's pixels are moved: looked up, weighted, and multiplied with the filters."""
    f = Formula(c)
    x, w, moves = (f.operand(i) for i in range(3))
    kernel, outs = w.shape, moves.shape[2:]
    if len(x.shape) != 4 or len(kernel) != 4 or None in kernel or len(outs) != 2 or None in outs:
        raise UnsupportedOp("it is none over pictures whose weights and result have known sizes")
    height, width, batch, depth = size(x, 2), size(x, 3), size(x, 0), size(x, 1)
    if not isinstance(depth, int):
        raise UnsupportedOp("the number of its channels is not known")
    filters, inner, *spans = (int(n or 0) for n in kernel)
    group, parts = int(c.get("group", 1)), int(c.get("offset_group", 1))
    if min(group, parts) < 1 or depth != inner * group or depth % parts or filters % group:
        raise UnsupportedOp(f"its channels, {depth}, do not fit {group} groups and {parts} groups of offsets")
    taps, points = int(np.prod(spans)), int(np.prod([int(n or 0) for n in outs]))
    images = product([batch, parts])
    # Each group of offsets looks at channels of its own, as if they were another picture.
    shifts = reshaped(moves, [images, taps, 2, points])
    first = f.constant(_unmoved(c, spans, [int(n or 0) for n in outs]), moves.dtype)
    spots = [reshaped((shifts + first).at(2, axis), [images, taps * points]) for axis in (0, 1)]
    axes = [
        _interpolated(_Side(length, "zeros", corners=True), at, "linear")
        for length, at in zip((height, width), spots, strict=True)
    ]
    rows = reshaped(x, [images, depth // parts, product([height, width])]).transpose((0, 2, 1))
    seen = mixed(rows, axes, [height, width])
    if c.has(4):
        seen = seen * reshaped(f.operand(4), [images, taps * points, 1])
    columns = reshaped(seen, [images, taps, points, depth // parts]).transpose((0, 3, 2, 1))
    columns = reshaped(columns, [batch, group, inner, points * taps])
    columns = reshaped(columns, [product([batch, group]), inner, points, taps]).transpose((0, 2, 1, 3))
    columns = reshaped(columns, [batch, group, points, inner * taps])
    matrices = w.reshape([group, filters // group, inner * taps]).transpose((0, 2, 1))
    y = (columns @ matrices).transpose((0, 2, 1, 3))
    y = reshaped(y, [batch, *(int(n or 0) for n in outs), filters])
    bias = c[3] if c.has(3) else None
    return f.term(biased(c, y.value, bias)).transpose((0, 3, 1, 2)).value


def _unmoved(c: Call, spans: Sequence[int], outs: Sequence[int]) -> np.ndarray:
    """Where the pixels of each window are before they are moved, [1, taps, 2, windows]."""
    strides, dilations = (c.get(option) or (1, 1) for option in ("strides", "dilations"))
    pads = c.get("pads") or (0, 0, 0, 0)
    taps = np.stack(np.meshgrid(*(np.arange(k) * d for k, d in zip(spans, dilations, strict=True)),
                                indexing="ij"), -1).reshape(-1, 2)  # fmt: skip
    starts = np.stack(np.meshgrid(*(np.arange(o) * s - p
                                    for o, s, p in zip(outs, strides, pads[:2], strict=True)),
                                  indexing="ij"), -1).reshape(-1, 2)  # fmt: skip
    bounded(len(taps) * len(starts) * 2)
    places: np.ndarray = (taps[:, None] + starts).transpose(0, 2, 1)[None]
    return places
