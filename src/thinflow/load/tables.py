"""Lookup tables: what fills them moves from the loading of a model into its graph.

A table is filled by an operation that a session runs once, when it loads the model. A frozen graph has no
such moment: whoever looks something up waits for the filling instead, which TensorFlow lets happen again as
long as the content is the same. Contents read from a file become constants.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.errors import FormatError
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors, uses_through
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import STRING, DType, dtype
from thinflow.load.read_ops import behind_identity, handed_on
from thinflow.ops.traits import Trait, has

# Numbers of the attributes key_index and value_index of InitializeTableFromTextFile.
_WHOLE_LINE, _LINE_NUMBER = -2, -1
_MAX_FILE_BYTES = 1 << 31


def tables_of(graph: Graph) -> list[Node]:
    """The tables that the outputs need, in file order."""
    tables = [node for node in graph if has(node.op, Trait.TABLE)]
    needed = ancestors([v.node for v in graph.outputs]) if tables else set()
    return [table for table in tables if table in needed]


def fillers_of(graph: Graph) -> list[Node]:
    """The operations that fill the tables the outputs need, but for those that restore a checkpoint.

    A file that says what a session runs first names them; a bare graph does not.
    """
    users = [u for table in tables_of(graph) for u in _users(table.output())]
    fillers = [u for u in dict.fromkeys(users) if has(u.op, Trait.TABLE_FILL | Trait.TABLE_FILE)]
    # What restores from a checkpoint needs its file when it runs; contents of a
    # checkpoint are put in as constants.
    return [f for f in fillers if not any(n.op.startswith("Restore") for n in ancestors([f]))]


def fill(
    graph: Graph,
    table: Node,
    home: Path | None,
    content: Sequence[Tensor] = (),
    *,
    leave_absent: bool = False,
) -> bool:
    """Let whoever uses a table wait for its filling. False if nothing in the graph fills it.

    Args:
        graph: edited in place.
        table: a table of it.
        home: folder in which files with contents may lie; None: anywhere.
        content: keys and values that a checkpoint keeps of it, for a table that nothing else fills.
        leave_absent: leave what would read a file that is not there as it is: it fails when it runs.

    Raises:
        FormatError: a file with contents is missing, malformed or lies elsewhere.
    """
    users = list(_users(table.output()))
    fillers = [n for n in users if has(n.op, Trait.TABLE_FILL)]
    # A file would be needed wherever the graph runs: its content becomes constants.
    readers = [n for n in users if has(n.op, Trait.TABLE_FILE)]
    fillers += [_constant_content(graph, n, home, leave_absent=leave_absent) for n in readers]
    # What a checkpoint kept counts only for tables that nothing in the graph fills.
    if content and not fillers:
        fillers = [_import(graph, table, content)]
    for user in users:
        if has(user.op, Trait.TABLE_FILL | Trait.TABLE_FILE):
            continue
        for filler in fillers:
            user.add_control_input(filler)
    return bool(fillers)


def _import(graph: Graph, table: Node, content: Sequence[Tensor]) -> Node:
    """Put constant keys and values into a table.

    An import wants the slots of a dense table as they lay in memory; what is in them is inserted instead.
    """
    dense = table.op.startswith("MutableDense")
    tensors = _occupied(table, *content) if dense else content
    values = []
    for part, tensor in zip(("keys", "values"), tensors, strict=True):
        name = graph.unique_name(f"{table.name}/{part}")
        attrs: dict[str, Attr] = {"dtype": tensor.dtype, "value": tensor}
        node = graph.add("Const", name=name, attrs=attrs)
        node.origin = "freeze"
        values.append(node.output())
    types: dict[str, Attr] = {"Tin": tensors[0].dtype, "Tout": tensors[1].dtype}
    op = ("LookupTableInsert" if dense else "LookupTableImport") + ("V2" if table.op.endswith("V2") else "")
    name = graph.unique_name(f"{table.name}/import")
    filler = graph.add(op, [table.output(), *values], name=name, attrs=types)
    filler.origin = "freeze"
    return filler


def _occupied(table: Node, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values of a dense table, without the slots that hold the empty or the deleted key.

    Raises:
        FormatError: the table does not say what marks an empty slot.
    """
    slots = keys.numpy().reshape(keys.shape[0] if keys.shape else 1, math.prod(keys.shape[1:]))
    # Keys may be vectors: a slot is empty if all its numbers are those of the mark.
    used = np.ones(len(slots), bool)
    shape: tuple[int, ...] = ()
    for value in table.inputs:
        mark = _source(value).node.tensor
        if mark is None:
            raise FormatError("the key that marks an empty slot is not constant", table.where)
        shape = mark.shape
        # The inputs of a dense table are its empty and its deleted key, which no entry may have.
        used &= (slots != mark.numpy().reshape(1, -1)).any(axis=1)
    row = table.get("value_shape") or ()
    entries = values.numpy().reshape(len(slots), math.prod(values.shape[1:]))[used]
    count = int(used.sum())
    occupied = slots[used].reshape(count, *shape)
    return Tensor.from_array(occupied), Tensor.from_array(entries.reshape(count, *row))


def absent_files(graph: Graph) -> dict[str, str]:
    """Table -> the file it is still to be filled from, of those that `fill` left."""
    fillers = [n for n in graph if has(n.op, Trait.TABLE_FILE)]
    names = {n: _source(n.inputs[1]).node.tensor for n in fillers}
    return {
        _source(n.inputs[0]).node.name: name.numpy().item().decode("utf-8", "replace")
        for n, name in names.items()
        if name is not None
    }


