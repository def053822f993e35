"""The messages of an .onnx file, parsed without the big elements in them, which stay in the mapped file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thinflow.errors import FormatError
from thinflow.formats._files import map_file
from thinflow.formats._foreign import beside
from thinflow.onnx import protos
from thinflow.wire.fields import LENGTH_DELIMITED, encode_varint, field_header, iter_fields
from thinflow.wire.protos import parse

_LARGE = 1024
"""Elements of more bytes than this are left where they are."""
# Limit of protobuf; weights do not count here, since the large ones are cut out before.
_MAX_MESSAGE = 2**31 - 1


@dataclass
class Model:
    """A parsed file.

    Attributes:
        message: the ModelProto without large elements.
        path: where the file is; None if it came as bytes.
        large: number of an initializer of the main graph -> its raw elements, a view of the file.
    """

    message: Any
    path: Path | None
    large: dict[int, memoryview]
    _files: dict[str, memoryview] = field(default_factory=dict)

    def external(self, places: dict[str, str]) -> memoryview:
        """Elements in another file.

        Raises:
            FormatError: the file is missing, too short, or would lie outside of the model's folder.
        """
        name = places.get("location", "")
        if self.path is None:
            raise FormatError(f"its elements are in the file '{name}'", hint="load the model from its file")
        if name not in self._files:
            self._files[name] = map_file(beside(self.path, name), unpack=False)
        data = self._files[name]
        offset = _number(places.get("offset", "0"))
        # Without a length everything from the offset on belongs to the tensor.
        length = _number(places.get("length", str(max(len(data) - offset, 0))))
        if offset + length > len(data):
            raise FormatError(f"its {length} bytes at byte {offset} run past the end of '{name}'")
        return data[offset : offset + length]


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise FormatError(f"'{text[:40]}' is no position in a file of weights")
    return int(text)


def parse_model(buffer: memoryview, path: Path | None) -> Model:
    """The model in a file.

    Raises:
        FormatError: not a ModelProto.
    """
    slim: list[bytes | memoryview] = []
    large: dict[int, memoryview] = {}
    count = 0
    for number, kind, start, end in iter_fields(buffer, 0, len(buffer)):
        if number == protos.GRAPH_FIELD and kind == LENGTH_DELIMITED:
            graph, count = _slim_graph(buffer, start, end, large, count)
            slim += [field_header(number, kind), encode_varint(len(graph)), graph]
        else:
            slim.append(_field(buffer, number, kind, start, end))
    if sum(map(len, slim)) > _MAX_MESSAGE:
        raise FormatError("there are more than 2 GiB of nodes in it")
    message = parse(protos.message("ModelProto"), b"".join(slim))
    return Model(message, path, large)


def _field(buffer: memoryview, number: int, kind: int, start: int, end: int) -> bytes:
    """A field with its tag."""
    size = encode_varint(end - start) if kind == LENGTH_DELIMITED else b""
    return field_header(number, kind) + size + bytes(buffer[start:end])


def _slim_graph(
    buffer: memoryview, start: int, end: int, large: dict[int, memoryview], count: int
) -> tuple[bytes, int]:
    """A GraphProto without large elements, and the number of initializers met so far."""
    parts: list[bytes] = []
    for number, kind, first, after in iter_fields(buffer, start, end):
        is_initializer = number == protos.INITIALIZER_FIELD and kind == LENGTH_DELIMITED
        if is_initializer and after - first > _LARGE:
            tensor = b"".join(_slim_tensor(buffer, first, after, large, count))
            parts += [field_header(number, kind), encode_varint(len(tensor)), tensor]
        else:
            parts.append(_field(buffer, number, kind, first, after))
        # Small initializers count, too: the number is the place in the parsed message's list.
        count += is_initializer
    return b"".join(parts), count


def _slim_tensor(
    buffer: memoryview, start: int, end: int, large: dict[int, memoryview], count: int
) -> Iterator[bytes]:
    for number, kind, first, after in iter_fields(buffer, start, end):
        is_raw = number == protos.RAW_DATA_FIELD and kind == LENGTH_DELIMITED
        if is_raw and after - first > _LARGE:
            large[count] = buffer[first:after]
        else:
            yield _field(buffer, number, kind, first, after)
