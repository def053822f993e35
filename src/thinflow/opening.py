"""Opening a model of any kind as a graph that runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from thinflow import formats
from thinflow.ir.garbage import paused_gc
from thinflow.ir.graph import Graph


def options_for(path: str | os.PathLike[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Of options that are meant for several models, those that this one takes.

    Args:
        path: of a model.
        options: `tags` and `signature`, which go with models that hold variables, and `checkpoint`.
    """
    from thinflow.freezing.sources import holds_variables

    keeps_variables = holds_variables(path)
    return {name: value for name, value in options.items() if keeps_variables or name == "checkpoint"}


def open_model(
    path: str | os.PathLike[str],
    *,
    outputs: Sequence[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    tags: str | None = None,
    signature: str | None = None,
    **options: Any,
) -> Graph:
    """The graph of a model. Variables kept outside of it become constants, views of the mapped checkpoint.

    Args:
        path: a file or folder of any format thinflow reads.
        outputs: names of the values wanted; of a model with variables only what they need is kept.
        checkpoint: what leads to the checkpoint of a graph that comes without its weights.
        tags, signature: which graph of a SavedModel, and which inputs and outputs of it.
        options: what else the format can be told.

    Raises:
        FormatError: no such file, or not a model.
        ParameterError: an option that this format does not have.

    Shapes are not inferred, and inputs only declared if the model does.
    """
    from thinflow.freezing.model import Options
    from thinflow.freezing.sources import freeze_source, holds_variables

    if checkpoint is None and not holds_variables(path):
        with paused_gc():
            return formats.load(path, tags=tags, signature=signature, **options)
    names: dict[str, Any] = {"checkpoint": checkpoint, "tags": tags, "signature": signature}
    names["options"] = Options(allow_absent_files=True)
    with paused_gc():
        return freeze_source(path, outputs, **names, finish=False).graph
