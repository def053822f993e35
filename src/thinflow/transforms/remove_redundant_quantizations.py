"""Leave out the way from codes to floats and back.

QuantizeV2(y, Min(y), Max(y)) with y = Dequantize(q, lo, hi)  ->  q, lo, hi
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from thinflow.ir.graph import Node, Value
from thinflow.ir.types import QUINT8
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_value, node
from thinflow.rewrite.rule import Refuse, transform
from thinflow.transforms.quantized.values import Coded, coded_source, source_of


def _other(quantize: Node) -> str | None:
    """Why a QuantizeV2 over Min and Max does not make the codes that its input was decoded from."""
    x, low, high = quantize.inputs
    is_plain = quantize.get("T") is QUINT8 and quantize.get("mode") == "MIN_FIRST"
    if coded_source(x) is not None and is_plain and _measures(low, x) and _measures(high, x):
        return None
    return "it makes other codes"


def _measures(value: Value, x: Value) -> bool:
    """Whether a Min or Max is that of all that x holds."""
    node = value.node
    if value.is_graph_input or not node.inputs:
        return False
    read = source_of(node.inputs[0])
    # Measuring is done on the flattened value where the rank was not known.
    if read.node.op == "Reshape" and not read.is_graph_input:
        read = source_of(read.node.inputs[0])
    # Reduced over all axes, as the result's rank shows.
    return read is source_of(x) and value.shape in (None, ())


@transform("remove_redundant_quantizations")
@dataclass(frozen=True)
class RemoveRedundantQuantizations(Rewrite):
    """Read codes directly instead of decoding, measuring and coding them again. A step of quantize_nodes."""

    exact = False
    in_file_order = True
    until_fixpoint = False
    near_misses = False
    outputs = 3
    pattern: ClassVar = node(
        "QuantizeV2",
        any_value("x"),
        node("Min", boundary=True, through=()),
        node("Max", boundary=True, through=()),
        name="quantize",
        where=_other,
    )

    def check(self, m: Match) -> None:
        if m.quantize.is_protected:
            raise Refuse("it is asked for by name")
        if m.quantize.control_inputs or m.quantize.control_outputs:
            raise Refuse("it waits for other nodes, or they for it")
        m.bind("coded", coded_source(m.x))

    def describe(self, m: Match) -> str:
        return f"'{m.coded[0].name}' has these codes"

    def build(self, m: Match, site: Site) -> Coded:
        coded: Coded = m.coded
        return coded
