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
    from thinflow.load.sources import holds_variables

    keeps_variables = holds_variables(path)
    return {name: value for name, value in options.items() if keeps_variables or name == "checkpoint"}


def open_model(
    path: str | os.PathLike[str],
    *,
    outputs: Sequence[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    tags: str | None = None,
    signature: str | None = None,
    state: str = "freeze",
    **options: Any,
) -> Graph:
    """The graph of a model. Variables kept outside of it become constants, views of the mapped checkpoint.

    Args:
        path: a file or folder of any format thinflow reads.
        outputs: names of the values wanted; of a model with variables only what they need is kept.
        checkpoint: what leads to the checkpoint of a graph that comes without its weights.
        tags, signature: which graph of a SavedModel, and which inputs and outputs of it.
        state: what becomes of variables that runs change: "freeze" (every run begins with what was saved),
            "keep" (see `Graph.states`), "inputs" (the same, for the caller to hand on), or "auto": kept if
            that is possible.
        options: what else the format can be told.

    Raises:
        FormatError: no such file, or not a model.
        ParameterError: an option that this format does not have.
        UnsupportedOp: state is changed in a way that cannot be followed.

    Shapes are not inferred, and inputs only declared if the model does.
    """
    from thinflow.load.keeping import require_choice
    from thinflow.load.sources import holds_variables

    require_choice(state)

    if checkpoint is None and not holds_variables(path):
        with paused_gc():
            return formats.load(path, tags=tags, signature=signature, **options)
    names: dict[str, Any] = {"checkpoint": checkpoint, "tags": tags, "signature": signature}
    with paused_gc():
        return _frozen(path, outputs, state, names)


def _frozen(
    path: str | os.PathLike[str], outputs: Sequence[str] | None, state: str, names: dict[str, Any]
) -> Graph:
    """A frozen graph, with its state if that is wanted."""
    from thinflow.analysis.opened import tell_unkept
    from thinflow.errors import UnsupportedOp
    from thinflow.load.keeping import AUTO, FREEZE, INPUTS, KEEP
    from thinflow.load.model import Options
    from thinflow.load.sources import freeze_source

    keep = FREEZE if state == FREEZE else KEEP
    try:
        options = Options(allow_absent_files=True, state=keep)
        graph = freeze_source(path, outputs, **names, options=options, finish=False).graph
    except UnsupportedOp as error:
        if state != AUTO:
            raise
        graph = _frozen(path, outputs, FREEZE, names)
        tell_unkept(graph, error.problem)
    if state == INPUTS:
        graph.states = ()
    return graph
