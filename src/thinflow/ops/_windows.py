"""Sliding windows over spatial axes: layouts, padding, convolution loops. Shared by convolutions and pools.

Inside the kernels every tensor is channels-last, [n, *spatial, c]; other layouts are views of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops._shapes import Dim, rank_of, same_padding, window_output
from thinflow.ops.registry import require
from thinflow.typing import Array

Pads = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Layout:
    """Places of the axes in a data format.

    Attributes:
        rank: axes of the tensor, 4 or 5.
        channel: the channel axis.
    """

    rank: int
    channel: int

    @property
    def spatial(self) -> tuple[int, ...]:
        return tuple(a for a in range(1, self.rank) if a != self.channel)

    @property
    def order(self) -> tuple[int, ...]:
        """Axes in the order batch, spatial, channel."""
        return (0, *self.spatial, self.channel)

    def last(self, x: Array) -> Array:
        """The tensor with its channels last; a view."""
        view: Array = x.transpose(self.order)
        return view

    def restore(self, x: Array) -> Array:
        """The inverse of `last`; a view."""
        # argsort of a permutation is its inverse.
        view: Array = x.transpose(np.argsort(self.order))
        return view

    def place(self, batch: Dim, spatial: Sequence[Dim], channels: Dim) -> tuple[Dim, ...]:
        """A shape in this layout from its parts."""
        dims: list[Dim] = [batch, *spatial]
        dims.insert(self.channel, channels)
        return tuple(dims)


def layout(data_format: str, rank: int = 4) -> Layout:
    """The layout of NHWC, NCHW, NDHWC or NCDHW."""
    require(len(data_format) == rank, f"data_format is {data_format}, one of {rank} letters is needed")
    require(data_format.startswith("N") and "C" in data_format, f"data_format {data_format} is not supported")
    return Layout(rank, data_format.index("C"))


@dataclass(frozen=True)
class Window:
    """A sliding window along the spatial axes of one op, all tuples in spatial order.

    Attributes:
        explicit: zeros before and after each axis; used when padding is EXPLICIT.
    """

    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: str
    explicit: Pads = ()

    def pads(self, sizes: Sequence[int]) -> Pads:
        """Padding before and after each axis. Under VALID there is none."""
        if self.padding == "EXPLICIT":
            return self.explicit
        if self.padding == "VALID":
            return ((0, 0),) * len(self.size)
        axes = zip(sizes, self.size, self.strides, self.dilations, strict=True)
        return tuple(same_padding(n, k, s, d) for n, k, s, d in axes)

    def output(self, sizes: Sequence[Dim]) -> tuple[Dim, ...]:
        """Number of window positions along each axis."""
        explicit = self.explicit or ((0, 0),) * len(self.size)
        axes = zip(sizes, self.size, self.strides, self.dilations, explicit, strict=True)
        return tuple(window_output(n, k, s, self.padding, d, e) for n, k, s, d, e in axes)

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """As `output`, for known sizes."""
        return tuple(d for d in self.output(sizes) if d is not None)

    def taps(self) -> Iterator[tuple[int, ...]]:
        """Every position inside the window."""
        return iter(np.ndindex(*self.size))


def window(
    where: Layout,
    size: Sequence[int],
    strides: Sequence[int],
    padding: str,
    dilations: Sequence[int] = (),
    explicit_paddings: Sequence[int] = (),
) -> Window:
    """A Window from an op's attributes.

    Args:
        size: extent along the spatial axes only.
        strides, dilations: one per axis of the tensor, as the attributes have them; no dilations means 1.
        explicit_paddings: before and after for every axis of the tensor.
    """
    dilations = dilations or (1,) * where.rank
    require(len(strides) == where.rank, f"strides has {len(strides)} values, {where.rank} are needed")
    require(len(dilations) == where.rank, f"dilations has {len(dilations)} values, {where.rank} are needed")
    require(all(s > 0 for s in (*strides, *dilations)), "strides and dilations must be positive")
    for name, values in (("strides", strides), ("dilations", dilations)):
        require(values[0] == 1 and values[where.channel] == 1, f"{name} along batch and channels must be 1")
    require(padding in {"SAME", "VALID", "EXPLICIT"}, f"padding {padding} is not known")
    explicit: Pads = ()
    if padding == "EXPLICIT":
        require(len(explicit_paddings) == 2 * where.rank, f"explicit_paddings needs {2 * where.rank} values")
        require(min(explicit_paddings) >= 0, "explicit_paddings must not be negative")
        explicit = tuple((explicit_paddings[2 * a], explicit_paddings[2 * a + 1]) for a in where.spatial)
    return Window(
        tuple(size),
        tuple(strides[a] for a in where.spatial),
        tuple(dilations[a] for a in where.spatial),
        padding,
        explicit,
    )


def split_dims(spec: TensorSpec, where: Layout, what: str) -> tuple[Dim, tuple[Dim, ...], Dim]:
    """Batch, spatial sizes and channels of a spec."""
    dims = rank_of(spec, where.rank, what)
    return dims[0], tuple(dims[a] for a in where.spatial), dims[where.channel]


def pad(x: Array, pads: Pads, value: Any = 0) -> Array:
    """[n, *spatial, c] with a border around the spatial axes; the input itself when there is none to add."""
    if not any(before or after for before, after in pads):
        return x
    shape = (x.shape[0], *(n + b + a for n, (b, a) in zip(x.shape[1:-1], pads, strict=True)), x.shape[-1])
    padded = np.full(shape, value, x.dtype)
    inside = (slice(b, b + n) for n, (b, _) in zip(x.shape[1:-1], pads, strict=True))
    padded[tuple([slice(None), *inside])] = x
    return padded


def shifted(x: Array, win: Window, tap: Sequence[int], out: Sequence[int]) -> Array:
    """Inputs that one position of the window sees at every output, [n, *out, c]; a view of the padded x."""
    axes = zip(tap, win.dilations, win.strides, out, strict=True)
    # The stop is one past the last element, so that views of all taps have the same size; without output it
    # would be negative, which Python counts from the end.
    seen = (slice(t * d, t * d + (o - 1) * s + 1, s) if o else slice(0, 0) for t, d, s, o in axes)
    return x[tuple([slice(None), *seen])]


def lowest(dtype: np.dtype[Any]) -> Any:
    """The most negative finite value of a type."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    # bfloat16: numpy's own finfo does not know it.
    if dtype.itemsize == 2 and dtype != np.float16:
        import ml_dtypes

        return ml_dtypes.finfo(dtype).min  # type: ignore[no-untyped-call]
    return np.finfo(dtype).min


