"""How a model in a folder is used, from the files that its exporter put beside it: TensorFlow.js's
metadata.json, and lists of labels among the assets of a SavedModel.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from thinflow.ir.graph import Graph, Value
from thinflow.ir.usage import GREY, IMAGE, RGB, InputUsage, OutputUsage, Usage, Words, word_lines

_METADATA, _MODEL = "metadata.json", "model.json"
_MOST_BYTES = 1 << 24
_MOST_FILES = 100
_PICTURES = "@teachablemachine/image"
_TAKES = "Teachable Machine takes x / 127 - 1"
_SHOWN_TEXT = 400


def with_files_beside(graph: Graph) -> Usage:
    """The graph's usage, with what the files of its folder say where it says nothing itself.

    Files are read if they are small, and lie in the folder itself. What makes no sense is left out.
    """
    if not graph.path or graph.vocabulary or not graph.outputs:
        return graph.usage
    path = Path(graph.path)
    if (path / "saved_model.pb").is_file():
        return _with_labels(graph, _asset_lists(path / "assets"))
    if path.suffix == ".json" or (path / _MODEL).is_file():
        return _of_web_page(graph, (path if path.is_dir() else path.parent) / _METADATA)
    return graph.usage


def _with_labels(graph: Graph, lists: Iterator[Words]) -> Usage:
    """The usage with labels for the first output that has as many scores; lists are read until one fits."""
    usage = graph.usage
    open_ends = {v.name: v.shape[-1] for v in graph.outputs if v.shape and usage.output(v.name) is None}
    for words in lists if open_ends else ():
        name = next((name for name, width in open_ends.items() if width == len(words.words)), None)
        if name is not None:
            outputs = {**usage.outputs, name: OutputUsage(words, said="the model's folder")}
            return replace(usage, outputs=outputs)
    return usage


def _asset_lists(folder: Path) -> Iterator[Words]:
    for file in sorted(folder.glob("*label*.txt"))[:_MOST_FILES]:
        if words := word_lines(_text(file) or ""):
            yield Words(f"assets/{file.name}", words)


def _text(file: Path) -> str | None:
    """The text in a file; None if there is none, or it is no part of its folder."""
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _MOST_BYTES:
            return None
        return file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None


def _of_web_page(graph: Graph, file: Path) -> Usage:
    try:
        found: Any = json.loads(_text(file) or "null")
    except (ValueError, RecursionError):
        return replace(graph.usage, problems=(*graph.usage.problems, f"{_METADATA} is no valid JSON"))
    if not isinstance(found, dict):
        return graph.usage
    labels = found.get("labels")
    if isinstance(labels, list) and labels and all(isinstance(label, str) for label in labels):
        usage = _with_labels(graph, iter([Words(_METADATA, tuple(labels))]))
    else:
        usage = graph.usage
    name = found.get("modelName")
    notes = {"name": name[:_SHOWN_TEXT]} if isinstance(name, str) and name else {}
    inputs = dict(usage.inputs)
    if found.get("packageName") == _PICTURES and len(graph.inputs) == 1:
        inputs.setdefault(graph.inputs[0].name, _teachable(graph.inputs[0]))
    return replace(usage, inputs=inputs, notes={**notes, **usage.notes})


def _teachable(value: Value) -> InputUsage:
    """The input of a model that was trained in the browser: its page scales pixels so, which no file says."""
    grey = value.shape is not None and value.shape[-1] == 1
    colours = GREY if grey else RGB
    return InputUsage(IMAGE, colours, mean=(127.0,), std=(127.0,), said=_METADATA, assumed=_TAKES)
