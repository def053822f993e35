"""A product and a sum with one number per channel, in one pass over the data."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import FLOAT
from thinflow.lower.onnx.builder import Array, Builder
from thinflow.onnx.program import Tensor


def scaled_and_moved(b: Builder, product: Tensor, shift: Tensor) -> Tensor | None:
    """x * scale + shift of a product x * scale that was emitted before, float [...,c], as one operator.

    ONNX's BatchNormalization with a mean of 0 and a variance of 1 is that, for one row of channels per pixel.

    Args:
        shift: float [c], [1] or [].

    Returns:
        None if the product is none by constants per channel, or sizes are not known.
    """
    found = b.producer(product, "Mul")
    shape = product.shape
    if found is None or shape is None or len(shape) < 2 or shape[-1] is None or shape.count(None) > 1:
        return None
    x, factor = found.inputs
    count = shape[-1]
    numbers = [_by_channel(t, count) for t in (factor, shift)]
    if x is None or x.shape != shape or numbers[0] is None or numbers[1] is None:
        return None
    # ONNX's channels are axis 1: with all axes before them joined they are that without a Transpose.
    pixels = b.reshaped(x, (None, count))
    ends = (*numbers, np.zeros(count), np.ones(count))
    rest = [b.const(np.asarray(n, np.float32), "by_channel") for n in ends]
    # (x - 0) / sqrt(1 + epsilon) is exactly x for an epsilon of 0.
    y = b.step("BatchNormalization", pixels, *rest, shape=pixels.shape, epsilon=0.0)
    return b.reshaped(y, shape)


def moved_in_blocks(b: Builder, x: Tensor, shift: Tensor) -> Tensor | None:
    """reshape(y) + shift as reshape(y + shift) for y that has several pixels a row; None if x is no such.

    What has made y may then add the numbers itself.
    """
    found = b.producer(x, "Reshape")
    shape = x.shape
    blocks = None if found is None else found.inputs[0]
    if blocks is None or not blocks.shape or not shape or not shape[-1] or not blocks.shape[-1]:
        return None
    times = blocks.shape[-1] // shape[-1]
    numbers = _by_channel(shift, shape[-1])
    if numbers is None or times < 2 or blocks.shape[-1] % shape[-1]:
        return None
    row = b.const(np.tile(numbers, times).astype(np.float32), "by_channel")
    return b.reshaped(b.step("Add", blocks, row, shape=blocks.shape), shape)


def _by_channel(x: Tensor | None, count: int) -> Array | None:
    """The numbers [c] of a constant that has one per channel, or one for all."""
    if x is None or not x.is_constant or x.dtype is not FLOAT:
        return None
    numbers = x.array()
    is_row = numbers.size == (numbers.shape or (1,))[-1] and numbers.size in (1, count)
    return np.broadcast_to(numbers.reshape(-1), (count,)) if is_row else None
