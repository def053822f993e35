"""The floating-point operations of a graph as benchmark_model counts them: matrix products, convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from thinflow.ir.graph import Graph, Node
from thinflow.ir.order import ancestors

_SUMMED = {"Conv2D": 3, "QuantizedConv2D": 3, "DepthwiseConv2dNative": 2, "MatMul": 0, "QuantizedMatMul": 0}
"""Op -> how many of the filter's first sizes an output element is summed over; 0 of a matrix product."""


def estimate(graph: Graph) -> tuple[int, list[str]]:
    """Operations of one run, and the nodes whose sizes are not known, which count for nothing.

    Args:
        graph: with its shapes inferred.
    """
    total, unknown = 0, []
    for node in ancestors([v.node for v in graph.outputs]):
        if node.op in _SUMMED:
            count = _operations(node)
            if count is None:
                unknown.append(node.name)
            else:
                total += count
    return total, sorted(unknown)


def _operations(node: Node) -> int | None:
    output = node.output().spec.shape
    summed = _SUMMED[node.op]
    source = node.inputs[1 if summed else 0].spec.shape
    if output is None or source is None or None in (*output, *source):
        return None
    outputs = math.prod(size or 0 for size in output)
    if not summed:
        return 2 * outputs * (source[0 if node.get("transpose_a", False) else 1] or 0)
    # A filter is [h, w, cin, cout]: an output element sums over the first
    # three, depthwise over the first two.
    return 2 * outputs * math.prod(size or 0 for size in source[:summed])


_SUFFIXES: Sequence[str] = ("", "k", "M", "B", "T")


def human(number: float) -> str:
    """`1.23M`, as TensorFlow writes it: two decimals and a letter from a thousand on."""
    if number < 1000:
        return f"{number:g}"
    if number >= 1e15:
        return f"{number:.3G}"
    step = 0
    while True:
        number /= 1000
        step += 1
        if number < 1_000_000 / 1000 or step == len(_SUFFIXES) - 1:
            return f"{number:.2f}{_SUFFIXES[step]}"
