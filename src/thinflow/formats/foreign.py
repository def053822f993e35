"""Graphs in other vocabularies than TensorFlow's: names that fit our graphs, and files written back as read.

Ops are spelled `tfl.CONV_2D` and `onnx.Conv`. Constants are `Const` nodes and inputs `Placeholder` nodes, as
everywhere. What an op leaves out among its inputs stands in the attribute `absent_inputs`; the types and
shapes that the file states are in `_output_types` and `_output_shapes`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from thinflow.errors import FormatError, GraphError, ParameterError, ThinflowError
from thinflow.formats.files import write_file
from thinflow.formats.packed_bytes import bytes_of
from thinflow.ir.attrs import Attr, ShapeAttr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.names import LEGAL_NAME
from thinflow.ir.types import SIZE_NAMES, DType, Shape, TensorSpec, dtype
from thinflow.ir.vocabulary import Vocabulary

_ILLEGAL = re.compile(r"[^A-Za-z0-9_.\\/>\-]+")
_MAX_NAME = 4096
UNSTATED = dtype(0)
"""Stands in `_output_types` for a type that the file does not state."""


class Record:
    """A node as it was read, to tell whether anybody changed it."""

    __slots__ = ("_attrs", "_header", "file")

    def __init__(self, file: File, node: Node) -> None:
        self.file = file
        self._attrs = dict(node.attrs)
        self._header = _header(node)

    def attrs(self) -> Mapping[str, Attr]:
        return self._attrs

    def describes(self, node: Node) -> bool:
        """True if the node is as it was."""
        # Attributes that were never handed out for editing need not be decoded and compared.
        return node.attrs_untouched and _header(node) == self._header


class File:
    """File that a graph was read from: number of its nodes, and names of values that it spells otherwise."""

    def __init__(self, graph: Graph, names: Names) -> None:
        nodes = list(graph)
        self.spelled = names.spelled
        self.count = len(nodes)
        for node in nodes:
            node.source = Record(self, node)


def _header(node: Node) -> tuple[Any, ...]:
    return node.name, node.op, tuple((v.node.name, v.port) for v in node.inputs), node.control_inputs


def file_name(value: Value) -> str:
    """The name of a value in its file."""
    record = value.node.source
    return record.file.spelled.get(value.name, value.name) if isinstance(record, Record) else value.name


def is_as_read(graph: Graph) -> bool:
    """True if a graph of another vocabulary is what its file holds. O(nodes + edges)."""
    records = [(node, node.source) for node in graph]
    if not all(isinstance(r, Record) and r.describes(node) for node, r in records):
        return False
    files = {r.file for _, r in records if isinstance(r, Record)}
    # Nodes that were removed show in the count only.
    return not files or (len(files) == 1 and next(iter(files)).count == len(graph))


def copy_file(graph: Graph, path: str | os.PathLike[str], vocabulary: Vocabulary) -> int:
    """Write the file that a graph was read from, byte for byte; the bytes written.

    Raises:
        ParameterError: the graph is of another vocabulary.
        GraphError: it was changed since, which cannot be written.
    """
    if graph.vocabulary != vocabulary.name:
        raise ParameterError(
            f"this graph does not speak {vocabulary.label}'s vocabulary",
            hint=f"thinflow convert MODEL.pb {shlex.quote(str(path))}"
            if vocabulary.engine
            else "write a .pb, .tflite or .onnx file",
        )
    if not is_as_read(graph):
        raise GraphError(
            f"the graph was changed since it was read; a changed {vocabulary.label} graph cannot be written",
            graph.path,
            hint="load it in TensorFlow's ops, without lift=False, change that, and convert it",
        )
    return write_file(path, [bytes_of(graph.path)])


class Names:
    """Names of tensors in a file -> names of nodes, which have fewer letters to choose from.

    Args:
        graph: whose names must differ.
        kept: names of inputs and outputs, which no other node may take.
    """

    def __init__(self, graph: Graph, kept: Iterable[str] = ()) -> None:
        self._graph = graph
        self.spelled: dict[str, str] = {}
        self._kept = {name.removesuffix(":0") for name in kept}

    def node_name(self, wished: str, op: str, *, is_interface: bool = False) -> str:
        """A legal and free name, as close to the wished one as can be; after the op if that is empty.

        Names of inputs and outputs are kept for those.
        """
        # LiteRT and ONNX files made from TensorFlow graphs call tensors by value, `node:0`.
        plain = wished.removesuffix(":0")[:_MAX_NAME]
        plain = plain.partition(";")[0] or plain  # TensorFlow's converter joins the names of what it fused
        if not LEGAL_NAME.match(plain):
            plain = _ILLEGAL.sub("_", plain).strip("/_")
        if not LEGAL_NAME.match(plain):
            plain = _ILLEGAL.sub("_", op.rpartition(".")[2] or op).strip("/_") or "node"
        if plain in self._kept and not is_interface:
            plain = f"{plain}_1"
        return self._graph.unique_name(plain)

    def note(self, name: str, value: Value) -> None:
        """Let a tensor be found by the name that the file gives it."""
        plain = name.removesuffix(":0")
        if name != value.name:
            self.spelled[value.name] = name
        if plain and plain != value.name:
            # The first tensor keeps the name: later ones that look the same without `:0` do not take it away.
            self._graph.aliases.setdefault(plain, value.name)


def stated(specs: Sequence[TensorSpec]) -> dict[str, Attr]:
    """The attributes that keep what a file says of a node's outputs."""
    return {
        "_output_shapes": tuple(ShapeAttr(s.shape) for s in specs),
        "_output_types": tuple(s.dtype or UNSTATED for s in specs),
    }


