"""From a model with variables to a graph without: what to keep, where the values are, what it is called.

Nothing is run and no number is read: a frozen graph's constants are views of the checkpoint. Only variables
that no checkpoint holds and an initialiser fills are computed: see `variable_values`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from thinflow.errors import ThinflowError
from thinflow.formats.checkpoint import Checkpoint, open_checkpoint
from thinflow.formats.metagraph import Endpoint, MetaGraph, Signature
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.function import Selection, reachable
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.names import LEGAL_NAME
from thinflow.ir.order import ancestors
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import INT64, TensorSpec
from thinflow.load.checkpoint_keys import keys_of
from thinflow.load.frozen import KEEP, STATE, Frozen, Options, add_left, kept_note, listed
from thinflow.load.read_ops import GENERATOR_SIZE, behind_identity
from thinflow.load.state import forward_writes, is_write, kept_variables, state_note, written_state
from thinflow.load.tables import fillers_of
from thinflow.load.variable_handles import replace_variables
from thinflow.load.variable_values import InitialValues, fill_tables, table_contents, variable_values
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import drop_dangling_colocation, rename_colocation
from thinflow.rewrite.rule import Trace
from thinflow.transforms.flow.inline_partitionedcall import InlinePartitionedCall
from thinflow.transforms.shared.effects import drop_idle_control


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
    _place_assets(meta)
    results = [e.value for e in signature.outputs.values()] if signature else list(outputs)
    # Files that fill tables lie among the assets, in models that have any.
    home = meta.folder / "assets" if meta.message.asset_file_def else None
    prefix = checkpoint or meta.checkpoint
    frozen = freeze_graph(
        meta.graph,
        results,
        open_checkpoint(prefix) if prefix is not None else None,
        options or Options(),
        meta=meta,
        home=home,
        inputs=[e.value for e in signature.inputs.values()] if signature else (),
    )
    if signature is not None:
        give_names(frozen.graph, signature)
        # Once more, since inputs and outputs have got the names of the signature.
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
    # Before anything is removed: the restore operations that tell the keys are needed by no output.
    keys = keys_of(graph, checkpoint, meta, options.restore_op) if checkpoint is not None else {}
    contents = table_contents(graph, checkpoint, meta)
    graph.outputs = list(dict.fromkeys(graph.value(name) for name in outputs))
    graph.inputs = list(dict.fromkeys(graph.value(name) for name in inputs))
    initializers = _initializers(graph, meta, options)
    initial = InitialValues(graph, initializers)
    _settle_writes(graph, frozen, options)
    # Initialisers stay for now, since tables are filled by them; only then is it known what waits for them.
    _strip(graph, initializers)
    # Calls first as a whole, then what their bodies write, which inlining has brought to light.
    if options.inline and graph.functions:
        _inline(graph, frozen)
        _settle_writes(graph, frozen, options)
    lenient = options.allow_missing or options.allow_absent_files
    fill_tables(graph, home, contents, frozen, lenient=lenient)
    _strip(graph, [])
    values = variable_values(graph, keys, checkpoint, options, frozen, initial)
    # By name, as the nodes are gone once they are replaced.
    starts = {node.name: tensor for node, tensor in values.items()}
    # While what draws from them is still to be seen.
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
    # At the end, as nodes that take the place of others inherit their devices.
    if options.clear_devices:
        for node in graph:
            node.device = ""
    return frozen


def _strip(graph: Graph, others: Iterable[Node]) -> None:
    """Keep what the outputs and some other nodes depend on, and the inputs."""
    names = {node.name for node in graph}
    roots = [v.node for v in (*graph.outputs, *graph.inputs)]
    needed = ancestors([*roots, *(n for n in others if n in graph)])
    fed = {v.node for v in graph.inputs}
    unneeded = [node for node in graph if node not in needed and node not in fed]
    if unneeded:
        graph.remove(*unneeded)
        drop_dangling_colocation(graph, names)


def _initializers(graph: Graph, meta: MetaGraph | None, options: Options) -> list[Node]:
    """The nodes that a session would run first: those of the model that are there, and those asked for.

    Raises:
        GraphError: one that was asked for does not exist.
    """
    named = (graph.find(name) for name in (meta.init_ops if meta is not None else ()))
    asked = [graph.node(name.removeprefix("^").removesuffix(":0")) for name in options.initializers]
    return [*(fillers_of(graph) if meta is None else ()), *(n for n in named if n is not None), *asked]


def _settle_writes(graph: Graph, frozen: Frozen, options: Options) -> None:
    """Leave out changes of variables, once what the outputs read back of them is taken from where it came, as
    is what is left of them if state is kept.
    """
    frozen.state += written_state(graph)
    states = kept_variables(graph) if options.state == KEEP else []
    frozen.kept.left |= add_left(graph, forward_writes(graph, states))
    _cut_writes(graph, frozen)


def _cut_writes(graph: Graph, frozen: Frozen) -> None:
    """Nobody waits for changes of variables: a frozen graph has none."""
    writes = [node for node in graph if is_write(node) and node.control_outputs]
    results = [v.node for v in graph.outputs]
    # A write whose value an output reads by an edge of data is no write any more, but a part of the result.
    needed = ancestors(results, control=False) if writes else set()
    cut = [node for node in writes if node not in needed]
    if not cut:
        return
    # Counted are those that the outputs waited for and that nothing reaches now.
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
    InlinePartitionedCall(prune_library=False).run(graph, trace)
    if trace.changes:
        frozen.notes.append(f"{len(trace.changes)} calls of functions replaced by their bodies")
    frozen.notes += [f"{entry.node} stays a call: {entry.text}" for entry in trace.left]


def _generators(graph: Graph, values: Mapping[Node, Tensor]) -> list[str]:
    """The variables that hold the state of a generator of random numbers, if anything draws from one."""
    generators = [v.name for v, t in values.items() if t.dtype is INT64 and t.shape == (GENERATOR_SIZE,)]
    bodies = (f.graph for f in graph.functions.values()) if generators else ()
    return generators if any(n.op == "RngReadAndSkip" for g in (graph, *bodies) for n in g) else []


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


def _place_assets(meta: MetaGraph) -> None:
    """Replace the nodes that name a file of the model by constants with its whole path. Edits the graph.

    A relative one would be looked for from the model's folder, and again when the program has gone elsewhere.

    Raises:
        FormatError: a file would lie outside the model's folder.
    """
    for name, path in meta.assets():
        node = meta.graph.find(name)
        # A path that is computed cannot be replaced by looking at one node.
        if node is None or not (node.tensor is not None or has(node.op, Trait.PLACEHOLDER)):
            continue
        # An object array: numpy's own byte strings would drop zero bytes at the end.
        text = np.array(os.path.abspath(path).encode("utf-8", "surrogateescape"), object)
        constant = meta.graph.constant(text, name, before=node)
        constant.node.origin = "freeze"
        meta.graph.replace(node, constant.node)
        _pass_through_variables(meta.graph, constant)


def _pass_through_variables(graph: Graph, path: Value) -> None:
    """TensorFlow 2 keeps a path in a variable, filled when the model is loaded: read the path itself."""
    for assign in path.readers:
        if assign.op != "AssignVariableOp" or assign.inputs[1] is not path:
            continue
        for read in _reads(assign.inputs[0]):
            attrs = {"T": read.attrs["dtype"]}
            passed = graph.add("Identity", [path], name=read.name, attrs=attrs, before=read)
            passed.origin = "freeze"
            graph.replace(read, passed)


def _reads(handle: Value) -> list[Node]:
    return [n for n in handle.readers if n.op == "ReadVariableOp" and "dtype" in n.attrs]


# --- names --------------------------------------------------------------------------------------------------


def give_names(graph: Graph, signature: Signature) -> None:
    """Call inputs and outputs what the signature calls them, and declare them in its order.

    The names they had go on working as aliases. A name that cannot be a node's stays an alias of the old one;
    an output that is called like an input but is another value gets `_output` behind its name.
    """
    # All values first: the names by which they are found may be taken by others below.
    before = {name: graph.value(endpoint.value) for name, endpoint in signature.outputs.items()}
    fed = {name: graph.value(endpoint.value) for name, endpoint in signature.inputs.items()}
    # Nodes that are inputs or outputs are protected from renaming; each is
    # declared again when it has its name.
    graph.inputs, graph.outputs = [], []
    inputs: dict[str, Value] = {}
    for name, value in fed.items():
        endpoint = signature.inputs[name]
        _declare_shape(value, endpoint.spec)
        inputs[name] = _named(graph, name, value, endpoint)
        graph.inputs = list(inputs.values())
    sources = {name: _source(value, graph.inputs) for name, value in before.items()}
    inner = _not_ends(sources.values())
    outputs: list[Value] = []
    for name, value in sources.items():
        outputs.append(_output(graph, name, value, inputs, signature.outputs[name], inner))
        graph.outputs = outputs


def _not_ends(values: Iterable[Value]) -> set[Node]:
    """The nodes of some values that would not be seen to be outputs: what else they give is used, too."""
    counts = Counter(value.node for value in dict.fromkeys(values))
    return {node for node, count in counts.items() if count > 1 or any(v.uses for v in node.outputs)}


def _output(
    graph: Graph,
    name: str,
    value: Value,
    inputs: Mapping[str, Value],
    endpoint: Endpoint,
    inner: Collection[Node],
) -> Value:
    if name not in inputs:
        return _named(graph, name, value, endpoint, inner)
    if inputs[name] is value:
        return value
    return _named(graph, graph.unique_name(f"{name}_output"), value, endpoint, inner)


def _source(value: Value, inputs: list[Value]) -> Value:
    """The value behind nodes that only hold the place of an inlined call."""
    while value.node.origin and (behind := behind_identity(value)) is not None:
        # An output that is an input stays an Identity of it; one that waits for something is no mere place.
        if behind in inputs or value.node.control_inputs:
            break
        value = behind
    return value


def _named(graph: Graph, name: str, value: Value, endpoint: Endpoint, inner: Collection[Node] = ()) -> Value:
    """The value under its new name: its node renamed if it gives nothing else, or an Identity of it."""
    if not LEGAL_NAME.match(name):
        graph.aliases[name] = value.name
        return value
    former = value.name
    node = value.node
    # A node may only be renamed if its name means this one value, to all who know it.
    is_whole = value.port == 0 and all(v is value or not v.uses for v in node.outputs) and node not in inner
    if not is_whole or node.is_protected or (node.op == "Const" and value not in graph.inputs):
        element = value.dtype or endpoint.spec.dtype
        attrs = {} if element is None else {"T": element}
        _make_room(graph, name, None)
        node = graph.add("Identity", [value], name, attrs=attrs)
        node.origin = "freeze"
        node.output().spec = value.spec
    else:
        _make_room(graph, name, node)
        _rename(graph, node, name)
        # Commands and scripts that use the node's own name go on working.
        graph.aliases[former] = name
    for alias in (endpoint.value, endpoint.value.removesuffix(":0")):
        # The name of a node wins over an alias.
        if alias not in graph:
            graph.aliases[alias] = node.name
    return node.output()


def _make_room(graph: Graph, name: str, owner: Node | None) -> None:
    """Rename whoever has a name already."""
    holder = graph.find(name)
    if holder is not None and holder is not owner:
        _rename(graph, holder, graph.unique_name(f"{name}_inner"))


def _rename(graph: Graph, node: Node, name: str) -> None:
    """Whoever wants to be on one device with it goes on naming it: TensorFlow refuses a graph otherwise."""
    former = node.name
    graph.rename(node, name)
    rename_colocation(graph, {former: name})


def _declare_shape(value: Value, spec: TensorSpec) -> None:
    """A placeholder that does not know its sizes takes those of the signature."""
    node = value.node
    if node.op != "Placeholder" or spec.shape is None:
        return
    declared = node.attrs.get("shape")
    if not isinstance(declared, ShapeAttr) or declared.dims is None:
        node.attrs["shape"] = ShapeAttr(spec.shape)
