"""Version 2 checkpoints: an index (`.index`, a table) and shards of raw values (`.data-00000-of-00001`).

Shards are mapped when the first value in them is read; its checksum is verified then, and names the variable.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from thinflow.errors import FormatError
from thinflow.formats.files import map_file
from thinflow.formats.slices import Place, Slice, decode_key, encode_key
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import STRING, VARIANT, DType, TensorSpec, dtype
from thinflow.wire import protos
from thinflow.wire.crc32c import crc32c, masked
from thinflow.wire.fields import read_varint
from thinflow.wire.sstable import Table

if TYPE_CHECKING:
    import numpy as np

_DAMAGED = "copy the checkpoint again from where it was written"
_MAX_SHARDS = 1 << 20
# TensorFlow's kTensorBundleVersion.
_NEWEST_READER = 1  # min_consumer of an index above this asks for a newer reader


class Bundle:
    """An open checkpoint of version 2.

    Raises:
        FormatError: the index is missing or damaged.
    """

    version = 2

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        path = f"{prefix}.index"
        try:
            self._entries, self._parts = self._read_index(Table(map_file(path, unpack=False)))
        except FormatError as e:
            raise e if e.where.startswith(path) else e.at(path) from e
        self._shards: dict[int, memoryview] = {}

    def _read_index(self, table: Table) -> tuple[dict[str, Any], dict[bytes, Any]]:
        entry_type = protos.message("BundleEntryProto")
        entries: dict[str, Any] = {}
        parts: dict[bytes, Any] = {}
        pairs = iter(table)
        self._read_header(next(pairs, (None, b"")))
        for key, value in pairs:
            entry = protos.parse(entry_type, value)
            # The ordered code of the number 0 begins the key of a part, see `_slices`.
            if key.startswith(b"\0"):
                parts[key] = entry
            else:
                entries[key.decode("utf-8", "surrogateescape")] = entry
        return entries, parts

    def _read_header(self, pair: tuple[bytes | None, Any]) -> None:
        key, value = pair
        # The empty key sorts before all others.
        if key != b"":
            raise FormatError("the index has no header", hint="this is a table, but not a checkpoint's index")
        header = protos.parse("BundleHeaderProto", value)
        if not 0 <= header.num_shards <= _MAX_SHARDS:
            raise FormatError(f"the index speaks of {header.num_shards} shards", hint=_DAMAGED)
        if header.version.min_consumer > _NEWEST_READER:
            raise FormatError(
                f"this checkpoint asks for a reader of version {header.version.min_consumer}",
                hint="save it again with an older TensorFlow, or update thinflow",
            )
        self._shard_count = header.num_shards
        self._big_endian = header.endianness == 1

    def names(self) -> Iterator[str]:
        """All variables, sorted as in the index."""
        return iter(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def spec(self, name: str) -> TensorSpec:
        """Element type and shape of a variable, from the index alone."""
        entry = self._entries[name]
        return TensorSpec(dtype(entry.dtype), _shape(entry))

    def slices(self, name: str) -> list[Slice]:
        """The parts a partitioned variable is kept in; empty for one that is kept whole."""
        return [Slice.of(part) for part in self._entries[name].slices]

    def tensor(self, name: str) -> Tensor:
        """A variable whose value is read, and checked, when somebody asks for the numbers."""
        entry = self._entries[name]
        shape = _shape(entry)
        element = dtype(entry.dtype)
        if not entry.slices:
            return Tensor(element, shape, _Value(self, name, entry))
        parts = [
            (part, Tensor(element, _shape(found), _Value(self, name, found)))
            for part, found in self._parts_of(name)
        ]
        return Tensor(element, shape, Assembled(name, parts))

    def places(self, name: str) -> list[Place]:
        """Places of a variable's value in the shards, one for each of its parts."""
        entry = self._entries[name]
        stored = self._parts_of(name) if entry.slices else [(None, entry)]
        return [Place(self._shard_path(e.shard_id), e.offset, e.size, part) for part, e in stored]

    def stored(self) -> Iterator[tuple[bytes, TensorSpec, int]]:
        """Entries with bytes of their own, in the order of the index: key, type and shape, 1.

        The parts of partitioned variables come one by one, under keys that also say which part.
        """
        names = (
            (name.encode("utf-8", "surrogateescape"), e) for name, e in self._entries.items() if not e.slices
        )
        for key, entry in (*self._parts.items(), *names):
            yield key, TensorSpec(dtype(entry.dtype), _shape(entry)), 1

    def _parts_of(self, name: str) -> list[tuple[Slice, Any]]:
        """The parts of a partitioned variable with their entries.

        Raises:
            FormatError: one is missing.
        """
        shape = _shape(self._entries[name])
        parts = []
        for part in self.slices(name):
            key = encode_key(name.encode("utf-8", "surrogateescape"), part)
            part_entry = self._parts.get(key) or self._parts_like(name, part, shape)
            if part_entry is None:
                raise FormatError(f"a part of '{name}' is missing", f"{self.prefix}.index", _DAMAGED)
            parts.append((part, part_entry))
        return parts

    def _parts_like(self, name: str, part: Slice, shape: Sequence[int]) -> Any:
        """A part whose key spells its extents another way (a whole dimension by its size)."""
        place = part.resolved(shape)
        for key, entry in self._parts.items():
            owner, other = decode_key(key)
            if owner.decode("utf-8", "surrogateescape") == name and other.resolved(shape) == place:
                return entry
        return None

    def bytes_of(self, name: str, entry: Any) -> memoryview:
        """The stored bytes of an entry.

        Raises:
            FormatError: the shard is missing or too short.
        """
        shard = self._shard(entry.shard_id)
        if entry.offset < 0 or entry.size < 0 or entry.offset + entry.size > len(shard):
            raise FormatError(
                f"'{name}' should be at bytes {entry.offset} to {entry.offset + entry.size}, "
                f"the file has {len(shard)}",
                str(self._shard_path(entry.shard_id)),
                _DAMAGED,
            )
        return shard[entry.offset : entry.offset + entry.size]

    def place(self, entry: Any) -> str:
        """The place of an entry, for messages."""
        return f"{self._shard_path(entry.shard_id)}, byte {entry.offset}"

    @property
    def is_big_endian(self) -> bool:
        """True if the writer's machine stored the high byte first."""
        return bool(self._big_endian)

    def _shard(self, number: int) -> memoryview:
        if number not in self._shards:
            path = self._shard_path(number)
            if not path.exists():
                raise FormatError(
                    "the values of this checkpoint are in a file that is not there",
                    str(path),
                    hint="copy it here as well: a checkpoint is its .index file and all of its .data files",
                )
            if path.stat().st_size == 0:
                self._shards[number] = memoryview(b"")  # all its tensors are empty
            else:
                self._shards[number] = map_file(path, unpack=False)
        return self._shards[number]

    def _shard_path(self, number: int) -> Path:
        path = self.prefix.with_name(f"{self.prefix.name}.data-{number:05d}-of-{self._shard_count:05d}")
        if path.exists():
            return _inside(path)
        # Merging the bundles of several workers counts shards that hold nothing and are not written.
        others = sorted(self.prefix.parent.glob(f"{_escaped(self.prefix.name)}.data-{number:05d}-of-*"))
        return _inside(others[0]) if len(others) == 1 else path


