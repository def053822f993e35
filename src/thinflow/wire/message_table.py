"""Protobuf messages from tables: a schema in a few lines of text, turned into descriptors when it is needed.

A message is its name at the line start and a colon, then fields `name:type=number` up to the next message.
`type*` repeats, `type?` knows whether it was set, `{key,value}` is a map, `.Type` is nested in the message at
hand, and `name( ... )` groups a oneof.

An enum is its name, the prefix of its values and a colon, then `VALUE=number`; a value without a number
follows on from the one before.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from thinflow.errors import ThinflowError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


@functools.cache
def message_class(package: str, name: str, table: str) -> Any:
    """The class of a message of a table that stands by itself. The same class every time.

    Raises:
        ThinflowError: the protobuf package is missing.
    """
    pool = pool_of(descriptor_file(package, table))
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))


def pool_of(*files: Any) -> Any:
    """A descriptor pool that holds these files and nothing else."""
    from google.protobuf import descriptor_pool

    # Not protobuf's global pool: it refuses a second definition of a message, and
    # others register these names, too.
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def descriptor_file(
    package: str,
    table: str,
    enums: Iterable[tuple[str, list[tuple[str, int]]]] = (),
    dependency: Sequence[str] = (),
) -> Any:
    """A FileDescriptorProto with the messages of a table; see the top of this module.

    Raises:
        ThinflowError: the protobuf package is missing.
    """
    try:
        from google.protobuf import descriptor_pb2
    except ImportError as e:
        raise ThinflowError(
            "the protobuf package cannot be imported", hint="install it with 'pip install protobuf'"
        ) from e
    file = descriptor_pb2.FileDescriptorProto(
        name=f"thinflow/{package.rpartition('.')[0] or package}.proto",
        package=package,
        syntax="proto3",
        dependency=dependency,
    )
    _Builder(file, dict(enums)).add(table)
    return file


class _Builder:
    """Fills a FileDescriptorProto from a table and from enums {name: [(value name, number)]}."""

    def __init__(self, file: Any, enums: dict[str, list[tuple[str, int]]]) -> None:
        from google.protobuf.descriptor_pb2 import FieldDescriptorProto

        self._file = file
        self._enums = enums
        # "TYPE_INT32" -> "int32", the word of .proto files.
        self._scalars = {name[5:].lower(): n for name, n in FieldDescriptorProto.Type.items()}
        self._messages: dict[str, Any] = {}

    def add(self, table: str) -> None:
        messages = list(blocks(table))
        for name, _ in messages:  # first all the names: a parent stands before its nested messages
            parent, _, last = name.rpartition(".")
            siblings = self._messages[parent].nested_type if parent else self._file.message_type
            self._messages[name] = siblings.add(name=last)
        for name, values in self._enums.items():
            parent, _, last = name.rpartition(".")
            enum = (self._messages[parent] if parent else self._file).enum_type.add(name=last)
            for value, number in values:
                enum.value.add(name=value, number=number)
        for name, tokens in messages:
            self._fill(name, tokens)

    def _fill(self, owner: str, tokens: list[str]) -> None:
        target = self._messages[owner]
        oneof = None
        for token in tokens:
            if token == ")":
                oneof = None
            elif token[-1] == "(":
                oneof = _add_oneof(target, token[:-1])
            else:
                declaration, _, number = token.rpartition("=")
                name, _, kind = declaration.partition(":")
                field = self._add_field(target, owner, name, kind, int(number))
                if kind[-1] == "?":  # proto3 keeps track of such a field by a oneof of its own
                    field.proto3_optional = True
                    field.oneof_index = _add_oneof(target, f"_{name}")
                elif oneof is not None:
                    field.oneof_index = oneof

    def _add_field(self, target: Any, owner: str, name: str, kind: str, number: int) -> Any:
        # Labels of a FieldDescriptorProto: 1 is optional, 3 repeated.
        field = target.field.add(name=name, number=number, label=1)
        if kind[0] == "{":
            # A map is a repeated message {1 key, 2 value} with this option, under this very name.
            entry = target.nested_type.add(name=name.title().replace("_", "") + "Entry")
            entry.options.map_entry = True
            for i, part in enumerate(kind[1:-1].split(","), 1):
                self._add_field(entry, owner, "key" if i == 1 else "value", part, i)
            field.label, field.type = 3, self._scalars["message"]
            field.type_name = f".{self._file.package}.{owner}.{entry.name}"
            return field
        if kind[-1] == "*":
            field.label = 3
        kind = kind.rstrip("*?")
        if kind[0] == ".":
            kind = owner + kind
        if kind in self._scalars:
            field.type = self._scalars[kind]
        else:
            field.type = self._scalars["enum" if kind in self._enums else "message"]
            field.type_name = f".{kind}" if kind.startswith("google.") else f".{self._file.package}.{kind}"
        return field


def _add_oneof(target: Any, name: str) -> int:
    target.oneof_decl.add(name=name)
    return len(target.oneof_decl) - 1


def blocks(table: str) -> Iterator[tuple[str, list[str]]]:
    """(heading, words) of each block; a block starts at a line that is not indented."""
    for block in re.split(r"\n+(?=\S)", table.strip()):
        heading, _, body = block.partition(":")
        yield heading, body.split()


def enums(table: str) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """(name, [(name of a value, its number)]) of each enum."""
    for heading, words in blocks(table):
        name, _, prefix = heading.partition(" ")
        values: list[tuple[str, int]] = []
        # An enum in proto3 starts at 0.
        number = -1
        for word in words:
            value, _, given = word.partition("=")
            number = int(given) if given else number + 1
            values.append((prefix + value, number))
        yield name, values
