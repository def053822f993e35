"""Gradients of pools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops._shapes import shape_from
from thinflow.ops._windows import Layout, Window, layout, lowest, pad, shifted, widened, window
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array


def _window(
    where: Layout, ksize: Sequence[int], strides: Sequence[int], padding: str, explicit: Sequence[int] = ()
) -> Window:
    require(len(ksize) == where.rank, f"ksize has {len(ksize)} values, {where.rank} are needed")
    require(ksize[0] == ksize[where.channel] == 1, "windows over batch or channels have no gradient here")
    return window(where, [ksize[a] for a in where.spatial], strides, padding, (), explicit)


def _target(shape: Sequence[int], win: Window, kind: np.dtype[Any]) -> tuple[Array, Array]:
    """Zeros for a padded input [n, *spatial, c], and the view of them that is the input."""
    pads = win.pads(shape[1:-1])
    spatial = [n + b + a for n, (b, a) in zip(shape[1:-1], pads, strict=True)]
    padded = np.zeros((shape[0], *spatial, shape[-1]), kind)
    inside = tuple(slice(b, b + n) for n, (b, _) in zip(shape[1:-1], pads, strict=True))
    return padded, padded[tuple([slice(None), *inside])]


def _winners(x: Array, win: Window) -> Array:
    """The number of the tap with the largest value of each window, the first of equals."""
    out = win.output_sizes(x.shape[1:-1])
    padded = pad(x, win.pads(x.shape[1:-1]), lowest(x.dtype))
    inside = _inside(x, win)
    best = np.full((x.shape[0], *out, x.shape[-1]), lowest(x.dtype), x.dtype)
    winner = np.full(best.shape, -1, np.int64)
    for number, tap in enumerate(win.taps()):
        seen = shifted(padded, win, tap, out)
        # The first tap inside wins whatever it holds, and a NaN is exceeded by nothing: so TensorFlow has it.
        wins = shifted(inside, win, tap, out) & ((winner < 0) | (seen > best))
        best, winner = np.where(wins, seen, best), np.where(wins, number, winner)
    return winner


def _inside(x: Array, win: Window) -> Array:
    """True at the places of a padded input that are not padding."""
    return pad(np.ones((1, *x.shape[1:-1], 1), bool), win.pads(x.shape[1:-1]), False)


def _max_gradient(x: Array, dy: Array, where: Layout, win: Window) -> Array:
    """dy goes to the first of the largest inputs of its window."""
    x, dy = where.last(x), where.last(dy)
    winner = _winners(x, win)
    require(dy.shape == winner.shape, f"dy is {list(dy.shape)} (channels last), not {list(winner.shape)}")
    return where.restore(_spread(x, dy, win, lambda number, tap: winner == number))


def _max_gradient_3d(x: Array, y: Array, dy: Array, where: Layout, win: Window) -> Array:
    """dy goes to all inputs of its window that are as large as y: TensorFlow's 3D kernel divides nothing."""
    x, y, dy = where.last(x), where.last(y), where.last(dy)
    out = (x.shape[0], *win.output_sizes(x.shape[1:-1]), x.shape[-1])
    require(dy.shape == y.shape == out, f"dy is {list(dy.shape)} (channels last), not {list(out)}")
    padded, inside = pad(x, win.pads(x.shape[1:-1])), _inside(x, win)

    def is_largest(number: int, tap: tuple[int, ...]) -> Array:
        del number
        # Padding is 0 here, and would equal a maximum of 0: hence the mask.
        return np.asarray(shifted(inside, win, tap, out[1:-1]) & (shifted(padded, win, tap, out[1:-1]) == y))

    return where.restore(_spread(x, dy, win, is_largest))


def _spread(x: Array, dy: Array, win: Window, is_chosen: Callable[[int, tuple[int, ...]], Array]) -> Array:
    """dy added up where the taps of its windows are chosen."""
    # Overlapping windows add up, for narrow floats in float32.
    upstream = widened(dy)
    padded, dx = _target(x.shape, win, upstream.dtype)
    for number, tap in enumerate(win.taps()):
        chosen = np.where(is_chosen(number, tap), upstream, upstream.dtype.type(0))
        shifted(padded, win, tap, dy.shape[1:-1])[...] += chosen
    return dx.astype(dy.dtype)


