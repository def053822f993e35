"""Floats of fewer digits that a graph computes in, and how far rounding alone moves its answers then."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.errors import ThinflowError
from thinflow.ir.function import reachable
from thinflow.ir.graph import Graph, Node
from thinflow.ir.types import BFLOAT16, HALF, DType
from thinflow.ops.traits import Trait, has

USUAL = 1e-4
"""Relative difference up to which answers of float models count as the same."""
# float16 stores 10 bits of the mantissa, bfloat16 7.
_STEPS = {HALF: 2.0**-10, BFLOAT16: 2.0**-7}
"""Distance of 1 to the next number."""
_SPARE = 8
"""Steps by which rounding may add up. An LSTM and a GRU over six steps each in bfloat16 make 4.4."""


def computed_in(*graphs: Graph) -> DType | None:
    """The coarsest of half and bfloat16 that one of the graphs computes in; None if none does.

    Weights that are only kept in it do not count. O(nodes, those of functions included).
    """
    found = {t for graph in graphs for node in _nodes(graph) for t in _types(node)}
    return max(found & _STEPS.keys(), key=lambda t: _STEPS[t], default=None)


def usual_tolerance(*graphs: Graph) -> tuple[float, str]:
    """A relative difference up to which answers may differ, and why it is not the usual one; "" if it is.

    Some steps of the coarsest type: what one runtime rounds after each op, another keeps in more digits.
    """
    element = computed_in(*graphs)
    if element is None:
        return USUAL, ""
    tolerance = _SPARE * _STEPS[element]
    return tolerance, f"a model computes in {element}, and the tolerance is {_SPARE} steps of that type"


def _nodes(graph: Graph) -> Iterator[Node]:
    yield from graph
    try:
        names = sorted(reachable(graph))
    except ThinflowError:  # a damaged library is told by whoever runs it
        return
    for name in names:
        yield from graph.functions[name].graph


def _types(node: Node) -> Iterator[DType]:
    if (
        # Constants, casts and what hands a value on store such numbers; they do not round anything anew.
        not node.inputs
        or node.op in ("Cast", "Dequantize")
        or has(node.op, Trait.IDENTITY | Trait.PLACEHOLDER)
    ):
        return
    for attr in node.attrs_view.values():
        yield from (t for t in (attr if isinstance(attr, tuple) else (attr,)) if isinstance(t, DType))
