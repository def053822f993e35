"""TFRecord files of tf.Example, plain or packed with gzip, zlib or Snappy; all checksums are compared.

A plain file on this machine is cut between records, which costs reading their headers; any other is one
shard.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import IO, Any

from thinflow.datasets import places
from thinflow.datasets.shard import Damaged, Record, Shard
from thinflow.datasets.source import Source
from thinflow.errors import FeedError, FormatError
from thinflow.ops._example import example
from thinflow.wire.crc32c import crc32c, masked
from thinflow.wire.sstable import MAX_CONTENT_BYTES, decompress
from thinflow.wire.tfrecord import FOOTER_BYTES, HEADER_BYTES, starts_record

# The format has no magic number but a checksum; what is packed has not even that, so names count, too.
_SUFFIXES = (".tfrecord", ".tfrecords", ".tfrec")
_GZIP = b"\x1f\x8b"
_PIECE = 1 << 18
# A record that claims more is refused: protobuf messages are smaller than 2 GB.
_MOST_BYTES = 1 << 30
_DAMAGED = "the file is damaged or was cut short; fetch it again"


def _claims(path: str, head: bytes) -> bool:
    # `train.tfrecord-00000-of-00010` is how TensorFlow's tools number files.
    name = places.name_of(path).lower()
    return any(f"{suffix}" in name for suffix in _SUFFIXES) or starts_record(head)


def shards(path: str, samples: int) -> Iterator[Shard]:
    """Stretches of so many records; one shard of a file that cannot be cut."""
    version = places.version_of(path)
    with places.opened(path) as file:
        head = file.read(HEADER_BYTES)
        if not head:
            return
        # A packed stream can be read from its beginning only; over a network each header would be a
        # request.
        if places.is_url(path) or not starts_record(head):
            yield Shard("tfrecord", (path,), (version,))
            return
        cuts, count = _cuts(file, samples)
    for number, start in enumerate(cuts):
        stop = cuts[number + 1] if number + 1 < len(cuts) else None
        first = number * samples
        yield Shard("tfrecord", (path,), (version,), start, stop, first, size=min(samples, count - first))


def _cuts(file: IO[bytes], samples: int) -> tuple[list[int], int]:
    """Bytes where shards begin, and how many records there are; where the headers stop making sense, the last
    shard has the rest.
    """
    # By seeking from header to header: a hundred thousand records take a tenth of a second.
    end = file.seek(0, 2)
    at, number, found = 0, 0, [0]
    while at < end:
        if number and number % samples == 0:
            found.append(at)
        file.seek(at)
        head = file.read(HEADER_BYTES)
        # Whoever reads the shard finds the damage, and names it.
        if not starts_record(head):
            break
        at += HEADER_BYTES + struct.unpack("<Q", head[:8])[0] + FOOTER_BYTES
        number += 1
    return found, number


def records(shard: Shard) -> Iterator[Record | Damaged]:
    """The Examples: name of the feature -> its values, a list of one as itself.

    Raises:
        FormatError: the file is damaged, so that what follows cannot be told.
    """
    (path,) = shard.files
    places.require_unchanged(path, shard.versions[0])
    with places.opened(path) as file:
        file.seek(shard.start)
        # A shard that begins inside is of a plain file: only those are cut.
        stream = _Unpacked(file, path) if not shard.start else file
        at, number = shard.start, shard.first
        while shard.stop is None or at < shard.stop:
            where = f"{path}, record {number}"
            try:
                data = _next(stream, where)
            except zlib.error as error:
                raise FormatError(f"the packed data is damaged: {error}", where, _DAMAGED) from error
            if data is None:
                return
            content, is_good = data
            at += HEADER_BYTES + len(content) + FOOTER_BYTES
            number += 1
            yield _record(content, where) if is_good else Damaged(where, "its checksum is wrong")


def _next(stream: Any, where: str) -> tuple[bytes, bool] | None:
    """The data of the next record and whether its checksum holds; None at the end."""
    head = _exactly(stream, HEADER_BYTES, where, may_end=True)
    if not head:
        return None
    if not starts_record(head):
        raise FormatError("the checksum of its length is wrong", where, _DAMAGED)
    (length,) = struct.unpack("<Q", head[:8])
    if length > _MOST_BYTES:
        raise FormatError(f"it says it has {length} bytes", where, _DAMAGED)
    data = _exactly(stream, length, where)
    (stored,) = struct.unpack("<I", _exactly(stream, FOOTER_BYTES, where))
    return data, bool(stored == masked(crc32c(data)))


def _exactly(stream: Any, size: int, where: str, *, may_end: bool = False) -> bytes:
    """So many bytes; in pieces, since the size may be a lie and the file short."""
    pieces: list[bytes] = []
    left = size
    while left and (piece := stream.read(min(left, _PIECE))):
        pieces.append(piece)
        left -= len(piece)
    if left and (pieces or not may_end):
        raise FormatError(f"the file ends inside it, {left} bytes too early", where, _DAMAGED)
    return b"".join(pieces)


def _record(data: bytes, where: str) -> Record | Damaged:
    try:
        features = example(data)
    except (FormatError, FeedError, ValueError) as error:
        return Damaged(where, f"it is no tf.Example: {error}")
    fields = {}
    for name, feature in features.items():
        values = feature.values
        # A feature is always a list; of one value nobody means a list of one.
        fields[name.decode("utf-8", "replace")] = values[0] if len(values) == 1 else values
    return Record(fields, where)


class _Unpacked:
    """A stream of what is packed in another; told by its first bytes."""

    def __init__(self, file: IO[bytes], path: str) -> None:
        self._file, self._path = file, path
        head = file.read(HEADER_BYTES)
        file.seek(0)
        self._held = bytearray()
        self._inflater: Any = None
        self._is_plain = starts_record(head)
        if head[:2] == _GZIP:
            self._inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
        # zlib's header: deflate with a window of 32 KiB, and a checksum of five bits.
        elif len(head) > 1 and head[0] == 0x78 and int.from_bytes(head[:2], "big") % 31 == 0:
            self._inflater = zlib.decompressobj()

    def read(self, size: int) -> bytes:
        """Up to so many bytes; none at the end."""
        if self._is_plain:
            return self._file.read(size)
        while len(self._held) < size and self._fill(size - len(self._held)):
            pass
        found = bytes(self._held[:size])
        del self._held[:size]
        return found

    def _fill(self, wanted: int) -> bool:
        if self._inflater is None:
            return self._fill_snappy()
        # At most what is wanted: kilobytes may hold gigabytes of zeros.
        packed = self._inflater.unconsumed_tail or self._file.read(_PIECE)
        if not packed:
            if not self._inflater.eof:
                raise FormatError("the packed data ends too early", self._path, _DAMAGED)
            return False
        self._held += self._inflater.decompress(packed, max(wanted, _PIECE))
        if self._inflater.eof and self._inflater.unused_data:
            # gzip files may be several, one after the other.
            rest = self._inflater.unused_data
            self._inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
            self._held += self._inflater.decompress(rest, max(wanted, _PIECE))
        return True

    def _fill_snappy(self) -> bool:
        """One block: four bytes of length, the highest first, and so many of Snappy's."""
        head = self._file.read(4)
        if not head:
            return False
        size = int.from_bytes(head, "big")
        if len(head) < 4 or not 0 < size <= MAX_CONTENT_BYTES:
            raise FormatError(
                "it holds no records: neither plain nor packed with gzip, zlib or Snappy",
                self._path,
                _DAMAGED,
            )
        self._held += decompress(_exactly(self._file, size, f"{self._path}, a Snappy block"))
        return True


SOURCE = Source("tfrecord", "TFRecord files of tf.Example", _claims, shards, records, rank=2)
