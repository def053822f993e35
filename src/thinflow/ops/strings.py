"""Byte strings: joining, cutting, changing letters, and conversion from and to numbers.

String tensors are object arrays of `bytes`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from thinflow.ir.types import FLOAT, INT32, INT64, STRING, DType, TensorSpec
from thinflow.ops._shapes import broadcast, constant, known_list, merge, normalize_axis, rank_of
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array


def _map(function: Callable[..., Any], result: Any, *xs: Array) -> Array:
    """An array of numpy type `result` with function(one element of each input, ...); the inputs broadcast."""
    # tolist gives Python's own bytes and numbers, with which the functions are faster than with numpy's
    # scalars.
    ready = np.broadcast_arrays(*xs)
    y = np.empty(ready[0].shape, result)
    flat = y.reshape(-1)
    for i, row in enumerate(zip(*(a.reshape(-1).tolist() for a in ready), strict=True)):
        flat[i] = function(*row)
    return y


class _Textual(OpDef):
    """Base of ops from strings to strings, element by element."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return TensorSpec(STRING, x.shape)


@op("StringJoin")
class StringJoin(_Textual):
    """y = the inputs' strings one after the other, with `separator` between; scalars are repeated."""

    @staticmethod
    def infer(*xs: TensorSpec) -> TensorSpec:
        shape = None
        for x in xs:
            if x.shape is None or x.shape:
                shape = merge(shape, x.shape)
        return TensorSpec(STRING, () if all(x.shape == () for x in xs) else shape)

    @staticmethod
    def kernel(*xs: Array, separator: str = "") -> Array:
        shapes = {x.shape for x in xs if x.ndim}
        require(len(shapes) <= 1, f"strings of different shapes: {sorted(list(s) for s in shapes)}")
        return _map(lambda *row: separator.encode().join(row), object, *xs)


@op("StringLength")
class StringLength(OpDef):
    """y = the length of each string, int32: in bytes (`BYTE`) or in characters (`UTF8_CHAR`)."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return TensorSpec(INT32, x.shape)

    @staticmethod
    def kernel(x: Array, *, unit: str = "BYTE") -> Array:
        return _map(len if unit == "BYTE" else lambda s: len(_characters(s)), np.int32, x)


def _characters(text: bytes) -> list[bytes]:
    """The UTF-8 characters; a new one starts at every byte that does not continue one."""
    # Works on damaged text, too: stray continuation bytes belong to what stands before them.
    return re.findall(rb"[\x00-\xff][\x80-\xbf]*", text)


@op("StringUpper")
class StringUpper(_Textual):
    """y = each string in capitals: ASCII letters only, or all with encoding "utf-8"."""

    @staticmethod
    def kernel(x: Array, *, encoding: str = "") -> Array:
        return _map(bytes.upper if not encoding else lambda s: _text(s).upper().encode(), object, x)


@op("StringLower")
class StringLower(_Textual):
    """y = each string in small letters: ASCII letters only, or all with encoding "utf-8"."""

    @staticmethod
    def kernel(x: Array, *, encoding: str = "") -> Array:
        return _map(bytes.lower if not encoding else lambda s: _text(s).lower().encode(), object, x)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


@op("StringStrip")
class StringStrip(_Textual):
    """y = each string without white space at its ends."""

    @staticmethod
    def kernel(x: Array) -> Array:
        return _map(bytes.strip, object, x)


@op("Substr")
class Substr(OpDef):
    """y = length places of each string from pos (negative: from the end), in bytes or `UTF8_CHAR`s."""

    @staticmethod
    def infer(x: TensorSpec, pos: TensorSpec, length: TensorSpec) -> TensorSpec:
        return TensorSpec(STRING, broadcast(x.shape, merge(pos.shape, length.shape)))

    @staticmethod
    def kernel(x: Array, pos: Array, length: Array, *, unit: str = "BYTE") -> Array:
        require(pos.shape == length.shape, "pos and len differ in shape")
        return _map(lambda s, p, n: _cut(s, p, n, unit), object, x, pos, length)


def _cut(text: bytes, pos: int, length: int, unit: str) -> bytes:
    items: Any = text if unit == "BYTE" else _characters(text)
    require(-len(items) <= pos <= len(items), f"pos {pos} is outside a string of {len(items)}")
    start = pos + len(items) if pos < 0 else pos
    found = items[start:] if length < 0 else items[start : start + length]
    return found if unit == "BYTE" else b"".join(found)


def _ragged(rows: list[list[bytes]]) -> tuple[Array, Array, Array]:
    """Rows of different lengths as TensorFlow's sparse triple: indices [n,2], values [n], dense shape [2]."""
    indices = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    values = np.empty(len(indices), object)
    values[:] = [word for row in rows for word in row]
    shape = np.array([len(rows), max((len(r) for r in rows), default=0)], np.int64)
    return np.array(indices, np.int64).reshape(-1, 2), values, shape


