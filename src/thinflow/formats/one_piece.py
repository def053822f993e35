"""Models that keep weights in files beside them, in one piece."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from thinflow.errors import FormatError
from thinflow.formats.files import map_file
from thinflow.formats.foreign import beside
from thinflow.formats.onnx_model import Model
from thinflow.formats.packed_bytes import bytes_of
from thinflow.onnx import protos as onnx_protos
from thinflow.wire.protos import parse, serialize

Data = memoryview | bytes


_MAX_MESSAGE = 2**31 - 1
"""Bytes that protobuf writes as one message: its lengths are signed 32-bit numbers."""


def as_one_piece(path: str | os.PathLike[str], kind: str) -> memoryview:
    """The bytes of a .tflite or .onnx file, with the weights that it keeps in files beside it.

    Raises:
        FormatError: it is damaged, or one of those files is.
    """
    data = bytes_of(path)
    whole = {"tflite": _tflite_in_one, "onnx": _onnx_in_one}[kind]
    return memoryview(whole(data, Path(path)))


def _tflite_in_one(data: memoryview, path: Path) -> Data:
    """A .tflite file with all its weights; as it is if it has them.

    Raises:
        FormatError: the file or one beside it is damaged, or it holds what cannot be written again.
    """
    from thinflow.tflite.reader import read_program
    from thinflow.tflite.writer import to_bytes

    files: dict[str, memoryview] = {}

    def opened(name: str) -> memoryview:
        if name not in files:
            files[name] = map_file(beside(path, name), unpack=False)
        return files[name]

    try:
        losses: list[str] = []
        read_program(data, losses=losses, beside=opened)  # to see what it asks for
        # A second time and without a list of losses: now what cannot be written again is an error.
        return to_bytes(read_program(data, beside=opened)) if files else data
    except FormatError as error:
        raise error.at(str(path)) from error


def _onnx_in_one(data: memoryview, path: Path) -> Data:
    """An .onnx file with all its weights; as it is if it has them.

    Raises:
        FormatError: the file or one beside it is damaged, or all of it is too much for one file.
    """
    try:
        message = parse(onnx_protos.message("ModelProto"), data)
        apart = [t for t in _tensors(message) if t.data_location == onnx_protos.EXTERNAL]
        if not apart:
            return data
        source = Model(message, path, {})
        pieces = [source.external({e.key: e.value for e in t.external_data}) for t in apart]
        if message.ByteSize() + sum(map(len, pieces)) > _MAX_MESSAGE:
            raise FormatError(
                "with the weights beside it, it is more than the 2 GiB that one ONNX file holds",
                hint="quantize it first",
            )
    except FormatError as error:
        raise error.at(str(path)) from error
    for tensor, piece in zip(apart, pieces, strict=True):
        del tensor.external_data[:]
        # Else readers would look for the elements outside.
        tensor.ClearField("data_location")
        tensor.raw_data = bytes(piece)
    return serialize(message)


def _tensors(message: Any) -> Iterator[Any]:
    """Every TensorProto of a model: initializers, attributes, and those of the graphs and functions in it."""
    pending = [message]
    while pending:
        found = pending.pop()
        if found.DESCRIPTOR.name == "TensorProto":
            yield found
            continue
        # By the schema rather than by name: tensors also hide in attributes, in the bodies of
        # Loop and If, and in functions.
        for field, value in found.ListFields():
            if field.message_type is not None:
                pending += [value] if _is_single(value) else list(value)


def _is_single(value: Any) -> bool:
    return hasattr(value, "DESCRIPTOR")
