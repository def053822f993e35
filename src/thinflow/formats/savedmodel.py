"""SavedModels: a folder with one or more MetaGraphs, their variables, and files they need."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thinflow.errors import FormatError, GraphError, WriteError, closest
from thinflow.formats import graphdef, metagraph
from thinflow.formats.files import map_file, write_file
from thinflow.formats.format import Format, Sample
from thinflow.formats.metagraph import MetaGraph
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.wire import protos, riegeli
from thinflow.wire.fields import LENGTH_DELIMITED, encode_varint, field_header, iter_fields, read_varint

FILES = ("saved_model.pb", "saved_model.pbtxt", "saved_model.cpb")
_TEXT_STARTS = frozenset({b"saved_model_schema_version", b"meta_graphs"})
_META_GRAPHS_FIELD = 2
_SCHEMA_VERSION = 1


@dataclass
class SavedModel:
    """The MetaGraphs of one folder.

    Attributes:
        folder: where it lies.
        graphs: one for each set of tags.
    """

    folder: Path
    graphs: list[MetaGraph]

    def tag_sets(self) -> list[tuple[str, ...]]:
        """The tags of each graph."""
        return [graph.tags for graph in self.graphs]

    def select(self, tags: str | Iterable[str] | None = None) -> MetaGraph:
        """The graph with exactly these tags.

        Args:
            tags: several, or one text with commas. None: the only graph, or the one tagged "serve".

        Raises:
            FormatError: there is none; the sets there are are named.
        """
        if tags is None:
            if len(self.graphs) == 1:
                return self.graphs[0]
            tags = "serve"
        names = tuple(sorted(t.strip() for t in (tags.split(",") if isinstance(tags, str) else tags)))
        names = tuple(tag for tag in names if tag)
        for graph in self.graphs:
            if graph.tags == names:
                return graph
        sets = ["{" + ", ".join(found) + "}" for found in self.tag_sets()]
        text = "{" + ", ".join(names) + "}"
        raise FormatError(
            f"there is no graph tagged {text}",
            str(self.folder),
            f"there is {' and '.join(sets)}; give --tags" if sets else "the model is empty",
        )

    def fingerprint(self) -> Any:
        """The FingerprintDef message; None if there is none. Informative, never needed."""
        path = self.folder / "fingerprint.pb"
        return protos.parse("FingerprintDef", path.read_bytes()) if path.is_file() else None


def is_saved_model(sample: Sample) -> bool:
    """True if this is such a folder, or the file in it."""
    if sample.is_folder:
        return any((sample.path / name).is_file() for name in FILES)
    return _begins_a_model(sample) or sample.word() in _TEXT_STARTS


def _begins_a_model(sample: Sample) -> bool:
    """By the layout's number and a MetaGraph behind it: other protobuf files begin with such a number too."""
    if sample.head.startswith(riegeli.MAGIC[:4]):
        return True
    # Field 1, the version of the layout, is 1; field 2 is a MetaGraph. An ONNX model
    # of IR version 1 begins so, too.
    if not sample.head.startswith(b"\x08\x01\x12"):
        return False
    try:
        _, at = read_varint(sample.head, 3)
    except FormatError:
        return False
    return metagraph.is_metagraph(Sample(sample.path, sample.head[at:]))


def read(path: str | os.PathLike[str]) -> SavedModel:
    """The SavedModel in a folder, or in the folder of the file named.

    Raises:
        FormatError: it is none, or damaged.
    """
    given = Path(path)
    if given.is_dir():
        files = [given / name for name in FILES if (given / name).is_file()]
        if not files:
            raise FormatError(
                "there is no saved_model.pb in this folder", str(given), "name the model's folder"
            )
        file, folder = files[0], given
    else:
        file, folder = given, given.parent
    buffer = map_file(file)
    try:
        return SavedModel(folder, _graphs(buffer, file, folder))
    except FormatError as error:
        if error.where.startswith(str(file)):
            raise
        problem = f"this SavedModel cannot be read: {error.problem}"
        where = f"{file}, {error.where}" if error.where else str(file)
        raise FormatError(problem, where, error.hint or "export the model again") from error


