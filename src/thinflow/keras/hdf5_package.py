"""HDF5 files of newer forms, read by h5py with the doors closed that HDF5 leaves open.

HDF5 may keep data in other files (external links, external storage, virtual datasets), claim sizes that are
not there, and unpack kilobytes to terabytes. Keras uses none of this, so a file that does is refused.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from thinflow.errors import EngineUnavailable, FormatError

if TYPE_CHECKING:
    import os

    import numpy as np

    from thinflow.typing import Array

_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError, zlib.error)
"""What h5py raises at damaged files."""
_DAMAGED = "the file is damaged or was cut short; fetch it again"
_HARMLESS_FILTERS = frozenset({1, 2, 3})
"""HDF5's own numbers: deflate, shuffle, fletcher32."""
_DEFLATE = 1
_MAX_RATIO = 1100
"""Deflate packs at most 1032 to 1."""
_MAX_RANK = 32
_SPLIT_NAMES = 10_000


def h5py_module() -> Any:
    """The package h5py.

    Raises:
        EngineUnavailable: it is not installed.
    """
    try:
        import h5py
    except ImportError as error:
        raise EngineUnavailable(
            "this HDF5 file is of a newer form, which needs the package h5py",
            hint="pip install 'thinflow[keras]'",
        ) from error
    return h5py


@contextmanager
def _guarded(where: str) -> Iterator[None]:
    try:
        yield
    except _ERRORS as error:
        text = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise FormatError(f"the HDF5 data cannot be read: {text}", where, _DAMAGED) from error


class PackageGroup:
    """A group of an HDF5 file, read by h5py.

    Attributes:
        path: its place in the file, for messages.
    """

    def __init__(self, handle: Any, path: str, size_bytes: int) -> None:
        self._handle = handle
        self.path = path
        self._size = size_bytes

    def __contains__(self, path: str) -> bool:
        return self._find(path) is not None

    def close(self) -> None:
        """Close the file, of which no group can be read any more."""
        self._handle.file.close()

    def names(self) -> list[str]:
        """What is in it."""
        with _guarded(self.path):
            return [str(name) for name in self._handle]

    def group(self, path: str) -> PackageGroup | None:
        """A group below; None if there is none.

        Raises:
            FormatError: the way there leads out of the file.
        """
        found = self._find(path)
        is_group = found is not None and isinstance(found, h5py_module().Group)
        return PackageGroup(found, f"{self.path}/{path}", self._size) if is_group else None

    def array(self, path: str) -> Array | None:
        """The elements of a dataset below; None if there is none.

        Raises:
            FormatError: they are not all in this file, or larger than it could hold.
        """
        found = self._find(path)
        if found is None or not isinstance(found, h5py_module().Dataset):
            return None
        return _elements(found, f"{self.path}/{path}", self._size)

    def text(self, name: str) -> str | None:
        """An attribute that is a text; None if there is none."""
        value = self._attribute(name)
        if value is None:
            return None
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        return value if isinstance(value, str) else None

    def texts(self, name: str) -> list[str] | None:
        """An attribute that is a list of texts. HDF5 limits attributes to 64 kB: longer lists are split.

        Returns:
            The list; None if there is none.
        """
        value = self._attribute(name)
        if value is not None:
            return _strings(value)
        parts: list[str] = []
        for number in range(_SPLIT_NAMES):
            part = self._attribute(f"{name}{number}")
            if part is None:
                break
            parts += _strings(part)
        return parts or None

    def _attribute(self, name: str) -> Any:
        with _guarded(f"{self.path}, attribute {name}"):
            if name not in self._handle.attrs:
                return None
            identity = self._handle.attrs.get_id(name)
            size = math.prod(identity.shape or ()) * identity.dtype.itemsize
            if size > self._size:
                raise FormatError(f"the attribute '{name}' claims {size} bytes", self.path, _DAMAGED)
            return self._handle.attrs[name]

    def _find(self, path: str) -> Any:
        """What is at a path below, reached by plain links of this file; None if there is nothing."""
        hard, here = h5py_module().HardLink, self._handle
        with _guarded(f"{self.path}/{path}"):
            for step in filter(None, path.split("/")):
                if not isinstance(here, h5py_module().Group) or step not in here:
                    return None
                # Links to elsewhere, and to names, which may lead elsewhere in turn: Keras writes neither.
                if not isinstance(here.get(step, getlink=True), hard):
                    raise FormatError(f"'{step}' is a link to elsewhere", self.path, "do not trust this file")
                here = here[step]
        return here


