"""Text: regular expressions, n-grams, edit distances."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import BOOL, FLOAT, INT64, STRING, DType, TensorSpec
from thinflow.ops._shapes import scalar, shape_from
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.sparse import _places
from thinflow.ops.strings import _map
from thinflow.ops.traits import Role
from thinflow.typing import Array

_POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_TOKEN = re.compile(r"\\Q(?P<quoted>.*?)(?:\\E|$)|\[:(?P<posix>\w+):\]|\\z|\\[\s\S]|[\s\S]", re.DOTALL)


def _translated(pattern: str) -> Iterator[str]:
    """RE2 says `\\z`, `[:alpha:]` and `\\Q...\\E`, and its `$` never stops before a last newline."""
    in_class = False
    for match in _TOKEN.finditer(pattern):
        token = match.group()
        # Of `\Q...\E` every character stands for itself.
        if match["quoted"] is not None:
            yield re.escape(match["quoted"])
        elif match["posix"] is not None:
            yield _POSIX_CLASSES.get(match["posix"], token) if in_class else token
        elif token == "\\z" or (token == "$" and not in_class):
            yield r"\Z"
        else:
            # Python keeps a bare "[" inside a class for future set operations.
            yield r"\[" if in_class and token == "[" else token
            if token in ("[", "]"):
                in_class = token == "["


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # about "--" and the like inside a class
            return re.compile("".join(_translated(pattern)), re.ASCII)
    except re.error as error:
        raise UnsupportedOp(f"the pattern '{pattern}' is not understood: {error}") from error


def _text(value: bytes) -> str:
    # RE2 works on UTF-8 characters. Bytes that are none survive, though here a `.` matches them.
    return value.decode("utf-8", "surrogateescape")


def _replace(text: bytes, pattern: str, rewrite: str, everywhere: bool) -> bytes:
    expression = _compiled(pattern)
    pieces = re.findall(r"\\.|\\|[^\\]+", rewrite, re.DOTALL)
    groups = [int(p[1]) for p in pieces if p[0] == "\\" and p[1:].isdigit()]
    bad = any(p[0] == "\\" and p != "\\\\" and not p[1:].isdigit() for p in pieces)
    if bad or any(g > expression.groups for g in groups):
        return text  # TensorFlow ignores RE2's complaint about the rewrite and leaves the string alone
    source = _text(text)
    result: list[str] = []
    end = -1
    copied = 0
    for match in expression.finditer(source):
        if match.end() == match.start() == end:
            continue  # unlike Python, RE2 takes no empty match right behind another one
        result.append(source[copied : match.start()])
        for piece in pieces:
            backslash = piece[0] == "\\"
            result.append(
                (match[int(piece[1])] or "")
                if backslash and piece != "\\\\"
                else piece[-1]
                if backslash
                else piece
            )
        end = copied = match.end()
        if not everywhere:
            break
    return "".join([*result, source[copied:]]).encode("utf-8", "surrogateescape")


@op("RegexReplace")
class RegexReplace(OpDef):
    """y = each string with what the pattern matches, everywhere or once, replaced; `\\1` is group 1."""

    @staticmethod
    def infer(x: TensorSpec, pattern: TensorSpec, rewrite: TensorSpec) -> TensorSpec:
        return TensorSpec(STRING, x.shape)

    @staticmethod
    def kernel(x: Array, pattern: Array, rewrite: Array, *, replace_global: bool = True) -> Array:
        expression, replacement = _text(pattern.item()), _text(rewrite.item())
        return _map(lambda s: _replace(s, expression, replacement, replace_global), object, x)


@op("StaticRegexReplace")
class StaticRegexReplace(OpDef):
    """RegexReplace with the pattern and the replacement as attributes."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return TensorSpec(STRING, x.shape)

    @staticmethod
    def kernel(x: Array, *, pattern: str, rewrite: str, replace_global: bool = True) -> Array:
        return _map(lambda s: _replace(s, pattern, rewrite, replace_global), object, x)


@op("RegexFullMatch")
class RegexFullMatch(OpDef):
    """y = whether the pattern matches each whole string, bool."""

    @staticmethod
    def infer(x: TensorSpec, pattern: TensorSpec) -> TensorSpec:
        return TensorSpec(BOOL, x.shape)

    @staticmethod
    def kernel(x: Array, pattern: Array) -> Array:
        expression = _compiled(_text(pattern.item()))
        return _map(lambda s: expression.fullmatch(_text(s)) is not None, np.bool_, x)


@op("StaticRegexFullMatch")
class StaticRegexFullMatch(OpDef):
    """RegexFullMatch with the pattern as an attribute."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return TensorSpec(BOOL, x.shape)

    @staticmethod
    def kernel(x: Array, *, pattern: str) -> Array:
        expression = _compiled(pattern)
        return _map(lambda s: expression.fullmatch(_text(s)) is not None, np.bool_, x)


# ---- Runs of neighbouring words, and words joined by the segment they belong to.


@op("StringNGrams")
class StringNGrams(OpDef):
    """(ngrams, splits): for each row, for each width, every run of that many words joined by the separator.

    words [m], splits [n+1] -> [k], [n+1]. Rows are padded on both sides by pad_width words (-1: as many as
    fit), but less than a width. preserve_short_sequences keeps a row too short for any width as one ngram.
    """

    roles = (None, Role.SPLITS)
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
        # Each segment costs memory, whether anything is in it or not.
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


# ---- Edit distances of sequences.


Sequences = dict[tuple[int, ...], list[Any]]


@op("EditDistance")
class EditDistance(OpDef):
    """Levenshtein distances of the sequences along the last axis of two sparse tensors, float [groups].

    normalize divides by the length of the truth; against an empty one, anything is infinitely far.
    """

    @staticmethod
    def infer(
        a_indices: TensorSpec,
        a_values: TensorSpec,
        a_shape: TensorSpec,
        b_indices: TensorSpec,
        b_values: TensorSpec,
        b_shape: TensorSpec,
    ) -> TensorSpec:
        a, b = shape_from(a_shape), shape_from(b_shape)
        if a is None or b is None or None in a or None in b:
            return TensorSpec(FLOAT)
        return TensorSpec(FLOAT, tuple(max(x or 0, y or 0) for x, y in zip(a[:-1], b[:-1], strict=True)))

    @staticmethod
    def kernel(
        a_indices: Array,
        a_values: Array,
        a_shape: Array,
        b_indices: Array,
        b_values: Array,
        b_shape: Array,
        *,
        normalize: bool = True,
    ) -> Array:
        require(a_shape.size == b_shape.size, "hypothesis and truth differ in rank")
        hypothesis = _sequences(a_indices, a_values, a_shape)
        truth = _sequences(b_indices, b_values, b_shape)
        y = np.zeros(np.maximum(a_shape, b_shape)[:-1].tolist(), np.float32)
        for group in hypothesis.keys() | truth.keys():
            y[group] = _distance(hypothesis.get(group, []), truth.get(group, []), normalize)
        return y


def _sequences(indices: Array, values: Array, shape: Array) -> Sequences:
    _places(indices, shape)
    found: Sequences = {}
    for place, value in zip(indices[:, :-1].tolist(), values.tolist(), strict=True):
        found.setdefault(tuple(place), []).append(value)
    return found


def _distance(a: Sequence[Any], b: Sequence[Any], normalize: bool) -> float:
    if normalize and not b:
        return np.inf if a else 0.0
    # One row of the table at a time; from nothing to b takes len(b) insertions.
    before = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (x != y)))
        before = row
    return before[-1] / len(b) if normalize else float(before[-1])
