"""Hashes of strings, bit for bit as TensorFlow: buckets and fingerprints."""

from __future__ import annotations

import struct

import numpy as np

from thinflow.ir.types import INT64, UINT8, TensorSpec
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.strings import _map
from thinflow.typing import Array


class _Buckets(OpDef):
    """x strings of any shape -> y int64 like x."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return TensorSpec(INT64, x.shape)


@op("StringToHashBucketFast")
class StringToHashBucketFast(_Buckets):
    """y = Fingerprint64 of each string, modulo num_buckets.   x strings of any shape -> y int64 like x."""

    @staticmethod
    def kernel(x: Array, *, num_buckets: int) -> Array:
        require(num_buckets >= 1, f"{num_buckets} buckets hold nothing")
        # The unsigned rest, which fits int64 as the number of buckets does.
        return _map(lambda s: fingerprint64(s) % num_buckets, np.int64, x)


@op("StringToHashBucketStrong")
class StringToHashBucketStrong(_Buckets):
    """y = SipHash of each string under a key of two numbers, modulo num_buckets."""

    @staticmethod
    def kernel(x: Array, *, num_buckets: int, key: tuple[int, ...]) -> Array:
        require(num_buckets >= 1, f"{num_buckets} buckets hold nothing")
        require(len(key) == 2, f"the key has {len(key)} numbers, not 2")
        return _map(lambda s: siphash((key[0], key[1]), s) % num_buckets, np.int64, x)


@op("StringToHashBucket")
class StringToHashBucket(_Buckets):
    """y = Hash64 of each string, modulo num_buckets."""

    @staticmethod
    def kernel(x: Array, *, num_buckets: int) -> Array:
        require(num_buckets >= 1, f"{num_buckets} buckets hold nothing")
        return _map(lambda s: hash64(s) % num_buckets, np.int64, x)


@op("Fingerprint")
class Fingerprint(OpDef):
    """The eight bytes of Fingerprint64 of each row's bytes.   x [n,...], method [] -> uint8 [n,8].

    A row of several strings counts as the fingerprints of its strings, one after the other.
    """

    @staticmethod
    def infer(x: TensorSpec, method: TensorSpec) -> TensorSpec:
        return TensorSpec(UINT8, (x.shape[0] if x.shape else None, 8))

    @staticmethod
    def kernel(x: Array, method: Array) -> Array:
        require(method.item() == b"farmhash64", f"{method.item()!r} is no method, farmhash64 is one")
        require(x.ndim > 0, "a scalar has no rows")
        # -1 cannot be worked out of an array without elements.
        rows = x.reshape(len(x), -1) if x.size else x.reshape(len(x), 0)
        found = [fingerprint64(_bytes_of(row)) for row in rows]
        return np.array(found, "<u8").view(np.uint8).reshape(len(x), 8)


def _bytes_of(row: Array) -> bytes:
    if not row.dtype.hasobject:
        return np.ascontiguousarray(row).tobytes()
    words = row.tolist()
    # A single string is hashed itself; only of several the fingerprints are, as lengths would be lost in a
    # join.
    if len(words) == 1:
        return bytes(words[0])
    return b"".join(fingerprint64(w).to_bytes(8, "little") for w in words)


# ---- FarmHash's Fingerprint64: the hash that puts strings into buckets the same way on every machine.


_MASK = (1 << 64) - 1
# Primes between 2^63 and 2^64, and the seed, of `farmhashna.cc`. The order of all steps below is that of the
# original: a fingerprint is a stored format (hash buckets of trained models), so no bit may change.
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_SEED = 81


def _word(s: bytes, at: int) -> int:
    value: int = struct.unpack_from("<Q", s, at)[0]
    return value


def _turn(x: int, by: int) -> int:
    """Rotated right; x may have grown beyond 64 bits."""
    x &= _MASK
    return (x >> by | x << (64 - by)) & _MASK


def _shift_mix(x: int) -> int:
    x &= _MASK
    return x ^ x >> 47


def _join(u: int, v: int, factor: int) -> int:
    """Two words into one."""
    v &= _MASK
    a = _shift_mix(((u & _MASK) ^ v) * factor)
    return _shift_mix((v ^ a) * factor) * factor & _MASK


def fingerprint64(s: bytes) -> int:
    """The hash of a string, unsigned. O(length)."""
    n = len(s)
    factor = _K2 + 2 * n
    if n > 64:
        return _long(s)
    if n > 16:
        # Sums and products grow beyond 64 bits here and are cut when they are rotated or joined: modulo 2^64
        # it is the same, and Python's integers pay for each mask.
        a, b = _word(s, 0) * (_K1 if n <= 32 else _K2), _word(s, 8)
        c, d = _word(s, n - 8) * factor, _word(s, n - 16) * _K2
        y, z = _turn(a + b, 43) + _turn(c, 30) + d, a + _turn(b + _K2, 18) + c
        if n <= 32:
            return _join(y, z, factor)
        z = _join(y, z, factor)
        e, f = _word(s, 16) * factor, _word(s, 24)
        g, h = (y + _word(s, n - 32)) * factor, (z + _word(s, n - 24)) * factor
        return _join(_turn(e + f, 43) + _turn(g, 30) + h, e + _turn(f + a, 18) + g, factor)
    if n >= 8:
        a, b = _word(s, 0) + _K2, _word(s, n - 8)
        return _join(_turn(b, 37) * factor + a, (_turn(a, 25) + b) * factor, factor)
    if n >= 4:
        first, last = struct.unpack_from("<I", s)[0], struct.unpack_from("<I", s, n - 4)[0]
        return _join(n + (first << 3), last, factor)
    if n > 0:
        y, z = s[0] + (s[n >> 1] << 8), n + (s[-1] << 2)
        return _shift_mix(y * _K2 & _MASK ^ z * _K0 & _MASK) * _K2 & _MASK
    return _K2


def _weak(s: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """Four words and two sums into two."""
    w, x, y, z = struct.unpack_from("<4Q", s, at)
    a += w
    b = _turn(b + a + z, 21)
    total = a + x + y
    return (total + z) & _MASK, (b + _turn(total, 44) + a) & _MASK


def _long(s: bytes) -> int:
    """The hash of more than 64 bytes, 64 at a time."""
    n = len(s)
    y = (_SEED * _K1 + 113) & _MASK
    z = _shift_mix(y * _K2 + 113) * _K2 & _MASK
    v, w = (0, 0), (0, 0)
    x = (_SEED * _K2 + _word(s, 0)) & _MASK
    # The last 64 bytes are hashed separately and may overlap the blocks, so no block is ever padded.
    rest = (n - 1) & 63
    for at in range(0, n - 1 - rest, 64):
        x, y, z, v, w = _block(s, at, x, y, z, v, w, _K1, 1)
    factor = _K1 + ((z & 0xFF) << 1)
    w = (w[0] + rest, w[1])
    v = (v[0] + w[0], v[1])
    w = (w[0] + v[0], w[1])
    x, y, z, v, w = _block(s, n - 64, x, y, z, v, w, factor, 9)
    first = _join(v[0], w[0], factor) + _shift_mix(y) * _K0 + z
    return _join(first, _join(v[1], w[1], factor) + x, factor)


def _block(
    s: bytes,
    at: int,
    x: int,
    y: int,
    z: int,
    v: tuple[int, int],
    w: tuple[int, int],
    factor: int,
    weight: int,
) -> tuple[int, int, int, tuple[int, int], tuple[int, int]]:
    x = _turn(x + y + v[0] + _word(s, at + 8), 37) * factor
    y = _turn(y + v[1] + _word(s, at + 48), 42) * factor
    x = (x ^ w[1] * weight) & _MASK
    y += v[0] * weight + _word(s, at + 40)
    z = _turn(z + w[0], 33) * factor
    v = _weak(s, at, v[1] * factor, x + w[0])
    w = _weak(s, at + 32, z + w[1], y + _word(s, at + 16))
    # x and z change places, as `std::swap(z, x)` and its likes do in the original.
    return z & _MASK, y & _MASK, x, v, w


def fingerprint_pair(a: int, b: int) -> int:
    """Two hashes into one, in which their order counts. Source: TensorFlow's `FingerprintCat64`."""
    # The multiplier of MurmurHash64A, as of `hash64` below.
    factor = 0xC6A4A7935BD1E995
    mixed = (a ^ factor) & _MASK
    mixed ^= _shift_mix(b * factor) * factor & _MASK
    return _shift_mix(_shift_mix(mixed * factor) * factor)


# ---- SipHash-2-4 as TensorFlow's strong hash computes it.
#
# Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012), with the variant of the
# HighwayHash project.


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
    # The mark of the end, and SipHash's four last rounds; each word before took two.
    c ^= 0xFF
    for _ in range(4):
        a, b, c, d = _round(a, b, c, d)
    return a ^ b ^ c ^ d


# ---- TensorFlow's own Hash64, which StringToHashBucket uses: MurmurHash64A with a fixed seed.


_FACTOR = 0xC6A4A7935BD1E995
# The seed of TensorFlow's `hash.h` for callers that give none.
_LEGACY_SEED = 0xDECAFCAFFE


def hash64(data: bytes, seed: int = _LEGACY_SEED) -> int:
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
