"""Whether a graph's eight-bit ops are few enough to be run exactly as TensorFlow runs them.

LiteRT's kernels round some codes to a neighbour of TensorFlow's. The interpreter does not, and is fast enough
where there is little to compute.
"""

from __future__ import annotations

from thinflow.engines import _worth
from thinflow.ir.graph import Graph, Node
from thinflow.lower.tflite.quantized_context import READERS
from thinflow.ops import registry

FLOPS_WORTH_A_CODE = 1e5
"""Arithmetic on codes, in the whole graph, that takes the interpreter less than a tenth of a millisecond."""


def better_exact(graph: Graph) -> dict[Node, str]:
    """The eight-bit ops of a graph that computes little with codes, with the reason; empty if it does more.

    Shapes have to be inferred. O(nodes).
    """
    nodes = [node for node in graph if node.op in READERS]
    total = 0.0
    for node in nodes:
        total += _worth.flops(node, registry.get(node.op))
        if total > FLOPS_WORTH_A_CODE:
            return {}
    why = (
        "with so little eight-bit arithmetic the interpreter does, and its codes are TensorFlow's to the last"
    )
    return dict.fromkeys(nodes, why)
