"""ONNX's sliding windows and convolutions: channels come after the batch there, last in TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT64
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.formulas import Formula, ranked
from thinflow.lift.onnx.values import channels_first, channels_last, integers, like, text, transposed
from thinflow.lift.rules import lifts
from thinflow.ops._shapes import same_padding

Pads = list[tuple[int, int]]

LINE, PICTURE, VOLUME = 1, 2, 3
"""Dimensions that a window may have."""
_MOST_GROUPS = 1 << 10
"""Groups that are convolved one by one."""


@dataclass(frozen=True)
class Window:
    """A window that slides over pictures; all tuples in the order of their axes.

    Attributes:
        sizes: of the pictures; None for an open one.
        pads: what the file asks for before and behind.
        whole: the same with what a last, incomplete window needs behind.
        is_same: TensorFlow's padding SAME adds just that.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    sizes: tuple[int | None, ...]
    pads: Pads
    whole: Pads
    is_same: bool

    @property
    def rank(self) -> int:
        return len(self.kernel)

    @property
    def reach(self) -> list[int]:
        """From the first to the last pixel of the window, gaps included."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    @property
    def is_padded(self) -> bool:
        return any(map(any, self.whole))

    @property
    def has_gaps(self) -> bool:
        return any(d != 1 and k != 1 for d, k in zip(self.dilations, self.kernel, strict=True))

    def under(self, axis: int, tap: int) -> tuple[int, int | None, int]:
        """Start, stop and step of the pixels under one element of the window, in pictures of any size."""
        start = tap * self.dilations[axis]
        # So many pixels before the end the last window that fits has its element.
        left = self.reach[axis] - 1 - start
        return start, -left if left else None, self.strides[axis]

    def counts(self) -> list[int]:
        """The number of windows along each axis.

        Raises:
            UnsupportedOp: a size is open.
        """
        known = [n for n in self.sizes if n is not None]
        if len(known) < self.rank:
            raise UnsupportedOp("the sizes of its input are open")
        axes = zip(known, self.whole, self.reach, self.strides, strict=True)
        return [(n + sum(p) - r) // s + 1 for n, p, r, s in axes]


def window(c: Call, kernel: Sequence[int], *, is_up: bool = False) -> Window:
    """The window of a call over its first operand, [n, c, ...].

    Args:
        is_up: the number of windows is rounded up.

    Raises:
        UnsupportedOp: its options contradict each other, or need sizes that are open.
    """
    strides, dilations, sizes = steps(c, kernel)
    pads = _pads(c, len(kernel))
    mode = text(c, "auto_pad", "NOTSET")
    wholes: Pads = []
    given: Pads = []
    is_same = True
    for axis, (n, k, s, d) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
        reach = (k - 1) * d + 1
        asked = pads[axis] if pads is not None else _same(n, reach, s, mode == "SAME_LOWER")
        if asked is None:
            # TensorFlow knows them when it runs: only its own SAME can be had.
            if mode == "SAME_LOWER":
                raise UnsupportedOp("the sizes of its input are open, so the padding is not known")
            asked = whole = (0, 0)
        else:
            whole = _up(n, reach, s, asked) if is_up else asked
            if n is not None and n + sum(whole) < reach:
                raise UnsupportedOp(f"its window reaches over {reach} of {n + sum(whole)} pixels")
            is_same = is_same and _is_same(n, reach, s, whole, asked if is_up else None)
        given.append(asked)
        wholes.append(whole)
    # Without any padding VALID says so whatever the sizes are.
    is_same = is_same and (pads is None or any(map(any, wholes)))
    return Window(tuple(kernel), strides, dilations, sizes, given, wholes, is_same)


def steps(c: Call, kernel: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int | None, ...]]:
    """Strides, dilations and the sizes of what a window goes over.

    Raises:
        UnsupportedOp: they do not fit together, or there is no such window.
    """
    count, shape = len(kernel), c[0].spec.shape
    if shape is None or len(shape) != count + 2:
        raise UnsupportedOp(f"its window has {count} sizes, which its input does not")
    if count not in (LINE, PICTURE, VOLUME):
        raise UnsupportedOp(f"it goes over {count} dimensions")
    strides = tuple(c.get("strides") or (1,) * count)
    dilations = tuple(c.get("dilations") or (1,) * count)
    # Weights have the sizes of the window, and so may the option.
    stated = c.get("kernel_shape", tuple(kernel))
    if (
        len(strides) != count
        or len(dilations) != count
        or min(*strides, *dilations, *kernel) < 1
        or (stated and tuple(stated) != tuple(kernel))
    ):
        raise UnsupportedOp("its strides, dilations and kernel do not fit together")
    return strides, dilations, shape[2:]


def _pads(c: Call, count: int) -> Pads | None:
    """Pixels to add before and behind each axis; None where they depend on the size."""
    mode = text(c, "auto_pad", "NOTSET")
    if mode in {"SAME_UPPER", "SAME_LOWER"}:
        return None
    if mode not in {"NOTSET", "VALID", ""}:
        raise UnsupportedOp(f"it pads by '{mode}'")
    given = c.get("pads") if mode != "VALID" else None
    given = given or (0,) * (2 * count)
    if len(given) != 2 * count or min(given) < 0:
        raise UnsupportedOp(f"it has {len(given)} pads, or negative ones, for {count} dimensions")
    # All begins, then all ends.
    return list(zip(given[:count], given[count:], strict=True))


def _same(n: int | None, reach: int, stride: int, is_lower: bool) -> tuple[int, int] | None:
    """Pads of ONNX's SAME; None where the size is open and matters."""
    if n is None and stride != 1:
        return None
    small, large = same_padding(reach if n is None else n, reach, stride, 1)
    # Of an odd number of pixels the one left over goes behind, or for LOWER in front.
    return (large, small) if is_lower else (small, large)


