"""Values of variables and contents of tables: from a checkpoint, or from initialisers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from thinflow.errors import FormatError, ThinflowError, closest
from thinflow.formats.checkpoint import Checkpoint
from thinflow.formats.metagraph import MetaGraph
from thinflow.ir.graph import Graph, Node
from thinflow.ir.tensor import Tensor
from thinflow.load import restoring
from thinflow.load.frozen import Frozen, Options
from thinflow.load.initial_values import InitialValues
from thinflow.load.restoring import Key
from thinflow.load.tables import absent_files, fill, tables_of

# Under the variable's own key: as tf.train.ExponentialMovingAverage calls it first, then as others do.
_AVERAGE_SUFFIXES = ("ExponentialMovingAverage", "moving_avg", "avg")


def table_contents(
    graph: Graph, checkpoint: Checkpoint | None, meta: MetaGraph | None
) -> dict[str, tuple[Tensor, Tensor]]:
    """Table node -> keys and values, of those that the checkpoint keeps."""
    if checkpoint is None:
        return {}
    found = restoring.contents_of(graph, checkpoint, meta)
    read = restoring.tensor_of
    return {
        name: (read(checkpoint, keys), read(checkpoint, values)) for name, (keys, values) in found.items()
    }


def fill_tables(
    graph: Graph,
    home: Path | None,
    contents: Mapping[str, tuple[Tensor, Tensor]],
    frozen: Frozen,
    *,
    lenient: bool,
) -> None:
    tables = tables_of(graph)
    filled = {t: fill(graph, t, home, contents.get(t.name, ()), leave_absent=lenient) for t in tables}
    absent = absent_files(graph)
    for table in tables:
        if table.name in absent:
            frozen.notes.append(
                f"the table '{table.name}' is to be filled from {absent[table.name]}: no such file"
            )
        elif filled[table]:
            frozen.notes.append(f"the table '{table.name}' is filled inside the graph")
        else:
            frozen.notes.append(f"the table '{table.name}' is empty: nothing in the model fills it")


def _chosen(node: Node, options: Options) -> bool:
    def listed(patterns: Sequence[str]) -> bool:
        names = (p.removesuffix(":0") for p in patterns)
        return any(node.name == name or fnmatchcase(node.name, name) for name in names)

    return (not options.only or listed(options.only)) and not listed(options.exclude)


def variable_values(
    graph: Graph,
    keys: Mapping[str, Key],
    checkpoint: Checkpoint | None,
    options: Options,
    frozen: Frozen,
    initial: InitialValues,
) -> dict[Node, Tensor]:
    nodes = [node for node in restoring.variables(graph) if _chosen(node, options)]
    if not nodes:
        return {}
    if checkpoint is None:
        return _values_without_checkpoint(graph, nodes, initial, frozen)
    keys = _keys_of(nodes, keys, checkpoint, options)
    found = {node: keys[node.name] for node in nodes if node.name in keys}
    frozen.variables = {node.name: key for node, key in found.items()}
    used = {key.name for key in found.values()}
    frozen.unused = [name for name in checkpoint if name not in used]
    read = {node: restoring.tensor_of(checkpoint, key) for node, key in found.items()}
    # Initialisers that the user named do not win over the checkpoint; that is told.
    if options.initializers:
        stored = [n.name for n in found if initial.assigns(n.name)]
        _note(frozen, stored, "as in the checkpoint, not initialised")

    def known(name: str) -> Tensor | None:
        return restoring.tensor_of(checkpoint, keys[name]) if name in keys else None

    read |= _initial_values([node for node in nodes if node not in read], initial, known, frozen)
    missing = [node for node in nodes if node not in read]
    if missing:
        _report_missing(missing, checkpoint, used, options, frozen)
    return read


def _values_without_checkpoint(
    graph: Graph, nodes: Sequence[Node], initial: InitialValues, frozen: Frozen
) -> dict[Node, Tensor]:
    """Values that initialisers give to all variables.

    Raises:
        FormatError: there is a variable that none of them sets.
    """
    values = _initial_values(nodes, initial, lambda _: None, frozen)
    if len(values) < len(nodes):
        raise FormatError(
            f"the graph has {len(nodes)} variables, first '{nodes[0].name}', and no checkpoint was given",
            graph.path,
            "give the checkpoint's prefix: --checkpoint PREFIX",
        )
    return values


def _keys_of(
    nodes: Sequence[Node], keys: Mapping[str, Key], checkpoint: Checkpoint, options: Options
) -> dict[str, Key]:
    """Keys of variables in the checkpoint, by name, as the options have it."""
    keys = dict(keys)
    if options.renames:
        keys |= _renamed([n.name for n in nodes], options.renames, checkpoint)
    return _use_averages(keys, checkpoint) if options.averages else keys


def _initial_values(
    nodes: Sequence[Node], initial: InitialValues, known: Callable[[str], Tensor | None], frozen: Frozen
) -> dict[Node, Tensor]:
    """The values of variables that initialisers give, noted; of those that some initialiser gives one."""
    values = initial.of([node.name for node in nodes], known)
    frozen.variables |= {name: Key(name, told_by="the initialisers") for name in values}
    _note(frozen, list(values), "not in a checkpoint, initialised")
    _note(
        frozen, [name for name in initial.random if name in values], "of RANDOM numbers, other ones each time"
    )
    return {node: values[node.name] for node in nodes if node.name in values}


def _note(frozen: Frozen, names: Sequence[str], what: str) -> None:
    if names:
        listed = ", ".join(f"'{name}'" for name in names[:5]) + (", ..." if len(names) > 5 else "")
        frozen.notes.append(f"{len(names)} variable{'s' if len(names) > 1 else ''} {what}: {listed}")


def _report_missing(
    missing: Sequence[Node], checkpoint: Checkpoint, used: set[str], options: Options, frozen: Frozen
) -> None:
    names = [node.name for node in missing]
    if options.allow_missing:
        frozen.missing = names
        frozen.notes.append(f"{len(names)} variables have no value and stay: {', '.join(names[:5])}")
        return
    listed = ", ".join(f"'{name}'" for name in names[:5]) + (", ..." if len(names) > 5 else "")
    raise FormatError(
        f"the checkpoint has no value for {len(names)} variable{'s' if len(names) > 1 else ''}: {listed}",
        str(checkpoint.prefix),
        _suggestion(missing, checkpoint, used),
    )


def _use_averages(keys: Mapping[str, Key], checkpoint: Checkpoint) -> dict[str, Key]:
    """The same, with the shadow value of a moving average in place of a variable's own where there is one."""
    changed = {}
    for name, key in keys.items():
        shadow = next((f"{key.name}/{s}" for s in _AVERAGE_SUFFIXES if f"{key.name}/{s}" in checkpoint), None)
        changed[name] = key if shadow is None else Key(shadow, key.part, "a moving average")
    return changed


