"""Messages as decoded values, for tensors whose elements are messages; small ones, in memory as a whole."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from thinflow.errors import FormatError
from thinflow.wire.fields import (
    FIXED32,
    FIXED64,
    LENGTH_DELIMITED,
    VARINT,
    encode_varint,
    field_header,
    iter_fields,
    read_varint,
)

_HINT = "check what is fed to this node"


def iter_values(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """(number, wire type, value) of each field; an unsigned number for varints, bytes for the others.

    Raises:
        FormatError: the bytes are no message.
    """
    try:
        for number, wire_type, start, end in iter_fields(data, 0, len(data)):
            yield (
                number,
                wire_type,
                read_varint(data, start)[0] if wire_type == VARINT else data[start:end],
            )
    except FormatError as e:
        raise FormatError(f"the bytes are no such message, at {e.where}: {e.problem}", hint=_HINT) from None


def iter_messages(data: bytes, number: int) -> Iterator[bytes]:
    """The length-delimited values of a repeated field."""
    for found, _, value in iter_values(data):
        if found == number and isinstance(value, bytes):
            yield value


def packed_varints(data: bytes) -> list[int]:
    """Packed signed numbers of 64 bits."""
    numbers: list[int] = []
    at = 0
    while at < len(data):
        value, at = read_varint(data, at)
        # int64 fields hold negative numbers as two's complement of 64 bits, not zigzag.
        numbers.append(signed(value))
    return numbers


def signed(value: int) -> int:
    """A number of 64 bits as two's complement."""
    return value - (1 << 64) if value >> 63 else value


def put(number: int, value: int | float | bytes) -> bytes:
    """A field: a varint for an int, a float of 32 bits for a float, else with its length in front."""
    if isinstance(value, bytes):
        return field_header(number, LENGTH_DELIMITED) + encode_varint(len(value)) + value
    if isinstance(value, float):
        return field_header(number, FIXED32) + struct.pack("<f", value)
    return field_header(number, VARINT) + encode_varint(value)


def put_double(number: int, value: float) -> bytes:
    """A field with a float of 64 bits."""
    return field_header(number, FIXED64) + struct.pack("<d", value)
