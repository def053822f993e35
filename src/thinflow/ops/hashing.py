"""Strings into buckets."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import INT64, TensorSpec
from thinflow.ops._fingerprint import fingerprint64
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.strings import _map

Array = np.ndarray[Any, Any]


@op("StringToHashBucketFast")
class StringToHashBucketFast(OpDef):
    """y = Fingerprint64 of each string, modulo num_buckets.   x strings of any shape -> y int64 like x."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return TensorSpec(INT64, x.shape)

    @staticmethod
    def kernel(x: Array, *, num_buckets: int) -> Array:
        require(num_buckets >= 1, f"{num_buckets} buckets hold nothing")
        return _map(lambda s: fingerprint64(s) % num_buckets, np.int64, x)
