"""MediaPipe's custom operators for LiteRT: pools that tell where the greatest was, and their reverse.

Their options are the C structures of LiteRT's own pools and transposed convolutions, as bytes.
"""

from __future__ import annotations

import struct

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32
from thinflow.lift.lifter import Call
from thinflow.lift.rules import lifts

_PADDINGS = {1: "SAME", 2: "VALID"}
_ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH")
_MOST_PARTS = 256
"""Places of a window that are compared one by one."""


def _numbers(c: Call, count: int) -> tuple[int, ...]:
    """The first integers of the options."""
    stored = c.node.attrs.get("custom_options", b"")
    if not isinstance(stored, bytes) or len(stored) < 4 * count:
        raise UnsupportedOp("its options are too short")
    return struct.unpack(f"<{count}i", stored[: 4 * count])


def _padding(number: int) -> str:
    if number not in _PADDINGS:
        raise UnsupportedOp(f"its padding is of kind {number}")
    return _PADDINGS[number]


def _pool(c: Call) -> tuple[str, tuple[int, int], tuple[int, int]]:
    """Padding, strides and window of a pool, both by height and width."""
    kind, stride_w, stride_h, width, height, activation = _numbers(c, 6)
    if min(stride_w, stride_h, width, height) < 1 or width * height > _MOST_PARTS:
        raise UnsupportedOp(f"its window is {height} by {width}, in steps of {stride_h} and {stride_w}")
    if not 0 <= activation < len(_ACTIVATIONS) or _ACTIVATIONS[activation] != "NONE":
        raise UnsupportedOp("it has an activation")
    return _padding(kind), (stride_h, stride_w), (height, width)


@lifts("tfl.custom.MaxPoolingWithArgmax2D")
def pool_with_places(c: Call) -> list[Value]:
    """MaxPoolingWithArgmax2D: the greatest of each window, and its place in the window, counted by rows."""
    padding, strides, window = _pool(c)
    sizes = c.sizes(0)[1:3]
    ksize, steps = (1, *window, 1), (1, *strides, 1)
    most = c.emit("MaxPool", c[0], ksize=ksize, strides=steps, padding=padding, data_format="NHWC")
    x, counts = c[0], []
    ends = np.zeros((4, 2), np.int32)
    for axis, (size, step, length) in enumerate(zip(sizes, strides, window, strict=True)):
        count = -(-size // step) if padding == "SAME" else (size - length) // step + 1
        missing = max((count - 1) * step + length - size, 0) if padding == "SAME" else 0
        ends[axis + 1] = missing // 2, missing - missing // 2
        counts.append(count)
    if ends.any():
        lowest = c.constant(np.array(np.finfo(np.float32).min, np.float32))
        x = c.emit("PadV2", x, c.constant(ends), lowest, Tpaddings=INT32)
    parts = []
    for row in range(window[0]):
        for column in range(window[1]):
            begin = (0, row, column, 0)
            end = tuple(b + (n - 1) * s + 1 for b, n, s in zip(begin[1:3], counts, strides, strict=True))
            cuts = (c.constant(numbers) for numbers in (begin, (0, *end, 0), steps))
            parts.append(c.emit("StridedSlice", x, *cuts, Index=INT32, begin_mask=9, end_mask=9))
    stacked = c.emit("Pack", *parts, N=len(parts), axis=4)
    place = c.emit("ArgMax", stacked, c.constant(4), output_type=INT32, Tidx=INT32)
    # The operator adds a tenth, so that a cut to whole numbers finds the place again.
    real = c.emit("Cast", place, SrcT=INT32, DstT=FLOAT)
    return [most, c.emit("AddV2", real, c.constant(0.1, real))]


@lifts("tfl.custom.MaxUnpooling2D")
def unpool(c: Call) -> Value:
    """MaxUnpooling2D: each value at its place in a window of zeros."""
    _, strides, window = _pool(c)
    if strides != window or window[0] != window[1]:
        raise UnsupportedOp("its windows overlap, leave gaps, or are no squares")
    place = c.emit("Cast", c[1], SrcT=FLOAT, DstT=INT32)
    zeros = c.emit("ZerosLike", c[0])
    parts = []
    for number in range(window[0] * window[1]):
        here = c.emit("Equal", place, c.constant(number, place))
        parts.append(c.emit("SelectV2", here, c[0], zeros, T=FLOAT))
    if len(parts) == 1:
        return c.emit("Identity", parts[0])
    whole = c.emit("ConcatV2", *parts, c.constant(3), N=len(parts), Tidx=INT32)
    # Blocks of depth are counted by rows, too.
    return c.emit("DepthToSpace", whole, block_size=window[0], data_format="NHWC")


@lifts("tfl.custom.Convolution2DTransposeBias")
def transposed_convolution(c: Call) -> Value:
    """Convolution2DTransposeBias: x, weights [cout, kh, kw, cin], bias; the output's size follows from x."""
    kind, stride_w, stride_h = _numbers(c, 3)
    if min(stride_w, stride_h) < 1:
        raise UnsupportedOp(f"its steps are {stride_h} and {stride_w}")
    padding = _padding(kind)
    batch, *sides, _ = c.sizes(0)
    cout, *kernel, _ = c.sizes(1)
    made, pads = [], []
    for size, step, length in zip(sides, (stride_h, stride_w), kernel, strict=True):
        cut = max(0, length - (size - 1) % step - 1) if padding == "SAME" else 0
        made.append(step * (size - 1) + length - cut)
        pads.append((cut // 2, cut - cut // 2))
    sizes = c.constant((batch, *made, cout))
    w = c.emit("Transpose", c[1], c.constant((1, 2, 0, 3)), Tperm=INT32)
    steps = (1, stride_h, stride_w, 1)
    same = all(-(-n // s) == m for n, s, m in zip(made, (stride_h, stride_w), sides, strict=True))
    form = {"padding": padding} if padding == "VALID" or same else {
        "padding": "EXPLICIT", "explicit_paddings": (0, 0, *pads[0], *pads[1], 0, 0),
    }  # fmt: skip
    y = c.emit("Conv2DBackpropInput", sizes, w, c[0], strides=steps, data_format="NHWC", T=FLOAT, **form)
    return c.emit("BiasAdd", y, c[2], data_format="NHWC")
