"""Convolutions, forward."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops._shapes import Dim, product, rank_of
from thinflow.ops._windows import (
    Layout,
    convolve,
    depthwise,
    layout,
    lowest,
    pad,
    shifted,
    split_dims,
    window,
)
from thinflow.ops.registry import Cost, OpDef, Weights, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


def _infer_conv(
    x: TensorSpec,
    w: TensorSpec,
    where: Layout,
    strides: Sequence[int],
    padding: str,
    dilations: Sequence[int],
    explicit: Sequence[int],
) -> TensorSpec:
    """Shape rule of a dense convolution; groups = channels of x / channels of w."""
    n, sizes, channels = split_dims(x, where, "x")
    *kernel, depth, filters = rank_of(w, where.rank, "filter")
    if channels is not None and depth:
        # TensorFlow has no attribute for groups: the filter's depth tells their number.
        require(channels % depth == 0, f"x has {channels} channels, no multiple of the filter's {depth}")
        groups = channels // depth
        require(
            filters is None or filters % max(groups, 1) == 0,
            f"{filters} filters do not split into {groups} groups",
        )
    return x.with_shape(
        where.place(n, _output(kernel, sizes, where, strides, padding, dilations, explicit), filters)
    )


def _output(
    kernel: Sequence[Dim],
    sizes: Sequence[Dim],
    where: Layout,
    strides: Sequence[int],
    padding: str,
    dilations: Sequence[int],
    explicit: Sequence[int] = (),
) -> tuple[Dim, ...]:
    """Output sizes, None where the input or (unless SAME) the kernel is unknown."""
    # An unknown kernel size is 1 here only to make a Window; its outputs are dropped unless SAME ignores it.
    win = window(where, [k or 1 for k in kernel], strides, padding, dilations, explicit)
    seen = [n if k is not None or padding == "SAME" else None for n, k in zip(sizes, kernel, strict=True)]
    return win.output(seen)


def _conv(
    x: Array,
    w: Array,
    where: Layout,
    strides: Sequence[int],
    padding: str,
    dilations: Sequence[int] = (),
    explicit: Sequence[int] = (),
) -> Array:
    channels, depth = x.shape[where.channel], w.shape[-2]
    require(
        depth > 0 and channels % depth == 0, f"x has {channels} channels, no multiple of the filter's {depth}"
    )
    return where.restore(
        convolve(where.last(x), w, window(where, w.shape[:-2], strides, padding, dilations, explicit))
    )


def _macs_dense(y: TensorSpec, w: TensorSpec) -> Cost:
    """Every output element sums over the filter's window and depth."""
    assert w.shape is not None
    assert y.size is not None
    macs = y.size * (product(w.shape[:-1]) or 0)
    return Cost(flops=2 * macs, macs=macs)


@op("Conv2D")
class Conv2D(OpDef):
    """y[n,i,j,m] = sum x[n, i*s+a*d, j*s+b*d, c] * w[a,b,c,m].

    x [n,h,w,c], filter [kh,kw,c/groups,m] -> y [n,oh,ow,m].

    Padding is SAME, VALID or EXPLICIT (before and after for each axis of x). NCHW permutes x and y, never the
    filter.
    """

    traits = Trait.CONVOLUTION | Trait.CONV_2D | Trait.T_OF_FIRST_INPUT
    weights = Weights(1, 0, (3,), 2, 4, 4, "NHWC")

    @staticmethod
    def infer(
        x: TensorSpec,
        w: TensorSpec,
        *,
        strides: Sequence[int],
        padding: str,
        explicit_paddings: Sequence[int] = (),
        data_format: str = "NHWC",
        dilations: Sequence[int] = (1, 1, 1, 1),
    ) -> TensorSpec:
        return _infer_conv(x, w, layout(data_format), strides, padding, dilations, explicit_paddings)

    @staticmethod
    def kernel(
        x: Array,
        w: Array,
        *,
        strides: Sequence[int],
        padding: str,
        explicit_paddings: Sequence[int] = (),
        data_format: str = "NHWC",
        dilations: Sequence[int] = (1, 1, 1, 1),
    ) -> Array:
        return _conv(x, w, layout(data_format), strides, padding, dilations, explicit_paddings)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, w: TensorSpec) -> Cost:
        return _macs_dense(y, w)


