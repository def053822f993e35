"""From variables to constants."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from thinflow.ir.graph import Graph
from thinflow.load.graphs import Source

if TYPE_CHECKING:
    from thinflow.formats.checkpoint import Checkpoint
    from thinflow.load.describing import ModelInfo, VariableState
    from thinflow.load.frozen import Frozen


def freeze(
    source: Source,
    outputs: Sequence[str] | str | None = None,
    *,
    inputs: Sequence[str] | str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    tags: str | None = None,
    signature: str | None = None,
    only: Sequence[str] = (),
    exclude: Sequence[str] = (),
    averages: bool = False,
    renames: Mapping[str, str] | None = None,
    allow_missing: bool = False,
    clear_devices: bool = False,
) -> Graph:
    """A graph whose variables are constants, views of the checkpoint; `save` writes it.

    Args:
        source: a SavedModel's folder, a `.meta` file, a GraphDef with a checkpoint, or a Graph with one.
        outputs: names of values to keep; default: those of the signature, else the best guess.
        inputs: names of values to feed; default: those of the signature, else the best guess.
        checkpoint: a checkpoint's prefix, index, folder, or FOLDER@latest, if not the model's own.
        tags: which graph of a SavedModel, by its tags; default: the only one, or "serve".
        signature: which signature; default: the only one, or "serving_default".
        only, exclude: variables to freeze, and not to, by name, with wildcards.
        averages: take the moving average of a variable where one was saved.
        renames: beginning of a variable's name in the graph -> in the checkpoint.
        allow_missing: leave variables without a value in the graph instead of failing.
        clear_devices: drop the placement of nodes.

    Raises:
        FormatError: no such model or checkpoint, or a variable without a value; with suggestions.
        GraphError: no such output.
    """
    return freeze_with_report(
        source,
        outputs,
        inputs=inputs,
        checkpoint=checkpoint,
        tags=tags,
        signature=signature,
        only=only,
        exclude=exclude,
        averages=averages,
        renames=renames,
        allow_missing=allow_missing,
        clear_devices=clear_devices,
    ).graph


def freeze_with_report(
    source: Source,
    outputs: Sequence[str] | str | None = None,
    *,
    inputs: Sequence[str] | str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    tags: str | None = None,
    signature: str | None = None,
    only: Sequence[str] = (),
    exclude: Sequence[str] = (),
    averages: bool = False,
    renames: Mapping[str, str] | None = None,
    allow_missing: bool = False,
    clear_devices: bool = False,
    initializers: Sequence[str] = (),
    saver: str | os.PathLike[str] | None = None,
) -> Frozen:
    """As `freeze`, but returns the graph together with where each value came from, and what was left out.

    Args:
        initializers: names of nodes that fill tables, besides those the model names.
        saver: file of the SaverDef, binary or text, whose restore operations know best; the rest as for
            `freeze`.
    """
    from thinflow.formats.metagraph import read_saver
    from thinflow.load.frozen import Options
    from thinflow.load.sources import freeze_source

    if checkpoint is None and not isinstance(source, Graph) and _says_its_ends(source):
        return _complete(source, _names(inputs), _names(outputs))
    options = Options(
        only=tuple(only),
        exclude=tuple(exclude),
        averages=averages,
        renames=renames or {},
        allow_missing=allow_missing,
        clear_devices=clear_devices,
        initializers=tuple(initializers),
        restore_op=read_saver(saver).restore_op_name if saver is not None else "",
    )
    return freeze_source(
        source,
        _names(outputs),
        inputs=_names(inputs),
        checkpoint=checkpoint,
        tags=tags,
        signature=signature,
        options=options,
    )


def _says_its_ends(path: str | os.PathLike[str]) -> bool:
    """True of a file that has its weights and says what comes out, such as Keras's and those of runtimes."""
    from thinflow.formats import load, recognise
    from thinflow.load.sources import holds_variables

    return not holds_variables(path) and recognise(path).load is not None and bool(load(path).outputs)


def _complete(
    path: str | os.PathLike[str], inputs: Sequence[str] | None, outputs: Sequence[str] | None
) -> Frozen:
    """Such a file as all open it: there is nothing to freeze."""
    from thinflow.load.frozen import Frozen, opening_notes
    from thinflow.load.graphs import load

    graph = load(path, inputs=inputs, outputs=outputs)
    return Frozen(graph, nodes_before=len(graph), notes=opening_notes(graph))


def source_notes(graph: Graph) -> list[str]:
    """Notes on the file in other ops than TensorFlow's that a graph was made from: what it is, and what came
    of comparing the two where that was done.
    """
    from thinflow.load import frozen

    return frozen.source_notes(graph)


def opening_notes(graph: Graph) -> list[str]:
    """What opening a model decided that its user must know: which of several signatures was taken, and what
    became of state.
    """
    from thinflow.load import frozen

    return frozen.opening_notes(graph)


def _names(given: Sequence[str] | str | None) -> list[str] | None:
    if given is None:
        return None
    # Commas, as TensorFlow's freeze_graph takes them.
    names = given.split(",") if isinstance(given, str) else given
    return [name.strip() for name in names if name.strip()]


def describe_model(path: str | os.PathLike[str]) -> ModelInfo | None:
    """What a SavedModel or a MetaGraph holds: graphs, signatures, variables. None for a file of another kind.

    Raises:
        FormatError: no such file, or a damaged one.
    """
    from thinflow.load.describing import describe

    return describe(path)


def leads_to_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a checkpoint's prefix, a file of one, or a folder with checkpoints alone."""
    from thinflow.formats import recognise
    from thinflow.formats.checkpoint import names_checkpoint

    return names_checkpoint(path) or recognise(path).name == "checkpoint"


def variable_bytes(checkpoint: Checkpoint, name: str) -> int:
    """Bytes of a variable's numbers; of text those that are stored."""
    from thinflow.load.describing import size_bytes

    return size_bytes(checkpoint, name)


def variable_states(checkpoint: Checkpoint, *, with_stats: bool = False) -> Iterator[VariableState]:
    """Whether the bytes of each variable are sound, where they stand, and what its numbers are like.

    Args:
        checkpoint: open; every byte of it is read.
        with_stats: look at the numbers, too.
    """
    from thinflow.load import describing

    return describing.variable_states(checkpoint, with_stats=with_stats)


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """The variables of a checkpoint: a mapping from names to tensors, read when asked for.

    Args:
        path: the checkpoint's prefix, its `.index`, a shard, the folder, or FOLDER@latest.

    Raises:
        FormatError: there is none, or it is damaged.
    """
    from thinflow.formats.checkpoint import open_checkpoint

    return open_checkpoint(path)