def open_by_package(source: str | os.PathLike[str] | IO[bytes], size_bytes: int, where: str) -> PackageGroup:
    """The root of an HDF5 file, given by its path or as a file opened for reading.

    Raises:
        FormatError: it is none, or damaged.
        EngineUnavailable: h5py is not installed.
    """
    h5py = h5py_module()
    with _guarded(where):
        return PackageGroup(h5py.File(source, "r"), where, size_bytes)


def _strings(value: Any) -> list[str]:
    import numpy as np

    items = np.asarray(value).ravel().tolist()
    return [i.decode("utf-8", "replace") if isinstance(i, bytes) else str(i) for i in items]


def _elements(dataset: Any, where: str, file_bytes: int) -> Array:
    import numpy as np

    with _guarded(where):
        if dataset.external or dataset.is_virtual:
            raise FormatError("its elements are in another file", where, "do not trust this file")
        kind: np.dtype[Any] = dataset.dtype
        named = dataset.attrs.get("dtype") if "dtype" in dataset.attrs else None
        if kind.hasobject or (kind.kind not in "fiub" and not (kind.kind == "V" and kind.itemsize == 2)):
            raise FormatError(f"its elements are of the type {kind}, not numbers", where)
        if dataset.shape is None or len(dataset.shape) > _MAX_RANK:
            raise FormatError("it holds no elements", where, _DAMAGED)
        _check_size(dataset, where, file_bytes)
        array: Array = dataset[()]
    if named in ("bfloat16", b"bfloat16") and kind.itemsize == 2:
        import ml_dtypes

        return np.asarray(array).view(ml_dtypes.bfloat16)
    return np.asarray(array)


def _check_size(dataset: Any, where: str, file_bytes: int) -> None:
    """Refuse what is not stored in full, or claims more than its bytes can unpack to."""
    size = math.prod(dataset.shape) * dataset.dtype.itemsize
    stored = dataset.id.get_storage_size()
    plist = dataset.id.get_create_plist()
    filters = {int(plist.get_filter(n)[0]) for n in range(plist.get_nfilters())}
    if filters - _HARMLESS_FILTERS:
        raise FormatError("its elements are packed in a way that is not known", where)
    most = stored * _MAX_RATIO if _DEFLATE in filters else stored
    if stored > file_bytes or size > most:
        raise FormatError(
            f"it claims {size} bytes of elements, and {min(stored, file_bytes)} are stored", where, _DAMAGED
        )
    if dataset.chunks is None:
        return
    chunk = math.prod(dataset.chunks) * dataset.dtype.itemsize
    # A chunk at the edge may reach beyond the array, never by more than one array's size in each direction
    # in files that Keras writes.
    if chunk > max(2 * size, 1 << 20) * 2:
        raise FormatError(f"its chunks claim {chunk} bytes each", where, _DAMAGED)
    if _DEFLATE in filters:
        _check_packed(dataset, chunk, where)


def _check_packed(dataset: Any, chunk_bytes: int, where: str) -> None:
    """Refuse chunks that unpack to more than a chunk: HDF5 would go on until memory ends."""
    for number in range(dataset.id.get_num_chunks()):
        place = dataset.id.get_chunk_info(number).chunk_offset
        mask, raw = dataset.id.read_direct_chunk(place)
        if mask:
            continue
        unpacker = zlib.decompressobj()
        # fletcher32 adds four bytes of checksum, outside of or within what is packed.
        unpacked = len(unpacker.decompress(raw, chunk_bytes + 16))
        if unpacked > chunk_bytes + 4 or unpacker.unconsumed_tail:
            raise FormatError("a chunk of it unpacks to more than a chunk can hold", where, _DAMAGED)
