"""Models of any kind opened as graphs that run: files, SavedModel folders, `.meta` files, checkpoints."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from thinflow.analysis.interface import guess_interface
from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import GraphError, ParameterError, UnsupportedOp
from thinflow.formats import load, metagraph, recognise, savedmodel
from thinflow.formats.checkpoint import find_prefix, open_checkpoint
from thinflow.formats.metagraph import MetaGraph
from thinflow.ir.graph import Graph, paused_gc
from thinflow.ir.interface import declare_states
from thinflow.load.freezing import freeze_graph, freeze_metagraph
from thinflow.load.frozen import (
    AUTO,
    FREEZE,
    INPUTS,
    KEEP,
    SIGNATURE,
    Frozen,
    Options,
    require_choice,
    tell_unkept,
)

PathLike = str | os.PathLike[str]
_SHOWN_SIGNATURES = 5


def holds_variables(path: PathLike) -> bool:
    """True if a file or folder is of a format that keeps values outside the graph."""
    return recognise(path).name in {"savedmodel", "metagraph"}


def options_for(path: PathLike, options: Mapping[str, Any]) -> dict[str, Any]:
    """Of options that are meant for several models, those that this one takes.

    Args:
        path: of a model.
        options: `tags` and `signature`, which go with models that hold variables, and `checkpoint`.
    """
    keeps_variables = holds_variables(path)
    return {name: value for name, value in options.items() if keeps_variables or name == "checkpoint"}


def open_model(
    path: PathLike,
    *,
    outputs: Sequence[str] | None = None,
    checkpoint: PathLike | None = None,
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
    require_choice(state)

    if checkpoint is None and not holds_variables(path):
        with paused_gc():
            graph = load(path, tags=tags, signature=signature, **options)
            if not graph.vocabulary:
                from thinflow.load.lifted_state import settle_state

                # Recurrent layers of Keras have variables.
                settle_state(graph, state)
            return graph
    names: dict[str, Any] = {"checkpoint": checkpoint, "tags": tags, "signature": signature}
    with paused_gc():
        return _frozen(path, outputs, state, names)


def _frozen(path: PathLike, outputs: Sequence[str] | None, state: str, names: dict[str, Any]) -> Graph:
    """A frozen graph, with its state if that is wanted."""
    keep = FREEZE if state == FREEZE else KEEP
    try:
        # Opening to look at or to convert shall not fail for want of a vocabulary file;
        # whoever runs the graph is told.
        options = Options(allow_absent_files=True, state=keep)
        graph = freeze_source(path, outputs, **names, options=options, finish=False).graph
    except UnsupportedOp as error:
        if state != AUTO:
            raise
        graph = _frozen(path, outputs, FREEZE, names)
        tell_unkept(graph, error.problem)
    # The inputs and outputs of the state are there already; without this entry nobody hands them on by
    # themselves.
    if state == INPUTS:
        graph.states = ()
    return graph


def freeze_source(
    source: PathLike | Graph,
    outputs: Sequence[str] | None = None,
    *,
    inputs: Sequence[str] | None = None,
    checkpoint: PathLike | None = None,
    tags: str | None = None,
    signature: str | None = None,
    options: Options | None = None,
    finish: bool = True,
) -> Frozen:
    """Freeze a model, whatever it is kept in.

    Args:
        source: a SavedModel's folder, a MetaGraph, a GraphDef, or a Graph.
        outputs: names of values to keep; default: those of the signature, else the best guess.
        inputs: names of values to feed; default: those of the signature, else the best guess.
        checkpoint: what leads to a checkpoint, if the values are not with the model.
        tags: which graph of a SavedModel, by its tags, with commas; default: the only one, or "serve".
        signature: which signature; default: the only one, or "serving_default".
        options: see there.
        finish: infer shapes, and guess inputs where none are declared; False if the caller does.

    Raises:
        FormatError: no such model, graph, signature or checkpoint, or a variable without a value.
        GraphError: no such output.
    """
    options = options or Options()
    prefix = find_prefix(checkpoint) if checkpoint is not None else None
    meta = None if isinstance(source, Graph) else _metagraph(source, tags)
    if meta is not None:
        chosen = None if outputs is not None else savedmodel.choose_signature(meta, signature)
        # A MetaGraph without signatures says nothing of its outputs: they are guessed as for a bare graph.
        names = outputs if outputs is not None or chosen is not None else _guessed(meta.graph)
        frozen = freeze_metagraph(meta, chosen, names or (), prefix, options)
        if chosen is not None and signature is None:
            _tell_choice(frozen, meta, chosen)
    else:
        for name, option in (("tags", tags), ("signature", signature)):
            if option is not None:
                raise ParameterError(
                    f"{name}= goes with a SavedModel or a MetaGraph only", hint="leave it out"
                )
        graph = source.clone() if isinstance(source, Graph) else load(source)
        names = outputs if outputs is not None else _guessed(graph)
        values = open_checkpoint(prefix) if prefix is not None else None
        frozen = freeze_graph(graph, names, values, options, inputs=inputs or ())
    if finish:
        infer_shapes(frozen.graph)
        _declare_inputs(frozen.graph, inputs)
        declare_states(frozen.graph)
    return frozen


def _tell_choice(frozen: Frozen, meta: MetaGraph, chosen: metagraph.Signature) -> None:
    """Note which signature was taken where there are others; Keras writes one twice, that is none."""
    key = next(k for k, signature in meta.signatures.items() if signature is chosen)
    others = [k for k, s in meta.signatures.items() if k != key and not _is_twin(k, s, chosen)]
    if others:
        flags = ", ".join(f"--signature {other}" for other in others[:_SHOWN_SIGNATURES])
        note = f"of {len(others) + 1} signatures '{key}' was taken; the others: {flags}"
        frozen.graph.facts[SIGNATURE] = note
        frozen.notes.append(note)


def _is_twin(key: str, other: metagraph.Signature, chosen: metagraph.Signature) -> bool:
    """True if it is what Keras's `export` calls "serve": the default signature once more."""
    ends = [{n: str(e.spec) for n, e in side.items()} for side in (other.inputs, chosen.inputs)]
    ends += [{n: str(e.spec) for n, e in side.items()} for side in (other.outputs, chosen.outputs)]
    return key == "serve" and ends[0] == ends[1] and ends[2] == ends[3]


def _metagraph(path: PathLike, tags: str | None) -> MetaGraph | None:
    kind = recognise(path).name
    if kind == "savedmodel":
        return savedmodel.read(path).select(tags)
    if kind != "metagraph":
        return None
    if tags is not None:
        raise ParameterError("tags= goes with a SavedModel only", hint="leave it out")
    return metagraph.read(path)


def _guessed(graph: Graph) -> list[str]:
    """The most likely outputs of a graph as it was trained, savers and all."""
    infer_shapes(graph)
    names = [value.name for value in guess_interface(graph).chosen_outputs]
    if not names:
        raise GraphError("no output can be guessed", graph.path, "name them: --outputs NAME,NAME")
    return names


def _declare_inputs(graph: Graph, inputs: Sequence[str] | None) -> None:
    if inputs is not None:
        graph.inputs = [graph.value(name) for name in inputs]
    elif not graph.inputs:
        graph.inputs = guess_interface(graph).chosen_inputs
