"""FlexBuffers, written as far as options of custom ops need them: one map from names to numbers.

    root value (offset, type, width)  ->  map: [keys vector, width, count, values, types]  ->  keys

Everything is stored with one width, 4 bytes, or 8 when an integer asks for it. Keys are sorted, since readers
look them up by bisection. Offsets point backwards and are counted from where they stand.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

Number = bool | int | float

# Numbers of FlexBuffers' types. A type byte is the type above two bits that index the widths.
_INT, _FLOAT, _MAP, _BOOL = 1, 3, 9, 26
_WIDTHS = (1, 2, 4, 8)


def encode_map(values: Mapping[str, Number]) -> bytes:
    """The bytes of a map; bool, int (64 bits) and float (32 bits) keep their kind."""
    wide = any(isinstance(v, int) and not -(2**31) <= v < 2**31 for v in values.values())
    width = 8 if wide else 4
    out = bytearray()
    starts = []
    # Sorted letters are sorted UTF-8 bytes, the order in which readers compare keys.
    names = sorted(values)
    for name in names:
        starts.append(len(out))
        out += name.encode() + b"\0"
    out += bytes(-len(out) % width)
    word = "<Q" if wide else "<I"
    out += struct.pack(word, len(names))
    keys = len(out)
    for start in starts:
        out += struct.pack(word, len(out) - start)
    # In front of a map's values: how far back its keys are, their width, and how many there are.
    out += struct.pack(word, len(out) - keys) + struct.pack(word, width) + struct.pack(word, len(names))
    elements = len(out)
    packed_width = _WIDTHS.index(width)
    for name in names:
        out += _stored(values[name], wide)
    # Types take a byte each, whatever the width of the values before them.
    out += bytes(_kind(values[name]) << 2 | packed_width for name in names)
    out += bytes(-len(out) % width)
    out += struct.pack(word, len(out) - elements)
    return bytes(out + bytes((_MAP << 2 | packed_width, width)))


def _kind(value: Number) -> int:
    return _BOOL if isinstance(value, bool) else _INT if isinstance(value, int) else _FLOAT


def _stored(value: Number, wide: bool) -> bytes:
    if isinstance(value, float):
        return struct.pack("<d" if wide else "<f", value)
    return struct.pack("<q" if wide else "<i", value)
