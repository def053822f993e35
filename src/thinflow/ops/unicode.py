"""Text in other encodings: decoding to code points, encoding, transcoding."""

from __future__ import annotations

import codecs
import re
from functools import cache
from itertools import pairwise

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import INT32, INT64, STRING, DType, TensorSpec
from thinflow.ops._shapes import rank_of
from thinflow.ops._unicode_scripts import script_of
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.strings import _map, _Textual
from thinflow.typing import Array

_MARK = 0xDC00
"""A lone low surrogate, which no text decodes to, plus a length: that many bytes are no text."""


def _marked(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return chr(_MARK + error.end - error.start), error.end


@cache
def _codec(name: str) -> codecs.CodecInfo:
    """Python's codec for one of ICU's names; both ignore case, `-` and `_`."""
    # Here and not at import, for the cache runs it once per encoding only; registering again is harmless.
    codecs.register_error("thinflow.marked", _marked)
    plain = re.sub(r"[-_ ]", "", name).lower()
    try:
        # Without a mark of byte order, ICU takes these to be big endian.
        return codecs.lookup({"utf16": "utf-16-be", "utf32": "utf-32-be"}.get(plain, name))
    except LookupError:
        raise UnsupportedOp(f"'{name}' is no text encoding that is known here", hint="use UTF-8") from None


def _decoded(data: bytes, encoding: str) -> list[tuple[int, int]]:
    """(code point, or minus one for bytes that are no text; number of bytes) for each character."""
    codec = _codec(encoding)
    text, _ = codec.decode(data, "thinflow.marked")
    found: list[tuple[int, int]] = []
    lengths: dict[str, int] = {}
    for character in text:
        point = ord(character)
        # One of the marks that `_marked` put in: its distance is the number of bytes.
        if _MARK < point < 0xE000:
            found.append((-1, point - _MARK))
            continue
        # Codecs do not tell where a character began; encoding it again gives its length.
        if character not in lengths:
            lengths[character] = len(codec.encode(character)[0])
        found.append((point, lengths[character]))
    return found


def _cleaned(
    characters: list[tuple[int, int]], errors: str, replacement: int, controls: bool
) -> list[tuple[int, int]]:
    """The characters, what is wrong among them replaced or left out as `errors` says."""
    kept: list[tuple[int, int]] = []
    for point, length in characters:
        wrong = point < 0 or (controls and point <= 0x1F)
        require(not (wrong and errors == "strict"), "the text is not valid in its encoding", _HINT)
        if wrong and errors == "ignore":
            # Left out of the text, but its bytes still count for the offsets behind it.
            kept.append((-1, length))
        else:
            kept.append((replacement if wrong else point, length))
    return kept


_HINT = "errors='replace' puts a sign in its place"


def _encoded(points: list[int], encoding: str) -> bytes:
    return "".join(map(chr, points)).encode(
        {"UTF-16-BE": "utf-16-be", "UTF-32-BE": "utf-32-be"}.get(encoding, "utf-8")
    )


def _is_character(point: int) -> bool:
    return 0 <= point < 0xD800 or 0xE000 <= point <= 0x10FFFF


@op("UnicodeTranscode")
class UnicodeTranscode(_Textual):
    """y = each string in another encoding; `errors` says what becomes of what is no text."""

    @staticmethod
    def kernel(
        x: Array,
        *,
        input_encoding: str,
        output_encoding: str,
        errors: str = "replace",
        replacement_char: int = 65533,
        replace_control_characters: bool = False,
    ) -> Array:
        def convert(data: bytes) -> bytes:
            found = _cleaned(
                _decoded(data, input_encoding), errors, replacement_char, replace_control_characters
            )
            return _encoded([p for p, _ in found if p >= 0], output_encoding)

        return _map(convert, object, x)


@op("UnicodeDecodeWithOffsets")
class UnicodeDecodeWithOffsets(OpDef):
    """(row splits, code points, byte offsets) of the characters of each string.

    x, n strings -> Tsplits [n+1], int32 [m], int64 [m].
    """

    num_outputs = 3

    @staticmethod
    def infer(x: TensorSpec, *, Tsplits: DType = INT64) -> tuple[TensorSpec, ...]:
        count = None if x.size is None else x.size + 1
        return TensorSpec(Tsplits, (count,)), TensorSpec(INT32, (None,)), TensorSpec(INT64, (None,))

    @staticmethod
    def kernel(
        x: Array,
        *,
        input_encoding: str,
        errors: str = "replace",
        replacement_char: int = 65533,
        replace_control_characters: bool = False,
        Tsplits: DType = INT64,
    ) -> tuple[Array, ...]:
        points, offsets, splits = list[int](), list[int](), [0]
        for data in x.ravel().tolist():
            at = 0
            found = _cleaned(
                _decoded(data, input_encoding), errors, replacement_char, replace_control_characters
            )
            for point, length in found:
                if point >= 0:
                    points.append(point)
                    offsets.append(at)
                at += length
            splits.append(len(points))
        return np.array(splits, Tsplits.numpy()), np.array(points, np.int32), np.array(offsets, np.int64)


@op("UnicodeDecode")
class UnicodeDecode(OpDef):
    """As UnicodeDecodeWithOffsets, without the offsets."""

    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, *, Tsplits: DType = INT64) -> tuple[TensorSpec, ...]:
        return UnicodeDecodeWithOffsets.infer(x, Tsplits=Tsplits)[:2]

    @staticmethod
    def kernel(
        x: Array,
        *,
        input_encoding: str,
        errors: str = "replace",
        replacement_char: int = 65533,
        replace_control_characters: bool = False,
        Tsplits: DType = INT64,
    ) -> tuple[Array, ...]:
        return UnicodeDecodeWithOffsets.kernel(
            x,
            input_encoding=input_encoding,
            errors=errors,
            replacement_char=replacement_char,
            replace_control_characters=replace_control_characters,
            Tsplits=Tsplits,
        )[:2]


@op("UnicodeEncode")
class UnicodeEncode(OpDef):
    """y = strings of the code points of each row.   points int32 [m], splits [n+1] -> [n]."""

    @staticmethod
    def infer(points: TensorSpec, splits: TensorSpec) -> TensorSpec:
        (count,) = rank_of(splits, 1, "splits")
        return TensorSpec(STRING, (None if count is None else max(count - 1, 0),))

    @staticmethod
    def kernel(
        points: Array,
        splits: Array,
        *,
        errors: str = "replace",
        output_encoding: str,
        replacement_char: int = 65533,
    ) -> Array:
        ends = splits.tolist()
        require(
            bool(ends) and ends[0] == 0 and ends[-1] == len(points), "the splits do not fit the code points"
        )
        require(ends == sorted(ends), "the splits go back")
        characters = [(p if _is_character(p) else -1, 0) for p in points.tolist()]
        clean = [p for p, _ in _cleaned(characters, errors, replacement_char, False)]
        y: Array = np.empty(len(ends) - 1, object)
        for row, (start, end) in enumerate(pairwise(ends)):
            y[row] = _encoded([p for p in clean[start:end] if p >= 0], output_encoding)
        return y


@op("UnicodeScript")
class UnicodeScript(OpDef):
    """y = ICU's number of the script of each code point, int32; -1 for what is no code point."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return TensorSpec(INT32, x.shape)

    @staticmethod
    def kernel(x: Array) -> Array:
        return script_of(x)
