"""Spell TensorArrays for runtimes that are older than their third version, which gave them a flow output.

a, flow = tensor_array_v3(n); tensor_array_write_v3(a, i, x, flow)  ->  tensor_array_write_v2(a, i, x, 1.0)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thinflow.ir.graph import Graph
from thinflow.rewrite.edits import Site
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.shared.effects import in_loops

_MAKERS = frozenset({"TensorArrayV3", "TensorArrayGradV3"})
_ACCESSES = frozenset(
    f"TensorArray{access}V3"
    for access in ("Write", "Read", "Gather", "Scatter", "Concat", "Split", "Size", "Close")
)
_NEW_ATTRS = ("identical_element_shapes",)
"""Attributes that the second version does not define."""


@transform("backport_tensor_array_v3")
@dataclass(frozen=True)
class BackportTensorArrayV3(Transform):
    """Turn TensorArray ops of version 3 into those of version 2; what reads a flow reads the constant 1."""

    def apply(self, graph: Graph, trace: Trace) -> None:
        makers = [n for n in graph if n.op in _MAKERS]
        if wanted := [n for n in makers if n.output(1).is_graph_output or n.output(1).is_graph_input]:
            for node in makers:  # all or none: both versions of a handle do not go together
                trace.leave(node, f"'{wanted[0].name}:1' is asked for by name, and version 2 has no flow")
            return
        inside = in_loops(graph) if makers else set()
        for node in makers:
            self._replace_flow(Site(graph, node, self.name), in_loop=node in inside)
        for node in graph:
            if node.op in _MAKERS | _ACCESSES:
                new = f"{node.op.removesuffix('V3')}V2"
                trace.changed(node, f"now {new}")
                node.op = new
                for attr in _NEW_ATTRS:
                    node.attrs.pop(attr, None)

    def _replace_flow(self, site: Site, *, in_loop: bool) -> None:
        """Let a constant stand for the flow. In a loop it waits for the array, which keeps it in there."""
        node = site.before
        flow = site.constant(np.float32(1), f"{node.name}/replacement_flow_node")
        if in_loop:
            flow.node.add_control_input(node)
        node.output(1).replace_uses(flow)
