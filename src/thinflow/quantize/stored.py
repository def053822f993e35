"""Arrays in .npy files and in members of .npz files, read row by row along their first axis."""

from __future__ import annotations

import io
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from thinflow.errors import FeedError
from thinflow.quantize.plain_rows import PlainBytes, plain_member
from thinflow.typing import Array

# numpy reads the header of an array with a Python parser, and zip members may be packed, encrypted or cut.
UNREADABLE = (
    OSError,
    ValueError,
    TypeError,
    KeyError,
    EOFError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Errors that a damaged .npy or .npz file can raise."""


class Stored:
    """An array in a .npy file or a member of a .npz file, read row by row."""

    def __init__(self, path: Path, member: str | None) -> None:
        # Whole, as a worker has another folder of its own.
        self.path, self.member = path.absolute(), member
        self.where = str(path) if member is None else f"{path}, {member.removesuffix('.npy')}"
        self._walks, self._plain = 0, None
        with self._open() as stream:
            self.shape, self.is_fortran, self.dtype = _read_header(stream, self.where)
            self._header_bytes = stream.tell()
            available = self._stored_bytes(stream)
        if self.dtype.hasobject:
            raise FeedError(
                "Python objects are stored there", self.where, hint="save numbers or fixed-length strings"
            )
        if not self.shape:
            raise FeedError("it is one number, not samples along a first axis", self.where)
        size = math.prod(self.shape) * self.dtype.itemsize
        if not self.shape[0]:
            raise FeedError("there are no samples", self.where, hint="give at least one; 200 are usual")
        # Before any memory is taken: the shape is a claim of the file. The header counts too, so this is no
        # exact check; a row that is cut is found when it is read.
        if not 0 < size <= available:
            raise FeedError(
                f"its shape {list(self.shape)} needs {size} bytes and it has {available}", self.where
            )

    _walks: int
    _plain: PlainBytes | None

    def __len__(self) -> int:
        return self.shape[0]

    def __getstate__(self) -> dict[str, Any]:
        # An open file is of this process alone.
        return {**vars(self), "_walks": 0, "_plain": None}

    def _open(self) -> IO[bytes]:
        try:
            if self.member is None:
                return self.path.open("rb")
            return cast("IO[bytes]", _Member(self.path, self.member))
        except UNREADABLE as e:
            raise FeedError(f"the file cannot be read: {e}", self.where) from e

    def _stored_bytes(self, stream: IO[bytes]) -> int:
        """Length of the file, header included. No seeking: that unpacks a zip member in large pieces."""
        return stream.size if isinstance(stream, _Member) else stream.seek(0, io.SEEK_END)

    def __iter__(self) -> Iterator[Array]:
        return self.rows(0, len(self))

    def rows(self, start: int, stop: int) -> Iterator[Array]:
        """Some of the rows. A packed member is unpacked once more for the second walk, which then keeps it.

        Raises:
            FeedError: the file ends too early, or cannot be read.
        """
        # A row along the first axis is spread over the whole file then.
        if self.is_fortran:
            yield from self._whole()[start:stop]
            return
        row_shape = self.shape[1:]
        row_bytes = math.prod(row_shape) * self.dtype.itemsize
        for number, raw in enumerate(self._raw(start, stop, row_bytes), start):
            if len(raw) != row_bytes:
                raise FeedError(f"the file ends in sample {number} of {len(self)}", self.where)
            yield np.frombuffer(raw, self.dtype).reshape(row_shape)

    def _raw(self, start: int, stop: int, row_bytes: int) -> Iterator[bytes]:
        """The bytes of some rows; the last is short where the file ends."""
        plain = self._as_plain()
        if plain is not None:
            for number in range(start, stop):
                yield _read_plain(plain, self._header_bytes + number * row_bytes, row_bytes, self.where)
            return
        with self._open() as stream:
            _read_header(stream, self.where)
            if start:
                _skip(stream, start * row_bytes, self.where)
            for _ in range(start, stop):
                yield _read(stream, row_bytes, self.where)

    def _as_plain(self) -> PlainBytes | None:
        """A member of an archive without what packs it, from the second walk on: many walk once only."""
        self._walks += 1
        if self._plain is None and self.member is not None and self._walks == 2:
            try:
                self._plain = plain_member(self.path, self.member)
            except UNREADABLE as e:
                raise FeedError(f"the file cannot be read: {e}", self.where) from e
        return self._plain

    def _whole(self) -> Array:
        try:
            if self.member is None:
                return cast("Array", np.load(self.path, mmap_mode="r", allow_pickle=False))
            with np.load(self.path, allow_pickle=False) as members:
                return cast("Array", members[self.member.removesuffix(".npy")])
        except UNREADABLE as e:
            raise FeedError(f"the file cannot be read: {e}", self.where) from e


class _Member(io.BufferedReader):
    """A zip member of `size` bytes unpacked, which closes its archive with it."""

    def __init__(self, path: Path, member: str) -> None:
        self._archive = zipfile.ZipFile(path)
        self.size = self._archive.getinfo(member).file_size
        try:
            super().__init__(cast("Any", self._archive.open(member)))
        # Whatever it is, a leftover archive would keep the file open (and undeletable on Windows).
        except BaseException:
            self._archive.close()
            raise

    def close(self) -> None:
        super().close()
        self._archive.close()


def _skip(stream: IO[bytes], size: int, where: str) -> None:
    try:
        stream.seek(size, io.SEEK_CUR)
    except UNREADABLE as e:
        raise FeedError(f"the file cannot be read: {e}", where) from e


def _read(stream: IO[bytes], size: int, where: str) -> bytes:
    try:
        return stream.read(size)
    except UNREADABLE as e:
        raise FeedError(f"the file cannot be read: {e}", where) from e


def _read_plain(plain: PlainBytes, start: int, size: int, where: str) -> bytes:
    try:
        return plain.read(start, size)
    except OSError as e:
        raise FeedError(f"the file cannot be read: {e}", where) from e


def _read_header(stream: IO[bytes], where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    from numpy.lib import format as npy

    try:
        version = npy.read_magic(stream)
        # Version 3 is laid out as 2; only names of fields may be UTF-8 there, and there are none in plain
        # arrays.
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, is_fortran, element = read(stream)
    except UNREADABLE as e:
        raise FeedError(f"this is no numpy array: {e}", where) from e
    # Both orders are the same for one axis.
    return shape, is_fortran and len(shape) > 1, element
