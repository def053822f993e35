"""WebDataset: tar files in which neighbours of one name but for the suffix are a sample.

a/0001.jpg a/0001.cls a/0002.jpg a/0002.cls     fields jpg and cls; a tar is a shard
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator
from typing import IO, Any

from thinflow.datasets import places
from thinflow.datasets.shard import Damaged, Record, Shard
from thinflow.datasets.source import Source
from thinflow.errors import FormatError

_SUFFIXES = (".tar", ".tar.gz", ".tgz")
_MAGIC = slice(257, 262)
# A member that claims more is no sample.
_MOST_BYTES = 1 << 30


def _claims(path: str, head: bytes) -> bool:
    return places.name_of(path).lower().endswith(_SUFFIXES) or head[_MAGIC] == b"ustar"


def shards(path: str, samples: int) -> Iterator[Shard]:
    """The file: data sets of this kind are cut into files."""
    del samples
    yield Shard("webdataset", (path,), (places.version_of(path),))


def records(shard: Shard) -> Iterator[Record | Damaged]:
    """The samples of a tar, read as a stream.

    Raises:
        FormatError: it is damaged.
    """
    (path,) = shard.files
    places.require_unchanged(path, shard.versions[0])
    key, fields = "", dict[str, Any]()
    with places.opened(path) as file:
        try:
            for name, content in _members(file):
                folder, _, last = name.rpartition("/")
                # Up to the first dot, as WebDataset has it: a.seg.png is the field seg.png of the sample a.
                stem, _, suffix = last.partition(".")
                found = f"{folder}/{stem}" if folder else stem
                if fields and found != key:
                    yield Record(fields, f"{path}, {key}")
                    fields = {}
                key = found
                fields[suffix.lower()] = content
        except _Cut as error:
            if not fields:
                raise FormatError("the tar file is empty", path, "fetch it again") from error
            # A member of the last sample may be missing.
            yield Damaged(f"{path}, {key}", "the tar file ends behind it, without a mark of its end")
            return
        except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
            raise FormatError(
                f"the tar file is damaged: {error}", f"{path}, behind '{key}'", "fetch it again"
            ) from error
    if fields:
        yield Record(fields, f"{path}, {key}")


class _Cut(tarfile.ReadError):
    """The file ends where a member or the mark of the end was to come."""


class _Member(tarfile.TarInfo):
    """A member; `tarfile` itself takes a file that breaks off before one, or a damaged head, for the end."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Member:
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if len(buf) < tarfile.BLOCKSIZE:
                raise _Cut("the file ends without a mark of its end") from error
            if any(buf):
                raise tarfile.ReadError(str(error)) from error
            raise


def _members(file: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file in a tar; nothing is unpacked to disk."""
    # As a stream: no seeking back, so that it works through a network and in a pipe.
    with tarfile.open(fileobj=file, mode="r|*", tarinfo=_Member) as archive:
        for member in archive:
            # macOS puts "._name" beside a file, and folders are no samples.
            if not member.isfile() or places.name_of(member.name).startswith("."):
                continue
            if member.size > _MOST_BYTES:
                raise tarfile.ReadError(f"'{member.name}' claims {member.size} bytes")
            stream = archive.extractfile(member)
            content = b"" if stream is None else stream.read()
            if len(content) != member.size:
                raise tarfile.ReadError(f"the file ends inside '{member.name}'")
            yield member.name, content


SOURCE = Source("webdataset", "WebDataset tars", _claims, shards, records, rank=3)
