"""MIL's weights in few bits, which stand for floats: computed when a package is opened."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.lift.coreml.rules import ints, mil, number
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.values import bounded
from thinflow.typing import Array


@mil("constexpr_affine_dequantize")
def _affine(c: Call) -> Value:
    """scale * (stored - zero), along an axis."""
    stored, scale, zero = c.known(0), c.known(1), c.known(2)
    axis = int(number(c, "axis", 0))
    if not stored.ndim or not -stored.ndim <= axis < stored.ndim:
        raise UnsupportedOp(f"there is no axis {axis} among {stored.ndim}")

    def along(row: Array) -> Array:
        if row.size not in (1, stored.shape[axis]):
            raise UnsupportedOp(f"it has {row.size} scales or zeros for {stored.shape[axis]} channels")
        sides = [1] * stored.ndim
        sides[axis] = row.size
        return row.reshape(sides)

    return c.constant(
        (stored.astype(np.float32) - along(zero).astype(np.float32)).astype(scale.dtype) * along(scale)
    )


@mil("constexpr_blockwise_shift_scale")
def _blockwise(c: Call) -> Value:
    """scale * (stored - offset), one of each for a block."""
    stored, scale = c.known(0), c.known(1)
    offset = c.known(2) if c.has(2) else np.zeros_like(scale)
    if scale.ndim != stored.ndim or offset.shape != scale.shape:
        raise UnsupportedOp("its scales and offsets do not have the axes of its data")

    def whole(blocks: Array) -> Array:
        for axis, (n, m) in enumerate(zip(stored.shape, scale.shape, strict=True)):
            if not m or n % m:
                raise UnsupportedOp(f"{n} elements are no whole number of {m} blocks")
            blocks = np.repeat(blocks, n // m, axis)
        return blocks

    real = stored.astype(np.float32) - whole(offset).astype(np.float32)
    return c.constant((real * whole(scale).astype(np.float32)).astype(scale.dtype))


@mil("constexpr_lut_to_dense")
def _palette(c: Call) -> Value:
    """Entries of a table, whose numbers are packed, the first in the low bits."""
    packed, table = c.known(0), c.known(1).reshape(-1)
    shape = ints(c, "shape")
    bits = max(int(table.size).bit_length() - 1, 0)
    if table.size != 1 << bits or bits not in (1, 2, 4, 6, 8) or min(shape, default=1) < 0:
        raise UnsupportedOp(f"its table has {table.size} entries")
    count = bounded(int(np.prod(shape, dtype=np.int64)))
    stream = np.unpackbits(packed.reshape(-1).astype(np.uint8), bitorder="little")
    if stream.size < count * bits:
        raise UnsupportedOp("it has fewer numbers than its shape says")
    places = stream[: count * bits].reshape(count, bits) @ (1 << np.arange(bits))
    return c.constant(table[places].reshape(shape))