_RAGGED = (TensorSpec(INT64, (None, 2)), TensorSpec(STRING, (None,)), TensorSpec(INT64, (2,)))


@op("StringSplit")
class StringSplit(OpDef):
    """(indices, values, shape) = each string of x [n] cut at every byte that is in the delimiter.

    An empty delimiter cuts between all bytes. An empty string has no parts, not even an empty one.
    """

    num_outputs = 3

    @staticmethod
    def infer(x: TensorSpec, delimiter: TensorSpec) -> tuple[TensorSpec, ...]:
        rank_of(x, 1, "x")
        return _RAGGED

    @staticmethod
    def kernel(x: Array, delimiter: Array, *, skip_empty: bool = True) -> tuple[Array, ...]:
        marks = bytes(delimiter.item())
        # A set of single bytes, not a word: "ab" cuts at every a and every b.
        cut = re.compile(b"[" + re.escape(marks) + b"]").split if marks else _single_bytes
        # An empty string has no words at all, rather than one that is empty.
        return _ragged([[w for w in cut(s) if w or (s and not skip_empty)] for s in x.tolist()])


def _single_bytes(text: bytes) -> list[bytes]:
    return [text[i : i + 1] for i in range(len(text))]


@op("StringSplitV2")
class StringSplitV2(OpDef):
    """(indices, values, shape) = each string of x [n] cut as Python's `split(sep, maxsplit)` does.

    An empty sep cuts at white space.
    """

    num_outputs = 3

    @staticmethod
    def infer(x: TensorSpec, sep: TensorSpec) -> tuple[TensorSpec, ...]:
        rank_of(x, 1, "x")
        return _RAGGED

    @staticmethod
    def kernel(x: Array, sep: Array, *, maxsplit: int = -1) -> tuple[Array, ...]:
        mark = bytes(sep.item()) or None
        return _ragged([s.split(mark, maxsplit) for s in x.tolist()])


@op("StringToNumber")
class StringToNumber(OpDef):
    """y = the number each string spells, of `out_type`; white space around it is ignored."""

    @staticmethod
    def infer(x: TensorSpec, *, out_type: DType = FLOAT) -> TensorSpec:
        return TensorSpec(out_type, x.shape)

    @staticmethod
    def kernel(x: Array, *, out_type: DType = FLOAT) -> Array:
        if out_type.kind == "f":
            with np.errstate(over="ignore", under="ignore"):
                return _map(_parse_float, np.float64, x).astype(out_type.numpy())
        limits = np.iinfo(out_type.numpy())
        return _map(lambda s: _parse_int(s, int(limits.min), int(limits.max)), out_type.numpy(), x)


def _parse_float(text: bytes) -> float:
    word = text.strip().decode("latin-1")
    try:
        # C's strtod reads hexadecimal floats.
        if re.match(r"[+-]?0[xX]", word):
            return float.fromhex(word)
        # Python takes underscores between digits, TensorFlow does not.
        if "_" not in word:
            return float(word)
    except ValueError:
        pass
    require(False, f"'{_text(text)}' is not a number")
    return 0.0


def _parse_int(text: bytes, lowest: int, highest: int) -> int:
    word = text.strip()
    require(re.fullmatch(rb"[+-]?[0-9]+", word) is not None, f"'{_text(text)}' is not a whole number")
    value = int(word)
    require(lowest <= value <= highest, f"{value} is outside {lowest}..{highest}")
    return value


