"""Lookup tables that never change: what they hold, known before anything runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from thinflow.ir.graph import Graph, Node, Value, graph_of
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import DType
from thinflow.ops.traits import Trait, has

_READS = Trait.TABLE_FIND | Trait.TABLE_SIZE
_PASSING = frozenset({"Identity"})
# Dense tables are left out: their constants are slots, with marks for the empty ones.
_TABLES = re.compile(r"(Mutable)?HashTable(V2)?")
"""Tables of one value a key, that live as long as the session."""


@dataclass(frozen=True)
class Content:
    """Content of a table.

    Attributes:
        items: value by key, both as Python's own: bytes, int or float.
        key, value: their types.
    """

    items: dict[Any, Any]
    key: DType
    value: DType


def content_of(reader: Node) -> Content | str:
    """Content of the table of a LookupTableFind or LookupTableSize whenever it is read; else why that is not
    known.
    """
    table = _source(reader.inputs[0]) if reader.inputs else None
    if table is None:
        return "it reads no table"
    if not _TABLES.fullmatch(table.op):
        return f"its table is a {table.op}"
    users = list(_users(table))
    fillers = [u for u in users if has(u.op, Trait.TABLE_FILL)]
    others = [u for u in users if not has(u.op, Trait.TABLE_FILL | _READS)]
    # Whoever else has the handle might insert or export.
    if others:
        return f"the table is also given to '{others[0].name}' ({others[0].op})"
    if _is_shared(table):
        return "another node has the same table"
    if len(fillers) != 1:
        return "nothing fills the table" if not fillers else f"{len(fillers)} nodes fill the table"
    # A HashTable refuses to be read before it is filled; a mutable one is merely empty then.
    if table.op.startswith("Mutable") and fillers[0] not in reader.control_inputs:
        return "it does not wait until the table is filled"
    if len(fillers[0].inputs) != 3:
        return f"'{fillers[0].name}' has {len(fillers[0].inputs)} inputs, not 3"
    # Inputs of a filler: the table, its keys, its values.
    keys, values = (_constant(v) for v in fillers[0].inputs[1:])
    if keys is None or values is None or len(keys.shape) != 1 or keys.shape != values.shape:
        return "the table is filled with what is computed, or with vectors"
    pairs = zip(keys.numpy().tolist(), values.numpy().tolist(), strict=True)
    return Content(dict(pairs), keys.dtype, values.dtype)


def fixed_tables(graph: Graph) -> set[Node]:
    """Tables all of whose readers know what they hold, with what fills them and hands them on."""
    fixed: set[Node] = set()
    for table in (n for n in graph if _TABLES.fullmatch(n.op)):
        users = list(_users(table))
        readers = [u for u in users if has(u.op, _READS)]
        if readers and all(isinstance(content_of(r), Content) for r in readers):
            fixed |= {table, *(u for u in users if has(u.op, Trait.TABLE_FILL)), *_passing(table)}
    return fixed


def _source(value: Value) -> Node | None:
    """The producer of a value that nodes may have handed on; None if they hand it on in a circle."""
    seen: set[Node] = set()
    while value.node.op in _PASSING and value.node.inputs and value.node not in seen:
        seen.add(value.node)
        value = value.node.inputs[0]
    return None if value.node in seen else value.node


def _passing(table: Node) -> list[Node]:
    """The nodes that only hand the table on."""
    passing: dict[Node, None] = {}
    stack = [table]
    while stack:
        new = [r for r in stack.pop().output().readers if r.op in _PASSING and r not in passing]
        passing.update(dict.fromkeys(new))
        stack += new
    return list(passing)


def _users(table: Node) -> Iterator[Node]:
    """The nodes that do something with the table."""
    for node in (table, *_passing(table)):
        # A handle that leaves the graph may be used by anybody.
        if node.output().is_graph_output:
            yield node
        yield from (r for r in node.output().readers if r.op not in _PASSING)


def _is_shared(table: Node) -> bool:
    """True if another node stands for the same table."""
    name = table.get("shared_name", "")
    graph = graph_of(table)
    if not name or graph is None:
        return False
    mine = (name, table.get("container", ""))
    others = (n for n in graph if _TABLES.fullmatch(n.op) and n is not table)
    # Nodes of one shared name and container are one table to TensorFlow.
    return any((n.get("shared_name", ""), n.get("container", "")) == mine for n in others)


def _constant(value: Value) -> Tensor | None:
    source = _source(value)
    return None if source is None else source.tensor
