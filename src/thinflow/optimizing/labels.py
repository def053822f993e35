"""Names of classes: from a file, or from one beside the model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph


def read_class_names(labels: str | Path | Sequence[str] | None) -> list[str] | None:
    """Class names from a file with one per line, or as given."""
    if labels is None:
        return None
    if isinstance(labels, (str, Path)):
        try:
            return [
                line.strip() for line in Path(labels).read_text(encoding="utf-8").splitlines() if line.strip()
            ]
        except (OSError, UnicodeDecodeError) as error:
            raise ParameterError(
                f"the labels cannot be read: {error}", str(labels), "give a text file, one label a line"
            ) from error
    return list(labels)


def labels_beside(graph: Graph) -> Path | None:
    """A labels file beside the model whose number of lines is the width of the output."""
    if not graph.path or not graph.outputs or not graph.outputs[0].shape:
        return None
    width = graph.outputs[0].shape[-1]
    for path in sorted(Path(graph.path).parent.glob("*label*.txt")):
        try:
            if sum(1 for line in path.read_text(encoding="utf-8").splitlines() if line.strip()) == width:
                return path
        except (OSError, UnicodeDecodeError):
            continue
    return None


def class_names_for(graph: Graph, labels: str | Path | Sequence[str] | None) -> list[str] | None:
    """Class names as given; else from a labels file beside the model, None if there is none."""
    return read_class_names(labels if labels is not None else labels_beside(graph))
