"""Writes .tflite files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from thinflow.tflite import schema
from thinflow.tflite.model import (
    Program,
    Quantization,
    Signature,
    Subgraph,
    Tensor,
    blob_of,
    signature_subgraph,
)
from thinflow.tflite.options import encode_options
from thinflow.tflite.versions import op_version
from thinflow.wire import flatbuffer
from thinflow.wire.flatbuffer import Blob, Scalar, Vector, scalar
from thinflow.wire.zip_tail import zip_behind

IDENTIFIER = b"TFL3"
SCHEMA_VERSION = 3
INLINE_LIMIT = 2**31 - 2**26  # bytes of weights inside the flatbuffer; the rest of 2 GiB is for the tables
LOCATION_KEY, LOCATION = "buffer_location", b"outside flatbuffers"
# Bytes; arrays up to this size are compared by their bytes, larger ones by place and size, then by digests.
_SHARE_BY_CONTENT = 1 << 16


def write_program(program: Program, *, inline_limit: int = INLINE_LIMIT) -> tuple[int, Iterator[Any]]:
    """Length in bytes of the file and its chunks (bytes-like, to be walked once); weights are not copied.

    Args:
        program: checked with `validate` first.
        inline_limit: with more bytes of weights than this they go behind the flatbuffer instead of into it.

    Raises:
        GraphError: the program is not well formed.
        WriteError: the tables alone do not fit 2 GiB.
    """
    program.validate()
    buffers = _Buffers()
    metadata = program.metadata
    groups = [[buffers.number(t) for t in s.tensors()] for s in program.subgraphs]
    outside = buffers.total > inline_limit
    if outside:
        metadata = {**metadata, LOCATION_KEY: LOCATION}
    codes: dict[tuple[int, str, int], int] = {}
    subgraphs = [
        _subgraph_table(s, numbers, codes) for s, numbers in zip(program.subgraphs, groups, strict=True)
    ]
    tables = buffers.tables(outside)
    for value in metadata.values():
        tables.append({0: _bytes_blob(value)})
    # Metadata is kept in buffers like those of weights, behind them here.
    first = len(tables) - len(metadata)
    model: dict[int, Any] = {
        0: Scalar("u32", SCHEMA_VERSION),
        1: [_code_table(*code) for code in codes],
        2: subgraphs,
        3: program.description or None,
        4: tables,
        6: [{0: key, 1: scalar("u32", first + i)} for i, key in enumerate(metadata)] or None,
        7: _signature_tables(program) or None,
    }
    size, chunks = flatbuffer.encode(model, IDENTIFIER)
    if not program.files:
        return size, chunks
    archive = zip_behind(size, program.files)
    return size + len(archive), chain(chunks, [archive])


def to_bytes(program: Program, *, inline_limit: int = INLINE_LIMIT) -> bytes:
    """The whole file in memory; see `write_program`."""
    return b"".join(write_program(program, inline_limit=inline_limit)[1])


def _bytes_blob(raw: bytes) -> Blob:
    return Blob(len(raw), lambda: raw)


class _Buffers:
    """Buffer numbers: 0 is the empty one, then one per distinct constant."""

    def __init__(self) -> None:
        self.blobs: list[Blob] = []
        self.total = 0
        self._numbers: dict[Any, int] = {}
        self._large: dict[int, dict[bytes, int]] = {}
        """Size -> digest -> buffer of large constants; one alone of its size has b"" for a digest."""

    def number(self, tensor: Tensor) -> int:
        if tensor.data is None:
            return 0
        blob = blob_of(tensor)
        # An empty constant and no constant look the same in the file; see the reader's
        # `_restore_empty_constants`.
        if blob.size == 0:
            return 0
        # Small constants are often equal (axes, sizes), and their bytes are a cheap key. Large ones are told
        # by where they lie first.
        key = bytes(blob.read()) if blob.size <= _SHARE_BY_CONTENT else _storage_key(tensor.data)
        if key not in self._numbers:
            self._numbers[key] = self._placed(blob)
        return self._numbers[key]

    def _placed(self, blob: Blob) -> int:
        """The buffer of a blob: a large one that holds the same, or a new one.

        Bytes are read only where another is as large.
        """
        known = self._large.setdefault(blob.size, {}) if blob.size > _SHARE_BY_CONTENT else {}
        digest = b""
        if known:
            # The first of its size was not read; it is now, as there is something to compare it with.
            if b"" in known:
                other = known.pop(b"")
                known[_digest(self.blobs[other - 1])] = other
            digest = _digest(blob)
        if digest in known:
            return known[digest]
        self.blobs.append(blob)
        self.total += blob.size
        known[digest] = len(self.blobs)
        return len(self.blobs)

    def tables(self, outside: bool) -> list[dict[int, Any]]:
        if outside:
            # Offset and size behind the flatbuffer; the place of the blob is filled in when it is known.
            return [{}, *({1: Scalar("u64", b), 2: Scalar("u64", b.size)} for b in self.blobs)]
        return [{}, *({0: b} for b in self.blobs)]


def _digest(blob: Blob) -> bytes:
    return hashlib.blake2b(blob.read(), digest_size=16).digest()


def _storage_key(data: np.ndarray | memoryview) -> Any:
    """Equal for two views of the same bytes in the same order."""
    array = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    # Strings: their place in memory holds addresses of Python objects.
    if array.dtype.hasobject:
        return id(data)
    place = array.__array_interface__["data"][0]
    if array.flags.c_contiguous and array.dtype.byteorder != ">":
        return place, array.nbytes
    return place, array.shape, array.strides, array.dtype.str


def _subgraph_table(
    subgraph: Subgraph, numbers: list[int], codes: dict[tuple[int, str, int], int]
) -> dict[int, Any]:
    tensors = subgraph.tensors()
    index: dict[Tensor | None, int] = {tensor: i for i, tensor in enumerate(tensors)}
    index[None] = -1

    def indices(some: Iterable[Tensor | None]) -> Vector:
        return Vector("i32", [index[t] for t in some])

    operators = []
    for operator in subgraph.operators:
        code = schema.op_code(operator.code)
        assert code is not None, "validate() has seen this operator"
        key = (code, operator.custom_code, max(operator.version, op_version(operator)))
        number, options, second = encode_options(operator)
        custom = operator.custom_options
        table: dict[int, Any] = {
            0: scalar("u32", codes.setdefault(key, len(codes))),
            1: indices(operator.inputs),
            2: indices(operator.outputs),
            # 6 is the format of custom options, of which FlexBuffers is the only one, and the default.
            5: Vector("u8", custom) if custom else None,
            7: Vector("bool", operator.mutating_inputs) if any(operator.mutating_inputs) else None,
            8: indices(operator.intermediates) if operator.intermediates else None,
        }
        if options is not None:
            table |= (
                {11: Scalar("u8", number), 12: options} if second else {3: Scalar("u8", number), 4: options}
            )
        operators.append(table)
    return {
        0: [_tensor_table(t, number) for t, number in zip(tensors, numbers, strict=True)],
        1: indices(subgraph.inputs),
        2: indices(subgraph.outputs),
        3: operators,
        4: subgraph.name or None,
    }


def _tensor_table(tensor: Tensor, buffer: int) -> dict[int, Any]:
    shape = tensor.shape
    q = tensor.quantization
    number = schema.tensor_type(tensor.dtype)
    assert number is not None, "validate() has seen this tensor"
    return {
        # Open sizes are 1 here and -1 in the signature: old runtimes know only the first and allocate by it.
        0: None if shape is None else Vector("i32", [1 if n is None else n for n in shape]),
        1: scalar("i8", number),
        2: scalar("u32", buffer),
        3: tensor.name,
        4: None if q is None else _quantization_table(q),
        5: scalar("bool", tensor.is_variable),
        7: Vector("i32", [-1 if n is None else n for n in shape]) if shape and None in shape else None,
        8: scalar("bool", shape is not None),
    }


def _quantization_table(q: Quantization) -> dict[int, Any]:
    kinds = ("f32", q.min), ("f32", q.max), ("f32", q.scale), ("i64", q.zero_point)
    table: dict[int, Any] = {
        slot: Vector(kind, np.asarray(values).reshape(-1).tolist())
        for slot, (kind, values) in enumerate(kinds)
        if values is not None and len(values)
    }
    table[6] = scalar("i32", q.axis)
    return table


def _code_table(code: int, custom: str, version: int) -> dict[int, Any]:
    """Readers of before 2020 know only the first field, an i8."""
    return {
        # 127 is PLACEHOLDER_FOR_GREATER_OP_CODES.
        0: scalar("i8", min(code, 127)),
        1: custom or None,
        2: scalar("i32", version, 1),
        3: scalar("i32", code),
    }


def _signature_tables(program: Program) -> list[dict[int, Any]]:
    tables = []
    for key, pair in program.signatures.items():
        signature = Signature(*pair)
        number = signature_subgraph(key, signature, program.subgraphs)
        index = {tensor: i for i, tensor in enumerate(program.subgraphs[number].tensors())}
        inputs, outputs = (
            [{0: name, 1: scalar("u32", index[t])} for name, t in side.items()] for side in signature
        )
        tables.append({0: inputs, 1: outputs, 2: key, 4: scalar("u32", number)})
    return tables