def _max_gradient_gradient(x: Array, y: Array, ddx: Array, where: Layout, win: Window) -> Array:
    """Of each window the value of ddx where x is y first; 0 where it never is, as y is where all are NaN."""
    x, y, ddx = where.last(x), where.last(y), where.last(ddx)
    require(ddx.shape == x.shape, f"the gradient is {list(ddx.shape)} (channels last), not {list(x.shape)}")
    out = (x.shape[0], *win.output_sizes(x.shape[1:-1]), x.shape[-1])
    require(y.shape == out, f"y is {list(y.shape)} (channels last), not {list(out)}")
    pads = win.pads(x.shape[1:-1])
    values, padded, inside = pad(x, pads), pad(ddx, pads), _inside(x, win)
    dy, is_open = np.zeros(out, ddx.dtype), np.ones(out, bool)
    for tap in win.taps():
        taken = is_open & shifted(inside, win, tap, out[1:-1]) & (shifted(values, win, tap, out[1:-1]) == y)
        dy, is_open = np.where(taken, shifted(padded, win, tap, out[1:-1]), dy), is_open & ~taken
    return where.restore(dy)


class _LikeInput(OpDef):
    @staticmethod
    def infer(x: TensorSpec, y: TensorSpec, dy: TensorSpec) -> TensorSpec:
        return dy.with_shape(x.shape)


@op("MaxPoolGrad")
class MaxPoolGrad(_LikeInput):
    """dx of MaxPool.   x [n,h,w,c], y and dy [n,oh,ow,c] -> dx like x. y is not read."""

    @staticmethod
    def kernel(
        x: Array, y: Array, dy: Array, *, ksize: Sequence[int], strides: Sequence[int], padding: str,
        explicit_paddings: Sequence[int] = (), data_format: str = "NHWC",
    ) -> Array:  # fmt: skip
        where = layout(data_format)
        return _max_gradient(x, dy, where, _window(where, ksize, strides, padding, explicit_paddings))


@op("MaxPoolGradV2")
class MaxPoolGradV2(OpDef):
    """MaxPoolGrad whose ksize [4] and strides [4] are inputs."""

    @staticmethod
    def infer(
        x: TensorSpec, y: TensorSpec, dy: TensorSpec, ksize: TensorSpec, strides: TensorSpec
    ) -> TensorSpec:
        return dy.with_shape(x.shape)

    @staticmethod
    def kernel(
        x: Array,
        y: Array,
        dy: Array,
        ksize: Array,
        strides: Array,
        *,
        padding: str,
        data_format: str = "NHWC",
    ) -> Array:
        where = layout(data_format)
        return _max_gradient(x, dy, where, _window(where, ksize.tolist(), strides.tolist(), padding))


@op("MaxPool3DGrad")
class MaxPool3DGrad(_LikeInput):
    """dx of MaxPool3D.   x [n,d,h,w,c], y and dy [n,od,oh,ow,c] -> dx like x."""

    @staticmethod
    def kernel(
        x: Array, y: Array, dy: Array, *, ksize: Sequence[int], strides: Sequence[int], padding: str,
        data_format: str = "NDHWC",
    ) -> Array:  # fmt: skip
        where = layout(data_format, 5)
        return _max_gradient_3d(x, y, dy, where, _window(where, ksize, strides, padding))


class _LikeOutput(OpDef):
    @staticmethod
    def infer(x: TensorSpec, y: TensorSpec, ddx: TensorSpec) -> TensorSpec:
        return ddx.with_shape(y.shape)


@op("MaxPoolGradGrad")
class MaxPoolGradGrad(_LikeOutput):
    """The gradient of MaxPoolGrad to dy.   x and ddx [n,h,w,c], y [n,oh,ow,c] -> like y."""

    @staticmethod
    def kernel(
        x: Array, y: Array, ddx: Array, *, ksize: Sequence[int], strides: Sequence[int], padding: str,
        data_format: str = "NHWC",
    ) -> Array:  # fmt: skip
        where = layout(data_format)
        return _max_gradient_gradient(x, y, ddx, where, _window(where, ksize, strides, padding))


@op("MaxPoolGradGradV2")
class MaxPoolGradGradV2(OpDef):
    """MaxPoolGradGrad whose ksize [4] and strides [4] are inputs."""

    @staticmethod
    def infer(
        x: TensorSpec, y: TensorSpec, ddx: TensorSpec, ksize: TensorSpec, strides: TensorSpec
    ) -> TensorSpec:
        return ddx.with_shape(y.shape)

    @staticmethod
    def kernel(
        x: Array,
        y: Array,
        ddx: Array,
        ksize: Array,
        strides: Array,
        *,
        padding: str,
        data_format: str = "NHWC",
    ) -> Array:
        where = layout(data_format)
        return _max_gradient_gradient(
            x, y, ddx, where, _window(where, ksize.tolist(), strides.tolist(), padding)
        )


