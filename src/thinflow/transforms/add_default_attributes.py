"""Write out attributes that newer op definitions added and that old files therefore lack.

y = LRN(x)  ->  y = LRN(x) {T=float, alpha=1, beta=0.5, bias=1, depth_radius=5}
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.ir.graph import Graph
from thinflow.ops._defaults import defaults_of
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.flow.library import note_functions


@transform("add_default_attributes")
@dataclass(frozen=True)
class AddDefaultAttributes(Transform):
    """Add the attributes a node lacks, with the values their absence meant. What is there stays."""

    def apply(self, graph: Graph, trace: Trace) -> None:
        note_functions(graph, trace, "nodes inside it get no defaults")
        for node in graph:
            defaults = defaults_of(node.op)
            if defaults is None:
                trace.leave(node, f"thinflow does not know the op {node.op}")
                continue
            added = {name: value for name, value in defaults.items() if name not in node.attrs_view}
            if added:
                node.attrs.update(added)
                trace.changed(node, f"added {', '.join(sorted(added))}")
