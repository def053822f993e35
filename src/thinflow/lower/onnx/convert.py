"""A part of a TensorFlow graph as an ONNX program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from thinflow.analysis.loops import infer_with_loops
from thinflow.control_flow.steps import Step
from thinflow.errors import UnsupportedOp
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.lower.building import REFUSED, Dims
from thinflow.lower.control import steps
from thinflow.lower.lowering import Specs, raise_refusals
from thinflow.lower.onnx.control import OnnxLowering, lowering
from thinflow.lower.onnx.fuse import fuse, fuse_channels
from thinflow.lower.onnx.layout import settle_layout
from thinflow.onnx.program import DEFAULT_OPSET, Operator, Program, Tensor, check_opset
from thinflow.program.model import name_uniquely


@brief_repr
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
    extended: bool = False,
    limits_bytes: bool = False,
) -> Lowered:
    """The program that computes `outputs` from `inputs`. O(nodes); large weights are shared, not copied.

    Args:
        graph: not changed, but for the specs of its values where shape inference has to run.
        inputs: what will be fed; nothing above them is lowered.
        outputs: what is wanted.
        specs: types and shapes of values, where `Value.spec` does not have them; default: infer them all.
        opset: version of ONNX's op set, 17 to 21.
        extended: whether ops may be used that ONNX Runtime alone has.
        limits_bytes: whether Max and Min of uint8 may be used, which ONNX Runtime has since 1.24.

    Raises:
        UnsupportedOp: a node that ONNX cannot express, the first one in running order; with its reason.
        ParameterError: an opset that cannot be written.
    """
    check_opset(opset)
    if specs is None:
        infer_with_loops(graph)
    inputs = list(dict.fromkeys(inputs))
    run = lowering(opset, specs)
    run.builder.extended, run.builder.limits_bytes = extended, limits_bytes
    for value in inputs:
        run.feed(value)
    run.lower_all(graph, outputs, inputs)
    results = [_tensor(value, run.output(value)) for value in outputs]
    program = Program(
        [run.fed[v] for v in inputs], results, run.builder.operators, opset=opset,
        description="made by thinflow",
    )  # fmt: skip
    program.remove_dead()
    raise_refusals(program.operators)
    settle_layout(program)
    fuse(program)
    # Last: until here a convolution may still take factors and addends, one by one.
    fuse_channels(program)
    named = _name_outputs(program, outputs)
    every = (t for part in program.programs() for t in part.tensors())
    name_uniquely(every, fixed=[*program.inputs, *program.outputs])
    known = run.builder.origin
    origin = {t.name: known[t] for t in program.tensors() if t in known}
    fed = dict(zip((v.name for v in inputs), program.inputs, strict=True))
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
    check_opset(opset)
    if specs is None:
        infer_with_loops(graph)
    # One run folds constants for all trials, so that each subgraph of constants is computed once.
    constants = lowering(opset, specs)
    reasons: dict[Node, str] = {}
    for node in nodes:
        if node.op in ("Placeholder", "PlaceholderV2", "NoOp"):
            continue
        if constants.constant(node.output()) is None and (
            why := _first_refusal(_tried(constants, opset, specs, node.inputs, [node]))
        ):
            reasons[node] = why
    return reasons


def unsupported_unit(
    graph: Graph,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    *,
    specs: Specs | None = None,
    opset: int = DEFAULT_OPSET,
) -> str:
    """Why what stands between inputs and outputs cannot be lowered as a whole; "" if it can.

    Args:
        graph: its shapes must be inferred.
        inputs: what the unit reads, also constants.
        outputs: what others read.
        specs, opset: as in `lower_graph`.
    """
    constants = lowering(check_opset(opset), specs)
    try:
        found = steps(graph, outputs, inputs)
    except UnsupportedOp as error:
        return error.problem
    return _first_refusal(_tried(constants, opset, specs, inputs, found, outputs))


def _tried(
    constants: OnnxLowering,
    opset: int,
    specs: Specs | None,
    inputs: Sequence[Value],
    found: Sequence[Step],
    outputs: Sequence[Value] | None = None,
) -> list[Operator]:
    """The operators of some steps, those that `outputs` need if they are given."""
    trial = lowering(opset, specs, constants)
    for value in inputs:
        trial.provide(value)
    start = len(trial.builder.operators)
    for step in found:
        trial.lower_step(step)
    if outputs is None:
        made: list[Operator] = trial.builder.operators[start:]
        return made
    results = [trial.output(value) for value in outputs]
    program = Program([], [t for t in results if isinstance(t, Tensor)], trial.builder.operators)
    program.remove_dead()
    if len(program.outputs) < len(results):
        return [Operator(REFUSED, [], [], {"error": UnsupportedOp("it hands out a list")})]
    return program.operators


def _first_refusal(operators: Iterable[Operator]) -> str:
    """The first refusal among operators; "" if there is none."""
    for operator in operators:
        if operator.code == REFUSED:
            error: UnsupportedOp = operator.options["error"]
            return error.problem
    return ""


def _tensor(value: Value, slot: object) -> Tensor:
    """The tensor that stands for an output, which cannot be a list."""
    if isinstance(slot, Tensor):
        return slot
    raise UnsupportedOp("a list cannot be an output of an ONNX model", value.node.where)


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
    # A name that is asked for must be free; tensors inside of the program give way.
    for tensor in program.tensors():
        if tensor.name in names and tensor not in taken and tensor not in program.inputs:
            tensor.name += "/inner"
    for (name, tensor), value in zip(named.items(), dict.fromkeys(values), strict=True):
        tensor.name = name
        tensor.shape = _refined(tensor.shape, value.spec.shape)
    program.outputs = list(named.values())
    return named


def _refined(shape: Dims, known: Dims) -> Dims:
    """A shape that lacks sizes, as the graph knows it; pairs for complex numbers have an axis more."""
    if known is None or (shape is not None and (None not in shape or len(shape) != len(known))):
        return shape
    return known
