"""Keys of variables: which key of a checkpoint holds the value of which node of a graph.

What says so, most exact first: the restore operations in the graph; the collections of TensorFlow 1; the
objects of TensorFlow 2; a key that is the node's name, or the name it shares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.errors import FormatError
from thinflow.formats.checkpoint import Checkpoint
from thinflow.formats.metagraph import MetaGraph
from thinflow.formats.slices import WHOLE, Slice
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import DType
from thinflow.ops.traits import Trait, has

_RESTORES = frozenset({"RestoreV2", "Restore", "RestoreSlice"})
# What TensorFlow 2 calls the attribute of a variable's object that holds its value.
_VALUE_KEY = "VARIABLE_VALUE"


@dataclass(frozen=True)
class Key:
    """Source of a variable's value: a key of the checkpoint, perhaps only a part of what it holds."""

    name: str
    part: Slice | None = None
    told_by: str = ""


Content = tuple[Key, Key]
"""Sources of a table's keys and of its values."""


def tensor_of(checkpoint: Checkpoint, key: Key) -> Tensor:
    """The value a key stands for, read when somebody asks for the numbers.

    Raises:
        FormatError: the checkpoint has no such key, or the part lies outside.
    """
    whole = checkpoint.tensor(key.name)
    if key.part is None:
        return whole
    return Tensor(whole.dtype, key.part.shape(whole.shape), _Part(whole, key.part))


