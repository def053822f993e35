"""TFRecord files: one record after the other, each with its length and two checksums.

8 bytes length | 4 bytes masked CRC of those | data | 4 bytes masked CRC of the data
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from thinflow.errors import FormatError
from thinflow.wire.crc32c import crc32c, masked

if TYPE_CHECKING:
    from typing_extensions import Buffer

HEADER_BYTES = 12
FOOTER_BYTES = 4
_DAMAGED = "the file is damaged or was cut short; fetch it again"


def starts_record(head: Buffer) -> bool:
    """True if bytes begin with the header of a record."""
    view = memoryview(head)
    if len(view) < HEADER_BYTES:
        return False
    (stored,) = struct.unpack("<I", view[8:HEADER_BYTES])
    # The format has no magic number: the checksum of the length is what tells such
    # a file, by chance once in 2^32.
    return bool(stored == masked(crc32c(view[:8])))


def records(buffer: memoryview) -> Iterator[memoryview]:
    """The data of each record, as views; checksums of the lengths are checked, those of the data are not.

    Raises:
        FormatError: a record is damaged or cut short; names its number and byte.
    """
    at, number = 0, 0
    while at < len(buffer):
        where = f"record {number} at byte {at}"
        if not starts_record(buffer[at : at + HEADER_BYTES]):
            raise FormatError("the checksum of its length is wrong", where, _DAMAGED)
        (length,) = struct.unpack("<Q", buffer[at : at + 8])
        start = at + HEADER_BYTES
        left = len(buffer) - start - FOOTER_BYTES
        if length > left:
            raise FormatError(f"it says it has {length} bytes, {max(left, 0)} are left", where, _DAMAGED)
        yield buffer[start : start + length]
        at, number = start + length + FOOTER_BYTES, number + 1


def check(buffer: memoryview, data: memoryview, offset: int) -> None:
    """Compare a record's data with its checksum.

    Args:
        buffer: the whole file.
        data: what `records` gave.
        offset: where it begins in the file.

    Raises:
        FormatError: they do not agree.
    """
    end = offset + len(data)
    (stored,) = struct.unpack("<I", buffer[end : end + FOOTER_BYTES])
    if stored != masked(crc32c(data)):
        raise FormatError("the checksum of a record is wrong", f"byte {offset}", _DAMAGED)


def framed(chunks: Sequence[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """One record of the bytes in `chunks`, which are passed on as they are."""
    length = struct.pack("<Q", sum(len(chunk) for chunk in chunks))
    yield length + struct.pack("<I", masked(crc32c(length)))
    crc = 0
    for chunk in chunks:
        # Running over the pieces, so that a record of gigabytes is never put together.
        crc = crc32c(chunk, crc)
        yield chunk
    yield struct.pack("<I", masked(crc))
