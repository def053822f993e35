"""Protobuf's wire format: tags, varints and the fields of a message.

Everything here treats its input as hostile: a length is checked against its surroundings before it is used,
and whatever is malformed raises FormatError with the byte offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from thinflow.errors import FormatError, WriteError

if TYPE_CHECKING:
    from typing_extensions import Buffer

Bytes: TypeAlias = "bytes | memoryview[int]"

# Wire types 3 and 4 were proto1's groups.
VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5

_HINT = "the file may be truncated, damaged or of another format"


def as_bytes(buffer: Buffer) -> Bytes:
    """The buffer as bytes or as a flat view of bytes, without a copy.

    Raises:
        WriteError: the buffer is not contiguous.
    """
    if isinstance(buffer, bytes):
        return buffer
    view = memoryview(buffer)
    if view.format == "B" and view.ndim == 1 and view.contiguous:
        return view
    if not view.c_contiguous:
        raise WriteError("a buffer has gaps", hint="copy it into one piece first")
    return view.cast("B") if view.nbytes else b""  # a view with a zero in its shape cannot be cast


def read_varint(buf: Bytes, pos: int) -> tuple[int, int]:
    """(value, position after it) of the unsigned varint at `pos`.

    Raises:
        FormatError: the buffer ends inside it, or it is longer than 10 bytes.
    """
    try:
        byte = buf[pos]
        if byte < 128:
            # Most varints are tags and short lengths of one byte: they shall not pay for the loop.
            return byte, pos + 1
        value = byte & 127
        # Ten bytes of 7 bits hold 64; the tenth has room for six bits more, which readers drop.
        for k in range(1, 10):
            byte = buf[pos + k]
            value |= (byte & 127) << 7 * k
            if byte < 128:
                return value & 0xFFFF_FFFF_FFFF_FFFF, pos + k + 1
    except IndexError:
        raise malformed("the file ends inside a number", pos) from None
    raise malformed("a number is longer than 10 bytes", pos)


def read_field(buf: Bytes, pos: int, end: int) -> tuple[int, int, int, int]:
    """(number, wire type, value start, value end) of the field at `pos` of a message that ends at `end`.

    The value of a length-delimited field is its payload without the length.

    Raises:
        FormatError: there is no well-formed field of a known wire type, or it goes beyond `end`.
    """
    tag, first = read_varint(buf, pos)
    number, wire_type = tag >> 3, tag & 7
    # A tag is a varint of 32 bits: field numbers end at 2^29 - 1, and 0 is reserved.
    if not number or tag >= 1 << 32:
        raise malformed(f"{number} cannot be a field number", pos)
    if wire_type == LENGTH_DELIMITED:
        size, first = read_varint(buf, first)
        after = first + size
    elif wire_type == VARINT:
        after = read_varint(buf, first)[1]
    elif wire_type == FIXED32:
        after = first + 4
    elif wire_type == FIXED64:
        after = first + 8
    elif wire_type in (3, 4):
        raise malformed("groups are not part of this format", pos)
    else:
        raise malformed(f"{wire_type} is not a wire type", pos)
    if after > end:
        raise malformed(f"field {number} is longer than the rest of its message", pos)
    return number, wire_type, first, after


def iter_fields(buf: Bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """(number, wire type, value start, value end) of each field of the message at [start, end)."""
    if end > len(buf):
        raise malformed(f"the message should end at byte {end}, the file ends at {len(buf)}", start)
    while start < end:
        field = read_field(buf, start, end)
        yield field
        start = field[3]


def field_header(number: int, wire_type: int) -> bytes:
    """The tag of a field."""
    return encode_varint(number << 3 | wire_type)


def encode_varint(n: int) -> bytes:
    """A non-negative integer of up to 64 bits as a varint; a negative one as its 64-bit two's complement."""
    if not -(1 << 63) <= n < 1 << 64:
        raise WriteError(f"{n} does not fit into 64 bits")
    # Negative numbers always take ten bytes so, as int32 and int64 fields have it.
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def malformed(problem: str, pos: int) -> FormatError:
    """The error for bytes that are no message, placed at an offset."""
    return FormatError(problem, f"byte {pos}", hint=_HINT)
