"""Riegeli files: records in chunks, as SavedModels in chunks (`.cpb`) are kept.

    [block header of 24 bytes] chunk | chunk | ...          a block header every 64 KiB, also inside of chunks
    chunk: [header of 40 bytes] data, padding

A record is named by a number: where its chunk begins, plus its place in there.
https://github.com/google/riegeli/blob/master/doc/riegeli_records_file_format.md
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from thinflow.errors import FormatError
from thinflow.wire.fields import read_varint

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


# --- hashes -------------------------------------------------------------------------------------------------
#
# HighwayHash, the 64-bit keyed hash by which Riegeli files notice damage.
#
# Four lanes of 64 bits; https://arxiv.org/abs/1612.06257 describes it. It is for short pieces here:
# four megabytes take a second.


_PACKET = 32
_MASK = (1 << 64) - 1
_LOW = (1 << 32) - 1
# Of the reference implementation, like the order of the steps below: any other number is another hash.
_START_0 = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
_START_1 = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)


def highway_hash(data: bytes | memoryview, key: Sequence[int]) -> int:
    """The hash of some bytes. key: four numbers of 64 bits."""
    state = _State(key)
    whole = len(data) // _PACKET * _PACKET
    for at in range(0, whole, _PACKET):
        state.update(_lanes(data[at : at + _PACKET]))
    if whole < len(data):
        state.update_rest(bytes(data[whole:]))
    return state.finish()


class _State:
    """Two sums and two products of each lane."""

    def __init__(self, key: Sequence[int]) -> None:
        self.m0, self.m1 = list(_START_0), list(_START_1)
        self.v0 = [m ^ k for m, k in zip(self.m0, key, strict=True)]
        self.v1 = [m ^ _halves_swapped(k) for m, k in zip(self.m1, key, strict=True)]

    def update(self, lanes: Sequence[int]) -> None:
        v0, v1, m0, m1 = self.v0, self.v1, self.m0, self.m1
        for i, lane in enumerate(lanes):
            v1[i] = (v1[i] + m0[i] + lane) & _MASK
            m0[i] ^= (v1[i] & _LOW) * (v0[i] >> 32)
            v0[i] = (v0[i] + m1[i]) & _MASK
            m1[i] ^= (v0[i] & _LOW) * (v1[i] >> 32)
        for source, target in ((v1, v0), (v0, v1)):
            for i in (0, 2):
                low, high = _zipped(source[i + 1], source[i])
                target[i] = (target[i] + low) & _MASK
                target[i + 1] = (target[i + 1] + high) & _MASK

    def update_rest(self, rest: bytes) -> None:
        """The last bytes, fewer than a packet."""
        size, odd = len(rest), len(rest) & 3
        packet = bytearray(_PACKET)
        packet[: size - odd] = rest[: size - odd]
        # The places where the reference's vector code puts the last one to three
        # bytes without reading beyond them.
        if size & 16:
            packet[28:] = rest[size - 4 :]
        elif odd:
            tail = rest[size - odd :]
            packet[16:19] = bytes((tail[0], tail[odd >> 1], tail[odd - 1]))
        # The number of bytes left goes into both halves of each lane, so that zeros of
        # padding differ from zeros of data.
        self.v0 = [(v + (size << 32) + size) & _MASK for v in self.v0]
        self.v1 = [_rotated(v >> 32, size) << 32 | _rotated(v & _LOW, size) for v in self.v1]
        self.update(_lanes(packet))

    def finish(self) -> int:
        # Four rounds for 64 bits of hash (the wider hashes take more), each on the lanes crosswise.
        for _ in range(4):
            self.update([_halves_swapped(self.v0[i]) for i in (2, 3, 0, 1)])
        return (self.v0[0] + self.v1[0] + self.m0[0] + self.m1[0]) & _MASK


def _lanes(packet: bytes | bytearray | memoryview) -> list[int]:
    return [int.from_bytes(packet[at : at + 8], "little") for at in range(0, _PACKET, 8)]


def _halves_swapped(x: int) -> int:
    return x >> 32 | (x & _LOW) << 32


def _rotated(half: int, count: int) -> int:
    """32 bits, rotated to the left."""
    return ((half << count) | (half >> (32 - count))) & _LOW


# Which byte of the pair (low lane 0 to 7, high lane 8 to 15) goes where.
_ZIP_LOW = (3, 12, 2, 5, 14, 1, 15, 0)
_ZIP_HIGH = (11, 4, 10, 13, 9, 6, 8, 7)


def _zipped(high: int, low: int) -> tuple[int, int]:
    pair = low.to_bytes(8, "little") + high.to_bytes(8, "little")
    return (
        int.from_bytes(bytes([pair[i] for i in _ZIP_LOW]), "little"),
        int.from_bytes(bytes([pair[i] for i in _ZIP_HIGH]), "little"),
    )