@op("MaxPool3DGradGrad")
class MaxPool3DGradGrad(_LikeOutput):
    """The gradient of MaxPool3DGrad to dy.   x and ddx [n,d,h,w,c], y [n,od,oh,ow,c] -> like y."""

    @staticmethod
    def kernel(
        x: Array, y: Array, ddx: Array, *, ksize: Sequence[int], strides: Sequence[int], padding: str,
        data_format: str = "NDHWC",
    ) -> Array:  # fmt: skip
        where = layout(data_format, 5)
        return _max_gradient_gradient(x, y, ddx, where, _window(where, ksize, strides, padding))


@op("MaxPoolGradWithArgmax")
class MaxPoolGradWithArgmax(OpDef):
    """dx of MaxPoolWithArgmax: dy is added where argmax says.   x [n,h,w,c], dy and argmax [n,oh,ow,c]."""

    @staticmethod
    def infer(x: TensorSpec, dy: TensorSpec, argmax: TensorSpec) -> TensorSpec:
        return dy.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array, dy: Array, argmax: Array, *, include_batch_in_index: bool = False) -> Array:
        require(dy.shape == argmax.shape, f"dy {list(dy.shape)} and argmax {list(argmax.shape)} differ")
        dx = np.zeros(x.size, dy.dtype)
        images = np.arange(dy.shape[0]).reshape(-1, *(1,) * (dy.ndim - 1))
        per_image = x.size // max(x.shape[0], 1)
        # Without the batch in it an index counts within its own image.
        places = argmax.astype(np.int64) + (0 if include_batch_in_index else images * per_image)
        require(
            places.size == 0 or 0 <= places.min() <= places.max() < x.size, "argmax points outside the input"
        )
        np.add.at(dx, places.reshape(-1), dy.reshape(-1))
        return np.asarray(dx.reshape(x.shape))


def _average_gradient(shape: Array, dy: Array, where: Layout, win: Window) -> Array:
    """Every input of a window gets dy divided by the number of inputs in it."""
    sizes = [int(d) for d in shape.reshape(-1)]
    require(len(sizes) == where.rank, f"orig_input_shape has {len(sizes)} values, {where.rank} are needed")
    require(min(sizes) >= 0, f"negative size in {sizes}")
    moved = [sizes[a] for a in where.order]
    out = win.output_sizes(moved[1:-1])
    upstream = widened(where.last(dy))
    require(
        upstream.shape[1:-1] == out, f"dy is {list(upstream.shape)} (channels last), windows are {list(out)}"
    )
    # Padding is not counted in the mean, so windows at the edge share dy among fewer inputs.
    inside = pad(np.ones((1, *moved[1:-1], 1), upstream.dtype), win.pads(moved[1:-1]))
    count = sum((shifted(inside, win, tap, out) for tap in win.taps()), np.zeros((), upstream.dtype))
    share = upstream / np.maximum(count, 1)
    padded, dx = _target(moved, win, upstream.dtype)
    for tap in win.taps():
        shifted(padded, win, tap, out)[...] += share
    return where.restore(dx.astype(dy.dtype))


@op("AvgPoolGrad")
class AvgPoolGrad(OpDef):
    """dx of AvgPool.   orig_input_shape [4], dy [n,oh,ow,c] -> dx [n,h,w,c]."""

    @staticmethod
    def infer(shape: TensorSpec, dy: TensorSpec) -> TensorSpec:
        return dy.with_shape(shape_from(shape) or (None,) * 4)

    @staticmethod
    def kernel(
        shape: Array, dy: Array, *, ksize: Sequence[int], strides: Sequence[int], padding: str,
        data_format: str = "NHWC",
    ) -> Array:  # fmt: skip
        where = layout(data_format)
        return _average_gradient(shape, dy, where, _window(where, ksize, strides, padding))


@op("AvgPool3DGrad")
class AvgPool3DGrad(OpDef):
    """dx of AvgPool3D.   orig_input_shape [5], dy [n,od,oh,ow,c] -> dx [n,d,h,w,c]."""

    @staticmethod
    def infer(shape: TensorSpec, dy: TensorSpec) -> TensorSpec:
        return dy.with_shape(shape_from(shape) or (None,) * 5)

    @staticmethod
    def kernel(
        shape: Array, dy: Array, *, ksize: Sequence[int], strides: Sequence[int], padding: str,
        data_format: str = "NDHWC",
    ) -> Array:  # fmt: skip
        where = layout(data_format, 5)
        return _average_gradient(shape, dy, where, _window(where, ksize, strides, padding))
