"""Models that keep weights in files beside them: in one piece, or copied with those."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from thinflow.errors import FormatError, WriteError
from thinflow.formats.files import map_file, write_file
from thinflow.formats.foreign import beside, copy_file, is_as_read
from thinflow.formats.onnx_model import Model, parse_model
from thinflow.formats.packed_bytes import bytes_of
from thinflow.ir.graph import Graph
from thinflow.ir.vocabulary import Vocabulary
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
        if not _tflite_names(data, path):
            return data
        # Without a list of losses: what cannot be written again is an error.
        return to_bytes(read_program(data, beside=opened))
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


def copy_with_weights(graph: Graph, path: str | os.PathLike[str], vocabulary: Vocabulary) -> int:
    """As `copy_file`, with the files of weights that the .tflite or .onnx file names; the bytes written.

    Raises:
        WriteError: another file has the place of one of those.
    """
    source, target, written = Path(graph.path), Path(path), 0
    # Data first: the model, which names it, must not be there without it.
    if is_as_read(graph) and source.parent.resolve() != target.parent.resolve():
        named = {"tflite": _tflite_names, "onnx": _onnx_names}[vocabulary.name]
        for name in sorted(named(bytes_of(source), source)):
            written += _copied(beside(source, name), target.parent / name)
    return written + copy_file(graph, path, vocabulary)


def _tflite_names(data: memoryview, path: Path) -> set[str]:
    from thinflow.tflite.reader import read_program

    names: set[str] = set()

    def opened(name: str) -> memoryview:
        names.add(name)
        return map_file(beside(path, name), unpack=False)

    read_program(data, losses=[], beside=opened)
    return names


def _onnx_names(data: memoryview, path: Path) -> set[str]:
    apart = [t for t in _tensors(parse_model(data, path).message) if t.data_location == onnx_protos.EXTERNAL]
    return {e.value for t in apart for e in t.external_data if e.key == "location"}


def _copied(source: Path, target: Path) -> int:
    """The bytes written; a copy that is there already is left alone."""
    if target.exists():
        if filecmp.cmp(source, target, shallow=False):
            return 0
        raise WriteError(
            f"another file is where its weights go, '{target.name}'",
            str(target),
            "write the model into a folder of its own",
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    return write_file(target, [map_file(source, unpack=False)])


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
