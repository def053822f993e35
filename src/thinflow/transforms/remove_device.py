"""Forget where nodes were placed in training, so that the graph runs anywhere.

y = Mul(x, w) @/gpu:0  ->  y = Mul(x, w)
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.ir.graph import Graph
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.flow.library import note_functions


@transform("remove_device")
@dataclass(frozen=True)
class RemoveDevice(Transform):
    """Clear the device of every node."""

    def apply(self, graph: Graph, trace: Trace) -> None:
        note_functions(graph, trace, "devices inside it stay")
        for node in graph:
            if node.device:
                trace.changed(node, f"device '{node.device}' cleared")
                node.device = ""
