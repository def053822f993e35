"""Values of variables and contents of tables: from a checkpoint, or from initialisers.

For what no checkpoint holds the graph's own initialisers are run, in the interpreter; nothing else is run
here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from thinflow.errors import FormatError, ThinflowError, closest
from thinflow.formats.checkpoint import Checkpoint
from thinflow.formats.metagraph import MetaGraph
from thinflow.ir.graph import Graph, Node
from thinflow.ir.order import ancestors
from thinflow.ir.tensor import Tensor
from thinflow.load import checkpoint_keys
from thinflow.load.checkpoint_keys import Key
from thinflow.load.frozen import Frozen, Options
from thinflow.load.tables import absent_files, fill, tables_of
from thinflow.load.variable_handles import replace_variables
from thinflow.ops.traits import Trait, has

# Under the variable's own key: as tf.train.ExponentialMovingAverage calls it first, then as others do.
_AVERAGE_SUFFIXES = ("ExponentialMovingAverage", "moving_avg", "avg")


def table_contents(
    graph: Graph, checkpoint: Checkpoint | None, meta: MetaGraph | None
) -> dict[str, tuple[Tensor, Tensor]]:
    """Table node -> keys and values, of those that the checkpoint keeps."""
    if checkpoint is None:
        return {}
    contents = checkpoint_keys.contents_of(graph, checkpoint, meta)
    read = checkpoint_keys.tensor_of
    return {
        name: (read(checkpoint, keys), read(checkpoint, values)) for name, (keys, values) in contents.items()
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
    nodes = [node for node in checkpoint_keys.variables(graph) if _chosen(node, options)]
    if not nodes:
        return {}
    if checkpoint is None:
        return _values_without_checkpoint(graph, nodes, initial, frozen)
    keys = _keys_of(nodes, keys, checkpoint, options)
    known_keys = {node: keys[node.name] for node in nodes if node.name in keys}
    frozen.variables = {node.name: key for node, key in known_keys.items()}
    used = {key.name for key in known_keys.values()}
    frozen.unused = [name for name in checkpoint if name not in used]
    read = {node: checkpoint_keys.tensor_of(checkpoint, key) for node, key in known_keys.items()}
    # Initialisers that the user named do not win over the checkpoint; that is told.
    if options.initializers:
        stored = [n.name for n in known_keys if initial.assigns(n.name)]
        _note(frozen, stored, "as in the checkpoint, not initialised")

    def known(name: str) -> Tensor | None:
        return checkpoint_keys.tensor_of(checkpoint, keys[name]) if name in keys else None

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
        count = f"{len(nodes)} variable{'s' * (len(nodes) > 1)}"
        if os.path.isdir(graph.path):
            problem = "its folder has no variables/variables.index"
            hint = "put the folder 'variables' beside saved_model.pb: it holds their values"
        else:
            problem, hint = "no checkpoint was given", "give the checkpoint's prefix: --checkpoint PREFIX"
        raise FormatError(f"the graph has {count}, first '{nodes[0].name}', and {problem}", graph.path, hint)
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
    renamed = {}
    for name in names:
        # Of several beginnings that fit and lead to a key the last one counts.
        for old, new in renames.items():
            if name.startswith(old) and new + name[len(old) :] in checkpoint:
                renamed[name] = Key(new + name[len(old) :], told_by="--rename")
    return renamed


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
        stored = checkpoint.spec(key)
    except ThinflowError:
        return False
    return sizes is None or tuple(sizes) == stored.shape


# --- initialisers -------------------------------------------------------------------------------------------


_SEEDED = ("seed", "seed2")


Known = Callable[[str], Tensor | None]
"""The value of a variable by name; None if it has none."""


class InitialValues:
    """Values that initialisers assign, computed for the variables that ask.

    Args:
        graph: whole, as it was read. It is copied if there is something to compute.
        initializers: what assigns, or waits for what assigns.

    Attributes:
        random: variables whose values were drawn anew, by ops without a seed.
    """

    def __init__(self, graph: Graph, initializers: Iterable[Node]) -> None:
        self.random: list[str] = []
        self._assigned = {
            node.inputs[0].node.name: node.inputs[1].name
            # Control edges included: an init op is mostly a NoOp that waits for the assignments.
            for node in ancestors(initializers)
            if has(node.op, Trait.ASSIGN)
            # The variable and its value; other forms, such as AssignAdd, depend on what is there already.
            and len(node.inputs) == 2
            and has(node.inputs[0].node.op, Trait.VARIABLE)
        }
        # The graph is stripped and frozen before the values are asked for.
        self._graph = graph.clone() if self._assigned else graph

    def of(self, names: Iterable[str], known: Known) -> dict[str, Tensor]:
        """Initial values of variables; of those alone that initialisers assign and that can be computed.

        Args:
            names: of variables.
            known: values of others, for initialisers that read them.
        """
        values: dict[str, Tensor] = {}

        def value_of(name: str) -> Tensor | None:
            return values[name] if name in values else known(name)

        asked = [name for name in names if name in self._assigned]
        # Initial values may be made of other variables': round by round, those whose sources are known.
        waiting = self._with_sources(asked, known)
        while waiting:
            computed = self._computed([name for name in waiting if self._is_ready(name, value_of)], value_of)
            if not computed:
                break
            values |= computed
            waiting = [name for name in waiting if name not in values]
        return {name: values[name] for name in asked if name in values}

    def assigns(self, name: str) -> bool:
        """True if an initialiser gives this variable a value."""
        return name in self._assigned

    def _with_sources(self, names: Sequence[str], known: Known) -> list[str]:
        """These variables and those without a value that their initial values are made of."""
        needed = dict.fromkeys(names)
        pending = list(names)
        while pending:
            read = (node.name for node in self._needed(pending.pop()) if has(node.op, Trait.VARIABLE))
            fresh = [n for n in read if n in self._assigned and n not in needed and known(n) is None]
            needed |= dict.fromkeys(fresh)
            pending += fresh
        return list(needed)

    def _needed(self, name: str) -> set[Node]:
        return ancestors([self._graph.value(self._assigned[name]).node], control=False)

    def _is_ready(self, name: str, known: Known) -> bool:
        """True if the variables its initial value is made of have values."""
        return all(
            known(node.name) is not None for node in self._needed(name) if has(node.op, Trait.VARIABLE)
        )

    def _computed(self, names: Sequence[str], known: Known) -> dict[str, Tensor]:
        """The values that can be computed, together if possible: they may share what is drawn at random."""
        try:
            return self._run(names, known) if names else {}
        except ThinflowError:
            if len(names) == 1:
                return {}  # it is missing then, and said to be
        alone = (self._computed([name], known) for name in names)
        return {name: value for values in alone for name, value in values.items()}

    def _run(self, names: Sequence[str], known: Known) -> dict[str, Tensor]:
        from thinflow.interpreter import run_graph

        # Of its own for each run, as the variables in it are replaced by what is known so far.
        graph = self._graph.clone()
        sources = list(dict.fromkeys(self._assigned[name] for name in names))
        graph.inputs, graph.outputs = [], [graph.value(source) for source in sources]
        # Types as the variables declare them: an array of numpy does not tell qint8 from int8.
        elements = {name: graph.node(name).get("dtype") for name in names}
        _keep(graph, ancestors([value.node for value in graph.outputs], control=False))
        read = {node: known(node.name) for node in graph if has(node.op, Trait.VARIABLE)}
        replace_variables(graph, {node: value for node, value in read.items() if value is not None})
        arrays = dict(zip(sources, run_graph(graph, {}, [v.name for v in graph.outputs]), strict=True))
        self.random += [name for name in names if any(map(_is_drawn, self._needed(name)))]
        return {name: Tensor.from_array(arrays[self._assigned[name]], elements[name]) for name in names}


def _keep(graph: Graph, nodes: set[Node]) -> None:
    """Leave nothing but these nodes, which need no others for their values."""
    for node in nodes:
        node.set_control_inputs([other for other in node.control_inputs if other in nodes])
    graph.remove(*(node for node in graph if node not in nodes))


def _is_drawn(node: Node) -> bool:
    """True if a node gives other numbers each time."""
    return has(node.op, Trait.RANDOM) and not any(node.attrs.get(key) for key in _SEEDED)
