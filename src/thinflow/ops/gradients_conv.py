"""Gradients of convolutions to their filters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops._shapes import rank_of
from thinflow.ops._windows import Layout, Window, layout, lowest, pad, shifted, widened, window
from thinflow.ops.conv_transpose import _transposed
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array


def _sizes(sizes: TensorSpec, dy: TensorSpec, rank: int) -> TensorSpec:
    if sizes.elements is None:
        return dy.with_shape((None,) * rank)
    require(len(sizes.elements) == rank, f"filter_sizes has {len(sizes.elements)} values, {rank} are needed")
    return dy.with_shape(sizes.elements)


def _shape(sizes: Array, rank: int) -> tuple[int, ...]:
    shape = tuple(int(d) for d in sizes.reshape(-1))
    require(len(shape) == rank, f"filter_sizes has {len(shape)} values, {rank} are needed")
    require(min(shape) > 0, f"filter_sizes {list(shape)} must be positive")
    return shape


def _views(x: Array, dy: Array, win: Window) -> tuple[Array, tuple[int, ...]]:
    """x padded, and the output sizes, checked against dy; both channels last."""
    out = win.output_sizes(x.shape[1:-1])
    require(
        dy.shape[:-1] == (x.shape[0], *out),
        f"dy is {list(dy.shape)} (channels last), the input gives {[x.shape[0], *out, dy.shape[-1]]}",
    )
    return pad(widened(x), win.pads(x.shape[1:-1])), out


def _filter_gradient(x: Array, shape: tuple[int, ...], dy: Array, where: Layout, win: Window) -> Array:
    """dw of the filter's shape [*k, c/groups, m]: for every tap the seen inputs times dy."""
    x, dy, kind = where.last(x), where.last(dy), x.dtype
    depth, filters = shape[-2:]
    require(x.shape[-1] % depth == 0, f"x has {x.shape[-1]} channels, no multiple of the filter's {depth}")
    require(dy.shape[-1] == filters, f"dy has {dy.shape[-1]} channels, the filter {filters}")
    padded, out = _views(x, dy, win)
    groups = x.shape[-1] // depth
    step = filters // groups
    upstream = widened(dy).reshape(-1, filters)
    dw = np.zeros(shape, padded.dtype)
    # One matrix product per tap and group, [c, pixels] @ [pixels, m]: the sum over all images and places at
    # once.
    for tap in win.taps():
        seen = shifted(padded, win, tap, out).reshape(-1, x.shape[-1])
        for g in range(groups):
            ours = slice(g * step, (g + 1) * step)
            dw[tap][:, ours] = seen[:, g * depth : (g + 1) * depth].T @ upstream[:, ours]
    return dw.astype(kind)


@op("Conv2DBackpropFilter")
class Conv2DBackpropFilter(OpDef):
    """dw, the gradient of Conv2D to its filter.

    x [n,h,w,c], filter_sizes [4], dy [n,oh,ow,m] -> dw [kh,kw,c/groups,m].
    """

    @staticmethod
    def infer(x: TensorSpec, sizes: TensorSpec, dy: TensorSpec) -> TensorSpec:
        return _sizes(sizes, dy, 4)

    @staticmethod
    def kernel(
        x: Array,
        sizes: Array,
        dy: Array,
        *,
        strides: Sequence[int],
        padding: str,
        explicit_paddings: Sequence[int] = (),
        data_format: str = "NHWC",
        dilations: Sequence[int] = (1, 1, 1, 1),
    ) -> Array:
        where, shape = layout(data_format), _shape(sizes, 4)
        win = window(where, shape[:2], strides, padding, dilations, explicit_paddings)
        return _filter_gradient(x, shape, dy, where, win)


@op("Conv3DBackpropFilterV2")
class Conv3DBackpropFilterV2(OpDef):
    """dw, the gradient of Conv3D to its filter.   x [n,d,h,w,c], filter_sizes [5], dy -> [kd,kh,kw,c,m]."""

    @staticmethod
    def infer(x: TensorSpec, sizes: TensorSpec, dy: TensorSpec) -> TensorSpec:
        return _sizes(sizes, dy, 5)

    @staticmethod
    def kernel(
        x: Array,
        sizes: Array,
        dy: Array,
        *,
        strides: Sequence[int],
        padding: str,
        data_format: str = "NDHWC",
        dilations: Sequence[int] = (1, 1, 1, 1, 1),
    ) -> Array:
        where, shape = layout(data_format, 5), _shape(sizes, 5)
        return _filter_gradient(x, shape, dy, where, window(where, shape[:3], strides, padding, dilations))


@op("Conv3DBackpropFilter")
class Conv3DBackpropFilter(OpDef):
    """As Conv3DBackpropFilterV2, the filter itself giving the sizes."""

    @staticmethod
    def infer(x: TensorSpec, w: TensorSpec, dy: TensorSpec) -> TensorSpec:
        return w.with_shape(rank_of(w, 5, "filter"))

    @staticmethod
    def kernel(
        x: Array, w: Array, dy: Array, *, strides: Sequence[int], padding: str,
        dilations: Sequence[int] = (1, 1, 1, 1, 1),
    ) -> Array:  # fmt: skip
        where = layout("NDHWC", 5)
        win = window(where, w.shape[:3], strides, padding, dilations)
        return _filter_gradient(x, w.shape, dy, where, win)