def interface_attrs(spec: TensorSpec, sizes: Sequence[str] = ()) -> dict[str, Attr]:
    """The attributes of a placeholder, with the names of its open sizes where the file gives them any."""
    attrs: dict[str, Attr] = {"shape": ShapeAttr(spec.shape)}
    if sizes:
        attrs[SIZE_NAMES] = tuple(name.encode() for name in sizes)
    return attrs if spec.dtype is None else {"dtype": spec.dtype, **attrs}


def argument_attrs(spec: TensorSpec) -> dict[str, Attr]:
    """The attributes of a function's argument."""
    return {"T": spec.dtype or UNSTATED, **stated([spec])}


def set_spec(value: Value, element: DType | None, shape: Shape) -> None:
    """Note what the file says of a value."""
    value.spec = TensorSpec(element, shape)


def beside(path: Path, name: str) -> Path:
    """Another file that a model names, in the model's folder or below.

    Raises:
        FormatError: the name leads elsewhere, or to nothing.
    """
    # Both separators and drive letters, on every system: the file may come from any.
    parts = re.split(r"[\\/]", name)
    if not name or "\0" in name or ".." in parts or os.path.isabs(name) or re.match(r"[A-Za-z]:", name):
        raise FormatError(
            f"its weights would lie outside of its folder, in '{name}'", str(path), "do not trust this model"
        )
    target = path.parent.joinpath(*parts)
    if not target.is_file():
        raise FormatError(
            f"its weights are in the file '{name}', which is missing", str(path), "put it beside the model"
        )
    # The text of a name may be harmless where a link in the folder is not.
    if not target.resolve().is_relative_to(path.parent.resolve()):
        raise FormatError(
            f"the file of weights '{name}' is a link out of the folder", str(path), "copy the file there"
        )
    return target


def unreadable(error: FormatError, path: str, title: str, hint: str) -> FormatError:
    """The error placed in its file, with what the file seems to be."""
    where = error.where
    if where.endswith(f", {path}"):  # a part of the model spoke of its file
        error = type(error)(error.problem, where.removesuffix(f", {path}"), error.hint)
    placed = error if error.where.startswith(path) else error.at(path)
    return FormatError(f"{title} that cannot be read: {placed.problem}", placed.where, placed.hint or hint)


def list_text(items: Iterable[str], most: int = 5) -> str:
    """`a, b, c`, with dots where there are more."""
    names = list(items)
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


# --- notes in files that hold only a part of a model --------------------------------------------------------


PARTIAL = "PARTIAL: "
"""Beginning of such a file's description, and of the first line that is printed about it."""


def part_note(model: str | os.PathLike[str] | Graph) -> str:
    """The note of a file, or of the graph read from one, on the part it holds, without the mark; else ""."""
    from thinflow.formats import load

    try:
        graph = model if isinstance(model, Graph) else load(model)
    except ThinflowError:  # whoever opens it says what is wrong
        return ""
    text = graph.facts.get("description", "")
    return text.removeprefix(PARTIAL) if text.startswith(PARTIAL) else ""
