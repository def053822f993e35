"""A part of a TensorFlow graph as a LiteRT program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Graph, Node, Value
from thinflow.lower import convert
from thinflow.lower.convert import lowered_block, name_outputs
from thinflow.lower.lowering import Specs
from thinflow.lower.tflite.bodies import called_by, copied, numbered
from thinflow.lower.tflite.control import ControlLowering
from thinflow.lower.tflite.fuse import fuse
from thinflow.lower.tflite.tables import filling
from thinflow.tflite.model import Operator, Program, Signature, Subgraph, Tensor
from thinflow.tflite.schema import PACKED_BITS

SIGNATURE = "serving_default"

Lowered: TypeAlias = convert.Lowered[Program, Tensor]
"""The first subgraph of its program is what runs, with the signature "serving_default"."""


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
    run = ControlLowering(specs=specs, recurrent=recurrent)
    block = lowered_block(run, graph, inputs, outputs)
    subgraph = Subgraph(block.inputs, block.outputs, block.operators)
    fuse(subgraph, matrix_unit=matrix_unit)
    # After fusion, which may replace the tensor that an output is.
    named = name_outputs(
        subgraph, outputs, lambda t, value: copied(subgraph, t, value.name), allow_inputs=False
    )
    fed: dict[str, Tensor] = {value.name: tensor for value, tensor in run.fed.items()}
    _require_interface(fed, named)
    # Before `numbered`, which has to see the subgraphs that fill them called.
    _fill_tables(subgraph, run)
    subgraphs = numbered(subgraph, run.subgraphs)
    program = Program(subgraphs, "made by thinflow", {SIGNATURE: Signature(dict(fed), dict(named))})
    # Fusion makes tensors of its own; their operators say which node they are for.
    known = {t: o.origin for o in subgraph.operators for t in o.outputs if o.origin} | run.builder.origin
    origin = {t.name: known[t] for t in subgraph.tensors() if t in known}
    return Lowered(program, fed, named, origin | {name: name for name in named})


def _require_interface(fed: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    """Refuse inputs and outputs of types that LiteRT's interpreter does not exchange with its callers.

    Raises:
        UnsupportedOp: names the first.
    """
    for what, tensors in (("input", fed), ("output", given)):
        for name, tensor in tensors.items():
            # Constants of a few bits are handed out, but none are taken.
            is_packed = what == "input" and tensor.dtype.name in PACKED_BITS
            if is_packed or tensor.dtype.name.startswith("float8"):
                raise UnsupportedOp(
                    f"the {what} is {tensor.dtype}, which LiteRT does not exchange with its callers",
                    f"'{name}'",
                    f"cast it in the model, or cut it off by --{what}s",
                )


def unsupported(graph: Graph, nodes: Iterable[Node], *, specs: Specs | None = None) -> dict[Node, str]:
    """Reasons by node for which it cannot be lowered; see `lower.convert.unsupported`."""
    return convert.unsupported(ControlLowering(specs=specs), graph, nodes)


def unsupported_unit(
    graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], *, specs: Specs | None = None
) -> str:
    """The reason why a part of a graph cannot be lowered; see `lower.convert.unsupported_unit`."""
    return convert.unsupported_unit(ControlLowering(specs=specs), graph, inputs, outputs)


def _fill_tables(main: Subgraph, run: ControlLowering) -> None:
    """Let the tables that are read be filled before anything else runs."""
    called = [main, *called_by(main, run.subgraphs)]
    read = {o.options["table_id"] for part in called for o in part.operators if o.code == "HASHTABLE"}
    contents = list(run.builder.tables)
    first = []
    for table in sorted(read):
        run.subgraphs.append(filling(table, contents[table]))
        # CALL_ONCE runs its subgraph the first time only: once for all runs of an interpreter.
        options = {"init_subgraph_index": len(run.subgraphs)}
        first.append(Operator("CALL_ONCE", [], [], options, origin=f"table{table}"))
    main.operators[:0] = first
