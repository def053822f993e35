"""Notes in .tflite and .onnx files that hold only a part of a model."""

from __future__ import annotations

import os

from thinflow.errors import ThinflowError
from thinflow.ir.graph import Graph

PARTIAL = "PARTIAL: "
"""How the description of such a file begins, and the first line of what is printed about it."""


def part_note(model: str | os.PathLike[str] | Graph) -> str:
    """What a file, or the graph read from one, says of the part it holds, without the mark; else ""."""
    from thinflow.formats import load

    try:
        graph = model if isinstance(model, Graph) else load(model)
    except ThinflowError:  # whoever opens it says what is wrong
        return ""
    text = graph.facts.get("description", "")
    return text.removeprefix(PARTIAL) if text.startswith(PARTIAL) else ""