def _graphs(buffer: memoryview, file: Path, folder: Path) -> list[MetaGraph]:
    from thinflow.formats import _chunks

    head = bytes(buffer[:4096])
    if head.startswith(riegeli.MAGIC[:4]):
        buffer = _chunks.joined(buffer)
    elif Sample(file, head).word() in _TEXT_STARTS:
        buffer = memoryview(protos.serialize(protos.from_text("SavedModel", bytes(buffer))))
    # The prefix that TensorFlow gives it, in a folder of the same name.
    checkpoint = folder / "variables" / "variables"
    has_variables = Path(f"{checkpoint}.index").is_file()
    graphs = []
    for number, kind, start, end in iter_fields(buffer, 0, len(buffer)):
        if number == _META_GRAPHS_FIELD and kind == LENGTH_DELIMITED:
            graph = metagraph.from_bytes(buffer[start:end], file, folder)
            graph.graph.path = str(folder)
            graph.graph.facts.update(keras_facts(folder))
            # All graphs of a SavedModel share one checkpoint.
            graph.checkpoint = checkpoint if has_variables else None
            graphs.append(graph)
        elif number == 1:
            _check_version(buffer, start)
    if not graphs:
        raise FormatError("there is no graph in it", hint="export the model again")
    return graphs


_KERAS = "keras_metadata.pb"
_MAX_METADATA = 256 << 20
_NODES, _PATH, _METADATA = 1, 3, 5
"""Fields of SavedMetadata and of the SavedObjects in it."""


def keras_facts(folder: Path) -> dict[str, str]:
    """What Keras 2 noted of the model beside its functions; nothing where it did not, or it cannot be read.

    What the model computes is in its functions alone.
    """
    path = folder / _KERAS
    if not path.is_file() or path.stat().st_size > _MAX_METADATA:
        return {}
    data = memoryview(path.read_bytes())
    try:
        for number, kind, start, end in iter_fields(data, 0, len(data)):
            if number != _NODES or kind != LENGTH_DELIMITED:
                continue
            fields = {
                n: bytes(data[a:b]) for n, k, a, b in iter_fields(data, start, end) if k == LENGTH_DELIMITED
            }
            if fields.get(_PATH) == b"root":
                return _told(json.loads(fields.get(_METADATA, b"")))
    except (FormatError, ValueError, RecursionError):
        # Informative, never needed.
        return {}
    return {}


def _told(root: object) -> dict[str, str]:
    if not isinstance(root, dict):
        return {}
    kind, name, version, config = (root.get(key) for key in ("class_name", "name", "keras_version", "config"))
    facts = {"producer": f"Keras {version[:20]}"} if isinstance(version, str) else {}
    layers = config.get("layers") if isinstance(config, dict) else None
    if isinstance(kind, str) and isinstance(name, str):
        count = f", {len(layers)} layers" if isinstance(layers, list) else ""
        facts["model"] = f"{kind[:40]} '{name[:80]}'{count}"
    return facts


def _check_version(buffer: memoryview, at: int) -> None:
    version = read_varint(buffer, at)[0]
    if version != _SCHEMA_VERSION:
        raise FormatError(f"its layout has the number {version}; only {_SCHEMA_VERSION} is known")


def choose_signature(graph: MetaGraph, key: str | None = None) -> metagraph.Signature | None:
    """The signature of a key; by default the only one, or "serving_default". None if there is none at all.

    Raises:
        FormatError: no such signature, or several and none is the default.
    """
    signatures = graph.signatures
    if key is None:
        if "serving_default" in signatures:
            return signatures["serving_default"]
        if len(signatures) <= 1:
            return next(iter(signatures.values()), None)
        raise FormatError(
            f"the model has {len(signatures)} signatures",
            str(graph.path),
            f"choose one with --signature: {', '.join(signatures)}",
        )
    if key not in signatures:
        hint = closest(key, signatures) or (
            f"there is {', '.join(signatures)}" if signatures else "the model has no signatures"
        )
        raise FormatError(f"there is no signature '{key}'", str(graph.path), hint)
    return signatures[key]


