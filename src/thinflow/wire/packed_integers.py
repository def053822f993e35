"""Integers of less than a byte, packed as .tflite and .onnx files hold them."""

from __future__ import annotations

from thinflow.typing import Array


def pack_integers(data: Array, bits: int) -> Array:
    """uint8 [n], integers of `bits` bits, the first of each byte in its low bits; zeros fill the last."""
    import numpy as np  # late: files are opened without it

    per_byte = 8 // bits
    flat = data.reshape(-1).astype(np.int8).view(np.uint8) & (2**bits - 1)
    flat = np.concatenate([flat, np.zeros(-len(flat) % per_byte, np.uint8)]).reshape(-1, per_byte)
    packed: Array = np.bitwise_or.reduce(flat << (np.arange(per_byte, dtype=np.uint8) * bits), axis=1)
    return packed
