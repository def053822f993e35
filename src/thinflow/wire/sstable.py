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
from thinflow.wire import snappy
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
            return memoryview(snappy.decompress(block)) if compression else block
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
