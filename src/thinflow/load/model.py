"""From a model with variables to a graph without: what to keep, where the values are, what it is called.

Nothing is run and no number is read: a frozen graph's constants are views of the checkpoint. Only variables
that no checkpoint holds and an initialiser fills are computed: see `initial_values`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from thinflow.analysis.opened import STATE
from thinflow.errors import FormatError, ThinflowError
from thinflow.formats.checkpoint import Checkpoint, open_checkpoint
from thinflow.formats.metagraph import MetaGraph, Signature
from thinflow.ir.brief import brief_repr
from thinflow.ir.function import Selection, reachable
from thinflow.ir.graph import Graph, Node
from thinflow.ir.order import ancestors
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import INT64
from thinflow.load import name_matching as matching
from thinflow.load import naming, restoring
from thinflow.load.assets import place_assets
from thinflow.load.initial_values import InitialValues
from thinflow.load.keeping import KEEP, Kept, add_left, kept_note, listed
from thinflow.load.read_ops import GENERATOR_SIZE
from thinflow.load.restoring import Key
from thinflow.load.state import forward_writes, is_write, kept_variables, state_note, written_state
from thinflow.load.tables import absent_files, fill, fillers_of, tables_of
from thinflow.load.variable_handles import replace_variables
from thinflow.rewrite.colocation import drop_lost_classes
from thinflow.rewrite.trace import Trace
from thinflow.transforms.inline_partitionedcall import InlinePartitionedCall
from thinflow.transforms.shared.effects import drop_idle_control


@brief_repr
@dataclass(frozen=True)
class Options:
    """How to freeze.

    Attributes:
        only: names of the variables to freeze, with wildcards; empty: all.
        exclude: names of those not to freeze, with wildcards.
        averages: take the moving average of a variable where one was saved.
        renames: beginning of a variable's name in the graph -> in the checkpoint.
        allow_missing: leave variables without a value in the graph, and tables without their file.
        allow_absent_files: leave tables without their file: whoever runs them is told.
        clear_devices: drop the placement of nodes.
        inline: put the bodies of called functions in the place of the calls.
        initializers: names of nodes that prepare tables and variables that no checkpoint holds, besides
            those the model names.
        restore_op: the node that restores everything, of several savers the one to believe; "": the model's.
        state: what becomes of variables that runs change, one of `keeping.CHOICES`.
    """

    only: Sequence[str] = ()
    exclude: Sequence[str] = ()
    averages: bool = False
    renames: Mapping[str, str] = field(default_factory=dict)
    allow_missing: bool = False
    allow_absent_files: bool = False
    clear_devices: bool = False
    inline: bool = True
    initializers: Sequence[str] = ()
    restore_op: str = ""
    state: str = "freeze"


@brief_repr
@dataclass
class Frozen:
    """A frozen graph and how it came to be.

    Attributes:
        graph: runnable; its inputs and outputs are declared.
        variables: node -> the key its value was read from, and what told so.
        missing: variables that have no value and are still in the graph.
        unused: keys of the checkpoint that no variable of the graph needed.
        nodes_before: how many nodes the model's main graph had.
        notes: facts worth telling.
        state: variables that a run read and changed, so that the next one began with what it left.
        kept: those of them that are states of the graph.
    """

    graph: Graph
    variables: dict[str, Key] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    nodes_before: int = 0
    notes: list[str] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    kept: Kept = field(default_factory=Kept, repr=False)


def freeze_metagraph(
    meta: MetaGraph,
    signature: Signature | None = None,
    outputs: Sequence[str] = (),
    checkpoint: Path | None = None,
    options: Options | None = None,
) -> Frozen:
    """Freeze the graph of a MetaGraph, for a signature or for outputs by name.

    Args:
        meta: freshly read: its graph is edited.
        signature: whose inputs and outputs to keep, under its names.
        outputs: names of values to keep, if there is no signature.
        checkpoint: prefix of the checkpoint, if not the model's own.

    Raises:
        FormatError: a variable has no value, or the checkpoint is damaged.
        GraphError: an output does not exist.
    """
    place_assets(meta)
    wanted = [e.value for e in signature.outputs.values()] if signature else list(outputs)
    home = meta.folder / "assets" if meta.message.asset_file_def else None
    prefix = checkpoint or meta.checkpoint
    frozen = freeze_graph(
        meta.graph,
        wanted,
        open_checkpoint(prefix) if prefix is not None else None,
        options or Options(),
        meta=meta,
        home=home,
        inputs=[e.value for e in signature.inputs.values()] if signature else (),
    )
    if signature is not None:
        naming.give_names(frozen.graph, signature)
        frozen.kept.declare(frozen.graph)
        _strip(frozen.graph, [])  # what only held the place of a call
    return frozen


def freeze_graph(
    graph: Graph,
    outputs: Sequence[str],
    checkpoint: Checkpoint | None,
    options: Options,
    *,
    meta: MetaGraph | None = None,
    home: Path | None = None,
    inputs: Sequence[str] = (),
) -> Frozen:
    """Freeze a graph in place; see `freeze_metagraph`.

    Args:
        graph: edited.
        outputs: names of values to keep.
        checkpoint: where the values are; None for a graph without variables.
        options: see there.
        meta: what was written beside the graph.
        home: folder of the files that tables are filled from.
        inputs: names of values to declare as inputs; they stay even if unused.
    """
    frozen = Frozen(graph, nodes_before=len(graph))
    keys = restoring.keys_of(graph, checkpoint, meta, options.restore_op) if checkpoint is not None else {}
    contents = _contents(graph, checkpoint, meta)
    graph.outputs = list(dict.fromkeys(graph.value(name) for name in outputs))
    graph.inputs = list(dict.fromkeys(graph.value(name) for name in inputs))
    initializers = _initializers(graph, meta, options)
    initial = InitialValues(graph, initializers)
    _settle_writes(graph, frozen, options)
    _strip(graph, initializers)
    if options.inline and graph.functions:
        _inline(graph, frozen)
        _settle_writes(graph, frozen, options)
    lenient = options.allow_missing or options.allow_absent_files
    _fill_tables(graph, home, contents, frozen, lenient=lenient)
    _strip(graph, [])
    values = _values(graph, keys, checkpoint, options, frozen, initial)
    starts = {node.name: tensor for node, tensor in values.items()}
    generators = _generators(graph, values)
    replace_variables(graph, values, frozen.kept.left)
    frozen.kept.replaced(graph, starts)
    frozen.kept.declare(graph, ends=bool(graph.inputs))
    drop_idle_control(graph)  # what waited for reads of variables would wait for constants
    _cut_writes(graph, frozen)
    _strip(graph, [])
    _prune_functions(graph, frozen)
    if frozen.kept.left:
        graph.facts[STATE] = kept_note(frozen.kept.left)
    elif frozen.state:
        graph.facts[STATE] = state_note(frozen.state)
    elif generators:
        graph.facts[STATE] = (
            f"the generator of random numbers in {listed(generators)} begins anew in every run"
        )
    if STATE in graph.facts:
        frozen.notes.append(graph.facts[STATE])
    if options.clear_devices:
        for node in graph:
            node.device = ""
    return frozen


# --- what to keep -------------------------------------------------------------------------------------------


def _strip(graph: Graph, others: Iterable[Node]) -> None:
    """Keep what the outputs and some other nodes depend on, and the inputs."""
    names = {node.name for node in graph}
    roots = [v.node for v in (*graph.outputs, *graph.inputs)]
    needed = ancestors([*roots, *(n for n in others if n in graph)])
    fed = {v.node for v in graph.inputs}
    unneeded = [node for node in graph if node not in needed and node not in fed]
    if unneeded:
        graph.remove(*unneeded)
        drop_lost_classes(graph, names)


def _initializers(graph: Graph, meta: MetaGraph | None, options: Options) -> list[Node]:
    """The nodes that a session would run first: those of the model that are there, and those asked for.

    Raises:
        GraphError: one that was asked for does not exist.
    """
    found = (graph.find(name) for name in (meta.init_ops if meta is not None else ()))
    asked = [graph.node(name.removeprefix("^").removesuffix(":0")) for name in options.initializers]
    return [*(fillers_of(graph) if meta is None else ()), *(n for n in found if n is not None), *asked]


def _settle_writes(graph: Graph, frozen: Frozen, options: Options) -> None:
    """Leave out changes of variables, once what the outputs read back of them is taken from where it came, as
    is what is left of them if state is kept.
    """
    frozen.state += written_state(graph)
    kept = kept_variables(graph) if options.state == KEEP else []
    frozen.kept.left |= add_left(graph, forward_writes(graph, kept))
    _cut_writes(graph, frozen)


def _cut_writes(graph: Graph, frozen: Frozen) -> None:
    """Nobody waits for changes of variables: a frozen graph has none."""
    writes = [node for node in graph if is_write(node) and node.control_outputs]
    results = [v.node for v in graph.outputs]
    needed = ancestors(results, control=False) if writes else set()
    cut = [node for node in writes if node not in needed]
    if not cut:
        return
    before = ancestors(results)
    for node in cut:
        for waiter in node.control_outputs:
            waiter.remove_control_input(node)
    after = ancestors(results)
    lost = sum(node in before and node not in after for node in cut)
    if lost:
        frozen.notes.append(f"{lost} changes of variables that ran beside the outputs are left out")


def _inline(graph: Graph, frozen: Frozen) -> None:
    trace = Trace()
    InlinePartitionedCall(prune_library=False).apply(graph, trace)
    if trace.changes:
        frozen.notes.append(f"{len(trace.changes)} calls of functions replaced by their bodies")
    frozen.notes += [f"{entry.node} stays a call: {entry.text}" for entry in trace.left]


def _generators(graph: Graph, values: Mapping[Node, Tensor]) -> list[str]:
    """The variables that hold the state of a generator of random numbers, if anything draws from one."""
    found = [v.name for v, t in values.items() if t.dtype is INT64 and t.shape == (GENERATOR_SIZE,)]
    bodies = (f.graph for f in graph.functions.values()) if found else ()
    return found if any(n.op == "RngReadAndSkip" for g in (graph, *bodies) for n in g) else []


def _prune_functions(graph: Graph, frozen: Frozen) -> None:
    if not graph.functions:
        return
    try:
        names = reachable(graph)
    except ThinflowError as error:
        frozen.notes.append(f"the function library stays whole: {error.message}")
        return
    if len(names) < len(graph.functions):
        graph.functions = Selection(graph.functions, names)


# --- values -------------------------------------------------------------------------------------------------


def _contents(
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


def _fill_tables(
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


def _values(
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
    """What initialisers give.

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
    """Where variables are in the checkpoint, by name, as the options have it."""
    keys = dict(keys)
    if options.renames:
        keys |= matching.renamed([n.name for n in nodes], options.renames, checkpoint)
    return matching.use_averages(keys, checkpoint) if options.averages else keys


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
        matching.suggestion(missing, checkpoint, used),
    )
