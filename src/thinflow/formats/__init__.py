"""Files in and out: `load` looks at the bytes, never at the suffix; `save` goes by the suffix."""

from __future__ import annotations

import os
from pathlib import Path

from thinflow.errors import FormatError, ParameterError
from thinflow.formats import graphdef
from thinflow.formats._files import map_file
from thinflow.ir.graph import Graph

GRAPH_FORMATS = ("graphdef", "pbtxt")

# (bytes, at, what it is, what to do). Checked in order, so the specific ones stand first.
_OTHERS = [
    (
        b"TFL3",
        4,
        "a LiteRT (.tflite) model",
        "it is already converted; give the TensorFlow GraphDef it was made from",
    ),
    (
        b"\x83\xaf\x70\xd1",
        0,
        "a chunked SavedModel (.cpb)",
        "freeze it with TensorFlow first and give the frozen .pb",
    ),
    (b"\x89HDF", 0, "a Keras HDF5 file", "export it with TensorFlow: model.export('dir'), then freeze"),
    (
        b"PK\x03\x04",
        0,
        "a zip archive (a .keras or .npz file?)",
        "unpack or export it first; a frozen .pb is needed",
    ),
    (b"\xff\xd8\xff", 0, "a JPEG picture", "give the model file"),
    (b"\x89PNG", 0, "a PNG picture", "give the model file"),
    (b"GIF8", 0, "a GIF picture", "give the model file"),
    (b"RIFF", 0, "a RIFF file (sound?)", "give the model file"),
    (b"%PDF", 0, "a PDF document", "give the model file"),
    (b"\x7fELF", 0, "a program", "give the model file"),
    (
        b"model_checkpoint_path",
        0,
        "the list of a checkpoint folder",
        "freeze the checkpoint together with its graph",
    ),
    (b"version https://git-lfs", 0, "a Git LFS pointer", "fetch the model itself: git lfs pull"),
    (b"<!DOCTYPE", 0, "a web page", "download the model file itself, not the page about it"),
    (b"<html", 0, "a web page", "download the model file itself, not the page about it"),
    (b"<?xml", 0, "an XML document", "give the model file"),
    *(
        (bytes([8, v, 0x12]), 0, "an ONNX model", "give the TensorFlow GraphDef it was made from")
        for v in range(3, 16)
    ),
    *(
        (bytes([0x80, v]), 0, "a Python pickle (PyTorch?)", "export a TensorFlow GraphDef")
        for v in range(2, 6)
    ),
    (
        b"\x08\x01\x12",
        0,
        "a SavedModel (saved_model.pb)",
        "freeze it first: `thinflow freeze` is not there yet, see `saved_model_cli`",
    ),
]
_FREEZE = (
    "freeze it with TensorFlow: python -m tensorflow.python.tools.freeze_graph --input_saved_model_dir={0} "
    "--output_node_names=NAMES --output_graph=frozen.pb"
)


def load(path: str | os.PathLike[str]) -> Graph:
    """The graph in a file of any supported format.

    Raises:
        FormatError: no such file, or not a TensorFlow graph; says what it is instead and what to do.
    """
    where = os.fspath(path)
    if os.path.isdir(where):
        raise _folder_error(Path(where))
    buffer = map_file(path)
    head = bytes(buffer[:4096])
    if not graphdef.is_text(head):
        for magic, at, what, hint in _OTHERS:
            if head[at : at + len(magic)] == magic:
                if magic == b"\x08\x01\x12":
                    hint = _FREEZE.format(Path(where).parent)
                raise FormatError(f"this is {what}, not a GraphDef", where, hint=hint)
    del buffer
    return graphdef.load(path)


def _folder_error(folder: Path) -> FormatError:
    if any((folder / name).exists() for name in ("saved_model.pb", "saved_model.pbtxt", "saved_model.cpb")):
        has_variables = (folder / "variables" / "variables.index").exists()
        what = "a SavedModel with variables outside the graph" if has_variables else "a SavedModel"
        return FormatError(f"this is {what}, not a frozen graph", str(folder), hint=_FREEZE.format(folder))
    if (folder / "checkpoint").exists() or any(folder.glob("*.index")):
        return FormatError(
            "this folder holds a checkpoint: weights without a graph",
            str(folder),
            hint="freeze it together with its graph",
        )
    models = sorted(p.name for p in folder.glob("*.pb*"))
    hint = f"it contains {', '.join(models[:5])}" if models else "name a .pb file"
    return FormatError("this is a folder, not a model", str(folder), hint=hint)


def save(graph: Graph, path: str | os.PathLike[str], *, format: str | None = None) -> int:
    """Write a graph as a GraphDef, atomically; the bytes written.

    Args:
        graph: what to write.
        path: where to; `.pbtxt` means text, a further `.gz` compresses.
        format: "graphdef" or "pbtxt", overriding the suffix.

    Raises:
        ParameterError: unknown format.
        WriteError: the file cannot be written.
    """
    if format is not None and format not in GRAPH_FORMATS:
        raise ParameterError(
            f"'{format}' is not a graph format", hint=f"choose one of {', '.join(GRAPH_FORMATS)}"
        )
    return graphdef.save(graph, path, text=None if format is None else format == "pbtxt")