class _Part:
    """A part of a tensor, cut out when it is read."""

    __slots__ = ("_part", "_whole")

    def __init__(self, whole: Tensor, part: Slice) -> None:
        self._whole, self._part = whole, part

    @property
    def stored_bytes(self) -> int:
        return self._whole.storage.stored_bytes

    @property
    def is_splat(self) -> bool:
        return False

    def read(self, element: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        del element
        # A copy of the part alone, so that the whole can be let go.
        cut = np.ascontiguousarray(self._whole.numpy()[self._part.resolved(self._whole.shape)])
        cut.flags.writeable = False
        return cut.reshape(shape)


def keys_of(
    graph: Graph, checkpoint: Checkpoint, meta: MetaGraph | None = None, restore_op: str = ""
) -> dict[str, Key]:
    """Variable node -> what to read for it, for all that the graph or what is beside it tells.

    Args:
        graph: with the variables.
        checkpoint: where the values are.
        meta: what was written beside the graph.
        restore_op: the node whose restore operations know best; "": the one that `meta` names.
    """
    if meta is not None:
        restore_op = restore_op or meta.message.saver_def.restore_op_name
    # The weakest evidence first, which better one overwrites.
    keys = _from_names(graph, checkpoint)
    if meta is not None:  # the later ones know better
        keys |= _from_objects(graph, meta, checkpoint)
        keys |= _from_collections(meta, checkpoint)
    return keys | _from_restores(graph, checkpoint, restore_op)


def contents_of(graph: Graph, checkpoint: Checkpoint, meta: MetaGraph | None = None) -> dict[str, Content]:
    """Table node -> the keys and the values that the checkpoint keeps of it."""
    tables = [node for node in graph if has(node.op, Trait.TABLE)]
    if not tables:
        return {}
    names = {table.name: table.name for table in tables}
    if meta is not None:
        objects = Objects(graph, meta, checkpoint)
        names |= {table.name: key for table in tables if (key := objects.key(table, "table"))}
    contents = {
        table: (Key(f"{name}-keys"), Key(f"{name}-values"))
        for table, name in names.items()
        if f"{name}-keys" in checkpoint and f"{name}-values" in checkpoint
    }
    return contents | _restored_contents(graph, checkpoint)


def variables(graph: Graph) -> Iterator[Node]:
    """The variables of a graph, in file order."""
    return (node for node in graph if has(node.op, Trait.VARIABLE))


def _from_names(graph: Graph, checkpoint: Checkpoint) -> dict[str, Key]:
    keys = {}
    by_full_name = {full: key for key, full in _full_names(checkpoint).items()}
    for node in variables(graph):
        for name in (node.name, _shared_name(node)):
            key = name if name in checkpoint else by_full_name.get(name, "")
            if key:
                keys[node.name] = Key(key, told_by="its name")
                break
    return keys


def _full_names(checkpoint: Checkpoint) -> dict[str, str]:
    """Key -> full name, without the names that several objects bear."""
    names = checkpoint.full_names()
    counts: dict[str, int] = {}
    for name in names.values():
        # Objects of TensorFlow 2 need no unique names: two layers may both hold a `kernel`.
        counts[name] = counts.get(name, 0) + 1
    return {key: name for key, name in names.items() if counts[name] == 1}


def _shared_name(node: Node) -> str:
    shared = node.attrs.get("shared_name")
    return shared.decode("utf-8", "surrogateescape") if isinstance(shared, bytes) else ""


def _from_objects(graph: Graph, meta: MetaGraph, checkpoint: Checkpoint) -> dict[str, Key]:
    objects = Objects(graph, meta, checkpoint)
    keys = {node.name: objects.key(node, _VALUE_KEY) for node in variables(graph)}
    return {name: Key(key, told_by="the model's objects") for name, key in keys.items() if key in checkpoint}


def _from_collections(meta: MetaGraph, checkpoint: Checkpoint) -> dict[str, Key]:
    """Parts of partitioned variables, whose keys are the names of the wholes."""
    return {
        info.name: Key(info.full_name, info.part, "the variables collection")
        for info in meta.variables()
        if info.full_name in checkpoint
    }


# --- the restore operations of a saver ----------------------------------------------------------------------


def _from_restores(graph: Graph, checkpoint: Checkpoint, restore_op: str) -> dict[str, Key]:
    """By what restore operations fill, at last those that the named node waits for."""
    restores = [node for node in graph if node.op in _RESTORES]
    operation = graph.find(restore_op) if restore_op else None
    if operation is not None and len(restores) > 1:
        own = ancestors([operation])
        # Stable, False before True: what the saver's own operations tell is told last, and counts.
        restores.sort(key=lambda node: node in own)
    return {
        variable.name: key for node in restores for variable, key in _restored(node) if key.name in checkpoint
    }


def _restored_contents(graph: Graph, checkpoint: Checkpoint) -> dict[str, Content]:
    """Tables that a saver fills."""
    contents: dict[str, Content] = {}
    for node in graph:
        if not has(node.op, Trait.TABLE_FILL) or len(node.inputs) != 3:
            continue
        table = node.inputs[0].node
        if not has(table.op, Trait.TABLE):
            continue
        keys = [_read_by(value) for value in node.inputs[1:]]
        if keys[0] is not None and keys[1] is not None and all(k.name in checkpoint for k in keys if k):
            contents[table.name] = (keys[0], keys[1])
    return contents


def _read_by(value: Value) -> Key | None:
    """The key that a restore operation reads for a value."""
    if value.node.op not in _RESTORES:
        return None
    return next((key for port, key in _reads(value.node) if port == value.port), None)


def _restored(restore: Node) -> Iterator[tuple[Node, Key]]:
    """The variables that a restore operation fills, each with what it reads."""
    for port, key in _reads(restore):
        for variable in _filled(restore.output(port)):
            yield variable, key


def _reads(restore: Node) -> Iterator[tuple[int, Key]]:
    """Ports of a restore operation, each with the key that it reads."""
    # Inputs of RestoreV2: the checkpoint's prefix, the names, and which part of each.
    names = _strings(restore, 1)
    parts = _strings(restore, 2)
    if names is None or (restore.op != "Restore" and parts is None):
        return
    for port, name in enumerate(names):
        text = parts[port] if parts and port < len(parts) else ""
        try:
            yield port, Key(name, parse_part(text), "the restore operations")
        except FormatError:
            continue


def _strings(node: Node, index: int) -> list[str] | None:
    if index >= len(node.inputs):
        return None
    tensor = node.inputs[index].node.tensor
    if tensor is None or tensor.dtype.name != "string":
        return None
    return [item.decode("utf-8", "surrogateescape") for item in tensor.numpy().ravel().tolist()]


def _filled(value: Value) -> Iterator[Node]:
    """The variables that a value is assigned to, perhaps after it was passed on."""
    pending = [value]
    while pending:
        for reader in pending.pop().readers:
            if has(reader.op, Trait.ASSIGN) and has(reader.inputs[0].node.op, Trait.VARIABLE):
                yield reader.inputs[0].node
            elif has(reader.op, Trait.IDENTITY | Trait.RESHAPE | Trait.CAST):
                pending.append(reader.output())


def parse_part(text: str) -> Slice | None:
    """The part in a saver's text: full sizes, then `start,length` or `-` per dimension, as `5 2 0,3:-`.

    Returns:
        None for the whole.

    Raises:
        FormatError: it is not written so.
    """
    words = text.split()
    # An empty text means the whole variable.
    if not words:
        return None
    extents = []
    for piece in words[-1].split(":"):
        start, _, length = piece.partition(",")
        if piece == "-":
            extents.append((0, WHOLE))
        elif start.isdecimal() and length.isdecimal():
            extents.append((int(start), int(length)))
        else:
            raise FormatError(f"'{text}' does not describe a part of a variable")
    if len(words) - 1 != len(extents):
        raise FormatError(f"'{text}' does not describe a part of a variable")
    return Slice(tuple(extents))


class Objects:
    """The objects of a model and of its checkpoint. Knows nothing of a model without objects.

    Args:
        graph: the model's main graph.
        meta: what was written beside it.
        checkpoint: where the values are.
    """

    def __init__(self, graph: Graph, meta: MetaGraph, checkpoint: Checkpoint) -> None:
        self._stored = checkpoint.object_graph() if meta.has_objects else None
        self._captured = {} if self._stored is None else dict(_captures(graph, meta.message.object_graph_def))

    def key(self, node: Node, attribute: str) -> str:
        """The checkpoint's key of a part of the object that a node is; "" if there is none."""
        number = self._captured.get(node, -1)
        if self._stored is None or not 0 <= number < len(self._stored.nodes):
            return ""
        attributes = self._stored.nodes[number].attributes
        return next((a.checkpoint_key for a in attributes if a.name == attribute), "")


def _captures(graph: Graph, objects: Any) -> Iterator[tuple[Node, int]]:
    """Nodes that calls capture, each with the number of the object it is."""
    for node in graph:
        # Calls of TensorFlow 2 pass the variables that a function captures as inputs.
        function = getattr(node.attrs.get("f"), "name", None)
        if function is None or function not in objects.concrete_functions:
            continue
        captures = list(objects.concrete_functions[function].bound_inputs)
        if captures:
            # Captured values follow the arguments.
            for value, number in zip(node.inputs[-len(captures) :], captures, strict=False):
                yield value.node, number
