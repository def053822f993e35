"""Runs of neighbouring words, and words joined by the segment they belong to."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from thinflow.ir.types import INT64, STRING, DType, TensorSpec
from thinflow.ops._elements import scalar
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array


@op("StringNGrams")
class StringNGrams(OpDef):
    """(ngrams, splits): for each row, for each width, every run of that many words joined by the separator.

    words [m], splits [n+1] -> [k], [n+1]. Rows are padded on both sides by pad_width words (-1: as many as
    fit), but less than a width. preserve_short_sequences keeps a row too short for any width as one ngram.
    """

    num_outputs = 2

    @staticmethod
    def infer(words: TensorSpec, splits: TensorSpec, *, Tsplits: DType = INT64) -> tuple[TensorSpec, ...]:
        return TensorSpec(STRING, (None,)), TensorSpec(splits.dtype or Tsplits, splits.shape)

    @staticmethod
    def kernel(
        words: Array,
        splits: Array,
        *,
        separator: str,
        ngram_widths: tuple[int, ...],
        left_pad: str,
        right_pad: str,
        pad_width: int,
        preserve_short_sequences: bool,
    ) -> tuple[Array, Array]:
        ends = splits.tolist()
        require(not ends or (ends[0] == 0 and ends[-1] == len(words)), "the splits do not fit the words")
        require(ends == sorted(ends), "the splits go back")
        require(all(w > 0 for w in ngram_widths), f"widths must be positive, not {list(ngram_widths)}")
        mark, pads = separator.encode(), (left_pad.encode(), right_pad.encode())
        found: list[bytes] = []
        counts = [0] if ends else []
        for start, end in pairwise(ends):
            row = words[start:end].tolist()
            grams = [g for w in ngram_widths for g in _runs(row, w, _padding(w, pad_width), pads)]
            if not grams and row and preserve_short_sequences:
                # Padding of no fixed width would have made this row long enough.
                width = len(row) + 2 * max(pad_width, 0)
                grams = _runs(row, width, _padding(width, pad_width), pads)
            found += [mark.join(g) for g in grams]
            counts.append(len(found))
        y: Array = np.empty(len(found), object)
        y[:] = found
        return y, np.array(counts, splits.dtype)


def _padding(width: int, wanted: int) -> int:
    # A run of pads alone would say nothing, so there is always one word in it.
    return width - 1 if wanted < 0 else min(wanted, width - 1)


def _runs(row: list[bytes], width: int, padding: int, pads: tuple[bytes, bytes]) -> list[list[bytes]]:
    padded = [pads[0]] * padding + row + [pads[1]] * padding
    return [padded[i : i + width] for i in range(len(padded) - width + 1)]


@op("UnsortedSegmentJoin")
class UnsortedSegmentJoin(OpDef):
    """y[k] = the strings with segment id k joined by the separator, in order.

    x [*ids, ...], ids, num_segments [] -> [num_segments, ...].
    """

    @staticmethod
    def infer(x: TensorSpec, ids: TensorSpec, num_segments: TensorSpec) -> TensorSpec:
        if x.shape is None or ids.shape is None:
            return TensorSpec(STRING)
        return TensorSpec(STRING, (scalar(num_segments), *x.shape[len(ids.shape) :]))

    @staticmethod
    def kernel(x: Array, ids: Array, num_segments: Array, *, separator: str = "") -> Array:
        require(x.shape[: ids.ndim] == ids.shape, f"ids of shape {list(ids.shape)} for {list(x.shape)}")
        count, rest = int(num_segments), x.shape[ids.ndim :]
        require(0 <= count <= 1 << 24, f"{count} segments are asked for")
        rows = x.reshape(ids.size, int(np.prod(rest)))
        parts: list[list[list[bytes]]] = [[[] for _ in range(rows.shape[1])] for _ in range(count)]
        for index, row in zip(ids.ravel().tolist(), rows.tolist(), strict=True):
            require(0 <= index < count, f"the segment {index} is outside 0..{count - 1}")
            for column, word in enumerate(row):
                parts[index][column].append(word)
        y: Array = np.empty((count, rows.shape[1]), object)
        for index, columns in enumerate(parts):
            y[index] = [separator.encode().join(words) for words in columns]
        return y.reshape(count, *rest)
