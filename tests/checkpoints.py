"""Version 2 checkpoints to test with: one shard, little-endian, the same bytes as TensorFlow writes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tests.tables import table_chunks
from thinflow.formats.checkpoint import Checkpoint
from thinflow.formats.files import write_file
from thinflow.formats.slices import WHOLE, Slice, encode_key
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import STRING, dtype
from thinflow.wire import protos
from thinflow.wire.crc32c import crc32c, masked
from thinflow.wire.fields import encode_varint
from thinflow.wire.sstable import Table


def write_checkpoint(prefix: str | os.PathLike[str], tensors: Mapping[str, Tensor]) -> int:
    """Write `PREFIX.data-00000-of-00001`, then `PREFIX.index`; the bytes of both.

    Args:
        prefix: path without suffixes.
        tensors: name -> value; each is read once, when its turn comes.

    Raises:
        WriteError: a file cannot be written. Without its index the shard is no checkpoint.
    """
    where = os.fspath(prefix)
    entries: list[tuple[bytes, bytes]] = []
    size = write_file(f"{where}.data-00000-of-00001", _shard(tensors, entries))
    header = protos.message("BundleHeaderProto")(num_shards=1)
    header.version.producer = 1
    return size + write_file(f"{where}.index", table_chunks([(b"", protos.serialize(header)), *entries]))


def _shard(tensors: Mapping[str, Tensor], entries: list[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """The values one after the other; what the index says of each is appended to `entries`."""
    offset = 0
    for key, name in sorted((name.encode("utf-8", "surrogateescape"), name) for name in tensors):
        tensor = tensors[name]
        data, checksum = _strings(tensor) if tensor.dtype is STRING else _numbers(tensor)
        entry = protos.message("BundleEntryProto")(
            dtype=tensor.dtype.number, offset=offset, size=len(data), crc32c=masked(checksum)
        )
        entry.shape.SetInParent()
        for length in tensor.shape:
            entry.shape.dim.add(size=length)
        entries.append((key, protos.serialize(entry)))
        offset += len(data)
        yield data


def _numbers(tensor: Tensor) -> tuple[bytes, int]:
    data = tensor.numpy().tobytes()
    return data, crc32c(data)


def _strings(tensor: Tensor) -> tuple[bytes, int]:
    """Lengths, their checksum, text; see `thinflow.formats._bundle`."""
    items: list[Any] = list(tensor.numpy().flat)
    running = 0
    for item in items:
        running = crc32c(len(item).to_bytes(4 if len(item) < 1 << 32 else 8, "little"), running)
    stored = masked(running).to_bytes(4, "little")
    text = b"".join(items)
    return b"".join(encode_varint(len(item)) for item in items) + stored + text, crc32c(
        text, crc32c(stored, running)
    )


RNG = np.random.default_rng(0)
VALUES: dict[str, Any] = {
    "a/float": RNG.normal(size=(2, 3)).astype("float32"),
    "b/half": np.array([1.5, -2], "float16"),
    "c/bfloat16": np.array([1.5, -2], ml_dtypes.bfloat16),
    "d/bool": np.array([True, False, True]),
    "e/scalar": np.int64(7),
    "f/complex": np.array([1 + 2j, -3j], "complex64"),
    "g/string": np.array([[b"", b"xy"], [b"abcd", b"\xff\0"]], object),
    "h/empty": np.zeros((0, 4), "float32"),
    "i/float8": np.array([1.5, -2], ml_dtypes.float8_e4m3fn),
    "j/int4": np.array([-8, 7, 3], ml_dtypes.int4),
    "k/uint16": np.array([1, 65535], "uint16"),
}


def tensors(values: Mapping[str, Any] = VALUES) -> dict[str, Tensor]:
    return {name: Tensor.from_array(value) for name, value in values.items()}


def index_entries(prefix: Path) -> dict[bytes, bytes]:
    data = Path(f"{prefix}.index").read_bytes()
    return {key: bytes(value) for key, value in Table(memoryview(data))}


def rewrite_index(prefix: Path, entries: Mapping[bytes, bytes]) -> None:
    Path(f"{prefix}.index").write_bytes(b"".join(table_chunks(sorted(entries.items()))))


def partitioned(
    tmp_path: Path, parts: list[tuple[Slice, Any]], shape: tuple[int, ...], key_form: Any = None
) -> Path:
    """A checkpoint of one variable `v` kept in parts."""
    prefix = tmp_path / "parts"
    names = {f"v/{i}": value for i, (_, value) in enumerate(parts)}
    write_checkpoint(prefix, tensors(names))
    entries = index_entries(prefix)
    whole = protos.message("BundleEntryProto")(dtype=1)
    for size in shape:
        whole.shape.dim.add(size=size)
    found: dict[bytes, bytes] = {b"": entries[b""]}
    for i, (part, _) in enumerate(parts):
        message = whole.slices.add()
        for start, length in part.extents:
            extent = message.extent.add(start=start)
            if length != WHOLE:
                extent.length = length
        key = encode_key(b"v", key_form(part) if key_form else part)
        found[key] = entries[f"v/{i}".encode()]
    rewrite_index(prefix, {**found, b"v": protos.serialize(whole)})
    return prefix


WEIGHTS = RNG.normal(size=(5, 4)).astype("float32")
PARTS = [(Slice(((0, 3), (0, WHOLE))), WEIGHTS[:3]), (Slice(((3, 2), (0, WHOLE))), WEIGHTS[3:])]


def v1_entries(values: Mapping[str, Any]) -> dict[bytes, bytes]:
    """A version 1 table as TensorFlow fills it: types and shapes in the directory only."""
    directory = protos.message("SavedTensorSlices")()
    directory.meta.versions.producer = 1
    entries = {}
    for name, value in values.items():
        array = np.asarray(value)
        meta = directory.meta.tensor.add(name=name, type=dtype(array.dtype).number)
        meta.shape.SetInParent()
        for size in array.shape:
            meta.shape.dim.add(size=size)
        stored = protos.message("SavedTensorSlices")()
        stored.data.name = name
        field = {"f": "float_val", "i": "int_val", "O": "string_val", "V": "half_val"}[array.dtype.kind]
        if array.dtype == np.float16:
            stored.data.data.half_val.extend(array.view(np.uint16).ravel().tolist())
        else:
            getattr(stored.data.data, field).extend(array.ravel().tolist())
        part = Slice(((0, WHOLE),) * array.ndim)
        entries[encode_key(name.encode(), part)] = protos.serialize(stored)
    entries[b""] = protos.serialize(directory)
    return entries


V1_VALUES = {
    "w": WEIGHTS,
    "half": np.array([1.5, -2], np.float16),
    "step": np.int32(7),
    "words": np.array([b"a", b""], object),
}


def write_table(path: Path, entries: Mapping[bytes, bytes]) -> Path:
    path.write_bytes(b"".join(table_chunks(sorted(entries.items()))))
    return path


def read_all(checkpoint: Checkpoint) -> None:
    for name in checkpoint:
        checkpoint[name].numpy()
    checkpoint.full_names()
