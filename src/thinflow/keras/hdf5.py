"""Groups, attributes and arrays of an HDF5 file.

Keras writes files of the form that HDF5 has had since 1998, and these are read here: the library crashes at
damaged ones, unpacks kilobytes to terabytes, and follows links to other files. Arrays are views of the mapped
file. What is of a newer form goes to the package h5py.
"""

from __future__ import annotations

import io
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from thinflow.errors import FormatError
from thinflow.keras.hdf5_arrays import elements
from thinflow.keras.hdf5_objects import DAMAGED, Attribute, Bytes, Header, NewerForm, children, read_header
from thinflow.keras.hdf5_package import open_by_package
from thinflow.typing import Array

_ROOT = 64
"""Place of the root group's address in a superblock of version 0; version 1 has four bytes more before."""
_END = 40
"""Place of the size of the whole file, in the same superblock."""
# An attribute holds 64 kB: Keras cuts longer lists of names into name0, name1 and so on.
_SPLIT_NAMES = 10_000


class Group(Protocol):
    """A group of an HDF5 file.

    Attributes:
        path: its place in the file, for messages.
    """

    path: str

    def __contains__(self, path: str) -> bool: ...

    def names(self) -> list[str]:
        """What is in it."""

    def group(self, path: str) -> Group | None:
        """A group below; None if there is none."""

    def array(self, path: str) -> Array | None:
        """The elements of a dataset below; None if there is none."""

    def text(self, name: str) -> str | None:
        """An attribute that is a text; None if there is none."""

    def texts(self, name: str) -> list[str] | None:
        """An attribute that is a list of texts, or one split into name0, name1...; None if there is none."""

    def close(self) -> None:
        """Close the file, of which nothing can be read any more."""


def open_hdf5(source: str | os.PathLike[str] | bytes, where: str, *, by_package: bool = False) -> Group:
    """The root of an HDF5 file, given by its path or as its bytes.

    Args:
        source: the path, or the bytes.
        where: what to call it in messages.
        by_package: whether h5py is to read it, of whatever form it is.

    Raises:
        NewerForm: also later, from what is inside: it is to be read by the package.
        FormatError: it is none, or damaged.
        EngineUnavailable: it is of a newer form, and h5py is not installed.
    """
    data = memoryview(source) if isinstance(source, bytes) else _mapped(source, where)
    file = Bytes(data, where)
    try:
        if by_package:
            raise NewerForm
        with _guarded(where):
            # Version of the superblock, then sizes of offsets and lengths: 8 bytes in all HDF5 of 64 bits.
            if file.byte(8) > 1 or (file.byte(13), file.byte(14)) != (8, 8):
                raise NewerForm
            shift = 4 if file.byte(8) else 0
            root, end = file.number(_ROOT + shift, 8), file.number(_END + shift, 8)
            if end > len(data):
                problem = f"the file is cut short: it has {len(data)} bytes of {end}"
                raise FormatError(problem, where, "fetch it again")
            return OwnGroup(file, where, read_header(file, root))
    except NewerForm:
        return open_by_package(io.BytesIO(source) if isinstance(source, bytes) else source, len(data), where)


def _mapped(path: str | os.PathLike[str], where: str) -> memoryview:
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            raise FormatError("the file is empty", where, DAMAGED)
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


@contextmanager
def _guarded(where: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, IndexError, OverflowError, ArithmeticError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"the HDF5 data cannot be read: {error}", where, DAMAGED) from error


class OwnGroup:
    """A group of a file of the old form."""

    def __init__(self, file: Bytes, path: str, header: Header) -> None:
        self._file, self.path, self._header = file, path, header
        self._children: dict[str, int] | None = None
        self._groups: dict[str, OwnGroup] = {}

    def _places(self) -> dict[str, int]:
        if self._children is None:
            with _guarded(self.path):
                self._children = children(self._file, self._header)
        return self._children

    def names(self) -> list[str]:
        return list(self._places())

    def __contains__(self, path: str) -> bool:
        return self._find(path) is not None

    def _find(self, path: str) -> Header | None:
        here: OwnGroup = self
        steps = [step for step in path.split("/") if step]
        for number, step in enumerate(steps):
            # Weights are looked for by whole paths: groups on the way are read once, not for each of them.
            inner = here._groups.get(step)
            if inner is None:
                header = here._header_of(step)
                if header is None or not header.is_group:
                    return header if number == len(steps) - 1 else None
                inner = here._groups[step] = OwnGroup(self._file, f"{here.path}/{step}", header)
            here = inner
        return here._header

    def _header_of(self, name: str) -> Header | None:
        place = self._places().get(name)
        if place is None:
            return None
        with _guarded(f"{self.path}/{name}"):
            return read_header(self._file, place)

    def group(self, path: str) -> OwnGroup | None:
        found = self._find(path)
        is_group = found is not None and found.is_group
        return OwnGroup(self._file, f"{self.path}/{path}", found) if found is not None and is_group else None

    def array(self, path: str) -> Array | None:
        found = self._find(path)
        if found is None or found.is_group:
            return None
        with _guarded(f"{self.path}/{path}"):
            return elements(self._file, found, f"{self.path}/{path}")

    def _attribute(self, name: str) -> Attribute | None:
        with _guarded(self.path):
            return self._header.attributes(self._file).get(name)

    def text(self, name: str) -> str | None:
        found = self._attribute(name)
        if found is None:
            return None
        with _guarded(f"{self.path}, attribute {name}"):
            texts = found.texts(self._file)
        return texts[0] if len(texts) == 1 else None

    def texts(self, name: str) -> list[str] | None:
        found = self._attribute(name)
        parts = [found] if found is not None else []
        if found is None:
            for number in range(_SPLIT_NAMES):
                part = self._attribute(f"{name}{number}")
                if part is None:
                    break
                parts.append(part)
        if not parts:
            return None
        with _guarded(f"{self.path}, attribute {name}"):
            return [text for part in parts for text in part.texts(self._file)]

    def close(self) -> None:
        """Nothing to do: the mapping lives as long as arrays are views of it."""
