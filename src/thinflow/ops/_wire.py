"""Protobuf's wire format, for ops whose tensors hold messages.

Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from thinflow.errors import FormatError
from thinflow.typing import Array

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """(number, wire type, value) of each field; a number for varints, bytes for the others.

    Raises:
        FormatError: the bytes are no message.
    """
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        # No field has the number 0: bytes of something else often start so.
        if number == 0:
            raise _damaged(at)
        value: Any
        if kind == VARINT:
            value, at = varint(data, at)
        elif kind in (FIXED64, FIXED32, BYTES):
            length = {FIXED64: 8, FIXED32: 4}.get(kind, -1)
            if length < 0:
                length, at = varint(data, at)
            if length > len(data) - at:
                raise _damaged(at)
            value, at = data[at : at + length], at + length
        else:
            raise _damaged(at)
        yield number, kind, value


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number of up to 64 bits, and where the next thing starts."""
    value = 0
    # Ten bytes of 7 bits at most, as protobuf's own parsers; bits beyond 64 are dropped as they drop them.
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise _damaged(at)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
    raise _damaged(at)


def _damaged(at: int) -> FormatError:
    return FormatError(f"the bytes are no such message, at byte {at}", hint="check what is fed to this node")


def varints(data: bytes) -> list[int]:
    """Packed signed numbers of 64 bits."""
    found: list[int] = []
    at = 0
    while at < len(data):
        value, at = varint(data, at)
        found.append(signed(value))
    return found


def signed(value: int) -> int:
    """A number of 64 bits as two's complement."""
    return value - (1 << 64) if value >> 63 else value


def numbers(data: bytes, kind: str) -> Array:
    """Packed numbers of a fixed size.

    Args:
        kind: numpy's name of the type, little endian.
    """
    element = np.dtype(kind)
    if len(data) % element.itemsize:
        raise _damaged(len(data))
    return np.frombuffer(data, element)


def put_varint(value: int) -> bytes:
    """A number of up to 64 bits; a negative one as two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def put(number: int, value: int | float | bytes) -> bytes:
    """A field: a varint for an int, a float of 32 bits for a float, else with its length in front."""
    if isinstance(value, bytes):
        return put_varint(number << 3 | BYTES) + put_varint(len(value)) + value
    if isinstance(value, float):
        return put_varint(number << 3 | FIXED32) + struct.pack("<f", value)
    return put_varint(number << 3 | VARINT) + put_varint(value)


def put_double(number: int, value: float) -> bytes:
    """A field with a float of 64 bits."""
    return put_varint(number << 3 | FIXED64) + struct.pack("<d", value)
