"""Leave out the way from codes to floats and back.

QuantizeV2(y, Min(y), Max(y)) with y = Dequantize(q, lo, hi)  ->  q, lo, hi
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import QUINT8
from thinflow.rewrite.edits import sweep
from thinflow.rewrite.rule import Refuse, Transform, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.quantized.values import coded_source, source_of


@transform("remove_redundant_quantizations")
@dataclass(frozen=True)
class RemoveRedundantQuantizations(Transform):
    """Read codes directly instead of decoding, measuring and coding them again. A step of quantize_nodes."""

    exact = False

    def apply(self, graph: Graph, trace: Trace) -> None:
        for node in graph:
            if node.op != "QuantizeV2" or len(node.inputs) != 3:
                continue
            x, low, high = node.inputs
            coded = coded_source(x)
            is_plain = node.get("T") is QUINT8 and node.get("mode") == "MIN_FIRST"
            if coded is None or not is_plain or not (_measures("Min", low, x) and _measures("Max", high, x)):
                continue
            try:
                _check(node)
            except Refuse as refusal:
                trace.leave(node, refusal.reason)
                continue
            trace.changed(node, f"'{coded[0].name}' has these codes")
            sources = [v.node for v in node.inputs]
            graph.bypass(node, dict(enumerate(coded)))
            sweep(graph, sources)


def _check(node: Node) -> None:
    if node.is_protected:
        raise Refuse("it is asked for by name")
    if node.control_inputs or node.control_outputs:
        raise Refuse("it waits for other nodes, or they for it")


def _measures(op: str, value: Value, x: Value) -> bool:
    """Whether a value is the minimum or maximum of all that x holds."""
    node = value.node
    if node.op != op or value.port != 0 or value.is_graph_input or not node.inputs:
        return False
    read = source_of(node.inputs[0])
    if read.node.op == "Reshape" and not read.is_graph_input:
        read = source_of(read.node.inputs[0])
    return read is source_of(x) and value.shape in (None, ())
