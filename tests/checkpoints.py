"""Version 2 checkpoints to test with: one shard, little-endian, the same bytes as TensorFlow writes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from tests.tables import table_chunks
from thinflow.formats._files import write_file
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import STRING
from thinflow.wire import protos
from thinflow.wire.crc32c import crc32c, masked
from thinflow.wire.fields import encode_varint


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
