"""The archive of an exported PyTorch program: a zip of JSON and raw tensors, read without unpickling.

NAME/archive_format                              the text "pt2"
NAME/byteorder                                   "little"
NAME/models/MODEL.json                           the program
NAME/data/weights/MODEL_weights_config.json      name of a parameter -> its file, type, sizes and strides
NAME/data/weights/weight_0 ...                   bytes of a storage, which several tensors may share
NAME/data/constants/...                          the same of constants
"""

from __future__ import annotations

import math
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence

from thinflow.errors import FormatError, UnsupportedOp
from thinflow.formats._json_fields import Object, as_int, as_list, as_object, as_text, only_field, parsed
from thinflow.formats.files import map_file
from thinflow.ir.tensor import RawStorage, Tensor
from thinflow.ir.types import DType, dtype
from thinflow.ir.vocabulary import EXPORT_HINT

_FORMAT, _ORDER = "archive_format", "byteorder"
_OLD = "serialized_exported_program.json"
"""The program in files of PyTorch before 2.8."""
_MOST_ENTRIES = 1 << 18
_MOST_JSON = 1 << 29
"""Bytes of a program's JSON; those of the largest language models take some dozen megabytes."""
_MOST_UNPACKED = 1 << 26
_MOST_DENSE = 32
"""Bytes that a compressed entry unpacks to, in all or for each of its own: weights are not that dense."""
_MOST_COPIED = 1 << 28
"""Bytes of tensors that do not lie in a row, which are copied, beside four times those of the file."""
# A zip's local header, of which the two lengths at its end are looked at: what follows the name may have
# another length there than in the list at the end of the file.
_HEADER = struct.Struct("<4s22xHH")

# Numbers of `ScalarType` in PyTorch's torch/_export/serde/schema.py.
_TYPES: Mapping[int, str] = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "half",
    7: "float32",
    8: "double",
    10: "complex64",
    11: "complex128",
    12: "bool",
    13: "bfloat16",
    28: "uint16",
    29: "float8_e4m3fn",
    30: "float8_e5m2",
    31: "float8_e4m3fnuz",
    32: "float8_e5m2fnuz",
    34: "uint32",
    35: "uint64",
}
_COMPLEX_OF_HALVES = 9
_STRIDED = 7


def element_type(number: object) -> DType:
    """The type behind PyTorch's number of it.

    Raises:
        FormatError: it is not one that is read here.
    """
    name = _TYPES.get(number) if isinstance(number, int) else None
    if number == _COMPLEX_OF_HALVES:
        raise UnsupportedOp("its numbers are complex ones of float16", hint="export the model in float32")
    if name is None:
        raise FormatError(f"its element type {str(number)[:20]} is not known here")
    return dtype(name)


def whole_sizes(entries: object, what: str) -> tuple[int, ...]:
    """Sizes or strides that are all known.

    Raises:
        FormatError: one is open, or negative.
    """
    sizes: list[int] = []
    for entry in as_list(entries, what):
        kind, number = only_field(entry, what)
        if kind != "as_int" or (size := as_int(number, what)) < 0:
            raise FormatError(f"{what} are not all known and positive")
        sizes.append(size)
    return tuple(sizes)