# --- writing a frozen graph: one graph, one signature, no variables -----------------------------------------


FILE = "saved_model.pb"
_LAYOUT_OF = "1.15.0"  # TensorFlow insists on a version, and goes by it
_PREDICT = "tensorflow/serving/predict"
_VERSION = b"\x08\x01"  # saved_model_schema_version: 1
_META_GRAPHS, _GRAPH_DEF = 2, 2
_BYTES = 2  # wire type of what has a length


def save(
    graph: Graph,
    folder: str | os.PathLike[str],
    *,
    signature: str = "serving_default",
    tags: Iterable[str] = ("serve",),
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
) -> int:
    """Write the folder; the bytes written.

    Args:
        graph: without variables, its inputs and outputs declared.
        folder: made if missing; one that holds anything but such a model is left alone.
        signature: key of the signature.
        tags: of the graph.
        inputs, outputs: what the signature calls them, in the graph's order; default: their names.

    Raises:
        GraphError: the graph has no outputs.
        WriteError: the folder cannot be made, or holds something else.
    """
    if not graph.outputs:
        raise GraphError("the graph has no outputs, so no signature", graph.path, "name them: outputs=[...]")
    message = _meta_graph(tags)
    entry = message.signature_def[signature]
    entry.method_name = _PREDICT
    _describe(entry.inputs, graph.inputs, inputs)
    _describe(entry.outputs, graph.outputs, outputs)
    _make(Path(folder))
    return write_file(Path(folder) / FILE, _file_parts(graph, protos.serialize(message)))


def _meta_graph(tags: Iterable[str]) -> Any:
    message = protos.message("MetaGraphDef")()
    message.meta_info_def.tags.extend(tags)
    message.meta_info_def.tensorflow_version = _LAYOUT_OF
    return message


def _describe(entries: Any, values: Sequence[Value], names: Sequence[str] | None) -> None:
    """One TensorInfo for each value. Its dtype and shape are those inferred, or declared by a placeholder."""
    for value, name in zip(values, names or [v.name for v in values], strict=True):
        info = entries[name]
        info.name = f"{value.node.name}:{value.port}"
        element = value.dtype or value.node.attrs.get("dtype")
        info.dtype = getattr(element, "number", 0)
        # What a placeholder declares may be wider than what was inferred with sizes that somebody assumed.
        declared = value.node.attrs.get("shape")
        dims = declared.dims if isinstance(declared, ShapeAttr) and value.port == 0 else value.shape
        if dims is None:
            info.tensor_shape.unknown_rank = True
        else:
            info.tensor_shape.SetInParent()
            for size in dims:
                info.tensor_shape.dim.add(size=-1 if size is None else size)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A model that was frozen there before may be replaced; variables or assets of another one would not
        # fit.
        others = [p.name for p in folder.iterdir() if p.name != FILE]
    except OSError as error:
        raise WriteError(
            f"the folder cannot be made: {error.strerror}", str(folder), "choose another place"
        ) from error
    if others:
        raise WriteError(
            f"the folder holds other things, such as '{min(others)}'", str(folder), "name a new folder"
        )


def _file_parts(graph: Graph, rest: bytes) -> Iterator[bytes | memoryview]:
    """The SavedModel piece by piece; weights are views of wherever they live."""
    # Lengths stand in front: they must be known before the weights are written.
    size = graphdef.serialized_size(graph)
    head = field_header(_GRAPH_DEF, _BYTES) + encode_varint(size)
    total = len(rest) + len(head) + size
    yield _VERSION + field_header(_META_GRAPHS, _BYTES) + encode_varint(total) + rest + head
    yield from graphdef.to_chunks(graph)


FORMAT = Format("savedmodel", "a SavedModel", is_saved_model, save=save, rank=17)
