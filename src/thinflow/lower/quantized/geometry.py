"""Geometry of quantized convolutions: windows that move to the centre, and columns joined to blocks.

Integer kernels multiply many channels of a pixel in one step; an image of 3 channels leaves most of that
idle. A row of pixels [w,c] is also a row of blocks of b columns [w/b,b c], and n = b/s neighbouring results,
where s is the stride, are one result with n times as many channels:

    conv(x [h,w,c], f [kh,kw,c,m], stride s)  =  conv(x [h,w/b,b c], g [kh,taps,b c,n m], stride 1)

Some of g is zero, so every sum is the same to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.ops.quantized_math import origin_pads
from thinflow.typing import Array


@dataclass(frozen=True)
class ColumnBlocks:
    """Blocks of columns, and the results that are computed from them.

    Attributes:
        times: neighbouring results that are computed at once.
        columns: of a block.
        ahead: blocks that are read before the one that the results are in.
        taps: blocks that they are computed from.
        start: the column within those where the window of the first result starts.
    """

    times: int
    columns: int
    ahead: int
    taps: int
    start: int

    def filters(self, filters: Array) -> Array:
        """Filters [kh,kw,c,m] as [kh,taps,columns c,times m]: each where its result is, among zeros."""
        kh, kw, depth, count = filters.shape
        found = np.zeros((kh, self.taps * self.columns, depth, self.times, count), filters.dtype)
        # Each further result starts one stride of the original image later.
        stride = self.columns // self.times
        for number in range(self.times):
            start = self.start + number * stride
            found[:, start : start + kw, :, number] = filters
        return found.reshape(kh, self.taps, self.columns * depth, self.times * count)


def column_blocks(kw: int, stride: int, before: int, times: int, *, symmetric: bool = False) -> ColumnBlocks:
    """Blocks for so many results at once.

    Args:
        kw, stride, before: width of the windows, columns from one to the next, and columns of padding.
        times: results.
        symmetric: whether as many blocks are read behind as ahead, or one more, as the padding SAME has it.
    """
    # What so many results advance: the convolution of blocks has stride 1 then.
    columns = stride * times
    ahead = -(-before // columns)
    # The block, counted from the results' own, in which the last window ends.
    last = (stride * (times - 1) - before + kw - 1) // columns
    # Blocks that `symmetric` adds behind are multiplied by zeros.
    taps = max(ahead + last + 1, 2 * ahead + 1 if symmetric else 0)
    return ColumnBlocks(times, columns, ahead, taps, ahead * columns - before)


@dataclass(frozen=True)
class CentredWindows:
    """Windows of QuantizedConv2D along one axis: it centres them if strides leave pixels over.

    Attributes:
        start, end: of the pixels that windows see.
        before, after: zeros around them.
        count: windows.
    """

    start: int
    end: int
    before: int
    after: int
    count: int


def centred_windows(
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: str,
    border: Sequence[int] = (0, 0, 0, 0),
) -> list[CentredWindows]:
    """The windows along rows and columns.

    Args:
        sizes: of the image without a border.
        border: zeros around it (top, left, bottom, right) that are not stored.
    """
    found = []
    for axis, (size, k, stride) in enumerate(zip(sizes, window, strides, strict=True)):
        # The op sees the image with its border and centres the windows on that.
        low, high = border[axis], border[axis + 2]
        before, after, count = origin_pads(size + low + high, k, stride, padding)
        # Negative numbers are pixels that no window sees; a border that is seen becomes padding.
        before, after = before + low, after + high
        crop = max(-before, 0), size - max(-after, 0)
        found.append(CentredWindows(*crop, max(before, 0), max(after, 0), count))
    return found