# ---- The convolution loops: BLAS on bounded patches, shifted multiply-adds if depthwise, scatter if
# transposed.
#
# All take channels-last arrays, [n, *spatial, c], of any number of spatial axes.


_PATCH_BYTES = 4 << 20
"""Patches gathered at a time: enough rows for BLAS to be at its best, small enough to stay near the cache."""
_BLOCK_BYTES = 256 << 10
"""Output rows of a depthwise convolution worked on at a time; product and sum then stay in the cache."""


def widened(x: Array) -> Array:
    """Narrow floats as float32, in which TensorFlow accumulates them; anything else as it is."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x


def convolve(x: Array, w: Array, win: Window, pads: Pads | None = None) -> Array:
    """x [n, *in, c], w [*k, c/groups, m] -> y [n, *out, m]; integers wrap."""
    pads = win.pads(x.shape[1:-1]) if pads is None else pads
    dtype = x.dtype
    x, w = widened(x), widened(w)
    padded = pad(x, pads)
    out = tuple(
        max((n - (k - 1) * d - 1) // s + 1, 0)
        for n, k, d, s in zip(padded.shape[1:-1], win.size, win.dilations, win.strides, strict=True)
    )
    channels, depth, filters = x.shape[-1], w.shape[-2], w.shape[-1]
    groups = channels // depth if depth else 1
    if groups == 1:
        y = _dense(padded, w, win, out)
    elif depth == 1:
        # The weights' last axis runs over groups first, so splitting it gives channel by multiplier at once.
        # One input channel per group: filter m of group g is the m-th multiple of channel g.
        y = _depthwise(padded, w.reshape(*win.size, channels, filters // groups), win, out)
    else:
        y = np.empty((x.shape[0], *out, filters), x.dtype)
        step = filters // groups
        for g in range(groups):
            part = slice(g * step, (g + 1) * step)
            y[..., part] = _dense(padded[..., g * depth : (g + 1) * depth], w[..., part], win, out)
    return y if y.dtype == dtype else y.astype(dtype)


def _dense(x: Array, w: Array, win: Window, out: Sequence[int]) -> Array:
    """Convolution without groups of an x that is already padded."""
    n, channels, filters = x.shape[0], x.shape[-1], w.shape[-1]
    matrix = w.reshape(-1, filters)
    # 1x1: the input is already the matrix of patches, so nothing is gathered (strides only take a view).
    if math.prod(win.size) == 1:
        seen = shifted(x, win, (0,) * len(out), out)
        return (seen.reshape(-1, channels) @ matrix).reshape(n, *out, filters)
    patches = _patches(x, win, out)
    y = np.empty((n, *out, filters), x.dtype)
    if not y.size:
        return y
    depth = matrix.shape[0]
    row_bytes = max(depth * x.itemsize * math.prod(out[1:]), 1)
    rows = max(_PATCH_BYTES // row_bytes, 1)
    # Small images share a block; of a large one each block is some rows.
    images = max(rows // out[0], 1)
    for i in range(0, n, images):
        for r in range(0, out[0], rows):
            block = patches[i : i + images, r : r + rows]
            gathered = block.reshape(-1, depth)  # the copy
            y[i : i + images, r : r + rows] = (gathered @ matrix).reshape(
                *block.shape[: 1 + len(out)], filters
            )
    return y


def _patches(x: Array, win: Window, out: Sequence[int]) -> Array:
    """Every window of a padded x as a view, [n, *out, *k, c]."""
    steps = x.strides[1:-1]
    moved = tuple(b * s for b, s in zip(steps, win.strides, strict=True))
    inner = tuple(b * d for b, d in zip(steps, win.dilations, strict=True))
    return np.lib.stride_tricks.as_strided(
        x,
        (x.shape[0], *out, *win.size, x.shape[-1]),
        (x.strides[0], *moved, *inner, x.strides[-1]),
        writeable=False,
    )


def depthwise(x: Array, w: Array, win: Window) -> Array:
    """x [n, *in, c], w [*k, c, m] -> y [n, *out, c*m]; every channel has its own m filters."""
    dtype = x.dtype
    pads = win.pads(x.shape[1:-1])
    y = _depthwise(pad(widened(x), pads), widened(w), win, win.output_sizes(x.shape[1:-1]))
    return y if y.dtype == dtype else y.astype(dtype)


def _depthwise(x: Array, w: Array, win: Window, out: Sequence[int]) -> Array:
    channels, multiple = w.shape[-2:]
    # One channel has no groups: the matrix product is then the faster way to the same sums.
    if channels == 1:
        return _dense(x, w, win, out)
    # Each channel m times in a row is the order of the output's channels, c * m.
    if multiple > 1:
        x = np.repeat(x, multiple, axis=-1)
    width = channels * multiple
    y = np.zeros((x.shape[0], *out, width), x.dtype)
    if not y.size:
        return y
    # A tap seen through its phase of the strides is contiguous in memory, and so is its weight once it is
    # repeated along the last spatial axis: numpy then runs over whole rows instead of over channels.
    phases: dict[tuple[int, ...], Array] = {}
    taps: list[tuple[Array, Array]] = []
    for tap in win.taps():
        start = tuple(t * d for t, d in zip(tap, win.dilations, strict=True))
        key = tuple(a % s for a, s in zip(start, win.strides, strict=True))
        if key not in phases:
            cut = (slice(a, None, s) for a, s in zip(key, win.strides, strict=True))
            phases[key] = np.ascontiguousarray(x[tuple([slice(None), *cut])])
        at = (a // s for a, s in zip(start, win.strides, strict=True))
        inside = (slice(a, a + o) for a, o in zip(at, out, strict=True))
        view = phases[key][tuple([slice(None), *inside])]
        taps.append((view, np.tile(w[tap].reshape(1, width), (out[-1], 1))))
    row_bytes = y.itemsize * width * math.prod(out[1:])
    rows = max(_BLOCK_BYTES // max(row_bytes, 1), 1)
    # One buffer for all taps: a fresh temporary array per product would leave the cache each time.
    product = np.empty((min(rows, out[0]), *out[1:], width), x.dtype)
    for image in range(x.shape[0]):
        for r in range(0, out[0], rows):
            total = y[image, r : r + rows]
            buffer = product[: total.shape[0]]
            for view, weight in taps:
                np.multiply(view[image, r : r + rows], weight, out=buffer)
                np.add(total, buffer, out=total)
    return y


def convolve_transposed(dy: Array, w: Array, win: Window, sizes: Sequence[int], channels: int) -> Array:
    """Gradient of `convolve` to its input: dy [n, *out, m], w [*k, c/groups, m] -> dx [n, *sizes, c]."""
    dtype = dy.dtype
    dy, w = widened(dy), widened(w)
    depth, filters = w.shape[-2:]
    groups = channels // depth if depth else 1
    step = filters // max(groups, 1)
    padded, dx = _scatter_target(dy, win, sizes, channels)
    out = dy.shape[1:-1]
    for g in range(groups):
        upstream = dy[..., g * step : (g + 1) * step].reshape(-1, step)
        target = padded[..., g * depth : (g + 1) * depth]
        for tap in win.taps():
            weight = w[tap][:, g * step : (g + 1) * step]
            # Outputs of one tap never meet in one input element (they lie a stride apart), so += on the view
            # is safe.
            shifted(target, win, tap, out)[...] += (upstream @ weight.T).reshape(*dy.shape[:-1], depth)
    return dx if dx.dtype == dtype else dx.astype(dtype)


def depthwise_transposed(dy: Array, w: Array, win: Window, sizes: Sequence[int]) -> Array:
    """Gradient of `depthwise` to its input: dy [n, *out, c*m], w [*k, c, m] -> dx [n, *sizes, c]."""
    dtype = dy.dtype
    dy, w = widened(dy), widened(w)
    channels, multiple = w.shape[-2:]
    padded, dx = _scatter_target(dy, win, sizes, channels)
    out = dy.shape[1:-1]
    upstream = dy.reshape(*dy.shape[:-1], channels, multiple)
    for tap in win.taps():
        shifted(padded, win, tap, out)[...] += (upstream * w[tap]).sum(axis=-1, dtype=dy.dtype)
    return dx if dx.dtype == dtype else dx.astype(dtype)


def _scatter_target(dy: Array, win: Window, sizes: Sequence[int], channels: int) -> tuple[Array, Array]:
    """Zeros for the padded input, and the view of them that is the input."""
    pads = win.pads(sizes)
    padded = np.zeros(
        (dy.shape[0], *(n + b + a for n, (b, a) in zip(sizes, pads, strict=True)), channels), dy.dtype
    )
    inside = (slice(b, b + n) for n, (b, _) in zip(sizes, pads, strict=True))
    # What falls on the border is added there and dropped with it: no tap needs clipping.
    return padded, padded[tuple([slice(None), *inside])]
