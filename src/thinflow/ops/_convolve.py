"""The convolution loops: BLAS on bounded patches, shifted multiply-adds if depthwise, scatter if transposed.

All take channels-last arrays, [n, *spatial, c], of any number of spatial axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thinflow.ops._windows import Pads, Window, pad, shifted
from thinflow.typing import Array

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