def _renamed(names: Sequence[str], renames: Mapping[str, str], checkpoint: Checkpoint) -> dict[str, Key]:
    """Keys for variables whose names begin otherwise in the checkpoint.

    Args:
        names: of variables.
        renames: beginning of a name in the graph -> what stands for it in the checkpoint.
        checkpoint: where the keys are.
    """
    found = {}
    for name in names:
        # Of several beginnings that fit and lead to a key the last one counts.
        for old, new in renames.items():
            if name.startswith(old) and new + name[len(old) :] in checkpoint:
                found[name] = Key(new + name[len(old) :], told_by="--rename")
    return found


def _suggestion(missing: Sequence[Node], checkpoint: Checkpoint, used: set[str]) -> str:
    """Hint for variables that have no value: a prefix that differs, or a similar name."""
    free = [name for name in checkpoint if name not in used]
    for node in missing:
        for name in free:
            prefix = _prefix_rename(node.name, name)
            # By the shape as well: names that end alike are many, such as `weights`.
            if prefix is not None and _fits(node, checkpoint, name):
                return f"the names begin differently? try --rename '{prefix[0]}={prefix[1]}'"
    near = closest(missing[0].name, free) if missing else ""
    return near or "give the checkpoint that belongs to this graph"


def _prefix_rename(name: str, key: str) -> tuple[str, str] | None:
    """The beginnings in which two names differ, if they end alike from a `/` on."""
    ours, theirs = name.split("/"), key.split("/")
    same = 0
    while same < min(len(ours), len(theirs)) and ours[-1 - same] == theirs[-1 - same]:
        same += 1
    # Ending alike in no part says nothing; equal names are no renaming.
    if same < 1 or (same == len(ours) == len(theirs)):
        return None
    tail = "/".join(ours[len(ours) - same :])
    return name[: len(name) - len(tail)], key[: len(key) - len(tail)]


def _fits(node: Node, checkpoint: Checkpoint, key: str) -> bool:
    shape = node.attrs.get("shape")
    sizes = getattr(shape, "dims", None)
    try:
        found = checkpoint.spec(key)
    except ThinflowError:
        return False
    return sizes is None or tuple(sizes) == found.shape
