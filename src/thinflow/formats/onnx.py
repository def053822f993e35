"""ONNX files as graphs with ONNX's own ops, for looking at, comparing and running them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from thinflow.errors import FormatError
from thinflow.formats.files import map_file
from thinflow.formats.foreign import copy_file, list_text, unreadable
from thinflow.formats.format import Format, Sample
from thinflow.ir.graph import Graph, paused_gc

_HINT = "the file is damaged, cut short or not ONNX; export the model again"
_SHOWN_TEXT = 400
# Varints of one byte, so that the next tag stands at a fixed place.
_FIRST_VERSION, _LAST_VERSION = 3, 63
_VERSION_TAG = 8
_SECOND_TAGS = (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42)
"""Tags that may follow ir_version: producer, its version, domain, model version, doc string, graph, opsets. A
SavedModel begins alike, with version 1."""


def load(path: str | os.PathLike[str]) -> Graph:
    """The graph in an .onnx file; weights stay views of the mapped file, or of the files beside it.

    Raises:
        FormatError: not such a file, or a damaged one; names the place.
    """
    buffer = map_file(path, unpack=False)
    try:
        with paused_gc():
            graph = from_bytes(buffer, path=Path(path))
    except FormatError as error:
        raise unreadable(error, os.fspath(path), FORMAT.title, _HINT) from error
    graph.path = os.fspath(path)
    return graph


def from_bytes(data: memoryview | bytes, *, path: Path | None = None) -> Graph:
    """The graph in the bytes of an .onnx file.

    Args:
        data: the bytes; weights are views of them.
        path: where they come from, to find files of weights beside.
    """
    from thinflow.formats._onnx_graph import graph_of
    from thinflow.formats.onnx_model import parse_model

    model = parse_model(memoryview(data), path)
    if not model.message.HasField("graph"):
        raise FormatError("there is no graph in it")
    # A graph may well have outputs that are constants or inputs, and no nodes.
    if not model.message.graph.node and not model.message.graph.output:
        raise FormatError("there are no nodes in it")
    graph = graph_of(model)
    graph.facts = _facts(model.message)
    return graph


def _facts(message: Any) -> dict[str, str]:
    facts = {"ir version": str(message.ir_version)}
    producer = f"{message.producer_name} {message.producer_version}".strip()
    if producer:
        facts["producer"] = producer[:_SHOWN_TEXT]
    if message.opset_import:
        facts["opset"] = list_text(
            str(o.version) if o.domain in ("", "ai.onnx") else f"{o.domain} {o.version}"
            for o in message.opset_import
        )
    if message.doc_string:
        facts["description"] = message.doc_string[:_SHOWN_TEXT]
    if message.metadata_props:
        facts["metadata"] = list_text(p.key for p in message.metadata_props)
    return facts


def _recognise(sample: Sample) -> bool:
    head = sample.head
    is_version = len(head) > 2 and head[0] == _VERSION_TAG and _FIRST_VERSION <= head[1] <= _LAST_VERSION
    return is_version and head[2] in _SECOND_TAGS


FORMAT = Format(
    name="onnx",
    title="an ONNX model",
    recognise=_recognise,
    load=load,
    save=lambda graph, path: copy_file(graph, path, "onnx", "ONNX"),
    suffixes=(".onnx",),
    engine="onnxruntime",
    rank=20,
)
