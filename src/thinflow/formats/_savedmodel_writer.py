"""Writes a frozen graph as a SavedModel: one graph, one signature, no variables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from thinflow.errors import GraphError, WriteError
from thinflow.formats import graphdef
from thinflow.formats._files import write_file
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.wire import protos
from thinflow.wire.fields import encode_varint, field_header

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
    return write_file(Path(folder) / FILE, _chunks(graph, protos.serialize(message)))


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
        others = [p.name for p in folder.iterdir() if p.name != FILE]
    except OSError as error:
        raise WriteError(
            f"the folder cannot be made: {error.strerror}", str(folder), "choose another place"
        ) from error
    if others:
        raise WriteError(
            f"the folder holds other things, such as '{min(others)}'", str(folder), "name a new folder"
        )


def _chunks(graph: Graph, rest: bytes) -> Iterator[bytes | memoryview]:
    """The SavedModel piece by piece; weights are views of wherever they live."""
    # Lengths stand in front: they must be known before the weights are written.
    size = graphdef.serialized_size(graph)
    head = field_header(_GRAPH_DEF, _BYTES) + encode_varint(size)
    total = len(rest) + len(head) + size
    yield _VERSION + field_header(_META_GRAPHS, _BYTES) + encode_varint(total) + rest + head
    yield from graphdef.to_chunks(graph)