def _escaped(name: str) -> str:
    from glob import escape

    return escape(name)


def _inside(path: Path) -> Path:
    """The path, if it is not a link that leads out of its folder.

    Raises:
        FormatError: it is one.
    """
    if path.is_symlink() and path.resolve().parent != path.parent.resolve():
        raise FormatError(
            "a shard is a link to a file outside the checkpoint's folder", str(path), "copy the file there"
        )
    return path


def _shape(entry: Any) -> tuple[int, ...]:
    sizes = tuple(d.size for d in entry.shape.dim)
    if any(size < 0 for size in sizes):
        raise FormatError(f"a variable has the shape {list(sizes)}", hint=_DAMAGED)
    return sizes


class _Value:
    """The value that an entry points at. Numbers stay a view of the mapped shard."""

    __slots__ = ("_bundle", "_entry", "_name")

    def __init__(self, bundle: Bundle, name: str, entry: Any) -> None:
        self._bundle, self._name, self._entry = bundle, name, entry

    @property
    def stored_bytes(self) -> int:
        return int(self._entry.size)

    @property
    def is_splat(self) -> bool:
        return False

    def read(self, element: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        try:
            return self._strings(shape) if element is STRING else self._numbers(element, shape)
        except FormatError as e:
            # An error that names the shard already keeps the place it names.
            raise e if self._bundle.prefix.name in e.where else e.at(self._bundle.place(self._entry)) from e

    def _numbers(self, element: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        import numpy as np

        if not element.itemsize:
            kind = "holds an object, not numbers" if element is VARIANT else f"has the type {element}"
            raise FormatError(f"'{self._name}' {kind}", hint="leave it out")
        expected = math.prod(shape) * element.itemsize
        if self._entry.size != expected:
            raise FormatError(
                f"'{self._name}', {TensorSpec(element, shape)}, takes {expected} bytes; "
                f"the index says {self._entry.size}",
                hint=_DAMAGED,
            )
        data = self._bundle.bytes_of(self._name, self._entry)
        self._check(crc32c(data))
        # A view: the values stay in the mapped shard and may be unaligned.
        array = np.frombuffer(data, element.numpy()).reshape(shape)
        if self._bundle.is_big_endian:
            array = _swapped(array, element)
        array.flags.writeable = False
        return array

    def _strings(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Lengths as varints, their masked checksum in four bytes, then the text.

        The checksum of the lengths runs over each as four bytes, or eight where four do not hold it.
        """
        import numpy as np

        data = self._bundle.bytes_of(self._name, self._entry)
        count = math.prod(shape)
        if count > len(data):
            raise FormatError(
                f"'{self._name}': {count} strings cannot fit into {len(data)} bytes", "", _DAMAGED
            )
        order: Literal["big", "little"] = "big" if self._bundle.is_big_endian else "little"
        at, lengths, running = 0, [], 0
        for _ in range(count):
            length, at = read_varint(data, at)
            lengths.append(length)
            # The checksum is of the numbers as the writer had them in memory, in its
            # byte order, not of their varints.
            running = crc32c(length.to_bytes(4 if length < 1 << 32 else 8, order), running)
        stored = bytes(data[at : at + 4])
        at += 4
        if at + sum(lengths) != len(data) or masked(running) != int.from_bytes(stored, order):
            raise FormatError(f"the lengths of the strings in '{self._name}' are damaged", hint=_DAMAGED)
        # The entry's checksum goes on from that of the lengths, over its stored form and the text.
        self._check(crc32c(data[at:], crc32c(stored, running)))
        strings = np.empty(count, object)
        for i, length in enumerate(lengths):
            strings[i] = bytes(data[at : at + length])
            at += length
        shaped = strings.reshape(shape)
        shaped.flags.writeable = False
        return shaped

    def _check(self, found: int) -> None:
        if masked(found) != self._entry.crc32c:
            raise FormatError(f"the checksum of '{self._name}' is wrong", hint=_DAMAGED)


def _swapped(array: np.ndarray[Any, Any], element: DType) -> np.ndarray[Any, Any]:
    """Numbers of a machine that stores the high byte first. Halves of complex numbers are swapped each."""
    import numpy as np

    width = element.itemsize // 2 if element.kind == "c" else element.itemsize
    # A single byte has no order.
    if width == 1:
        return array
    # As unsigned numbers of the same width, so that types that are not numpy's own,
    # such as bfloat16, go the same way.
    plain = np.ascontiguousarray(array).reshape(-1).view(f"u{width}")
    swapped: np.ndarray[Any, Any] = plain.byteswap().view(array.dtype).reshape(array.shape)
    return swapped


class Assembled:
    """A tensor kept in parts, put together when it is read."""

    __slots__ = ("_name", "_parts")

    def __init__(self, name: str, parts: Sequence[tuple[Slice, Tensor]]) -> None:
        self._name, self._parts = name, parts

    @property
    def stored_bytes(self) -> int:
        return sum(tensor.storage.stored_bytes for _, tensor in self._parts)

    @property
    def is_splat(self) -> bool:
        return False

    def read(self, element: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        import numpy as np

        places = [part.resolved(shape) for part, _ in self._parts]
        for (_, tensor), place in zip(self._parts, places, strict=True):
            expected = tuple(p.stop - p.start for p in place)
            if tensor.shape != expected:
                raise FormatError(
                    f"a part of '{self._name}' has the shape {list(tensor.shape)}, not {list(expected)}",
                    hint=_DAMAGED,
                )
        problem = FormatError(f"the parts of '{self._name}' do not fill it", hint=_DAMAGED)
        if sum(tensor.size for _, tensor in self._parts) != math.prod(shape):
            raise problem
        whole, filled = np.empty(shape, element.numpy()), np.zeros(shape, bool)
        for (_, tensor), place in zip(self._parts, places, strict=True):
            whole[place], filled[place] = tensor.numpy(), True
        # Gaps, which parts that overlap leave elsewhere, would hold whatever was in memory.
        if not filled.all():
            raise problem
        whole.flags.writeable = False
        return whole