def names_in(path: str | os.PathLike[str]) -> list[str]:
    """The names of a zip archive's entries; none if it is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, struct.error):
        return []


def is_program(names: Iterable[str]) -> bool:
    """True for the entries of an exported program, of any age."""
    return any(n in (_OLD, _FORMAT) or n.endswith(f"/{_FORMAT}") for n in names)


class Archive:
    """The entries of one archive.

    Raises:
        FormatError: it is damaged, pickled, or in the other byte order.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._buffer = map_file(path, unpack=False)
        try:
            with zipfile.ZipFile(path) as archive:
                entries = archive.infolist()
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, struct.error) as error:
            raise FormatError("its list of entries is damaged", hint="fetch or export it again") from error
        if len(entries) > _MOST_ENTRIES:
            raise FormatError(f"it has {len(entries)} entries")
        self._entries = {e.filename: e for e in entries}
        self._inflated: dict[str, memoryview] = {}
        if len(self._entries) < len(entries):
            raise FormatError("two of its entries have one name")
        self.is_old = _OLD in self._entries
        """Whether PyTorch before 2.8 wrote it: a program beside pickles of its tensors."""
        if self.is_old:
            self._root = ""
            return
        roots = [n.removesuffix(_FORMAT) for n in self._entries if n.endswith(_FORMAT)]
        if len(roots) != 1 or bytes(self._read(roots[0] + _FORMAT)).strip() != b"pt2":
            raise FormatError("it does not say that it is one", hint=EXPORT_HINT)
        self._root = roots[0]
        if self.has(_ORDER) and bytes(self.read(_ORDER)).strip() != b"little":
            raise FormatError("its tensors are big-endian", hint="export it on a little-endian machine")

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self._buffer)

    def has(self, name: str) -> bool:
        """True if there is an entry of a name within the archive."""
        return self._root + name in self._entries

    def models(self) -> list[str]:
        """The names of the programs in it."""
        if self.is_old:
            return [_OLD.removesuffix(".json")]
        start = f"{self._root}models/"
        return [
            n.removeprefix(start).removesuffix(".json")
            for n in self._entries
            if n.startswith(start) and n.endswith(".json")
        ]

    def json(self, name: str) -> Object:
        """The object in an entry."""
        return parsed(self.read(name, _MOST_JSON), name)

    def program(self, model: str) -> Object:
        """The program of a name."""
        return self.json(f"{model}.json" if self.is_old else f"models/{model}.json")

    def read(self, name: str, most: int | None = None) -> memoryview:
        """The bytes of an entry: a view of the mapped file, unless they are compressed.

        Raises:
            FormatError: there is no such entry, it is cut short, or larger than it may be.
        """
        return self._read(self._root + name, most)

    def _read(self, name: str, most: int | None = None) -> memoryview:
        entry = self._entries.get(name)
        if entry is None:
            raise FormatError(f"its entry '{name[:200]}' is missing", hint="fetch or export it again")
        if most is not None and entry.file_size > most:
            raise FormatError(f"its entry '{name[:200]}' has {entry.file_size} bytes")
        end = entry.header_offset + _HEADER.size
        header = self._buffer[entry.header_offset : end]
        if len(header) < _HEADER.size:
            raise FormatError(f"its entry '{name[:200]}' is cut short")
        magic, name_size, extra_size = _HEADER.unpack(header)
        start = end + name_size + extra_size
        stored = self._buffer[start : start + entry.compress_size]
        # Bit 0 of the flags: it is encrypted.
        if magic != b"PK\x03\x04" or len(stored) != entry.compress_size or entry.flag_bits & 1:
            raise FormatError(f"its entry '{name[:200]}' is damaged", hint="fetch or export it again")
        if entry.compress_type == zipfile.ZIP_STORED:
            if entry.file_size != entry.compress_size:
                raise FormatError(f"its entry '{name[:200]}' is damaged")
            return stored
        if name not in self._inflated:
            # Several tensors may be in one storage.
            self._inflated[name] = _inflated(stored, entry)
        return self._inflated[name]


def _inflated(stored: memoryview, entry: zipfile.ZipInfo) -> memoryview:
    """A compressed entry's bytes. PyTorch compresses nothing; who packs the archive again may."""
    name = entry.filename[:200]
    most = max(_MOST_UNPACKED, _MOST_DENSE * entry.compress_size)
    if entry.compress_type != zipfile.ZIP_DEFLATED or entry.file_size > most:
        raise FormatError(f"its entry '{name}' is compressed in a way that is not known here")
    # Below 0: without the header of zlib's own, which zips leave out.
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        # A byte more than stated tells what unpacks to more, and unpacks no more of it.
        data = stream.decompress(stored, entry.file_size + 1)
    except zlib.error as error:
        raise FormatError(f"its entry '{name}' is damaged: {error}") from error
    if len(data) != entry.file_size:
        raise FormatError(f"its entry '{name}' does not unpack to the size that it states")
    return memoryview(data)


