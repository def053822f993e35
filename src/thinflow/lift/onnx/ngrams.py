"""ONNX's counts of n-grams in TensorFlow's words: each window of a row is compared with each n-gram."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT64, STRING
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.ml import floats
from thinflow.lift.onnx.strings import texts
from thinflow.lift.onnx.values import bounded, integers, like, rank, text, typed
from thinflow.lift.rules import lifts
from thinflow.typing import Array

_MOST_LENGTH, _MOST_SKIPS = 16, 64
"""Lengths of n-grams and gaps between their parts: each is an op of the graph for each other."""


@lifts("onnx.TfIdfVectorizer")
def _tf_idf_vectorizer(c: Call) -> Value:
    """[n] -> [n-grams], or [batch, n] -> [batch, n-grams]: how often each is there, or what that weighs."""
    indexes = np.array(c.get("ngram_indexes", ()), np.int64)
    shortest, longest, skips = (
        int(c.get(name, 0)) for name in ("min_gram_length", "max_gram_length", "max_skip_count")
    )
    if not 1 <= shortest <= longest <= _MOST_LENGTH or not 0 <= skips <= _MOST_SKIPS or not indexes.size:
        raise UnsupportedOp(f"it counts n-grams from {shortest} to {longest} with gaps up to {skips}")
    count = rank(c)
    x = c[0] if c[0].dtype is STRING else typed(c, c[0], INT64)
    x = c.emit("ExpandDims", x, c.constant(0)) if count == 1 else x
    width = bounded(int(indexes.max()) + 1)
    total = None
    for n, grams, places in _pools(c, indexes):
        if not shortest <= n <= longest or not len(grams):
            continue
        # A single item has no gaps.
        parts = [_counted(c, x, grams, gap) for gap in range(1, (skips if n > 1 else 0) + 2)]
        spread = np.zeros((len(grams), width), np.float32)
        spread[np.arange(len(grams)), places] = 1
        for part in parts:
            y = c.emit("MatMul", part, c.constant(spread))
            total = y if total is None else c.emit("AddV2", total, y)
    if total is None:
        raise UnsupportedOp("it has no n-grams of these lengths")
    total = _weighed(c, total, indexes)
    return c.emit("Reshape", total, integers(c, (-1,))) if count == 1 else total


def _pools(c: Call, indexes: Array) -> list[tuple[int, Array, Array]]:
    """(n, n-grams [k, n], where each is counted [k]) for all n."""
    words, numbers = texts(c, "pool_strings"), c.get("pool_int64s")
    pool = words if words is not None else np.array(numbers or (), np.int64)
    starts = [int(n) for n in c.get("ngram_counts", ())]
    found, place = [], 0
    for n, (start, end) in enumerate(zip(starts, [*starts[1:], pool.size], strict=True), 1):
        if not 0 <= start <= end <= pool.size or (end - start) % n:
            raise UnsupportedOp("its n-grams do not fill their places")
        grams = pool[start:end].reshape(-1, n)
        found.append((n, grams, indexes[place : place + len(grams)]))
        place += len(grams)
    if place != indexes.size:
        raise UnsupportedOp(f"it has {place} n-grams and {indexes.size} places for them")
    return found


def _counted(c: Call, x: Value, grams: Array, gap: int) -> Value:
    """[batch, n-grams]: how often the items of each follow each other at a distance in x [batch, n]."""
    n = grams.shape[1]
    is_there = None
    for k in range(n):
        rest = (n - 1 - k) * gap
        window = c.emit(
            "StridedSlice", x, integers(c, (0, k * gap)), integers(c, (0, -rest)), integers(c, (1, 1)),
            begin_mask=1, end_mask=1 if rest else 3,
        )  # fmt: skip
        items = c.constant(np.ascontiguousarray(grams[:, k]))
        same = c.emit("Equal", c.emit("ExpandDims", window, c.constant(2)), items)
        is_there = same if is_there is None else c.emit("LogicalAnd", is_there, same)
    assert is_there is not None
    return c.emit("Sum", typed(c, is_there, FLOAT), c.constant([1]), keep_dims=False)


def _weighed(c: Call, y: Value, indexes: Array) -> Value:
    """Counts, or weights of what is there at all, or both."""
    mode, weights = text(c, "mode", "TF"), floats(c, "weights")
    if mode not in {"TF", "IDF", "TFIDF"}:
        raise UnsupportedOp(f"it weighs by '{mode}'")
    if mode == "TF":
        return y
    if mode == "IDF":
        y = typed(c, c.emit("Greater", y, like(c, 0, y)), FLOAT)
    if weights is None:
        return y
    # Runtimes take the weights in the order of places, the standard in that of n-grams.
    if not np.array_equal(indexes, np.arange(weights.size)):
        raise UnsupportedOp("its weights are those of n-grams in another order than their places")
    return c.emit("Mul", y, c.constant(weights))
