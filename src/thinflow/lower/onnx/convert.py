"""A part of a TensorFlow graph as an ONNX program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from thinflow.ir.graph import Graph, Node, Value
from thinflow.lower import convert
from thinflow.lower.convert import Judge, lowered_block, name_outputs, no_objection
from thinflow.lower.lowering import Specs
from thinflow.lower.onnx.control import lowering
from thinflow.lower.onnx.fuse import fuse, fuse_channels
from thinflow.lower.onnx.layout import settle_layout
from thinflow.onnx.program import DEFAULT_OPSET, Operator, Program, Tensor, check_opset
from thinflow.program.model import Dims, name_uniquely

Lowered: TypeAlias = convert.Lowered[Program, Tensor]


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
    run = lowering(check_opset(opset), specs)
    run.builder.extended, run.builder.limits_bytes = extended, limits_bytes
    block = lowered_block(run, graph, inputs, outputs)
    program = Program(
        block.inputs, block.outputs, block.operators, opset=opset, description="made by thinflow"
    )
    settle_layout(program)
    fuse(program)
    # Last: until here a convolution may still take factors and addends, one by one.
    fuse_channels(program)

    def copied(tensor: Tensor, value: Value) -> Tensor:
        copy = Tensor(value.name, tensor.shape, tensor.dtype)
        program.operators.append(Operator("Identity", [tensor], [copy], origin=value.node.name))
        return copy

    named = name_outputs(program, outputs, copied, allow_inputs=True)
    for value in outputs:
        named[value.name].shape = _refined(named[value.name].shape, value.spec.shape)
    every = (t for part in program.programs() for t in part.tensors())
    name_uniquely(every, fixed=[*program.inputs, *program.outputs])
    known = run.builder.origin
    origin = {t.name: known[t] for t in program.tensors() if t in known}
    fed: dict[str, Tensor] = {value.name: tensor for value, tensor in run.fed.items()}
    return Lowered(program, fed, named, origin | {name: name for name in named})


def unsupported(
    graph: Graph,
    nodes: Iterable[Node],
    *,
    specs: Specs | None = None,
    opset: int = DEFAULT_OPSET,
    judge: Judge = no_objection,
) -> dict[Node, str]:
    """Reasons by node for which it cannot be lowered; see `lower.convert.unsupported`."""
    return convert.unsupported(lowering(check_opset(opset), specs), graph, nodes, judge)


def unsupported_unit(
    graph: Graph,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    *,
    specs: Specs | None = None,
    opset: int = DEFAULT_OPSET,
    judge: Judge = no_objection,
) -> str:
    """The reason why a part of a graph cannot be lowered; see `lower.convert.unsupported_unit`."""
    return convert.unsupported_unit(lowering(check_opset(opset), specs), graph, inputs, outputs, judge)


def _refined(shape: Dims, known: Dims) -> Dims:
    """A shape that lacks sizes, as the graph knows it; pairs for complex numbers have an axis more."""
    if known is None or (shape is not None and (None not in shape or len(shape) != len(known))):
        return shape
    return known
