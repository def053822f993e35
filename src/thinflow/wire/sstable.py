"""Sorted string tables: the container of checkpoint indexes (`.index`) and of version 1 checkpoints.

    [block][trailer] ... [empty block][trailer] [index block][trailer] [footer of 48 bytes]

A block holds entries whose keys share a prefix with the one before, then restart positions, which only a
binary search needs. A trailer is the compression (0 none, 1 Snappy) and a masked CRC-32C. The index names the
blocks in the order of their keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from thinflow.errors import FormatError, ThinflowError
from thinflow.wire.crc32c import crc32c, masked
from thinflow.wire.fields import read_varint

MAGIC = b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"
# Two handles of two varints, each varint at most ten bytes, padded to 40, then the magic number.
FOOTER_BYTES = 48
_TRAILER_BYTES = 5
_DAMAGED = "copy the file again from where it was written"


def is_table(tail: bytes) -> bool:
    """True if a file that ends so is a table."""
    return len(tail) >= FOOTER_BYTES and tail.endswith(MAGIC)


@dataclass(frozen=True)
class _Handle:
    """The place of a block, without its trailer."""

    offset: int
    size: int


class Table:
    """A table in a buffer. Opening reads the index; a block is read, and verified, when asked for.

    Raises:
        FormatError: not a table, or damaged; names the byte.
    """

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        if not is_table(bytes(buffer[-FOOTER_BYTES:])):
            raise FormatError("this is not a table: its last bytes are not those of one", hint=_DAMAGED)
        footer = buffer[-FOOTER_BYTES:]
        # The first handle is that of the meta index, which LevelDB uses for
        # filters and TensorFlow leaves empty.
        extra, at = _handle(footer, 0)
        self._block(extra)  # of no use, but damage there is damage
        index, _ = _handle(footer, at)
        self._blocks = [(key, _handle(value, 0)[0]) for key, value in self._entries(index)]

    def __iter__(self) -> Iterator[tuple[bytes, memoryview]]:
        """All keys, in order, with their values."""
        last = None
        for _, handle in self._blocks:
            for key, value in self._entries(handle):
                if last is not None and key <= last:
                    raise FormatError("the keys are not in order", f"byte {handle.offset}", _DAMAGED)
                last = key
                yield key, value

    def get(self, key: bytes) -> memoryview | None:
        """The value of one key; None if there is none. Reads one block."""
        for last, handle in self._blocks:
            # The index names a block by a key not below its last one and below the first of the next.
            if key <= last:
                return next((value for found, value in self._entries(handle) if found == key), None)
        return None

    def _entries(self, handle: _Handle) -> Iterator[tuple[bytes, memoryview]]:
        block = self._block(handle)
        try:
            yield from _entries(block)
        except (FormatError, IndexError) as e:
            problem = e.problem if isinstance(e, ThinflowError) else "it ends inside an entry"
            raise FormatError(
                f"a block of the table is damaged: {problem}", f"byte {handle.offset}", _DAMAGED
            ) from e

    def _block(self, handle: _Handle) -> memoryview:
        end = handle.offset + handle.size
        if end + _TRAILER_BYTES > len(self._buffer):
            raise FormatError(
                f"the table ends before byte {end}, where a block should", f"byte {handle.offset}", _DAMAGED
            )
        block, trailer = self._buffer[handle.offset : end], self._buffer[end : end + _TRAILER_BYTES]
        # The checksum covers the compression byte, too, and the block as stored:
        # damage never reaches the unpacking.
        if masked(crc32c(trailer[:1], crc32c(block))) != int.from_bytes(trailer[1:], "little"):
            raise FormatError("the checksum of a block is wrong", f"byte {handle.offset}", _DAMAGED)
        compression = trailer[0]
        if compression > 1:
            raise FormatError(
                f"a block is compressed in an unknown way ({compression})", f"byte {handle.offset}"
            )
        try:
            return memoryview(decompress(block)) if compression else block
        except FormatError as e:
            raise e.at(f"byte {handle.offset}") from e


def _handle(data: memoryview, at: int) -> tuple[_Handle, int]:
    try:
        offset, at = read_varint(data, at)
        size, at = read_varint(data, at)
    except FormatError as e:
        raise FormatError("the table's index is damaged", hint=_DAMAGED) from e
    return _Handle(offset, size), at


def _entries(block: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    """The entries of one block.

    Raises:
        FormatError, IndexError: it is damaged.
    """
    # An empty block still has one restart position, 0, and the number of them.
    if len(block) < 8:
        raise FormatError("it is shorter than the shortest block")
    end = len(block) - 4 - 4 * int.from_bytes(block[-4:], "little")
    if end < 0:
        raise FormatError("it claims more restarts than fit")
    at, key = 0, b""
    while at < end:
        shared, at = read_varint(block, at)
        fresh, at = read_varint(block, at)
        size, at = read_varint(block, at)
        if shared > len(key) or at + fresh + size > end:
            raise FormatError("an entry is longer than the block")
        key = key[:shared] + bytes(block[at : at + fresh])
        at += fresh
        yield key, block[at : at + size]
        at += size


# --- compressed blocks --------------------------------------------------------------------------------------
#
# Snappy's raw block format, reading only: what some releases compressed the blocks of a table with.
#
# A block is the length of its content as a varint, then elements. The lowest two bits of an element's first
# byte say what it is: a literal, or a copy of something already written, whose distance takes one byte and
# three bits, two bytes or four.


MAX_CONTENT_BYTES = 1 << 30
"""A block that claims more is refused: the tables that use this hold blocks of 256 KiB."""
_MAX_RATIO = 22  # the densest element, a copy, stands for 64 bytes in 3


def decompress(block: bytes | memoryview) -> bytes:
    """The content of a block.

    Raises:
        FormatError: it is damaged, or claims an absurd size.
    """
    view = memoryview(block).cast("B")
    try:
        size, at = read_varint(view, 0)
    except (FormatError, IndexError) as e:
        raise _damaged("it has no length") from e
    if size > MAX_CONTENT_BYTES or size > _MAX_RATIO * len(view):
        raise _damaged(f"it claims {size} bytes in {len(view)}")
    out = bytearray()
    while at < len(view):
        at = _element(view, at, out)
        if len(out) > size:
            raise _damaged("it holds more than it claims")
    if len(out) != size:
        raise _damaged(f"it ends after {len(out)} of {size} bytes")
    return bytes(out)


def _element(view: memoryview, at: int, out: bytearray) -> int:
    """Append what one element stands for; where the next one starts."""
    tag = view[at]
    kind = tag & 3
    if kind == 0:
        length = (tag >> 2) + 1
        # Tags of 61 to 64 mean that the length stands in the next one to four bytes.
        extra = max(0, length - 60)
        start = at + 1 + extra
        if extra:
            length = int.from_bytes(view[at + 1 : start], "little") + 1
        if start + length > len(view):
            raise _damaged("a literal runs past the end")
        out += view[start : start + length]
        return start + length
    width = (1, 2, 4)[kind - 1]
    if at + 1 + width > len(view):
        raise _damaged("a copy runs past the end")
    distance = int.from_bytes(view[at + 1 : at + 1 + width], "little")
    length = (tag >> 2) + 1
    if kind == 1:
        # Three bits of length, since a copy below four bytes would save nothing; three
        # bits of distance above the byte's.
        length = ((tag >> 2) & 7) + 4
        distance |= (tag >> 5) << 8
    _copy(out, distance, length)
    return at + 1 + width


def _copy(out: bytearray, distance: int, length: int) -> None:
    """Repeat what stands `distance` bytes back; the source may reach into what is being written."""
    if not 0 < distance <= len(out):
        raise _damaged(f"a copy reaches {distance} bytes back of {len(out)}")
    # A distance shorter than the length repeats a pattern, such as a run of one byte.
    piece = bytes(out[-distance:])[:length]
    out += (piece * (length // len(piece) + 1))[:length]


def _damaged(problem: str) -> FormatError:
    return FormatError(f"a Snappy block is damaged: {problem}", hint="copy the file again from its source")
