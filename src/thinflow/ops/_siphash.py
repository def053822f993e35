"""SipHash-2-4 as TensorFlow's strong hash computes it.

Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012), with the variant of the HighwayHash
project.
"""

from __future__ import annotations

import struct

_MASK = (1 << 64) - 1


def _turned(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) & _MASK


def _round(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    a = (a + b) & _MASK
    c = (c + d) & _MASK
    b, d = _turned(b, 13) ^ a, _turned(d, 16) ^ c
    a = _turned(a, 32)
    c = (c + b) & _MASK
    a = (a + d) & _MASK
    b, d = _turned(b, 17) ^ c, _turned(d, 21) ^ a
    return a, b, _turned(c, 32), d


def siphash(key: tuple[int, int], data: bytes) -> int:
    """The keyed hash of a string, unsigned 64 bits. O(length)."""
    low, high = (k & _MASK for k in key)
    state = (
        # "somepseudorandomlygeneratedbytes" in ASCII.
        low ^ 0x736F6D6570736575,
        high ^ 0x646F72616E646F6D,
        low ^ 0x6C7967656E657261,
        high ^ 0x7465646279746573,
    )
    whole = len(data) - len(data) % 8
    # The last word has the length, modulo 256, in its top byte.
    last = data[whole:].ljust(7, b"\0") + bytes([len(data) & 0xFF])
    words = struct.unpack(f"<{whole // 8 + 1}Q", data[:whole] + last)
    for word in words:
        a, b, c, d = state
        a, b, c, d = _round(*_round(a, b, c, d ^ word))
        state = (a ^ word, b, c, d)
    a, b, c, d = state
    c ^= 0xFF
    for _ in range(4):
        a, b, c, d = _round(a, b, c, d)
    return a ^ b ^ c ^ d
