"""Names of classes: from a file, or from one beside the model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from thinflow.errors import ParameterError
from thinflow.ir.types import TensorSpec


def read_class_names(labels: str | os.PathLike[str] | Sequence[str] | None) -> list[str] | None:
    """Class names from a file with one per line, or as given."""
    if labels is None:
        return None
    if isinstance(labels, (str, os.PathLike)):
        try:
            return [
                line.strip() for line in Path(labels).read_text(encoding="utf-8").splitlines() if line.strip()
            ]
        except (OSError, UnicodeDecodeError) as error:
            raise ParameterError(
                f"the labels cannot be read: {error}", str(labels), "give a text file, one label a line"
            ) from error
    return list(labels)


def labels_beside(path: str | os.PathLike[str], output: TensorSpec | None) -> Path | None:
    """A labels file beside a model whose number of lines is the width of its first output.

    Args:
        path: of the model; "" if it came from no file.
        output: what is known of that output; None if there is none.
    """
    if not os.fspath(path) or output is None or not output.shape:
        return None
    for file in sorted(Path(path).parent.glob("*label*.txt")):
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        if sum(1 for line in lines if line.strip()) == output.shape[-1]:
            return file
    return None


def class_names_for(
    path: str | os.PathLike[str],
    output: TensorSpec | None,
    labels: str | os.PathLike[str] | Sequence[str] | None,
) -> list[str] | None:
    """Class names as given; else from a labels file beside the model, None if there is none."""
    return read_class_names(labels if labels is not None else labels_beside(path, output))