class Payload:
    """Tensors of an archive by name: parameters and buffers, or constants.

    Args:
        archive: where they are.
        folder, config: the folder, and the entry in it that lists them.
        writer: who wrote it.
    """

    def __init__(self, archive: Archive, folder: str, config: str, writer: str = "PyTorch") -> None:
        self._archive, self._folder, self._writer = archive, f"data/{folder}/", writer
        self._is_pickled = not archive.has(f"data/{folder}/{config}")
        self._left = _MOST_COPIED + 4 * archive.size
        name = f"{self._folder}{config}"
        self._config = as_object(archive.json(name).get("config"), name) if archive.has(name) else {}

    def __contains__(self, name: str) -> bool:
        return name in self._config

    def tensor(self, name: str) -> Tensor:
        """A tensor by its name in the program; a view of the file where its elements stand in a row.

        Raises:
            FormatError: it is missing, pickled, or reaches beyond its storage.
        """
        if self._is_pickled:
            problem = (
                f"its weights are pickled, as {self._writer} wrote them; its first tensor is '{name[:200]}'"
            )
            raise FormatError(problem, hint=EXPORT_HINT)
        meta = as_object(self._config.get(name), f"the entry of the tensor '{name[:200]}'")
        if meta.get("use_pickle") is not False:
            raise FormatError(f"its tensor '{name[:200]}' is pickled", hint=EXPORT_HINT)
        stored = self._archive.read(self._folder + as_text(meta.get("path_name"), "the file of a tensor"))
        try:
            tensor = _strided(stored, as_object(meta.get("tensor_meta"), "what is said of it"), self._left)
        except FormatError as error:
            raise FormatError(f"its tensor '{name[:200]}': {error.problem}", hint=error.hint) from error
        self._left -= 0 if isinstance(tensor.storage, RawStorage) else tensor.size_bytes
        return tensor


def _strided(stored: memoryview, meta: Object, most: int) -> Tensor:
    """The tensor at some offset of a storage, with steps between its elements.

    Args:
        stored: the storage.
        meta: what the archive says of the tensor.
        most: bytes that a copy may have.
    """
    element = element_type(meta.get("dtype"))
    if meta.get("layout", _STRIDED) != _STRIDED:
        raise FormatError("it is not stored in strides")
    sizes, strides = (
        whole_sizes(meta.get("sizes"), "its sizes"),
        whole_sizes(meta.get("strides"), "its strides"),
    )
    kind, at = only_field(meta.get("storage_offset"), "its offset")
    if kind != "as_int" or len(sizes) != len(strides):
        raise FormatError("its sizes and strides do not fit together")
    offset, count = as_int(at, "its offset"), math.prod(sizes)
    reach = offset + 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) if count else 0
    if offset < 0 or reach * element.itemsize > len(stored):
        raise FormatError(
            f"it reaches to byte {reach * element.itemsize} of a storage of {len(stored)}",
            hint="the file is damaged or was cut short; fetch or export it again",
        )
    if not count or _is_row_major(sizes, strides):
        first = offset * element.itemsize if count else 0
        return Tensor(element, sizes, RawStorage(stored[first : first + count * element.itemsize]))
    if count * element.itemsize > most:
        raise FormatError(f"it repeats its storage to {count} elements")
    import numpy as np

    # numpy refuses bytes that are no whole number of elements.
    flat = np.frombuffer(stored[: len(stored) // element.itemsize * element.itemsize], element.numpy())
    steps = [s * element.itemsize for s in strides]
    # It looks at no bounds itself: `reach` was compared above, and strides are not negative.
    view = np.lib.stride_tricks.as_strided(flat[offset:], sizes, steps, writeable=False)
    return Tensor.from_array(np.ascontiguousarray(view), element)


def _is_row_major(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    step = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        # Along an axis of one element no step is made.
        if size != 1 and stride != step:
            return False
        step *= size
    return True
