"""ONNX's convolutions, pools and resizing: channels come after the batch there, last in TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32, INT64
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.values import (
    along,
    bounded,
    channels_first,
    channels_last,
    integers,
    like,
    numbers,
    rank,
    text,
    transposed,
)
from thinflow.lift.rules import Rule, lifts

Pads = list[tuple[int, int]]


def _pads(c: Call, sizes: Sequence[int | None], kernel: Sequence[int]) -> Pads:
    """Pixels to add before and behind, per axis of the picture.

    Args:
        sizes: of the picture; None for an open one.
        kernel: sizes of the window, dilation included.
    """
    count = len(kernel)
    mode = text(c, "auto_pad", "NOTSET")
    if mode == "VALID":
        return [(0, 0)] * count
    strides = c.get("strides") or (1,) * count
    if mode in {"SAME_UPPER", "SAME_LOWER"}:
        if None in sizes:
            raise UnsupportedOp("the sizes of its input are open, so the padding is not known")
        totals = [
            # As many windows as strides fit in, ceil(n / s); the border is what the last of them lacks.
            max((-(-(n or 0) // s) - 1) * s + k - (n or 0), 0)
            for n, s, k in zip(sizes, strides, kernel, strict=True)
        ]
        small = [t // 2 for t in totals]
        large = [t - t // 2 for t in totals]
        # UPPER: of an odd number of pixels the one left over goes behind.
        ends = (small, large) if mode == "SAME_UPPER" else (large, small)
        return list(zip(*ends, strict=True))
    given = c.get("pads") or (0,) * (2 * count)
    # All begins, then all ends.
    return list(zip(given[:count], given[count:], strict=True))


def _padded(c: Call, x: Value, pads: Pads, fill: float) -> Value:
    """x [n, ..., c] with a border."""
    if not any(map(any, pads)):
        return x
    table = c.constant(np.array([(0, 0), *pads, (0, 0)], np.int64))
    return c.emit("PadV2", x, table, like(c, fill, x), Tpaddings=INT64)


def convolution(c: Call, x: Value, w: Value, bias: Value | None) -> Value:
    """y of a convolution of x [n, c, ...] with w [cout, cin / group, ...]."""
    shape, kernel = x.spec.shape, w.spec.shape
    if shape is None or kernel is None or None in kernel:
        raise UnsupportedOp("the sizes of its input or its weights are not known")
    count = len(shape)
    if count not in (3, 4, 5):
        raise UnsupportedOp(f"it goes over {count - 2} dimensions")
    spans = [int(n or 0) for n in kernel[2:]]
    dilations = tuple(c.get("dilations") or (1,) * len(spans))
    # From the first to the last pixel of a window with gaps.
    reach = [(k - 1) * d + 1 for k, d in zip(spans, dilations, strict=True)]
    picture = channels_last(c, x, count)
    picture = _padded(c, picture, _pads(c, shape[2:], reach), 0.0)
    # [cout, cin/group, k...] -> [k..., cin/group, cout].
    filters = transposed(c, w, (*range(2, count), 1, 0))
    strides = tuple(c.get("strides") or (1,) * len(spans))
    # TensorFlow convolves pictures: a line is one of height 1.
    if count == _LINE:
        picture = c.emit("ExpandDims", picture, c.constant(1))
        filters = c.emit("ExpandDims", filters, c.constant(0))
        strides, dilations = (1, *strides), (1, *dilations)
    windows = {"strides": (1, *strides, 1), "dilations": (1, *dilations, 1), "padding": "VALID"}
    spans = [1, *spans] if count == _LINE else spans
    y = _grouped(c, picture, filters, [int(n or 0) for n in kernel[:2]], spans, windows)
    if count == _LINE:
        y = c.emit("Squeeze", y, squeeze_dims=(1,))
    y = channels_first(c, y, count)
    return y if bias is None else c.emit("AddV2", y, along(c, bias, 1, count))


# The rank of lines [n, c, length].
_LINE = 3


def _grouped(
    c: Call, x: Value, w: Value, depths: Sequence[int], spans: Sequence[int], windows: Mapping[str, Any]
) -> Value:
    """The convolution itself; with one input channel per group it is a depthwise one.

    Args:
        x: [n, ..., cin]. w: [..., cin / group, cout].
        depths: cout and cin / group.
        spans: sizes of the window.
        windows: strides, dilations and padding.
    """
    group = c.get("group", 1)
    if len(spans) == _VOLUME:
        if group != 1:
            raise UnsupportedOp("it goes over volumes in groups")
        return c.emit("Conv3D", x, w, data_format="NDHWC", **windows)
    # Outputs of a group stand together in both, so the last axis of weights is cut in two.
    if group > 1 and depths[1] == 1:
        filters = c.emit("Reshape", w, integers(c, (*spans, group, depths[0] // group)), Tshape=INT64)
        return c.emit("DepthwiseConv2dNative", x, filters, data_format="NHWC", **windows)
    # TensorFlow's Conv2D finds the number of groups by itself, from the depths of picture and weights.
    return c.emit("Conv2D", x, w, data_format="NHWC", **windows)


# Dimensions of a window over volumes.
_VOLUME = 3


@lifts("onnx.Conv", ignores=("kernel_shape", "pads"))
def _conv(c: Call) -> Value:
    return convolution(c, c[0], c[1], c[2] if c.has(2) else None)


@lifts("onnx.ConvTranspose", ignores=("kernel_shape", "pads", "auto_pad"))
def _conv_transpose(c: Call) -> Value:
    """The gradient of a convolution: all of it, then the pads cut off."""
    if rank(c) != 4 or c.get("group", 1) != 1 or set(c.get("dilations") or (1,)) != {1}:
        raise UnsupportedOp("it has groups or dilations, or goes over other than pictures")
    n, _, *picture = c.sizes(0)
    _, outs, *kernel = c.sizes(1)
    strides = tuple(c.get("strides") or (1, 1))
    more = _more(c, picture, kernel, strides)
    # Each pixel is spread over a window; `output_padding` adds rows behind that no window reaches.
    full = [(i - 1) * s + k + m for i, s, k, m in zip(picture, strides, kernel, more, strict=True)]
    begins, sizes = _cropped(c, full, picture, strides)
    # [cin, cout, kh, kw] -> [kh, kw, cout, cin].
    filters = transposed(c, c[1], (2, 3, 1, 0))
    # TensorFlow checks that its windows give just this size, so the rest is put behind as zeros.
    bare = [f - m for f, m in zip(full, more, strict=True)]
    y = c.emit(
        "Conv2DBackpropInput", c.constant((n, *bare, outs)), filters, channels_last(c, c[0], 4),
        strides=(1, *strides, 1), padding="VALID", data_format="NHWC", T=c[0].dtype,
    )  # fmt: skip
    y = _padded(c, y, [(0, m) for m in more], 0.0)
    y = c.emit("Slice", y, integers(c, (0, *begins, 0)), integers(c, (n, *sizes, outs)), Index=INT64)
    y = channels_first(c, y, 4)
    return c.emit("AddV2", y, along(c, c[2], 1, 4)) if c.has(2) else y


def _more(c: Call, picture: Sequence[int], kernel: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Rows and columns behind what the windows reach, as many as a stated size of the result needs.

    Raises:
        UnsupportedOp: more than one, which ONNX's text puts on both sides and its runtime behind.
    """
    more = tuple(c.get("output_padding") or (0, 0))
    wanted = c.get("output_shape")
    if wanted is None:
        return more
    reach = [(i - 1) * s + k + m for i, s, k, m in zip(picture, strides, kernel, more, strict=True)]
    missing = [max(w - r, 0) for w, r in zip(wanted[-2:], reach, strict=True)]
    if max(missing) > 1:
        raise UnsupportedOp("its stated result is larger than its windows reach")
    return tuple(m + n for m, n in zip(more, missing, strict=True))


