"""Bring a 32-bit result to its trained range at once, instead of to a measured range first.

Requantize(QuantizeV2(Dequantize(Requantize(x, range(x))), lo, hi), lo, hi)  ->  Requantize(x, lo, hi)
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import QINT32, QUINT8
from thinflow.rewrite.edits import sweep
from thinflow.rewrite.rule import Refuse, Transform, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.quantized.ranges import measuring
from thinflow.transforms.quantized.values import coded_source, ports
from thinflow.transforms.shared.constants import const_tensor


@transform("merge_adjacent_requantizes")
@dataclass(frozen=True)
class MergeAdjacentRequantizes(Transform):
    """Skip a measured range where a constant one follows. A step of quantize_nodes.

    Attributes:
        fallback_min: with fallback_max, a constant range to skip like a measured one.
        fallback_max: see fallback_min.
    """

    exact = False

    fallback_min: float | None = None
    fallback_max: float | None = None

    def apply(self, graph: Graph, trace: Trace) -> None:
        for node in graph:
            quantize = node.inputs[0].node if node.inputs else node
            if node.op != "Requantize" or quantize.op != "QuantizeV2" or quantize is node:
                continue
            try:
                first = self._first(node, quantize)
            except Refuse as refusal:
                trace.leave(node, refusal.reason)
                continue
            if first is None:
                continue
            trace.changed(node, f"reads '{first.inputs[0].name}' directly")
            node.set_inputs([*first.inputs[:3], *node.inputs[3:]])
            sweep(graph, [quantize])

    def _first(self, node: Node, quantize: Node) -> Node | None:
        """The Requantize to skip; None if the pattern is another one.

        Raises:
            Refuse: it must stay.
        """
        plain = quantize.get("T") is QINT32 and quantize.get("mode") == "MIN_FIRST"
        if not plain or node.inputs[:3] != ports(quantize) or len(node.inputs) != 5:
            return None
        coded = coded_source(quantize.inputs[0])
        if coded is None:
            return None
        first = coded[0].node
        if first.op != "Requantize" or coded != ports(first) or first.get("out_type") is not QUINT8:
            return None
        if measuring(first) is None and not self._is_fallback(first):
            raise Refuse(f"'{first.name}' has a range of its own")
        if any(_number(v) is None for v in node.inputs[3:]):
            raise Refuse("its range is not constant")
        if [_number(v) for v in quantize.inputs[1:]] != [_number(v) for v in node.inputs[3:]]:
            raise Refuse(f"'{quantize.name}' has another range")
        if quantize.control_inputs or quantize.is_protected:
            raise Refuse(f"'{quantize.name}' is needed for itself")
        return first

    def _is_fallback(self, node: Node) -> bool:
        ends = [_number(v) for v in node.inputs[3:]]
        return None not in ends and ends == [self.fallback_min, self.fallback_max]


def _number(value: Value) -> float | None:
    tensor = const_tensor(value)
    return None if tensor is None or tensor.size != 1 else float(tensor.numpy().reshape(()))