@op("ReduceJoin")
class ReduceJoin(OpDef):
    """y = the strings along the listed axes joined with `separator`; the first axis listed varies fastest."""

    @staticmethod
    def infer(x: TensorSpec, axes: TensorSpec, *, keep_dims: bool = False) -> TensorSpec:
        listed = constant(axes)
        if x.shape is None or listed is None:
            return TensorSpec(STRING, (None,) * len(x.shape) if x.shape is not None and keep_dims else None)
        gone = {normalize_axis(int(a), len(x.shape)) for a in listed.ravel()}
        kept = [1 if i in gone else d for i, d in enumerate(x.shape) if keep_dims or i not in gone]
        return TensorSpec(STRING, tuple(kept))

    @staticmethod
    def kernel(x: Array, axes: Array, *, keep_dims: bool = False, separator: str = "") -> Array:
        gone = [normalize_axis(int(a), x.ndim) for a in axes.ravel()]
        require(len(set(gone)) == len(gone), f"an axis appears twice in {axes.tolist()}")
        if not gone:
            return x
        kept = [a for a in range(x.ndim) if a not in gone]
        sizes = [x.shape[a] for a in kept]
        joined = int(np.prod([x.shape[a] for a in gone]))
        # The last axis varies fastest in memory, so the first listed axis goes last.
        rows = x.transpose(kept + gone[::-1]).reshape(int(np.prod(sizes, dtype=np.int64)), joined)
        y = np.empty(len(rows), object)
        y[:] = [separator.encode().join(row) for row in rows.tolist()]
        return y.reshape([1 if a in gone else d for a, d in enumerate(x.shape)] if keep_dims else sizes)


@op("EncodeBase64")
class EncodeBase64(_Textual):
    """y = each string in web-safe base64, without padding unless `pad`."""

    @staticmethod
    def kernel(x: Array, *, pad: bool = False) -> Array:
        encode = base64.urlsafe_b64encode
        return _map(encode if pad else lambda s: encode(s).rstrip(b"="), object, x)


@op("DecodeBase64")
class DecodeBase64(_Textual):
    """y = each web-safe base64 string decoded, padded or not."""

    @staticmethod
    def kernel(x: Array) -> Array:
        return _map(_decode_base64, object, x)


def _decode_base64(text: bytes) -> bytes:
    body = text.rstrip(b"=")
    require(re.fullmatch(rb"[A-Za-z0-9_-]*", body) is not None, f"'{_text(text)}' is not web-safe base64")
    try:
        # Python insists on the padding that web-safe texts leave out.
        return base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4))
    except binascii.Error as error:
        require(False, f"'{_text(text)}' is not base64: {error}")
        raise


@op("DecodeRaw")
class DecodeRaw(OpDef):
    """y = the bytes of each string as numbers of `out_type`.   x [...] -> y [..., length / item size]."""

    decodes = "bytes"

    @staticmethod
    def infer(x: TensorSpec, *, out_type: DType) -> TensorSpec:
        return TensorSpec(out_type, None if x.shape is None else (*x.shape, None))

    @staticmethod
    def kernel(x: Array, *, out_type: DType, little_endian: bool = True) -> Array:
        words = x.ravel().tolist()
        length = len(words[0]) if words else 0
        require(all(len(w) == length for w in words), "the strings differ in length")
        return _as_numbers(words, x.shape, length, out_type, little_endian)


@op("DecodePaddedRaw")
class DecodePaddedRaw(OpDef):
    """DecodeRaw of strings cut or zero-padded to fixed_length bytes."""

    decodes = "bytes"

    @staticmethod
    def infer(x: TensorSpec, fixed_length: TensorSpec, *, out_type: DType) -> TensorSpec:
        (length,) = known_list(fixed_length) or (None,)
        width = None if length is None or not out_type.itemsize else length // out_type.itemsize
        return TensorSpec(out_type, None if x.shape is None else (*x.shape, width))

    @staticmethod
    def kernel(x: Array, fixed_length: Array, *, out_type: DType, little_endian: bool = True) -> Array:
        length = int(fixed_length)
        require(length > 0, f"fixed_length is {length}, it must be positive")
        words = [w[:length].ljust(length, b"\0") for w in x.ravel().tolist()]
        return _as_numbers(words, x.shape, length, out_type, little_endian)


def _as_numbers(
    words: list[bytes], shape: tuple[int, ...], length: int, out_type: DType, little: bool
) -> Array:
    element = out_type.numpy()
    require(length % element.itemsize == 0, f"{length} bytes are not a whole number of {out_type}")
    # The second astype brings big-endian numbers into the machine's order.
    numbers = np.frombuffer(b"".join(words), element if little else element.newbyteorder(">")).astype(element)
    return numbers.reshape(*shape, length // element.itemsize)
