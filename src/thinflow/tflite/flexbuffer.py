"""FlexBuffers, read as far as options of custom operators use them: maps, vectors, numbers, text.

A value is its place, the width of its words and its type. Scalars stand in the word itself; everything else
lies before it, as far back as the word says. A size stands in front of what it counts:

    ... keys vector ... [distance to the keys] [width of the keys] [count] values ... [type of each]
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from thinflow.errors import FormatError

Value = None | bool | int | float | str | bytes | list["Value"] | dict[str, "Value"]

_NULL, _INT, _UINT, _FLOAT, _KEY, _TEXT = range(6)
_INDIRECT = {6: _INT, 7: _UINT, 8: _FLOAT}
"""Numbers that stand elsewhere, as those wider than their neighbours do."""
_MAP, _VECTOR, _BLOB, _BOOL, _BOOLS = 9, 10, 25, 26, 36
# Vectors of one type have no bytes of types behind them; those of a fixed length no count in front.
_TYPED = {11: _INT, 12: _UINT, 13: _FLOAT, 14: _KEY, 15: _TEXT, _BOOLS: _BOOL}
_FIXED = {16 + 3 * n + kind: (n + 2, (_INT, _UINT, _FLOAT)[kind]) for n in range(3) for kind in range(3)}
_CODES = {_INT: "bhiq", _UINT: "BHIQ", _BOOL: "BHIQ", _FLOAT: " efd"}
_MOST_DEPTH, _MOST_VALUES = 16, 1 << 16


def decode(data: bytes) -> Value:
    """The value in a buffer.

    Raises:
        FormatError: the bytes are no FlexBuffer, or lead out of it or round in circles.
    """
    if len(data) < 3:
        raise FormatError(f"{len(data)} bytes are no FlexBuffer")
    width, packed = data[-1], data[-2]
    return _Reader(data).value(len(data) - 2 - width, width, packed, 0)


@dataclass
class _Reader:
    """A buffer while it is read.

    Attributes:
        left: values that may still come, which bounds what circles and shared parts unfold to.
    """

    data: bytes
    left: int = _MOST_VALUES

    def value(self, place: int, width: int, packed: int, depth: int) -> Value:
        """The value whose word of `width` bytes stands at a place; its type and own width are packed."""
        self.left -= 1
        if depth > _MOST_DEPTH or self.left < 0:
            raise FormatError("a FlexBuffer is nested too deeply, or too large")
        kind, own = packed >> 2, 1 << (packed & 3)
        if kind == _NULL:
            return None
        if kind in _CODES:
            return self._number(place, width, kind)
        start = place - self._unsigned(place, width)
        if kind in _INDIRECT:
            return self._number(start, own, _INDIRECT[kind])
        if kind == _KEY:
            return self._key(start)
        if kind in (_TEXT, _BLOB):
            content = self._bytes(start, self._unsigned(start - own, own))
            return content.decode("utf-8", "surrogateescape") if kind == _TEXT else content
        return self._several(start, own, kind, depth)

    def _several(self, start: int, own: int, kind: int, depth: int) -> Value:
        if kind in _FIXED:
            count, inner = _FIXED[kind]
        else:
            count, inner = self._unsigned(start - own, own), _TYPED.get(kind, _NULL)
        if count > self.left:
            raise FormatError(f"a FlexBuffer has {count} values, more than it may have here")
        if kind in (_MAP, _VECTOR):
            types = self._bytes(start + count * own, count)
        elif inner:
            types = bytes([inner << 2]) * count
        else:
            raise FormatError(f"a FlexBuffer has a value of type {kind}")
        values = [self.value(start + n * own, own, t, depth + 1) for n, t in enumerate(types)]
        return dict(zip(self._keys(start, own, count), values, strict=True)) if kind == _MAP else values

    def _keys(self, start: int, own: int, count: int) -> list[str]:
        place = start - 3 * own
        keys, width = place - self._unsigned(place, own), self._unsigned(start - 2 * own, own)
        places = (keys + n * width for n in range(count))
        return [self._key(p - self._unsigned(p, width)) for p in places]

    def _number(self, place: int, width: int, kind: int) -> bool | int | float:
        codes = _CODES[kind]
        code = codes[width.bit_length() - 1] if width in (1, 2, 4, 8) else " "
        if code == " ":
            raise FormatError(f"a FlexBuffer has a number of {width} bytes")
        (number,) = struct.unpack(f"<{code}", self._bytes(place, width))
        return bool(number) if kind == _BOOL else number

    def _unsigned(self, place: int, width: int) -> int:
        return int(self._number(place, width, _UINT))

    def _key(self, place: int) -> str:
        end = self.data.find(b"\0", place) if place >= 0 else -1
        if end < 0:
            raise FormatError("a key of a FlexBuffer has no end")
        return self.data[place:end].decode("utf-8", "surrogateescape")

    def _bytes(self, place: int, count: int) -> bytes:
        if place < 0 or place + count > len(self.data):
            raise FormatError("a FlexBuffer leads out of its bytes")
        return self.data[place : place + count]