@op("Conv3DBackpropInput")
class Conv3DBackpropInput(OpDef):
    """As Conv3DBackpropInputV2, the input itself giving the sizes."""

    @staticmethod
    def infer(x: TensorSpec, w: TensorSpec, dy: TensorSpec) -> TensorSpec:
        return x.with_shape(rank_of(x, 5, "input"))

    @staticmethod
    def kernel(
        x: Array, w: Array, dy: Array, *, strides: Sequence[int], padding: str,
        dilations: Sequence[int] = (1, 1, 1, 1, 1),
    ) -> Array:  # fmt: skip
        return _transposed(np.array(x.shape), w, dy, layout("NDHWC", 5), strides, padding, dilations)


@op("DepthwiseConv2dNativeBackpropFilter")
class DepthwiseConv2dNativeBackpropFilter(OpDef):
    """dw of a depthwise convolution.   x [n,h,w,c], filter_sizes [4], dy [n,oh,ow,c*m] -> [kh,kw,c,m]."""

    @staticmethod
    def infer(x: TensorSpec, sizes: TensorSpec, dy: TensorSpec) -> TensorSpec:
        return _sizes(sizes, dy, 4)

    @staticmethod
    def kernel(
        x: Array,
        sizes: Array,
        dy: Array,
        *,
        strides: Sequence[int],
        padding: str,
        explicit_paddings: Sequence[int] = (),
        data_format: str = "NHWC",
        dilations: Sequence[int] = (1, 1, 1, 1),
    ) -> Array:
        where, shape = layout(data_format), _shape(sizes, 4)
        win = window(where, shape[:2], strides, padding, dilations, explicit_paddings)
        channels, multiple = shape[2:]
        x, dy = where.last(x), where.last(dy)
        require(x.shape[-1] == channels, f"x has {x.shape[-1]} channels, the filter {channels}")
        require(
            dy.shape[-1] == channels * multiple, f"dy has {dy.shape[-1]} channels, not {channels * multiple}"
        )
        padded, out = _views(x, dy, win)
        upstream = widened(dy).reshape(*dy.shape[:-1], channels, multiple)
        dw = np.zeros(shape, padded.dtype)
        for tap in win.taps():
            # Each channel by itself: the sum goes over images and places, as that of a dense filter.
            dw[tap] = np.einsum("nhwc,nhwcm->cm", shifted(padded, win, tap, out), upstream)
        return dw.astype(x.dtype)


def _winners(x: Array, w: Array, dy: Array, win: Window) -> tuple[Array, tuple[int, ...]]:
    """The number of the tap that gave each output of Dilation2D, the first of equals; its sides."""
    out = win.output_sizes(x.shape[1:3])
    require(dy.shape == (x.shape[0], *out, x.shape[3]), f"dy has shape {list(dy.shape)}")
    # As the forward op: pixels beyond the edge take no part. A window in which nothing beats the lowest value
    # is given to the first tap.
    low = lowest(x.dtype)
    padded = pad(x, win.pads(x.shape[1:3]), low)
    inside = pad(np.ones((1, *x.shape[1:3], 1), bool), win.pads(x.shape[1:3]), False)
    best, winner = np.full(dy.shape, low, x.dtype), np.zeros(dy.shape, np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        for number, tap in enumerate(win.taps()):
            seen = shifted(padded, win, tap, out) + w[tap]
            wins = shifted(inside, win, tap, out) & (seen > best)
            best, winner = np.where(wins, seen, best), np.where(wins, number, winner)
    return winner, out


@op("Dilation2DBackpropInput")
class Dilation2DBackpropInput(OpDef):
    """dx of Dilation2D: dy goes to the input that won.   x [n,h,w,c], filter [kh,kw,c], dy -> like x."""

    @staticmethod
    def infer(x: TensorSpec, w: TensorSpec, dy: TensorSpec) -> TensorSpec:
        return x.with_shape(rank_of(x, 4, "x"))

    @staticmethod
    def kernel(
        x: Array, w: Array, dy: Array, *, strides: Sequence[int], rates: Sequence[int], padding: str
    ) -> Array:
        win = window(layout("NHWC"), w.shape[:2], strides, padding, rates)
        winner, out = _winners(x, w, dy, win)
        pads = win.pads(x.shape[1:3])
        padded = pad(np.zeros_like(x), pads)
        for number, tap in enumerate(win.taps()):
            shifted(padded, win, tap, out)[...] += np.where(winner == number, dy, 0).astype(x.dtype)
        (top, _), (left, _) = pads
        return padded[:, top : top + x.shape[1], left : left + x.shape[2]]


@op("Dilation2DBackpropFilter")
class Dilation2DBackpropFilter(OpDef):
    """dw of Dilation2D: dy goes to the filter element that won.   x [n,h,w,c], filter, dy -> like filter."""

    @staticmethod
    def infer(x: TensorSpec, w: TensorSpec, dy: TensorSpec) -> TensorSpec:
        return w.with_shape(rank_of(w, 3, "filter"))

    @staticmethod
    def kernel(
        x: Array, w: Array, dy: Array, *, strides: Sequence[int], rates: Sequence[int], padding: str
    ) -> Array:
        win = window(layout("NHWC"), w.shape[:2], strides, padding, rates)
        winner, _ = _winners(x, w, dy, win)
        # The filter is shared by all places, so its gradient sums over them.
        sums = [np.where(winner == t, dy, 0).sum(axis=(0, 1, 2)) for t in range(w.shape[0] * w.shape[1])]
        return np.asarray(np.stack(sums).reshape(w.shape).astype(w.dtype))
