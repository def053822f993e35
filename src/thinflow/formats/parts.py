"""Notes in .tflite and .onnx files that hold only a part of a model."""

from __future__ import annotations

import os

from thinflow.errors import ThinflowError
from thinflow.ir.graph import Graph

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
