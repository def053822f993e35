"""Riegeli files: records in chunks, as SavedModels in chunks (`.cpb`) are kept.

    [block header of 24 bytes] chunk | chunk | ...          a block header every 64 KiB, also inside of chunks
    chunk: [header of 40 bytes] data, padding

A record is named by a number: where its chunk begins, plus its place in there.
https://github.com/google/riegeli/blob/master/doc/riegeli_records_file_format.md
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from thinflow.errors import FormatError
from thinflow.wire.fields import read_varint
from thinflow.wire.highwayhash import highway_hash

MAGIC = bytes.fromhex("83af70d10d884a3f")

_BLOCK, _BLOCK_HEADER, _CHUNK_HEADER = 1 << 16, 24, 40
_USABLE = _BLOCK - _BLOCK_HEADER
_KEY = (0x2F696C6567656952, 0x0A7364726F636572) * 2  # "Riegeli/records\n", twice
_RECORDS, _TRANSPOSED = b"r", b"t"
_IGNORED = frozenset((b"s", b"m", b"p"))  # signature, metadata, padding
_HASHED_BYTES = 1 << 16  # larger chunks are not hashed here, which would take longer than reading them
_MAX_CHUNK_BYTES = (1 << 31) + (1 << 20)  # a record is a message, or a field of one: 2 GiB at most
_DAMAGED = "copy the file again from where it was written"


@dataclass(frozen=True)
class _Chunk:
    """A chunk of records.

    Attributes:
        begin: byte in the file.
        records: how many there are.
        size: bytes of its data.
        decoded: bytes of all records.
        hash: of its data.
    """

    begin: int
    records: int
    size: int
    decoded: int
    hash: int
    kind: bytes


class Records:
    """The records of a file in a buffer. Opening reads the headers of chunks, asking for a record the rest.

    Raises:
        FormatError: not such a file, or damaged; names the byte.
    """

    def __init__(self, buffer: memoryview) -> None:
        if bytes(buffer[: len(MAGIC)]) != MAGIC:
            raise FormatError("this is no Riegeli file: its first bytes are not those of one")
        self._buffer = buffer
        self._chunks = [chunk for chunk in self._headers() if chunk.records]
        self._begins = [chunk.begin for chunk in self._chunks]
        self._open: tuple[int, list[memoryview]] = (-1, [])

    def last(self) -> memoryview:
        """The last record.

        Raises:
            FormatError: there is none, or it is damaged.
        """
        if not self._chunks:
            raise FormatError("there are no records in it", hint=_DAMAGED)
        return self._unpacked(len(self._chunks) - 1)[-1]

    def at(self, position: int) -> memoryview:
        """The record that a number names.

        Raises:
            FormatError: there is none, or it is damaged.
        """
        number = bisect_right(self._begins, position) - 1
        # Numbers between the last record of a chunk and the beginning of the next one name nothing.
        if number < 0 or position - self._begins[number] >= self._chunks[number].records:
            raise FormatError(f"there is no record at {position}", hint=_DAMAGED)
        return self._unpacked(number)[position - self._begins[number]]

    def _headers(self) -> Iterator[_Chunk]:
        begin = 0
        while begin < len(self._buffer):
            chunk = self._header(begin)
            # A chunk takes up at least as many positions as it has records, so that
            # numbers of records stay unique.
            begin = max(_after(begin, _CHUNK_HEADER + chunk.size), _boundary(begin + chunk.records))
            if begin > len(self._buffer):
                raise FormatError("the file ends inside a chunk", f"byte {chunk.begin}", _DAMAGED)
            yield chunk

    def _header(self, begin: int) -> _Chunk:
        header = self._read(begin, _CHUNK_HEADER)
        if highway_hash(header[8:], _KEY) != int.from_bytes(header[:8], "little"):
            raise FormatError("the checksum of a chunk's header is wrong", f"byte {begin}", _DAMAGED)
        # The kind takes one byte of its eight, the number of records the other seven.
        size, digest, records, decoded = (
            int.from_bytes(header[a:b], "little") for a, b in ((8, 16), (16, 24), (25, 32), (32, 40))
        )
        kind = header[24:25]
        if kind == _TRANSPOSED:
            problem, hint = "its records are transposed, which is not read", "write it without that"
            raise FormatError(problem, f"byte {begin}", hint)
        if kind != _RECORDS and kind not in _IGNORED:
            raise FormatError(f"a chunk is of an unknown kind ({kind[0]})", f"byte {begin}")
        if decoded > _MAX_CHUNK_BYTES:
            raise FormatError(f"a chunk says it holds {decoded} bytes", f"byte {begin}", _DAMAGED)
        return _Chunk(begin, records if kind == _RECORDS else 0, size, decoded, digest, kind)

    def _read(self, begin: int, size: int, skip: int = 0) -> bytes:
        """Bytes of a chunk that begins there, block headers left out; the first `skip` of the chunk, too."""
        pieces: list[memoryview] = []
        at, missing = _after(begin, skip), size
        while missing:
            # A block header may begin anywhere in the middle of a chunk; it is no part of its bytes.
            if at % _BLOCK < _BLOCK_HEADER:
                at += _BLOCK_HEADER - at % _BLOCK
            piece = self._buffer[at : at + min(missing, _BLOCK - at % _BLOCK)]
            if not piece:
                raise FormatError("the file ends inside a chunk", f"byte {begin}", _DAMAGED)
            pieces.append(piece)
            at, missing = at + len(piece), missing - len(piece)
        return b"".join(pieces)

    def _unpacked(self, number: int) -> list[memoryview]:
        """The records of a chunk. The one unpacked last is kept: records are asked for in order."""
        if self._open[0] != number:
            chunk = self._chunks[number]
            try:
                self._open = (number, self._decoded(chunk))
            except FormatError as error:
                raise error.at(f"byte {chunk.begin}") from error
        return self._open[1]

    def _decoded(self, chunk: _Chunk) -> list[memoryview]:
        data = memoryview(self._read(chunk.begin, chunk.size, _CHUNK_HEADER))
        if chunk.size <= _HASHED_BYTES and highway_hash(data, _KEY) != chunk.hash:
            raise FormatError("the checksum of a chunk is wrong", hint=_DAMAGED)
        if not data:
            raise FormatError("a chunk of records is empty", hint=_DAMAGED)
        # Compression in one byte, the packed size of the records' sizes, those
        # sizes, then the records themselves.
        size, at = read_varint(data, 1)
        kind, sizes, values = bytes(data[:1]), data[at : at + size], data[at + size :]
        # A varint has at most ten bytes.
        sizes = memoryview(_decompressed(kind, sizes, 10 * chunk.records))
        values = memoryview(_decompressed(kind, values, chunk.decoded))
        records, start, at = [], 0, 0
        for _ in range(chunk.records):
            length, at = read_varint(sizes, at)
            records.append(values[start : start + length])
            start += length
        if start != len(values) or start != chunk.decoded or at != len(sizes):
            raise FormatError("the sizes of a chunk's records do not fit together", hint=_DAMAGED)
        return records


def _after(begin: int, size: int) -> int:
    """End of `size` bytes that begin there, block headers not counted among them."""
    # Chunk position plus overhead as the format's specification computes it; the -1 keeps an end that falls
    # on a block's boundary in front of the next header.
    headers = (size + (begin + _USABLE - 1) % _BLOCK) // _USABLE
    return begin + size + headers * _BLOCK_HEADER


def _boundary(position: int) -> int:
    """The first place from there on where a chunk may begin: not inside of a block header, nor just after."""
    left = _BLOCK - 1 - (position + _BLOCK - 1) % _BLOCK
    return position + max(0, left - (_USABLE - 1))


def _decompressed(kind: bytes, data: memoryview, most: int) -> bytes | memoryview:
    """A piece of a chunk as it was before it was packed.

    Raises:
        FormatError: it is damaged, larger than it may be, or packed in a way that cannot be read.
    """
    if kind == b"\0":
        return data
    size, at = read_varint(data, 0)
    if size > most:
        raise FormatError(f"{size} bytes are packed where {most} fit", hint=_DAMAGED)
    if kind == b"b":
        return _brotli(data[at:], size)
    way = "with Zstandard" if kind == b"z" else f"in an unknown way ({kind[0]})"
    raise FormatError(f"its records are packed {way}, which is not read", hint="write it with Brotli")


def _brotli(data: memoryview, size: int) -> bytes:
    try:
        import brotli
    except ImportError as e:
        problem = "its records are packed with Brotli, and the package brotli is missing"
        raise FormatError(problem, hint="pip install 'thinflow[cpb]'") from e
    unpacker, found = brotli.Decompressor(), bytearray()
    try:
        # One byte more than the header promises is asked for: it tells too long
        # a content from a complete one.
        found += unpacker.process(bytes(data), output_buffer_limit=size + 1)
        while len(found) <= size and not unpacker.is_finished():
            more = unpacker.process(b"", output_buffer_limit=size + 1 - len(found))
            if not more:
                break
            found += more
    except TypeError as e:  # without a limit a small file could fill the memory
        raise FormatError("the package brotli is too old", hint="pip install 'thinflow[cpb]'") from e
    except brotli.error as e:
        raise FormatError(f"what Brotli packed is damaged: {e}", hint=_DAMAGED) from e
    if len(found) != size or not unpacker.is_finished():
        raise FormatError(f"what Brotli packed should give {size} bytes", hint=_DAMAGED)
    return bytes(found)
