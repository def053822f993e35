"""Transposed convolutions, which TensorFlow names after the gradients they also are."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.ir.types import TensorSpec
from thinflow.ops._shapes import product, rank_of
from thinflow.ops._windows import Layout, convolve_transposed, depthwise_transposed, layout, window
from thinflow.ops.registry import Cost, OpDef, Weights, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


def _infer(sizes: TensorSpec, w: TensorSpec, dy: TensorSpec, where: Layout) -> TensorSpec:
    """The shape written in `sizes`, completed by batch and channels when it lists spatial sizes only."""
    elements = sizes.elements
    if elements is None:
        return dy.with_shape((None,) * where.rank)
    # Spatial sizes alone do, too: batch and channels follow from dy and the filter.
    if len(elements) == where.rank - 2:
        return dy.with_shape(
            where.place(rank_of(dy, where.rank, "dy")[0], elements, rank_of(w, where.rank, "filter")[-2])
        )
    require(len(elements) == where.rank, f"input_sizes has {len(elements)} values, {where.rank} are needed")
    return dy.with_shape(elements)


def _full_shape(sizes: Array, w: Array, dy: Array, where: Layout) -> tuple[int, ...]:
    dims = [int(d) for d in sizes.reshape(-1)]
    if len(dims) == where.rank - 2:
        dims = [dy.shape[0], *dims]
        dims.insert(where.channel, w.shape[-2])
    require(len(dims) == where.rank, f"input_sizes has {len(dims)} values, {where.rank} are needed")
    require(min(dims) >= 0, "input_sizes has a negative size")
    return tuple(dims)


def _transposed(
    sizes: Array,
    w: Array,
    dy: Array,
    where: Layout,
    strides: Sequence[int],
    padding: str,
    dilations: Sequence[int],
    explicit: Sequence[int] = (),
) -> Array:
    shape = _full_shape(sizes, w, dy, where)
    win = window(where, w.shape[:-2], strides, padding, dilations, explicit)
    spatial, channels = [shape[a] for a in where.spatial], shape[where.channel]
    _check(win.output_sizes(spatial), where.last(dy), shape[0], w.shape[-1])
    depth = w.shape[-2]
    require(
        depth > 0 and channels % depth == 0, f"{channels} channels are no multiple of the filter's {depth}"
    )
    return where.restore(convolve_transposed(where.last(dy), w, win, spatial, channels))


def _check(expected: tuple[int, ...], dy: Array, batch: int, filters: int) -> None:
    require(
        dy.shape == (batch, *expected, filters),
        f"dy is {list(dy.shape)} (channels last), input_sizes and filter give {[batch, *expected, filters]}",
    )


def _cost(dy: TensorSpec, w: TensorSpec) -> Cost:
    """As many multiply-adds as the convolution whose gradient this is."""
    assert w.shape is not None
    assert dy.size is not None
    macs = dy.size * (product(w.shape[:-1]) or 0)
    return Cost(flops=2 * macs, macs=macs)


@op("Conv2DBackpropInput")
class Conv2DBackpropInput(OpDef):
    """dx with Conv2D(dx) shaped like dy; the transposed convolution.

    input_sizes [4] or [2], filter [kh,kw,c,m], dy [n,oh,ow,m] -> dx [n,h,w,c].
    """

    traits = Trait.CONV_TRANSPOSE
    weights = Weights(1, 2, (2,), 3, 4, 4, "NHWC")

    @staticmethod
    def infer(sizes: TensorSpec, w: TensorSpec, dy: TensorSpec, *, data_format: str = "NHWC") -> TensorSpec:
        return _infer(sizes, w, dy, layout(data_format))

    @staticmethod
    def kernel(
        sizes: Array,
        w: Array,
        dy: Array,
        *,
        strides: Sequence[int],
        padding: str,
        explicit_paddings: Sequence[int] = (),
        data_format: str = "NHWC",
        dilations: Sequence[int] = (1, 1, 1, 1),
    ) -> Array:
        return _transposed(sizes, w, dy, layout(data_format), strides, padding, dilations, explicit_paddings)

    @staticmethod
    def cost(y: TensorSpec, sizes: TensorSpec, w: TensorSpec, dy: TensorSpec) -> Cost:
        return _cost(dy, w)


@op("Conv3DBackpropInputV2")
class Conv3DBackpropInputV2(OpDef):
    """Transposed Conv3D.   input_sizes [5], filter [kd,kh,kw,c,m], dy [n,od,oh,ow,m] -> dx [n,d,h,w,c]."""

    traits = Trait.CONV_TRANSPOSE
    weights = Weights(1, 2, (3,), 4, 5, 5, "NDHWC")

    @staticmethod
    def infer(sizes: TensorSpec, w: TensorSpec, dy: TensorSpec, *, data_format: str = "NDHWC") -> TensorSpec:
        return _infer(sizes, w, dy, layout(data_format, 5))

    @staticmethod
    def kernel(
        sizes: Array,
        w: Array,
        dy: Array,
        *,
        strides: Sequence[int],
        padding: str,
        data_format: str = "NDHWC",
        dilations: Sequence[int] = (1, 1, 1, 1, 1),
    ) -> Array:
        return _transposed(sizes, w, dy, layout(data_format, 5), strides, padding, dilations)

    @staticmethod
    def cost(y: TensorSpec, sizes: TensorSpec, w: TensorSpec, dy: TensorSpec) -> Cost:
        return _cost(dy, w)


@op("DepthwiseConv2dNativeBackpropInput")
class DepthwiseConv2dNativeBackpropInput(OpDef):
    """Transposed depthwise convolution.

    input_sizes [4], filter [kh,kw,c,m], dy [n,oh,ow,c*m] -> dx [n,h,w,c].
    """

    @staticmethod
    def infer(sizes: TensorSpec, w: TensorSpec, dy: TensorSpec, *, data_format: str = "NHWC") -> TensorSpec:
        return _infer(sizes, w, dy, layout(data_format))

    @staticmethod
    def kernel(
        sizes: Array,
        w: Array,
        dy: Array,
        *,
        strides: Sequence[int],
        padding: str,
        explicit_paddings: Sequence[int] = (),
        data_format: str = "NHWC",
        dilations: Sequence[int] = (1, 1, 1, 1),
    ) -> Array:
        where = layout(data_format)
        shape = _full_shape(sizes, w, dy, where)
        win = window(where, w.shape[:2], strides, padding, dilations, explicit_paddings)
        spatial = [shape[a] for a in where.spatial]
        _check(win.output_sizes(spatial), where.last(dy), shape[0], w.shape[2] * w.shape[3])
        return where.restore(depthwise_transposed(where.last(dy), w, win, spatial))

    @staticmethod
    def cost(y: TensorSpec, sizes: TensorSpec, w: TensorSpec, dy: TensorSpec) -> Cost:
        assert w.shape is not None
        assert dy.size is not None
        macs = dy.size * (product(w.shape[:2]) or 0)
        return Cost(flops=2 * macs, macs=macs)