def _users(handle: Value) -> Iterator[Node]:
    uses = uses_through(handle, lambda use: handed_on(use.node, use.index))
    # A handle may go into a node twice.
    yield from dict.fromkeys(use.node for use in uses if not handed_on(use.node, use.index))


def _constant_content(graph: Graph, filler: Node, home: Path | None, *, leave_absent: bool) -> Node:
    """The same filling with what stands in the file."""
    name = _source(filler.inputs[1]).node.tensor
    if name is None:
        raise FormatError(
            "the name of the file with its contents is not constant",
            filler.where,
            "export the model with the file as an asset",
        )
    path = Path(name.numpy().item().decode("utf-8", "surrogateescape"))
    # Names in a SavedModel count from its assets; freezing has made those that it knows whole paths.
    if home is not None and not path.is_absolute():
        path = home / path
    if leave_absent and not path.exists():
        return filler
    try:
        keys, values = read_text_file(path, filler)
    except FormatError as error:
        raise error.at(filler.where) from error
    # The first version takes a reference to the table, the second a resource.
    modern = filler.op.endswith("V2")
    attrs: dict[str, Attr] = {"Tkey": _type_of(keys), "Tval": _type_of(values)}
    content = [
        graph.constant(keys, f"{filler.name}/keys", before=filler),
        graph.constant(values, f"{filler.name}/values", before=filler),
    ]
    op = "InitializeTableV2" if modern else "InitializeTable"
    fresh = graph.add(op, [filler.inputs[0], *content], name=filler.name, attrs=attrs, before=filler)
    fresh.origin = "freeze"
    graph.replace(filler, fresh)
    return fresh


def _source(value: Value) -> Value:
    """The value behind nodes that pass it on, as inlined calls leave them."""
    while (behind := behind_identity(value)) is not None:
        value = behind
    return value


def _type_of(array: np.ndarray[Any, Any]) -> DType:
    return STRING if array.dtype == object else dtype(array.dtype)


def read_text_file(path: Path, filler: Node) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Keys and values as InitializeTableFromTextFile takes them from a file.

    Column -2 is the whole line as text, -1 the line number, others are columns of the line, whose type is
    text or, where it reads as one throughout, a whole number.

    Raises:
        FormatError: no such file, too large, or a line without the column.
    """
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise FormatError("the file is too large for a table", str(path))
        content = path.read_bytes()
    except OSError as e:
        raise FormatError(
            f"a table's file cannot be read: {e.strerror}",
            str(path),
            "put it there, or leave the table empty: --allow-missing",
        ) from e
    lines = _lines(content, int(filler.get("vocab_size", -1)), path)
    delimiter = str(filler.get("delimiter") or "\t").encode("utf-8", "surrogateescape")
    offset = int(filler.get("offset", 0))
    table = filler.inputs[0].node
    columns = [
        _column(lines, int(filler.get(key, default)), delimiter, offset, table.get(kind), path)
        for key, default, kind in (
            ("key_index", _WHOLE_LINE, "key_dtype"),
            ("value_index", _LINE_NUMBER, "value_dtype"),
        )
    ]
    return columns[0], columns[1]


def _lines(content: bytes, count: int, path: Path) -> list[bytes]:
    """The first lines of a text file as TensorFlow reads it: they end at a newline alone, and lose a return.

    Args:
        content: of the file.
        count: how many are wanted; below 0: all.
        path: of the file.

    Raises:
        FormatError: there are fewer, none, or one is empty: TensorFlow would not fill the table.
    """
    lines = [line.removesuffix(b"\r") for line in content.split(b"\n")]
    if not lines[-1]:
        del lines[-1]
    if count >= 0:
        lines, available = lines[:count], len(lines)
        if available < count:
            raise FormatError(
                f"the table takes {count} lines, the file has {available}",
                str(path),
                "see that the file is whole",
            )
    elif not lines:
        raise FormatError("the file of a table's contents is empty", str(path), "see that it is whole")
    empty = next((number for number, line in enumerate(lines, start=1) if not line), None)
    if empty is not None:
        raise FormatError(f"line {empty} is empty", str(path), "see that the file is whole")
    return lines


def _column(
    lines: list[bytes], index: int, delimiter: bytes, offset: int, element: DType | None, path: Path
) -> np.ndarray[Any, Any]:
    if index == _LINE_NUMBER:
        # The offset counts for line numbers only.
        return np.arange(offset, offset + len(lines), dtype=np.int64)
    items: list[bytes] = []
    for number, line in enumerate(lines, start=1):
        parts = [line] if index == _WHOLE_LINE else line.split(delimiter)
        if index >= len(parts):
            raise FormatError(f"line {number} has no column {index}", str(path), "see that the file is whole")
        items.append(parts[max(index, 0)])
    if element is not None and element is not STRING:
        return _numbers(items, element, path)
    texts = np.empty(len(items), object)
    texts[:] = items
    return texts


def _numbers(items: list[bytes], element: DType, path: Path) -> np.ndarray[Any, Any]:
    kind, what = (float, "numbers") if element.is_floating else (int, "whole numbers")
    try:
        return np.array([kind(item) for item in items]).astype(element.numpy())
    except (ValueError, OverflowError) as e:
        raise FormatError(f"a column should hold {what}: {e}", str(path), "see that the file is whole") from e
