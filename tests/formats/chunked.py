"""SavedModels in chunks, written as TensorFlow's splitter writes them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from thinflow.wire import protos, riegeli
from thinflow.wire.fields import encode_varint
from thinflow.wire.riegeli import _KEY as KEY
from thinflow.wire.riegeli import highway_hash

BLOCK = 1 << 16
MESSAGE, BYTES = 1, 2


def records_file(chunks: Sequence[Sequence[bytes]], kind: bytes = b"\0") -> tuple[bytes, list[int]]:
    """A file with records in the given chunks; its bytes, and the number of each record.

    Args:
        chunks: of records.
        kind: how they are packed; b"b" is Brotli.
    """
    file = _File()
    file.chunk(b"s", 0, b"", 0)
    positions = []
    for records in chunks:
        sizes = b"".join(encode_varint(len(r)) for r in records)
        packed_sizes, values = _packed(kind, sizes), _packed(kind, b"".join(records))
        data = kind + encode_varint(len(packed_sizes)) + packed_sizes + values
        begin = file.chunk(b"r", len(records), data, sum(map(len, records)))
        positions += range(begin, begin + len(records))
    return bytes(file.out), positions


def _packed(kind: bytes, data: bytes) -> bytes:
    if kind != b"b":
        return data
    import brotli

    return encode_varint(len(data)) + bytes(brotli.compress(data))


class _File:
    """Bytes with a header before every block."""

    def __init__(self) -> None:
        self.out = bytearray()

    def chunk(self, kind: bytes, count: int, data: bytes, decoded: int) -> int:
        """Append a chunk; where it begins."""
        digest = highway_hash(data, KEY)
        head = struct.pack("<QQ", len(data), digest) + kind + count.to_bytes(7, "little")
        head += struct.pack("<Q", decoded)
        whole = struct.pack("<Q", highway_hash(head, KEY)) + head + data
        begin = len(self.out)
        end = max(riegeli._after(begin, len(whole)), riegeli._boundary(begin + count))
        at = 0
        while len(self.out) < end:
            if len(self.out) % BLOCK == 0:
                place = struct.pack("<QQ", len(self.out) - begin, end - len(self.out))
                self.out += struct.pack("<Q", highway_hash(place, KEY)) + place
            room = BLOCK - len(self.out) % BLOCK
            piece = whole[at : at + room] or bytes(min(room, end - len(self.out)))
            self.out += piece
            at += len(piece)
        return begin


def chunked(parts: Sequence[tuple[Sequence[int | str], Any]], kind: bytes = b"\0", grouped: int = 1) -> bytes:
    """A file of chunks, each with the place it belongs to.

    Args:
        parts: (path, message or bytes) each; in a path, field numbers are 1, 2, ...; ~0, ~1, ... are indices,
            texts are keys. The first belongs to the message itself.
        kind: how they are packed.
        grouped: how many go into a chunk of the file.
    """
    records = [chunk if isinstance(chunk, bytes) else protos.serialize(chunk) for _, chunk in parts]
    groups = [records[i : i + grouped] for i in range(0, len(records), grouped)]
    _, positions = records_file(groups, kind)
    metadata = protos.message("ChunkMetadata")()
    metadata.version.splitter_version = 1
    metadata.message.chunk_index = 0
    for index, ((path, chunk), record, position) in enumerate(zip(parts, records, positions, strict=True)):
        kind_of = BYTES if isinstance(chunk, bytes) else MESSAGE
        metadata.chunks.add(type=kind_of, size=len(record), offset=position)
        if index:
            belongs = metadata.message.chunked_fields.add()
            belongs.message.chunk_index = index
            for step in path:
                _add_step(belongs.field_tag.add(), step)
    return records_file([*groups, [protos.serialize(metadata)]], kind)[0]


def _add_step(tag: Any, step: int | str) -> None:
    if isinstance(step, str):
        tag.map_key.s = step
    elif step < 0:
        tag.index = ~step
    else:
        tag.field = step


def split_model(message: Any) -> list[tuple[Sequence[int | str], Any]]:
    """A SavedModel cut as TensorFlow cuts large ones: its last nodes, its functions, one by one, and its
    constants go into chunks of their own.
    """
    whole = protos.message("SavedModel")()
    whole.CopyFrom(message)
    graph = whole.meta_graphs[0].graph_def
    rest: list[tuple[Sequence[int | str], Any]] = []
    for number, function in enumerate(graph.library.function):
        rest.append(((2, ~0, 2, 2, 1, ~number), protos.parse("FunctionDef", protos.serialize(function))))
        function.Clear()
    for number, node in enumerate(graph.node):
        if node.op == "Const" and node.attr["value"].tensor.tensor_content:
            tensor = node.attr["value"].tensor
            rest.append(((2, ~0, 2, 1, ~number, 5, "value", 8, 4), tensor.tensor_content))
            tensor.ClearField("tensor_content")
    last = protos.message("GraphDef")()
    half = len(graph.node) // 2
    last.node.extend(graph.node[half:])
    del graph.node[half:]
    return [((), whole), ((2, ~0, 2), last), *rest]


def write_chunked(folder: Path, message: Any, kind: bytes = b"\0", grouped: int = 1) -> Path:
    """saved_model.cpb in a folder, from a SavedModel message."""
    path = folder / "saved_model.cpb"
    path.write_bytes(chunked(split_model(message), kind, grouped))
    return path
