"""Version 1 checkpoints: tables that hold the values themselves, one per shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinflow.errors import FormatError
from thinflow.formats._attrs import decode_tensor
from thinflow.formats._bundle import Assembled
from thinflow.formats.files import map_file
from thinflow.formats.slices import Place, Slice, decode_key
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import STRING, DType, TensorSpec, dtype
from thinflow.wire import protos
from thinflow.wire.sstable import Table

if TYPE_CHECKING:
    import numpy as np

_DAMAGED = "copy the checkpoint again from where it was written"


class TableCheckpoint:
    """An open checkpoint of version 1.

    Args:
        prefix: what the checkpoint is called.
        shards: its files, one or more.

    Raises:
        FormatError: a file is missing or damaged.
    """

    version = 1

    def __init__(self, prefix: Path, shards: Sequence[Path]) -> None:
        self.prefix = prefix
        self._specs: dict[str, TensorSpec] = {}
        self._parts: dict[str, list[tuple[Slice, memoryview, Path]]] = {}
        for shard in shards:
            try:
                self._read_shard(shard)
            except FormatError as e:
                raise e if e.where.startswith(str(shard)) else e.at(str(shard)) from e

    def _read_shard(self, shard: Path) -> None:
        for key, value in Table(map_file(shard, unpack=False)):
            # The empty key sorts first and holds the directory: names, types and shapes, without values.
            if key == b"":
                self._read_directory(value)
                continue
            name, part = decode_key(key)
            self._parts.setdefault(name.decode("utf-8", "surrogateescape"), []).append((part, value, shard))

    def _read_directory(self, value: memoryview) -> None:
        for meta in protos.parse("SavedTensorSlices", value).meta.tensor:
            shape = tuple(d.size for d in meta.shape.dim)
            if any(size < 0 for size in shape):
                raise FormatError(f"'{meta.name}' has the shape {list(shape)}", hint=_DAMAGED)
            self._specs[meta.name] = TensorSpec(dtype(meta.type), shape)

    def names(self) -> Iterator[str]:
        """All variables, sorted."""
        return iter(sorted(self._specs))

    def __contains__(self, name: object) -> bool:
        return name in self._specs

    def spec(self, name: str) -> TensorSpec:
        """Element type and shape of a variable."""
        return self._specs[name]

    def slices(self, name: str) -> list[Slice]:
        """The parts a partitioned variable is kept in; empty for one that is kept whole."""
        parts = [part for part, _, _ in self._parts.get(name, [])]
        return parts if len(parts) > 1 else []

    def places(self, name: str) -> list[Place]:
        """Places of a variable's value in the files, one for each of its parts."""
        stored = self._parts.get(name, [])
        return [
            Place(file, None, len(value), part if len(stored) > 1 else None) for part, value, file in stored
        ]

    def stored(self) -> Iterator[tuple[bytes, TensorSpec, int]]:
        """The variables with type and shape, sorted, and in how many parts each is kept."""
        for name in self.names():
            yield name.encode("utf-8", "surrogateescape"), self._specs[name], len(self._parts.get(name, []))

    def tensor(self, name: str) -> Tensor:
        """A variable whose value is decoded when somebody asks for the numbers."""
        spec = self._specs[name]
        assert spec.dtype is not None
        assert spec.shape is not None
        shape = tuple(size for size in spec.shape if size is not None)
        stored = self._parts.get(name)
        if not stored:
            raise FormatError(f"the value of '{name}' is missing", str(self.prefix), _DAMAGED)
        parts = [
            (part, Tensor(spec.dtype, part.shape(shape), _Value(name, value, file)))
            for part, value, file in stored
        ]
        # A variable kept whole is written as one part that covers it.
        if len(parts) == 1 and parts[0][1].shape == shape:
            return parts[0][1]
        return Tensor(spec.dtype, shape, Assembled(name, parts))


class _Value:
    """One value in a table: a TensorProto that leaves type and shape to the directory."""

    __slots__ = ("_file", "_name", "_value")

    def __init__(self, name: str, value: memoryview, file: Path) -> None:
        self._name, self._value, self._file = name, value, file

    @property
    def stored_bytes(self) -> int:
        return len(self._value)

    @property
    def is_splat(self) -> bool:
        return False

    def read(self, element: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        try:
            message = protos.parse("SavedTensorSlices", self._value).data.data
            # The directory states the type and shape once for all the parts; without them
            # the message cannot be decoded.
            message.dtype = element.number
            del message.tensor_shape.dim[:]
            for size in shape:
                message.tensor_shape.dim.add(size=size)
            tensor = decode_tensor(message)
            if tensor is None:
                raise FormatError(f"'{self._name}' has the type {element}", hint="leave it out")
            # A short list would repeat its last value: right for constants of a
            # graph, damage in a checkpoint.
            stored = len(message.string_val) if element is STRING else tensor.storage.stored_bytes
            if tensor.size and stored != (tensor.size if element is STRING else tensor.size_bytes):
                raise FormatError(f"'{self._name}' does not hold {tensor.size} values", hint=_DAMAGED)
            return tensor.numpy()
        except FormatError as e:
            raise e.at(str(self._file)) from e
