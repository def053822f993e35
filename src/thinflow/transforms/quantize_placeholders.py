"""Feed a graph with eight-bit codes instead of floats.

x: float  ->  x: quint8, read through Dequantize(x, input_min, input_max)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.errors import ParameterError
from thinflow.ir.attrs import attr_text
from thinflow.ir.types import FLOAT, QUINT8, TensorSpec
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, node
from thinflow.rewrite.rule import Refuse, transform
from thinflow.transforms.quantized.values import MIN_FIRST, constant


def check_range(name: str, low: float | None, high: float | None) -> None:
    """Raise ParameterError unless both ends of a range are given and in order, or none is."""
    if (low is None) != (high is None):
        raise ParameterError(
            f"You must pass both {name}_min and {name}_max into quantize_nodes",
            hint=f"give both, such as {name}_min=-1, {name}_max=1, or leave both out",
        )
    if low is not None and high is not None and not -np.inf < low < high < np.inf:
        raise ParameterError(
            f"{name}_min is {low:g} and {name}_max {high:g}", hint="the minimum must be below the maximum"
        )


@transform("quantize_placeholders")
@dataclass(frozen=True)
class QuantizePlaceholders(Rewrite):
    """Make every float placeholder a quint8 one. A step of quantize_nodes.

    Attributes:
        input_min: the number that code 0 stands for.
        input_max: the number that code 255 stands for.
    """

    exact = False
    in_file_order = True
    outputs = 0
    until_fixpoint = False
    pattern: ClassVar = node("Placeholder|PlaceholderV2", name="x")

    input_min: float
    input_max: float

    def __post_init__(self) -> None:
        check_range("input", self.input_min, self.input_max)

    def check(self, m: Match) -> None:
        element = m.x.attrs.get("dtype")
        if element is not FLOAT:
            raise Refuse(f"it is {attr_text(element) if element is not None else 'of no type'}, not float")
        if m.x.output().is_graph_output:
            raise Refuse("it is an output of the graph, too")

    def describe(self, m: Match) -> str:
        return f"takes codes of {self.input_min:g} to {self.input_max:g}"

    def build(self, m: Match, site: Site) -> None:
        node = m.x
        following = node.output().readers
        # In file order behind the placeholder, in front of the first that reads it.
        site = Site(site.graph, following[0] if following else node, self.name)
        base = f"{node.name}_eightbit"
        low, high = (
            constant(site, np.array(end, np.float32), f"{base}/{which}")
            for which, end in (("min", self.input_min), ("max", self.input_max))
        )
        node.attrs["dtype"] = QUINT8
        value = node.output()
        # Nobody reads it: there is nothing to decode.
        if not value.uses:
            site.graph.remove(low.node, high.node)
            return
        decoded = site.add("Dequantize", value, low, high, name=f"{base}/dequantize", attrs=MIN_FIRST)
        decoded.node.device = node.device
        decoded.spec = TensorSpec(FLOAT, value.shape)
        value.replace_uses(decoded, keep=[decoded.node])
        value.spec = TensorSpec(QUINT8, value.shape)
