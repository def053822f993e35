"""A zip archive at the end of other data, as .tflite files carry their lists of labels."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from thinflow.errors import FormatError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_MEMBER_BYTES = 1 << 24
"""The longest vocabularies of real models have some megabytes."""
_MAX_TOTAL_BYTES = 1 << 26
_MAX_MEMBERS = 4096
_END, _END_BYTES = b"PK\x05\x06", 22
_LONGEST_COMMENT = 1 << 16
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)
_DAMAGED = (
    *(zipfile.BadZipFile, RuntimeError, ValueError, NotImplementedError, EOFError, OSError, zlib.error),
    *(struct.error, OverflowError, LookupError),
)


class ZipTail:
    """The files in a zip archive that ends where some data ends; without one there are none.

    Nothing is unpacked to a disk, and names are only looked up. What is read is bounded, whatever the archive
    says of its sizes.

    Args:
        data: all of the data; not copied.

    Raises:
        FormatError: there is an archive, which is damaged or has too many files.
    """

    def __init__(self, data: memoryview | bytes) -> None:
        self._archive: zipfile.ZipFile | None = None
        self._left = _MAX_TOTAL_BYTES
        view = memoryview(data)
        # The end first: almost no file has an archive, and then nothing else is read.
        if _END not in bytes(view[max(0, len(view) - _END_BYTES - _LONGEST_COMMENT) :]):
            return
        try:
            self._archive = zipfile.ZipFile(_Reader(view))
        except _DAMAGED as error:
            raise FormatError(f"the archive behind the model is damaged: {error}") from error
        if len(self._archive.infolist()) > _MAX_MEMBERS:
            raise FormatError(f"the archive behind the model has more than {_MAX_MEMBERS} files")

    @property
    def names(self) -> list[str]:
        """The names of the files."""
        return [] if self._archive is None else self._archive.namelist()

    def read(self, name: str) -> bytes:
        """The content of a file.

        Raises:
            FormatError: there is none of that name, it is damaged or too long.
        """
        if self._archive is None or name not in self._archive.NameToInfo:
            raise FormatError(f"the file '{name}' is not there")
        most = min(MAX_MEMBER_BYTES, self._left)
        try:
            with self._archive.open(name) as member:
                # By what comes out and not by what the archive says comes out.
                content = member.read(most + 1)
        except _DAMAGED as error:
            raise FormatError(f"the file '{name}' cannot be read: {error}") from error
        if len(content) > most:
            raise FormatError(f"the file '{name}' has more than {most >> 20} MiB")
        self._left -= len(content)
        return content


class _Reader(io.RawIOBase):
    """A view of bytes as a file, which costs no copy."""

    def __init__(self, view: memoryview) -> None:
        self._view, self._at = view, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._view)}[whence]
        if start + offset < 0:
            raise ValueError("a place before the beginning")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        target = memoryview(buffer).cast("B")
        part = self._view[self._at : self._at + len(target)]
        target[: len(part)] = part
        self._at += len(part)
        return len(part)


class _Behind(io.BytesIO):
    """A file in memory whose first byte has another place."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self._start = start

    def tell(self) -> int:
        return super().tell() + self._start

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return super().seek(offset - (self._start if whence == io.SEEK_SET else 0), whence) + self._start


def zip_behind(size: int, files: Mapping[str, bytes]) -> bytes:
    """An archive of files, uncompressed, to stand behind so many bytes. The same files give the same bytes.

    Apps map such files into memory, which is why they are not compressed; its offsets count from the first
    byte of all, as LiteRT's own tool writes them.
    """
    target = _Behind(size)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _FIRST_DATE), content)
    return target.getvalue()