@op("Conv3D")
class Conv3D(OpDef):
    """As Conv2D with a depth axis.   x [n,d,h,w,c], filter [kd,kh,kw,c/groups,m] -> y [n,od,oh,ow,m]."""

    traits = Trait.CONVOLUTION | Trait.T_OF_FIRST_INPUT
    weights = Weights(1, 0, (4,), 3, 5, 5, "NDHWC")

    @staticmethod
    def infer(
        x: TensorSpec,
        w: TensorSpec,
        *,
        strides: Sequence[int],
        padding: str,
        data_format: str = "NDHWC",
        dilations: Sequence[int] = (1, 1, 1, 1, 1),
    ) -> TensorSpec:
        return _infer_conv(x, w, layout(data_format, 5), strides, padding, dilations, ())

    @staticmethod
    def kernel(
        x: Array,
        w: Array,
        *,
        strides: Sequence[int],
        padding: str,
        data_format: str = "NDHWC",
        dilations: Sequence[int] = (1, 1, 1, 1, 1),
    ) -> Array:
        return _conv(x, w, layout(data_format, 5), strides, padding, dilations)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, w: TensorSpec) -> Cost:
        return _macs_dense(y, w)


@op("DepthwiseConv2dNative", "DepthwiseConv2dNativeV2")
class DepthwiseConv2dNative(OpDef):
    """Channel c is filtered by its own m filters.   x [n,h,w,c], filter [kh,kw,c,m] -> y [n,oh,ow,c*m]."""

    traits = Trait.CONVOLUTION | Trait.CONV_2D | Trait.T_OF_FIRST_INPUT
    weights = Weights(1, 0, (2, 3), 2, 4, 4, "NHWC")  # output channel c * m + i, hence two axes

    @staticmethod
    def infer(
        x: TensorSpec,
        w: TensorSpec,
        *,
        strides: Sequence[int],
        padding: str,
        explicit_paddings: Sequence[int] = (),
        data_format: str = "NHWC",
        dilations: Sequence[int] = (1, 1, 1, 1),
    ) -> TensorSpec:
        where = layout(data_format)
        n, sizes, channels = split_dims(x, where, "x")
        *kernel, depth, multiple = rank_of(w, 4, "filter")
        require(
            None in (channels, depth) or channels == depth, f"x has {channels} channels, the filter {depth}"
        )
        out = _output(kernel, sizes, where, strides, padding, dilations, explicit_paddings)
        return x.with_shape(where.place(n, out, product([channels if depth is None else depth, multiple])))

    @staticmethod
    def kernel(
        x: Array,
        w: Array,
        *,
        strides: Sequence[int],
        padding: str,
        explicit_paddings: Sequence[int] = (),
        data_format: str = "NHWC",
        dilations: Sequence[int] = (1, 1, 1, 1),
    ) -> Array:
        where = layout(data_format)
        require(
            x.shape[where.channel] == w.shape[2],
            f"x has {x.shape[where.channel]} channels, the filter {w.shape[2]}",
        )
        win = window(where, w.shape[:2], strides, padding, dilations, explicit_paddings)
        return where.restore(depthwise(where.last(x), w, win))

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, w: TensorSpec) -> Cost:
        assert w.shape is not None
        assert y.size is not None
        macs = y.size * (product(w.shape[:2]) or 0)
        return Cost(flops=2 * macs, macs=macs)


