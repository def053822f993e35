"""A part of a TensorFlow graph as an ONNX program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from thinflow.analysis.shapes import infer_shapes
from thinflow.ir.graph import Graph, Node, Value
from thinflow.lower.lowering import Lowering, Specs, Target, needed_nodes, raise_refusals, reasons_against
from thinflow.lower.onnx.builder import Builder
from thinflow.lower.onnx.fuse import fuse, remove_dead
from thinflow.lower.onnx.layout import settle_layout
from thinflow.lower.onnx.program import DEFAULT_OPSET, Operator, Program, Tensor, check_opset


@dataclass
class Lowered:
    """A program and how it hangs together with the graph it was made from.

    Attributes:
        program: fed and fetched by the names of the graph's values.
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
    opset: int = DEFAULT_OPSET,
) -> Lowered:
    """The program that computes `outputs` from `inputs`. O(nodes); large weights are shared, not copied.

    Args:
        graph: not changed, but for the specs of its values where shape inference has to run.
        inputs: what will be fed; nothing above them is lowered.
        outputs: what is wanted.
        specs: types and shapes of values, where `Value.spec` does not have them; default: infer them all.
        opset: version of ONNX's op set, 17 to 21.

    Raises:
        UnsupportedOp: a node that ONNX cannot express, the first one in running order; with its reason.
        ParameterError: an opset that cannot be written.
    """
    if specs is None:
        infer_shapes(graph)
    inputs = list(dict.fromkeys(inputs))
    lowering = Lowering(_target(opset), specs)
    for value in inputs:
        lowering.feed(value)
    for node in needed_nodes(outputs, inputs):
        lowering.lower(node)
    results = [lowering.read(value) for value in outputs]
    program = Program(
        [lowering.tensors[v] for v in inputs], results, lowering.builder.operators, opset,
        description="made by thinflow",
    )  # fmt: skip
    remove_dead(program)
    raise_refusals(program.operators)
    settle_layout(program)
    fuse(program)
    named = _name_outputs(program, outputs)
    _unique_names(program)
    known = lowering.builder.origin
    origin = {t.name: known[t] for t in program.tensors() if t in known}
    fed = {value.name: lowering.tensors[value] for value in inputs}
    return Lowered(program, fed, named, origin | {name: name for name in named})


def unsupported(
    graph: Graph, nodes: Iterable[Node], *, specs: Specs | None = None, opset: int = DEFAULT_OPSET
) -> dict[Node, str]:
    """Why each node could not be lowered; those that could are missing. Each is tried by itself, O(nodes).

    Args:
        graph: not changed, but for the specs of its values where shape inference has to run.
        nodes: what to try. Placeholders, constants and NoOp are always fine.
        specs, opset: as in `lower_graph`.
    """
    if specs is None:
        infer_shapes(graph)
    return reasons_against(_target(opset), nodes, specs)


def _target(opset: int) -> Target:
    return Target("onnx", "ONNX", partial(Builder, opset=check_opset(opset)))


def _name_outputs(program: Program, values: Sequence[Value]) -> dict[str, Tensor]:
    """Give each output a tensor of its own with the name it was asked for by.

    An output that is a constant or another output too is copied with an Identity, and so is an input that is
    wanted by another name.
    """
    named: dict[str, Tensor] = {}
    written = {t for operator in program.operators for t in operator.outputs}
    taken: set[Tensor] = set()
    names = {v.name for v in values}
    for value, tensor in zip(values, program.outputs, strict=True):
        if value.name in named:
            continue
        is_input = tensor in program.inputs and tensor.name == value.name
        if tensor in taken or (tensor not in written and not is_input):
            copy = Tensor(value.name, tensor.shape, tensor.dtype)
            program.operators.append(Operator("Identity", [tensor], [copy], origin=value.node.name))
            tensor = copy
        taken.add(tensor)
        named[value.name] = tensor
    for tensor in program.tensors():
        if tensor.name in names and tensor not in taken and tensor not in program.inputs:
            tensor.name += "/inner"
    for (name, tensor), value in zip(named.items(), dict.fromkeys(values), strict=True):
        tensor.name = name
        spec = value.spec
        if tensor.shape is None or (spec.shape is not None and None in tensor.shape):
            tensor.shape = spec.shape if spec.shape is not None else tensor.shape
    program.outputs = list(named.values())
    return named


def _unique_names(program: Program) -> None:
    """Rename what shares its name; inputs and outputs keep theirs."""
    fixed = [*program.inputs, *program.outputs]
    names = {t.name for t in fixed}
    for tensor in program.tensors():
        if tensor in fixed:
            continue
        wished, count = tensor.name or "tensor", 0
        while tensor.name in names or not tensor.name:
            count += 1
            tensor.name = f"{wished}_{count}"
        names.add(tensor.name)
