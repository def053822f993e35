"""Tables from text files, one entry a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.errors import FormatError
from thinflow.ir.types import DType
from thinflow.ops._state import Effect
from thinflow.ops.lookup import Table
from thinflow.ops.registry import op, require
from thinflow.ops.strings import StringToNumber
from thinflow.ops.traits import Trait
from thinflow.typing import Array

# TensorFlow's TextFileIndex.
_LINE_NUMBER, _WHOLE_LINE = -1, -2
MAX_BYTES = 1 << 30


def found_beside(name: str, folder: str) -> Path:
    """The file of that name in the model's folder, in its `assets`, or at its relative path from there.

    A model file may come from anywhere, so that nothing outside its folder is read.

    Raises:
        FormatError: there is no such file.
    """
    base = Path(folder or ".").resolve()
    plain = Path(name.replace("\\", "/"))
    places = [base / plain] if not plain.is_absolute() else []
    places += [base / plain.name, base / "assets" / plain.name, base.parent / "assets" / plain.name]
    inside = (base, base.parent / "assets")
    # Resolved first: `..` and links could lead out of the folder.
    for place in places:
        resolved = place.resolve()
        if any(resolved.is_relative_to(f) for f in inside) and resolved.is_file():
            return resolved
    if plain.is_absolute() and plain.resolve().is_relative_to(base) and plain.is_file():
        return plain
    raise FormatError(
        f"the table's file '{name}' is not in {base}", hint=f"put '{plain.name}' beside the model"
    )


def lines_of(path: Path) -> list[bytes]:
    """The lines without their ends (`\\n` or `\\r\\n`)."""
    require(path.stat().st_size <= MAX_BYTES, f"'{path}' is larger than {MAX_BYTES} bytes")
    lines = path.read_bytes().split(b"\n")
    # The end of the last line starts no further one.
    if lines and not lines[-1]:
        lines.pop()
    return [line[:-1] if line.endswith(b"\r") else line for line in lines]


def _column(lines: list[bytes], index: int, element: DType, delimiter: bytes) -> Iterator[Any]:
    if index == _LINE_NUMBER:
        require(element.is_integer, f"a line number is no {element}")
        return iter(range(len(lines)))
    if index == _WHOLE_LINE:
        return iter(lines)
    fields: Array = np.empty(len(lines), object)
    for number, line in enumerate(lines):
        parts = line.split(delimiter)
        require(index < len(parts), f"line {number + 1} has {len(parts)} columns, not {index + 1}")
        fields[number] = parts[index]
    return iter((fields if element.kind == "O" else StringToNumber.kernel(fields, out_type=element)).tolist())


@op("InitializeTableFromTextFileV2", "InitializeTableFromTextFile")
class InitializeTableFromTextFile(Effect):
    """Puts the lines of a text file beside the model into a table.

    key_index and value_index: a column between delimiters, -1 the line's number (from offset), -2 the line.
    """

    traits = Trait.TABLE_FILE

    @staticmethod
    def kernel(
        table: Table,
        filename: Array,
        *,
        key_index: int,
        value_index: int,
        vocab_size: int = -1,
        delimiter: str = "\t",
        offset: int = 0,
    ) -> tuple[()]:
        lines = lines_of(found_beside(filename.item().decode("utf-8", "replace"), table.folder))[offset:]
        require(vocab_size <= len(lines), f"the file has {len(lines)} lines, {vocab_size} are asked for")
        lines = lines[:vocab_size] if vocab_size > 0 else lines
        key, value = table.key, table.value
        if key is None or value is None:
            raise FormatError(
                "the table does not say what it holds", hint="the node lacks key_dtype or value_dtype"
            )
        mark = delimiter.encode()
        items: dict[Any, Any] = {}
        made = value.numpy().type if value.kind != "O" else bytes
        pairs = zip(
            _column(lines, key_index, key, mark), _column(lines, value_index, value, mark), strict=True
        )
        for name, meaning in pairs:
            require(items.setdefault(name, made(meaning)) == meaning, f"the key {name!r} has two values")
        table.items = items
        return ()