def _up(n: int | None, reach: int, stride: int, pads: tuple[int, int]) -> tuple[int, int]:
    """Pads with what a last, incomplete window needs; none may begin in the border behind."""
    before, behind = pads
    if n is None:
        # So much makes whole windows of all that begin, whatever the size; and then none begins too late.
        if behind + stride > reach:
            raise UnsupportedOp("the sizes of its input are open, so the padding is not known")
        return before, behind + stride - 1
    whole = n + before + behind
    windows = -(-(whole - reach) // stride) + 1
    # A window that begins in the border behind would see nothing of the picture.
    if (windows - 1) * stride >= n + before:
        windows -= 1
    return before, behind + max((windows - 1) * stride + reach - whole, 0)


def _is_same(
    n: int | None, reach: int, stride: int, pads: tuple[int, int], up: tuple[int, int] | None
) -> bool:
    """True if TensorFlow's SAME gives the same windows. What lies behind the last one does not count."""
    # Both depend on what is left of the size by the stride, if it is open; never mind small ones.
    first = 4 * reach * stride
    for size in range(first, first + stride) if n is None else (n,):
        own = pads if up is None else _up(size, reach, stride, up)
        count = (size + sum(own) - reach) // stride + 1
        if same_padding(size, reach, stride, 1)[0] != own[0] or count != -(-size // stride):
            return False
    return True


def bordered(c: Call, x: Value, pads: Pads, fill: float) -> Value:
    """x [n, ..., c] with a border of a number."""
    if not any(map(any, pads)):
        return x
    # Of 32 bits: TensorFlow fuses pads with convolutions, and stops at others.
    table = c.constant(np.array([(0, 0), *pads, (0, 0)], np.int32))
    # TensorFlow writes Pad for zeros.
    return c.emit("PadV2", x, table, like(c, fill, x)) if fill else c.emit("Pad", x, table)


def as_picture(c: Call, x: Value, axis: int = 1) -> Value:
    """A line with a height of 1: TensorFlow's windows slide over pictures and volumes."""
    return c.emit("ExpandDims", x, c.constant(axis))


def as_line(c: Call, y: Value) -> Value:
    """What `as_picture` was made of."""
    return c.emit("Squeeze", y, squeeze_dims=(1,))


def convolution(c: Call, x: Value, w: Value, bias: Value | None) -> Value:
    """y of a convolution of x [n, c, ...] with w [cout, cin / group, ...]."""
    kernel = w.spec.shape
    if kernel is None or None in kernel or len(kernel) < 3:
        raise UnsupportedOp("the sizes of its input or its weights are not known")
    count = len(kernel)
    win = window(c, [int(n or 0) for n in kernel[2:]])
    picture = channels_last(c, x, count)
    if not win.is_same:
        picture = bordered(c, picture, win.whole, 0.0)
    # [cout, cin/group, k...] -> [k..., cin/group, cout].
    filters = transposed(c, w, (*range(2, count), 1, 0))
    strides, dilations, spans = win.strides, win.dilations, win.kernel
    if win.rank == LINE:
        picture, filters = as_picture(c, picture), as_picture(c, filters, 0)
        strides, dilations, spans = (1, *strides), (1, *dilations), (1, *spans)
    y = _grouped(
        c, picture, filters, [int(n or 0) for n in kernel[:2]], spans,
        strides=(1, *strides, 1), dilations=(1, *dilations, 1), padding="SAME" if win.is_same else "VALID",
    )  # fmt: skip
    y = biased(c, y, bias)
    return channels_first(c, as_line(c, y) if win.rank == LINE else y, count)


def biased(c: Call, y: Value, bias: Value | None) -> Value:
    """Channels last, with a number added to each channel.

    Raises:
        UnsupportedOp: there are other numbers of them.
    """
    channels = y.spec.shape[-1:] if y.spec.shape else ()
    if bias is not None and channels and None not in channels and bias.spec.shape not in (None, channels):
        raise UnsupportedOp(f"its bias is of shape {list(bias.spec.shape or ())} for {channels[0]} channels")
    return y if bias is None else c.emit("BiasAdd", y, bias, data_format="NHWC")


def _grouped(
    c: Call, x: Value, w: Value, depths: Sequence[int], spans: Sequence[int], **windows: Any
) -> Value:
    """The convolution itself; with one input channel per group it is a depthwise one.

    Args:
        x: [n, ..., cin]. w: [..., cin / group, cout].
        depths: cout and cin / group.
        spans: sizes of the window.
        windows: strides, dilations and padding.
    """
    group = int(c.get("group", 1))
    if group < 1 or depths[0] % group:
        raise UnsupportedOp(f"its filters, {depths[0]}, are no multiple of its groups, {group}")
    channels = x.spec.shape[-1] if x.spec.shape else None
    if channels not in (None, group * depths[1]):
        raise UnsupportedOp(f"its filters are for {group * depths[1]} channels, and there are {channels}")
    if len(spans) == VOLUME:

        def convolved(x: Value, w: Value) -> Value:
            return c.emit("Conv3D", x, w, data_format="NDHWC", **windows)

        return by_group(c, group, x, w, convolved)
    # Outputs of a group stand together in both, so the last axis of weights is cut in two.
    if group > 1 and depths[1] == 1:
        filters = c.emit("Reshape", w, integers(c, (*spans, group, depths[0] // group)), Tshape=INT64)
        if c[0].spec.shape is not None and len(c[0].spec.shape) == LINE + 2:
            # TensorFlow's kernel wants equal steps; those across a line lead nowhere.
            windows["strides"] = (1, *windows["strides"][2:3] * 2, 1)
        return c.emit("DepthwiseConv2dNative", x, filters, data_format="NHWC", **windows)
    # TensorFlow's Conv2D finds the number of groups by itself, from the depths of picture and weights.
    return c.emit("Conv2D", x, w, data_format="NHWC", **windows)


def by_group(c: Call, group: int, x: Value, w: Value, op: Any, axis: int = -1) -> Value:
    """An op on each part of x [..., cin] with each part of the weights, side by side again.

    Args:
        axis: of the weights, along which groups stand.
    """
    if group == 1:
        result: Value = op(x, w)
        return result
    if group > _MOST_GROUPS:
        raise UnsupportedOp(f"it has {group} groups")
    ranks = [len(v.spec.shape or ()) for v in (x, w)]
    parts = [
        c.many("Split", c.constant(at % rank), v, num_split=group)
        for v, rank, at in ((x, ranks[0], -1), (w, ranks[1], axis))
    ]
    made = [op(*(p.output(g) for p in parts)) for g in range(group)]
    return c.emit("ConcatV2", *made, c.constant(ranks[0] - 1))


@lifts("onnx.Conv", ignores=("kernel_shape", "pads"))
def _conv(c: Call) -> Value:
    kernel = c[1].spec.shape
    if c[0].spec.shape is None and kernel is not None and len(kernel) > 1 and kernel[1] is not None:
        # What a branch gives may be of any rank; the weights tell it, and the number of channels.
        sizes = (None, kernel[1] * int(c.get("group", 1)), *(None,) * (len(kernel) - 2))
        c.xs[0] = ranked(Formula(c).operand(0), sizes).value
    return convolution(c, c[0], c[1], c[2] if c.has(2) else None)