def _cropped(
    c: Call, full: Sequence[int], picture: Sequence[int], strides: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Begins and sizes of the result of a transposed convolution in the whole that its windows reach."""
    wanted = c.get("output_shape")
    mode = text(c, "auto_pad", "NOTSET")
    if wanted is None and mode in {"SAME_UPPER", "SAME_LOWER"}:
        wanted = [i * s for i, s in zip(picture, strides, strict=True)]
    if wanted is not None:
        spare = [max(f - w, 0) for f, w in zip(full, wanted[-2:], strict=True)]
        # As in ONNX's definition the odd pixel is cut off behind for SAME_UPPER, in front for SAME_LOWER.
        upper = mode == "SAME_UPPER"
        return [s // 2 if upper else s - s // 2 for s in spare], list(wanted[-2:])
    pads = c.get("pads") or (0, 0, 0, 0)
    return list(pads[:2]), [f - a - b for f, a, b in zip(full, pads[:2], pads[2:], strict=True)]


def _pool_windows(c: Call) -> tuple[list[int], list[int], Pads]:
    """Kernel, strides and pads of a pool over pictures or lines."""
    count = rank(c) - 2
    if count not in (1, 2):
        raise UnsupportedOp(f"it goes over {count} dimensions")
    if set(c.get("dilations") or (1,)) != {1}:
        raise UnsupportedOp("its window has gaps")
    kernel = list(c.get("kernel_shape"))
    strides = list(c.get("strides") or (1,) * count)
    shape = (c[0].spec.shape or ())[2:]
    pads = _pads(c, shape, kernel)
    if c.get("ceil_mode", 0):
        pads = [_up(n, k, s, p) for n, k, s, p in zip(shape, kernel, strides, pads, strict=True)]
    return kernel, strides, pads


def _up(size: int | None, kernel: int, stride: int, pads: tuple[int, int]) -> tuple[int, int]:
    """Pads with what a last, incomplete window needs; none may begin in the border behind."""
    if size is None:
        raise UnsupportedOp("the sizes of its input are open, so the padding is not known")
    whole = size + sum(pads)
    windows = -(-(whole - kernel) // stride) + 1
    # A window that begins in the border behind would see nothing of the picture.
    if (windows - 1) * stride >= size + pads[0]:
        windows -= 1
    return pads[0], pads[1] + max((windows - 1) * stride + kernel - whole, 0)


def _pooled(c: Call, op: str, x: Value, kernel: Sequence[int], strides: Sequence[int]) -> Value:
    """A pool of x [n, ..., c] without padding."""
    line = len(kernel) == 1
    if line:
        x = c.emit("ExpandDims", x, c.constant(1))
        kernel, strides = (1, *kernel), (1, *strides)
    sizes = {"ksize": (1, *kernel, 1), "strides": (1, *strides, 1)}
    y = c.emit(op, x, **sizes, padding="VALID", data_format="NHWC")
    return c.emit("Squeeze", y, squeeze_dims=(1,)) if line else y


@lifts("onnx.MaxPool", ignores=("pads", "storage_order"))
def _max_pool(c: Call) -> Value:
    if len(c.node.outputs) > 1:
        raise UnsupportedOp("the places of its maxima are read")
    kernel, strides, pads = _pool_windows(c)
    kind = c[0].dtype.numpy() if c[0].dtype is not None else np.dtype(np.float32)
    # A border that never is the maximum; integers have no infinity.
    least = float("-inf") if kind.kind == "f" else float(np.iinfo(kind.name).min)
    x = _padded(c, channels_last(c, c[0], rank(c)), pads, least)
    return channels_first(c, _pooled(c, "MaxPool", x, kernel, strides), rank(c))


@lifts("onnx.AveragePool", ignores=("pads",))
def _average_pool(c: Call) -> Value:
    return average_pool(c, c[0])


def average_pool(c: Call, picture: Value) -> Value:
    """The mean of what lies in the window, with the border or without."""
    kernel, strides, pads = _pool_windows(c)
    count = rank(c)
    if c.get("count_include_pad", 0) and c.get("ceil_mode", 0) and any(map(any, pads)):
        raise UnsupportedOp("it counts its border and rounds sizes up")
    x = channels_last(c, picture, count)
    y = _pooled(c, "AvgPool", _padded(c, x, pads, 0.0), kernel, strides)
    # mean(x) / mean(1 inside, 0 in the border) = sum(x) / number of pixels inside.
    if any(map(any, pads)) and not c.get("count_include_pad", 0):
        inside = _padded(c, c.emit("OnesLike", x), pads, 0.0)
        y = c.emit("RealDiv", y, _pooled(c, "AvgPool", inside, kernel, strides))
    return channels_first(c, y, count)


def _global(op: str) -> Rule:
    return lambda c: c.emit(op, c[0], integers(c, tuple(range(2, rank(c)))), keep_dims=True, Tidx=INT64)


@lifts("onnx.Upsample")
@lifts(
    "onnx.Resize",
    ignores=("cubic_coeff_a", "exclude_outside", "extrapolation_value", "nearest_mode"),
    unread=(1,),
)
def _resize(c: Call) -> Value:
    """Axis by axis: neighbours gathered, and mixed for linear. Sizes must be known."""
    mode = text(c, "mode", "nearest")
    if mode not in {"nearest", "linear"}:
        raise UnsupportedOp(f"it resizes in the mode '{mode}'")
    if c.get("axes") or c.get("antialias", 0) or text(c, "keep_aspect_ratio_policy", "stretch") != "stretch":
        raise UnsupportedOp("it names axes, keeps the proportions or smooths before it makes smaller")
    sizes = c.sizes(0)
    y = c[0]
    for axis, (old, new, scale) in enumerate(_targets(c, sizes)):
        # An axis of scale 1 whose size stays is not resampled.
        if new != old or scale != 1:
            places = _coordinates(c, old, new, scale)
            y = _nearest(c, y, axis, old, places) if mode == "nearest" else _linear(c, y, axis, old, places)
    return c.emit("Identity", y) if y is c[0] else y


def _targets(c: Call, sizes: Sequence[int]) -> list[tuple[int, int, float]]:
    """Old size, new size and scale per axis."""
    upsample = c.node.op == "onnx.Upsample"
    old_style = len(c.xs) == 2 and not upsample  # version 10: x, scales
    wanted = None if upsample or old_style else numbers(c, "", 3) if c.has(3) and c.known(3).size else None
    if wanted is not None:
        return [(n, m, m / n) for n, m in zip(sizes, wanted, strict=True)]
    place = 1 if upsample or old_style else 2
    scales = c.get("scales") if upsample and not c.has(1) else c.known(place).reshape(-1).tolist()
    # In float32, the type of scales: in double, 10 times float32's 0.7 is just below 7 and would give 6.
    exact = [np.float32(n) * np.float32(s) for n, s in zip(sizes, scales, strict=True)]
    return [(n, int(np.floor(e)), float(s)) for n, e, s in zip(sizes, exact, scales, strict=True)]


def _coordinates(c: Call, old: int, new: int, scale: float) -> np.ndarray:
    """The place of each new pixel among the old ones; in float32, as the rounding of the nearest needs it."""
    # Upsample and version 10 know no modes and always take pixels at x / scale.
    default = "asymmetric" if c.node.op == "onnx.Upsample" or len(c.xs) == 2 else "half_pixel"
    kind = text(c, "coordinate_transformation_mode", default)
    bounded(new)
    x, factor = np.arange(new, dtype=np.float32), np.float32(scale)
    if kind == "asymmetric":
        return np.asarray(x / factor)
    if kind == "align_corners":
        # The definition counts with the size before it is rounded down (ONNX Runtime with that after it).
        length = _unrounded(old, new, scale)
        # A single pixel has no distance to its neighbour to divide by: it is the first one.
        return x * np.float32(old - 1) / (length - 1) if new > 1 else x * 0
    if kind == "half_pixel" or (kind == "pytorch_half_pixel" and new > 1):
        return np.asarray((x + np.float32(0.5)) / factor - np.float32(0.5))
    if kind == "pytorch_half_pixel":
        return x * 0
    raise UnsupportedOp(f"its coordinates go by '{kind}'")


def _unrounded(old: int, new: int, scale: float) -> np.float32:
    """The new size with its fraction; what is there for the rounding of floats alone is none."""
    length = np.float32(old) * np.float32(scale)
    result: np.float32 = np.float32(new) if abs(length - round(length)) < 1e-5 * length else length
    return result


def _nearest(c: Call, x: Value, axis: int, old: int, places: np.ndarray) -> Value:
    default = "floor" if c.node.op == "onnx.Upsample" or len(c.xs) == 2 else "round_prefer_floor"
    mode = text(c, "nearest_mode", default)
    rounded = {
        "floor": np.floor(places),
        "ceil": np.ceil(places),
        # Halves go down: ceil(x - 0.5); `np.round` would take them to even.
        "round_prefer_floor": np.ceil(places - np.float32(0.5)),
        "round_prefer_ceil": np.floor(places + np.float32(0.5)),
    }.get(mode)
    if rounded is None:
        raise UnsupportedOp(f"it rounds by '{mode}'")
    return _taken(c, x, axis, rounded.clip(0, old - 1).astype(np.int64))


def _linear(c: Call, x: Value, axis: int, old: int, places: np.ndarray) -> Value:
    # Beyond the outermost pixels' centres their value goes on.
    places = places.clip(0, old - 1)
    low = np.floor(places).astype(np.int64)
    share = (places - low).astype(np.float32)
    before, behind = _taken(c, x, axis, low), _taken(c, x, axis, np.minimum(low + 1, old - 1))
    sides = [1] * rank(c)
    sides[axis] = -1
    weight = c.constant(share.reshape(sides))
    return c.emit("AddV2", before, c.emit("Mul", c.emit("Sub", behind, before), weight))


def _taken(c: Call, x: Value, axis: int, places: np.ndarray) -> Value:
    return c.emit(
        "GatherV2", x, c.constant(places), c.constant(axis), batch_dims=0, Tparams=x.dtype, Taxis=INT32
    )


lifts("onnx.GlobalAveragePool")(_global("Mean"))
lifts("onnx.GlobalMaxPool")(_global("Max"))
