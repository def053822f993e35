"""TensorFlow's own Hash64, which StringToHashBucket uses: MurmurHash64A with a fixed seed."""

from __future__ import annotations

import struct

_MASK = (1 << 64) - 1
_FACTOR = 0xC6A4A7935BD1E995
_SEED = 0xDECAFCAFFE


def hash64(data: bytes, seed: int = _SEED) -> int:
    """The hash of a string, unsigned 64 bits. O(length)."""
    state = (seed ^ len(data) * _FACTOR) & _MASK
    whole = len(data) - len(data) % 8
    for word in struct.unpack(f"<{whole // 8}Q", data[:whole]):
        word = word * _FACTOR & _MASK
        word = (word ^ word >> 47) * _FACTOR & _MASK
        state = (state ^ word) * _FACTOR & _MASK
    # The tail of up to 7 bytes is mixed in without the first two steps, as in MurmurHash64A.
    if whole < len(data):
        state = (state ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    state = (state ^ state >> 47) * _FACTOR & _MASK
    return state ^ state >> 47
