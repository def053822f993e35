"""A part of a TensorFlow graph as a LiteRT program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from thinflow.analysis.loops import infer_with_loops
from thinflow.control_flow.steps import Step
from thinflow.errors import UnsupportedOp
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.lower.building import REFUSED
from thinflow.lower.control import steps
from thinflow.lower.lowering import Specs, raise_refusals
from thinflow.lower.tflite.bodies import called_by, numbered
from thinflow.lower.tflite.control import ControlLowering
from thinflow.lower.tflite.fuse import fuse
from thinflow.lower.tflite.program import Operator, Program, Signature, Subgraph, Tensor
from thinflow.lower.tflite.quantized_context import border, inner_groups, stored
from thinflow.lower.tflite.slots import copied
from thinflow.lower.tflite.tables import filling

SIGNATURE = "serving_default"


@brief_repr
@dataclass
class Lowered:
    """A program and how it hangs together with the graph it was made from.

    Attributes:
        program: its first subgraph is what runs, with the signature "serving_default".
        inputs, outputs: name of a graph value -> the tensor that stands for it; the tensor has the same name.
        origin: tensor name -> name of the value, or of the node, it comes from.
    """

    program: Program
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    origin: dict[str, str]


def lower_graph(
    graph: Graph,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    *,
    specs: Specs | None = None,
    recurrent: str = "auto",
    matrix_unit: bool | None = None,
) -> Lowered:
    """The program that computes `outputs` from `inputs`. O(nodes); large weights are shared, not copied.

    Args:
        graph: not changed, but for the specs of its values where shape inference has to run.
        inputs: what will be fed; nothing above them is lowered.
        outputs: what is wanted.
        specs: types and shapes of values, where `Value.spec` does not have them; default: infer them all.
        recurrent: what LSTMs become: "fused" (LiteRT's own op, where it is exact), "loop", or what is faster.
        matrix_unit: whether the program runs on a processor that multiplies matrices of int8 in one
            instruction; None if it may run anywhere.

    Raises:
        UnsupportedOp: a node that TFLite cannot express, the first one in running order; with its reason.
    """
    if specs is None:
        infer_with_loops(graph)
    # Once each, in the order given: a signature has unique names.
    inputs = list(dict.fromkeys(inputs))
    lowering = ControlLowering(specs, recurrent=recurrent)
    for value in inputs:
        lowering.feed(value)
    lowering.lower_all(graph, outputs, inputs)
    results = [_tensor(lowering, value) for value in outputs]
    subgraph = Subgraph([lowering.tensors[v] for v in inputs], results, lowering.builder.operators)
    subgraph.remove_dead()
    raise_refusals(subgraph.operators)
    fuse(subgraph, matrix_unit=matrix_unit)
    # After fusion, which may replace the tensor that an output is.
    named = _name_outputs(subgraph, outputs)
    fed = {value.name: lowering.tensors[value] for value in inputs}
    # Before `numbered`, which has to see the subgraphs that fill them called.
    _fill_tables(subgraph, lowering)
    subgraphs = numbered(subgraph, lowering.subgraphs)
    program = Program(subgraphs, "made by thinflow", {SIGNATURE: Signature(dict(fed), dict(named))})
    # Fusion makes tensors of its own; their operators say which node they are for.
    known = {t: o.origin for o in subgraph.operators for t in o.outputs if o.origin} | lowering.builder.origin
    origin = {t.name: known[t] for t in subgraph.tensors() if t in known}
    return Lowered(program, fed, named, origin | {name: name for name in named})


def unsupported(graph: Graph, nodes: Iterable[Node], *, specs: Specs | None = None) -> dict[Node, str]:
    """Reasons by node for which it cannot be lowered; nodes that can are missing. O(nodes).

    Each is tried by itself, those that hand codes on which only they know, together.

    Args:
        graph: not changed, but for the specs of its values where shape inference has to run.
        nodes: what to try. Placeholders, constants and NoOp are always fine.
        specs: as in `lower_graph`.
    """
    if specs is None:
        infer_with_loops(graph)
    nodes = list(nodes)
    constants = ControlLowering(specs)
    reasons: dict[Node, str] = {}
    together = {n: group for group in inner_groups(graph) for n in group}
    # Lists cannot be keys: each group once, by its identity.
    for group in {id(g): g for n in nodes if (g := together.get(n))}.values():
        inputs, outputs = border(group)
        if why := unsupported_unit(graph, inputs, outputs, specs=specs):
            reasons |= dict.fromkeys(group, why)
    for node in nodes:
        if node in together:
            continue
        if node.op not in ("Placeholder", "PlaceholderV2", "NoOp") and (
            constants.constant(node.output()) is None
        ):
            operators = _tried(constants, specs, node.inputs, [node])
            if why := _first_refusal(operators):
                reasons[node] = why
    return {n: reasons[n] for n in nodes if n in reasons}


def unsupported_unit(
    graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], *, specs: Specs | None = None
) -> str:
    """The reason why nodes between inputs and outputs cannot be lowered as a whole; "" if they can.

    Args:
        graph: its shapes must be inferred.
        inputs: what the unit reads, also constants.
        outputs: what others read.
        specs: as in `lower_graph`.
    """
    constants = ControlLowering(specs)
    try:
        found = steps(graph, outputs, inputs)
    except UnsupportedOp as error:
        return error.problem
    return _first_refusal(_tried(constants, specs, inputs, found, outputs))


def _tried(
    constants: ControlLowering,
    specs: Specs | None,
    inputs: Sequence[Value],
    found: Sequence[Step],
    outputs: Sequence[Value] | None = None,
) -> list[Operator]:
    """The operators of some steps, those that `outputs` need if they are given."""
    trial = ControlLowering(specs, constants)
    for value in inputs:
        trial.provide(value)
    start = len(trial.builder.operators)
    for step in found:
        trial.lower_step(step)
    try:
        if outputs is None:
            for value in (v for s in found if isinstance(s, Node) for v in s.outputs):
                # A node by itself has to hand its results out, so what only a
                # neighbour could read counts as refused.
                stored(trial.builder, value, trial.tensors.get(value))
            return list(trial.builder.operators[start:])
        results = [stored(trial.builder, value, trial.read(value)) for value in outputs]
    except UnsupportedOp as error:
        return [Operator(REFUSED, [], [], {"error": error})]
    subgraph = Subgraph([], [t for t in results if isinstance(t, Tensor)], trial.builder.operators, name="")
    subgraph.remove_dead()
    # A list is no tensor and was left out above.
    if len(subgraph.outputs) < len(results):
        return [Operator(REFUSED, [], [], {"error": UnsupportedOp("it hands out a list")})]
    return subgraph.operators


def _first_refusal(operators: Iterable[Operator]) -> str:
    """The first refusal among operators; "" if there is none."""
    for operator in operators:
        if operator.code == REFUSED:
            error: UnsupportedOp = operator.options["error"]
            return error.problem
    return ""


def _fill_tables(main: Subgraph, lowering: ControlLowering) -> None:
    """Let the tables that are read be filled before anything else runs."""
    called = [main, *called_by(main, lowering.subgraphs)]
    read = {o.options["table_id"] for part in called for o in part.operators if o.code == "HASHTABLE"}
    contents = list(lowering.builder.tables)
    first = []
    for table in sorted(read):
        lowering.subgraphs.append(filling(table, contents[table]))
        # CALL_ONCE runs its subgraph the first time only: once for all runs of an interpreter.
        options = {"init_subgraph_index": len(lowering.subgraphs)}
        first.append(Operator("CALL_ONCE", [], [], options, origin=f"table{table}"))
    main.operators[:0] = first


def _tensor(lowering: ControlLowering, value: Value) -> Tensor:
    """The tensor of an output, which cannot be a list, nor 32-bit sums."""
    slot = lowering.read(value)
    lowering.builder.begin(value.node)
    try:
        slot = stored(lowering.builder, value, slot)
    except UnsupportedOp as error:
        raise error.at(value.node.where) from error
    if isinstance(slot, Tensor):
        return slot
    raise UnsupportedOp("a list cannot be an output of a LiteRT model", value.node.where)


def _name_outputs(subgraph: Subgraph, values: Sequence[Value]) -> dict[str, Tensor]:
    """Give each output a tensor of its own with the name it was asked for by.

    An output that is an input, a constant or another output too is copied with a RESHAPE to its own shape.
    """
    named: dict[str, Tensor] = {}
    written = {t for operator in subgraph.operators for t in operator.outputs}
    taken: set[Tensor] = set()
    names = {v.name for v in values}
    for value, tensor in zip(values, subgraph.outputs, strict=True):
        if value.name in named:
            continue
        # An input or a constant may not be an output under another name, nor one tensor two outputs.
        if tensor in taken or tensor not in written:
            tensor = copied(subgraph, tensor, value.name)
        taken.add(tensor)
        named[value.name] = tensor
    for tensor in subgraph.tensors():
        # Runtimes find an output by its name, so no other tensor may have it.
        if tensor.name in names and tensor not in taken and tensor not in subgraph.inputs:
            tensor.name += "/inner"
    for name, tensor in named.items():
        tensor.name = name
    subgraph.outputs = list(named.values())
    return named