@op("Dilation2D")
class Dilation2D(OpDef):
    """Grey-scale dilation: y = max over the window of x + filter.

    x [n,h,w,c], filter [kh,kw,c] -> y [n,oh,ow,c].
    """

    @staticmethod
    def infer(
        x: TensorSpec, w: TensorSpec, *, strides: Sequence[int], rates: Sequence[int], padding: str
    ) -> TensorSpec:
        where = layout("NHWC")
        n, sizes, channels = split_dims(x, where, "x")
        *kernel, depth = rank_of(w, 3, "filter")
        require(
            None in (channels, depth) or channels == depth, f"x has {channels} channels, the filter {depth}"
        )
        out = _output(kernel, sizes, where, strides, padding, rates)
        return x.with_shape((n, *out, depth if channels is None else channels))

    @staticmethod
    def kernel(x: Array, w: Array, *, strides: Sequence[int], rates: Sequence[int], padding: str) -> Array:
        win = window(layout("NHWC"), w.shape[:2], strides, padding, rates)
        out = win.output_sizes(x.shape[1:3])
        low = lowest(x.dtype)
        padded = pad(x, win.pads(x.shape[1:3]), low)
        # The lowest value plus a filter element may wrap around or win; pixels beyond the edge must take no
        # part.
        inside = pad(np.ones((1, *x.shape[1:3], 1), bool), win.pads(x.shape[1:3]), False)
        y = np.full((x.shape[0], *out, x.shape[3]), low, x.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            for tap in win.taps():
                seen = shifted(padded, win, tap, out) + w[tap]
                # TensorFlow compares with >, so a NaN never wins.
                np.fmax(y, np.where(shifted(inside, win, tap, out), seen, low), out=y)
        return y

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, w: TensorSpec) -> Cost:
        assert w.shape is not None
        assert y.size is not None
        return Cost(flops=2 * y.size * (product(w.shape[:2]) or 0))


@op("Conv")
class Conv(OpDef):
    """Conv2D or Conv3D, by the rank of the filter.   x [batch..., *spatial, c], filter [*k,c/groups,m].

    data_format is CHANNELS_LAST or CHANNELS_FIRST; batch_dims leading axes count images.
    """

    @staticmethod
    def infer(
        x: TensorSpec,
        w: TensorSpec,
        *,
        strides: Sequence[int],
        padding: str,
        explicit_paddings: Sequence[int] = (),
        data_format: str = "CHANNELS_LAST",
        dilations: Sequence[int] = (),
        batch_dims: int = 1,
    ) -> TensorSpec:
        if x.shape is None or w.shape is None:
            return x.with_shape(None)
        require(batch_dims >= 1, f"batch_dims is {batch_dims}, must be 1 or more")
        where = _any_layout(data_format, len(w.shape))
        flat = x.with_shape((None, *x.shape[batch_dims:]))
        y = _infer_conv(flat, w, where, strides, padding, dilations, explicit_paddings)
        return y.with_shape((*x.shape[:batch_dims], *(y.shape or ())[1:]))

    @staticmethod
    def kernel(
        x: Array,
        w: Array,
        *,
        strides: Sequence[int],
        padding: str,
        explicit_paddings: Sequence[int] = (),
        data_format: str = "CHANNELS_LAST",
        dilations: Sequence[int] = (),
        batch_dims: int = 1,
    ) -> Array:
        require(
            x.ndim == w.ndim - 1 + batch_dims, f"x has rank {x.ndim}, {w.ndim - 1 + batch_dims} is needed"
        )
        where = _any_layout(data_format, w.ndim)
        # Only the filter's rank tells 2-D from 3-D; whatever stands before the spatial axes counts images.
        flat = x.reshape(math.prod(x.shape[:batch_dims]), *x.shape[batch_dims:])
        y = _conv(flat, w, where, strides, padding, dilations, explicit_paddings)
        return np.asarray(y.reshape(*x.shape[:batch_dims], *y.shape[1:]))

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, w: TensorSpec) -> Cost:
        return _macs_dense(y, w)


def _any_layout(data_format: str, rank: int) -> Layout:
    require(rank in (4, 5), f"the filter has rank {rank}, 4 or 5 is needed")
    places = {"CHANNELS_LAST": rank - 1, "CHANNELS_FIRST": 1}
    require(data_format in places, f"data_format {data_format} is not known")
    return Layout(rank, places[data_format])
