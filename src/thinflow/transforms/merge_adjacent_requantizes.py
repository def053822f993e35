"""Bring a 32-bit result to its trained range at once, instead of to a measured range first.

Requantize(QuantizeV2(Dequantize(Requantize(x, range(x))), lo, hi), lo, hi)  ->  Requantize(x, lo, hi)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from thinflow.ir.graph import Node, Value
from thinflow.ir.types import QINT32, QUINT8
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_value, node, output_of
from thinflow.rewrite.rule import Refuse, transform
from thinflow.transforms.quantized.ranges import measuring
from thinflow.transforms.quantized.values import coded_source
from thinflow.transforms.shared.constants import const_tensor


def _other(node: Node) -> str | None:
    """Why what is between the two does not hand quantized values on as they are."""
    if node.op == "Requantize":
        return None if node.get("out_type") is QUINT8 else "it does not make quint8"
    plain = node.get("T") is QINT32 and node.get("mode") == "MIN_FIRST"
    return None if plain and coded_source(node.inputs[0]) is not None else "it quantizes in another way"


@transform("merge_adjacent_requantizes")
@dataclass(frozen=True)
class MergeAdjacentRequantizes(Rewrite):
    """Skip a measured range where a constant one follows. A step of quantize_nodes.

    Attributes:
        fallback_min: with fallback_max, a constant range to skip like a measured one.
        fallback_max: see fallback_min.
    """

    exact = False
    in_file_order = True
    until_fixpoint = False
    near_misses = False
    outputs = 0
    pattern: ClassVar = node(
        "Requantize",
        node(
            "QuantizeV2",
            node(
                # Nodes in between may have other readers: they stay, and go if nobody reads them.
                "Dequantize",
                node("Requantize", name="first", boundary=True, through=(), where=_other),
                *(output_of("first", 1), output_of("first", 2)),
                boundary=True,
            ),
            *(any_value(), any_value()),
            name="quantize",
            boundary=True,
            through=(),
            where=_other,
        ),
        *(output_of("quantize", 1), output_of("quantize", 2)),
        *(any_value("low"), any_value("high")),
        name="requantize",
    )

    fallback_min: float | None = None
    fallback_max: float | None = None

    def check(self, m: Match) -> None:
        low, high = _number(m.low), _number(m.high)
        if measuring(m.first) is None and not self._is_fallback(m.first):
            raise Refuse(f"'{m.first.name}' has a range of its own")
        if low is None or high is None:
            raise Refuse("its range is not constant")
        # Two roundings to one grid are one; to different grids they are not.
        if [_number(v) for v in m.quantize.inputs[1:]] != [low, high]:
            raise Refuse(f"'{m.quantize.name}' has another range")
        if m.quantize.control_inputs or m.quantize.is_protected:
            raise Refuse(f"'{m.quantize.name}' is needed for itself")

    def describe(self, m: Match) -> str:
        return f"reads '{m.first.inputs[0].name}' directly"

    def build(self, m: Match, site: Site) -> None:
        m.requantize.set_inputs([*m.first.inputs[:3], m.low, m.high])

    def _is_fallback(self, node: Node) -> bool:
        ends = [_number(v) for v in node.inputs[3:]]
        return None not in ends and ends == [self.fallback_min, self.fallback_max]


def _number(value: Value) -> float | None:
    tensor = const_tensor(value)
    return None if tensor is None or tensor.size != 1 else float(tensor.numpy().reshape(()))
