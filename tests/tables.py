"""Tables of sorted keys (SSTables) to test with: the same bytes as TensorFlow writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from thinflow.wire.crc32c import crc32c, masked
from thinflow.wire.fields import encode_varint
from thinflow.wire.sstable import FOOTER_BYTES, MAGIC

_TRAILER_BYTES = 5
"""Behind each block: its kind of compression and its checksum."""
_TARGET_BLOCK_BYTES = 256 << 10  # a block is closed once it holds so much


def table_chunks(entries: Iterable[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """A table of entries whose keys increase, piece by piece; the same bytes as TensorFlow writes."""
    position = 0
    index, block = _Block(1), _Block()
    last = b""
    for key, value in entries:
        if block.size >= _TARGET_BLOCK_BYTES:
            yield (chunk := _indexed(index, _separator(last, key), position, block))
            position += len(chunk)
            block = _Block()
        block.add(key, value)
        last = key
    if block.count:
        yield (chunk := _indexed(index, _successor(last), position, block))
        position += len(chunk)
    empty = _Block().finished()
    handles = _handle_bytes(position, empty)
    handles += _handle_bytes(position + len(empty) + _TRAILER_BYTES, index.finished())
    yield _sealed(empty) + _sealed(index.finished())
    yield handles.ljust(FOOTER_BYTES - len(MAGIC), b"\0") + MAGIC


@dataclass
class _Block:
    """A block being written.

    Attributes:
        interval: every so many entries one is written in full.
    """

    interval: int = 16
    count: int = 0
    _out: bytearray = field(default_factory=bytearray)
    _restarts: list[int] = field(default_factory=lambda: [0])
    _before: bytes = b""

    @property
    def size(self) -> int:
        """Bytes it would have if it ended here."""
        return len(self._out) + 4 * len(self._restarts) + 4

    def add(self, key: bytes, value: bytes) -> None:
        """Append an entry; its key is larger than those before."""
        if self.count and self.count % self.interval == 0:
            self._restarts.append(len(self._out))
            self._before = b""
        shared = _common_prefix(self._before, key)
        self._out += encode_varint(shared) + encode_varint(len(key) - shared) + encode_varint(len(value))
        self._out += key[shared:] + value
        self._before = key
        self.count += 1

    def finished(self) -> bytes:
        """The block with its restart positions."""
        tail = [*self._restarts, len(self._restarts)]
        return bytes(self._out) + b"".join(r.to_bytes(4, "little") for r in tail)


def _indexed(index: _Block, key: bytes, position: int, block: _Block) -> bytes:
    """The block as it stands in the file, after a line in the index that says so."""
    finished = block.finished()
    index.add(key, _handle_bytes(position, finished))
    return _sealed(finished)


def _handle_bytes(position: int, block: bytes) -> bytes:
    return encode_varint(position) + encode_varint(len(block))


def _sealed(block: bytes) -> bytes:
    kind = b"\0"
    return block + kind + masked(crc32c(kind, crc32c(block))).to_bytes(4, "little")


def _common_prefix(a: bytes, b: bytes) -> int:
    limit = min(len(a), len(b))
    return next((i for i in range(limit) if a[i] != b[i]), limit)


def _separator(last: bytes, following: bytes) -> bytes:
    """A short key that is not below `last`, and below `following`."""
    at = _common_prefix(last, following)
    if at < min(len(last), len(following)) and last[at] + 1 < following[at]:
        return last[:at] + bytes([last[at] + 1])
    return last


def _successor(last: bytes) -> bytes:
    """A short key that is not below `last`."""
    for i, byte in enumerate(last):
        if byte != 0xFF:
            return last[:i] + bytes([byte + 1])
    return last
