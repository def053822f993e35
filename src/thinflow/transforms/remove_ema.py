"""Take the moving averages out of fake quantization: the last range measured in training becomes the range.

fake_quant(x, assign(lo, ...), assign(hi, ...))  ->  fake_quant(x, lo, hi)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from thinflow.ir.graph import Value
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_value, const, node
from thinflow.rewrite.rule import transform


@transform("remove_ema")
@dataclass(frozen=True)
class RemoveEma(Rewrite):
    """Let FakeQuantWithMinMaxVars read its ranges directly, in a graph frozen from quantized training."""

    exact = False  # the graph before updates its range with every run

    pattern: ClassVar = node(
        "FakeQuantWithMinMaxVars",
        any_value("x"),
        node("Assign", const("low"), any_value(), boundary=True),
        node("Assign", const("high"), any_value(), boundary=True),
        name="quantize",
    )

    def build(self, m: Match, site: Site) -> Value:
        return site.add(m.quantize.op, m.x, m.low, m.high, attrs=m.quantize.attrs)

    def describe(self, m: Match) -> str:
        return f"its range is '{m.low.name}' to '{m.high.name}'"
