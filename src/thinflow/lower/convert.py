"""A part of a graph as a program: the part that all targets share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from thinflow.analysis.shapes import assumed_specs, infer_with_loops
from thinflow.control_flow.steps import Step
from thinflow.errors import UnsupportedOp
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.lower.control import FlowLowering, steps
from thinflow.lower.lowering import first_refusal, raise_refusals
from thinflow.ops.traits import Trait, has
from thinflow.program.model import Block, O, T, Tensor

P = TypeVar("P")
Judge = Callable[[Iterable[Any]], str]
"""What a runtime has against operators of its vocabulary; "" if nothing."""


@brief_repr
@dataclass
class Lowered(Generic[P, T]):
    """A program and how it hangs together with the graph it was made from.

    Attributes:
        program: fed and fetched by the names of the graph's values.
        inputs, outputs: name of a graph value -> the tensor that stands for it; the tensor has the same name.
        origin: tensor name -> name of the value, or of the node, it comes from.
    """

    program: P
    inputs: dict[str, T]
    outputs: dict[str, T]
    origin: dict[str, str]


def lowered_block(
    run: FlowLowering[Any, Any],
    graph: Graph,
    inputs: Sequence[Value] | None = None,
    outputs: Sequence[Value] | None = None,
) -> Block[Any, Any]:
    """The block that computes a graph's outputs from its inputs, or others that are named.

    Args:
        run: not used before. Without specs all shapes are inferred, and kept in the graph.

    Raises:
        UnsupportedOp: a node that the target cannot express, the first one in running order; with its reason.
    """
    if run.specs is None:
        infer_with_loops(graph, assumed_specs(graph.inputs))
    # Once each, in the order given: inputs have unique names.
    inputs = list(dict.fromkeys(graph.inputs if inputs is None else inputs))
    outputs = graph.outputs if outputs is None else outputs
    for value in inputs:
        run.feed(value)
    # Refusals are kept until dead operators are gone: only what the outputs need has to have a form.
    run.lower_all(graph, outputs, inputs)
    block: Block[Any, Any] = Block(
        [run.fed[v] for v in inputs], [_output(run, v) for v in outputs], run.builder.operators
    )
    block.remove_dead()
    raise_refusals(block.operators)
    return block


def _output(run: FlowLowering[Any, Any], value: Value) -> Any:
    """The tensor that stands for an output."""
    try:
        slot = run.output(value)
    except UnsupportedOp as error:
        raise error.at(value.node.where) from error
    if isinstance(slot, Tensor):
        return slot
    raise UnsupportedOp("a list cannot be an output of a model", value.node.where)


def no_objection(operators: Iterable[Any]) -> str:
    """What to say of operators if whatever can be lowered runs."""
    return ""


def unsupported(
    run: FlowLowering[Any, Any], graph: Graph, nodes: Iterable[Node], judge: Judge = no_objection
) -> dict[Node, str]:
    """Node -> the reason why it could not be lowered; those that could are missing. O(nodes).

    Each is tried by itself, those that can be lowered together only, together. Placeholders, constants and
    NoOp are always fine.

    Args:
        run: not used before; it computes the constants of all trials, each of them once.
        graph: not changed, but for the specs of its values where shape inference has to run.
        judge: what a runtime has against the operators that a node, or a group, becomes; "" if nothing.
    """
    if run.specs is None:
        infer_with_loops(graph, assumed_specs(graph.inputs))
    nodes = list(nodes)
    reasons: dict[Node, str] = {}
    together = {n: group for group in run.units(graph) for n in group}
    # Lists cannot be keys: each group once, by its identity.
    for group in {id(g): g for n in nodes if (g := together.get(n))}.values():
        if why := unsupported_unit(run, graph, *border(group), judge):
            reasons |= dict.fromkeys(group, why)
    for node in nodes:
        is_fine = has(node.op, Trait.FED) or node.op == "NoOp" or node in together
        if (
            not is_fine
            and run.constant(node.output()) is None
            and (why := _objection(run, node.inputs, [node], judge=judge))
        ):
            reasons[node] = why
    return {n: reasons[n] for n in nodes if n in reasons}


def border(group: Sequence[Node]) -> tuple[list[Value], list[Value]]:
    """Inputs of a group from outside, and those of its outputs that others read."""
    inside = set(group)
    read = dict.fromkeys(v for n in group for v in n.inputs if v.node not in inside)
    handed_out = dict.fromkeys(
        v for n in group for v in n.outputs if v.is_graph_output or any(r not in inside for r in v.readers)
    )
    return list(read), list(handed_out)


def unsupported_unit(
    run: FlowLowering[Any, Any],
    graph: Graph,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    judge: Judge = no_objection,
) -> str:
    """The reason why all between inputs and outputs cannot be lowered as a whole; "" if it can.

    Args:
        run: computes constants; see `unsupported`.
        graph: its shapes must be inferred.
        inputs: what the unit reads, also constants.
        outputs: what others read.
        judge: see `unsupported`.
    """
    try:
        return _objection(run, inputs, steps(graph, outputs, inputs), outputs, judge=judge)
    except UnsupportedOp as error:
        return error.problem


def _objection(
    run: FlowLowering[Any, Any],
    inputs: Sequence[Value],
    parts: Sequence[Step],
    outputs: Sequence[Value] | None = None,
    *,
    judge: Judge,
) -> str:
    """The first refusal among some steps, of those that `outputs` need if they are given; "" if none."""
    trial = run.trial()
    for value in inputs:
        trial.provide(value)
    start = len(trial.builder.operators)
    for step in parts:
        trial.lower_step(step)
    try:
        if outputs is None:
            for step in parts:
                if isinstance(step, Node):
                    trial.hand_out(step)
            operators = trial.builder.operators[start:]
        else:
            results = [trial.output(value) for value in outputs]
            block: Block[Any, Any] = Block(
                [], [t for t in results if isinstance(t, Tensor)], trial.builder.operators
            )
            block.remove_dead()
            if len(block.outputs) < len(results):
                return "it hands out a list"
            operators = block.operators
    except UnsupportedOp as error:
        return error.problem
    refusal = first_refusal(operators)
    return judge(operators) if refusal is None else refusal.problem


def name_outputs(
    block: Block[T, O], values: Sequence[Value], copy: Callable[[T, Value], T], *, allow_inputs: bool
) -> dict[str, T]:
    """Give each output of a block a tensor of its own with the name of its value; these, once each.

    Args:
        copy: makes a copy under the name of a value, by an operator at the end of the block.
        allow_inputs: whether an input may be an output of the same name.
    """
    named: dict[str, T] = {}
    written = {t for operator in block.operators for t in operator.outputs}
    taken: set[T] = set()
    for value, tensor in zip(values, block.outputs, strict=True):
        if value.name in named:
            continue
        is_input = allow_inputs and tensor in block.inputs and tensor.name == value.name
        # An input or a constant may not be an output under another name, nor one tensor two outputs.
        if tensor in taken or (tensor not in written and not is_input):
            tensor = copy(tensor, value)
        taken.add(tensor)
        named[value.name] = tensor
    names = {v.name for v in values}
    for tensor in block.tensors():
        # Runtimes find an output by its name, so no other tensor may have it.
        if tensor.name in names and tensor not in taken and tensor not in block.inputs:
            tensor.name += "/inner"
    for name, tensor in named.items():
        tensor.name = name
    block.outputs = list(named.values())
    return named
