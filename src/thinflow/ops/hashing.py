"""Strings into buckets, and fingerprints of anything."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import INT64, UINT8, TensorSpec
from thinflow.ops._fingerprint import fingerprint64
from thinflow.ops._legacy_hash import hash64
from thinflow.ops._siphash import siphash
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
