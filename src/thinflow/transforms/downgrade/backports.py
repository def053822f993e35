"""Ops of later versions, said with those of the versions before them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import INT32, INT64
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_value, constant_node, constant_tensor, many, node
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.transforms.shared.effects import in_loops


@transform("backport_concatv2")
@dataclass(frozen=True)
class BackportConcatV2(Rewrite):
    """Replace ConcatV2 by Concat, for runtimes that are older.

    concat_v2(v0, v1, ..., axis)  ->  concat(axis, v0, v1, ...)
    """

    pattern: ClassVar = node("ConcatV2", many("values"), any_value("axis"), name="concat")

    def check(self, m: Match) -> None:
        if _is_int64(m) and constant_node(m.axis) is None:
            raise Refuse(f"its axis '{m.axis.name}' is int64 and not constant; Concat takes int32", m.concat)

    def build(self, m: Match, site: Site) -> Value:
        axis = m.axis
        if _is_int64(m):
            axis = site.constant(m.array("axis").astype(np.int32), f"{m.concat.name}/axis_int32")
        # Concat has no such attribute: its axis is always int32.
        attrs = {k: v for k, v in m.concat.attrs.items() if k != "Tidx"}
        return site.add("Concat", axis, *m.values, attrs=attrs)

    def describe(self, m: Match) -> str:
        return "now Concat" + (", with an int32 copy of its axis" if _is_int64(m) else "")


def _is_int64(m: Match) -> bool:
    """True if the axis is of a type that Concat does not take."""
    # The constant's own type goes first: the attribute may be absent, and then means int32.
    if (tensor := constant_tensor(m.axis)) is not None:
        return tensor.dtype is INT64
    return m.concat.attrs.get("Tidx", INT32) is INT64


_MAKES_ARRAY = re.compile("TensorArray(Grad)?V3")
_OF_VERSION_3 = re.compile("TensorArray[A-Za-z]*V3")
_NEW_ATTRS = ("identical_element_shapes",)
"""Attributes that the second version does not define."""


@transform("backport_tensor_array_v3")
@dataclass(frozen=True)
class BackportTensorArrayV3(Transform):
    """Replace TensorArrays of version 3, which gave them a flow output, by version 2, for older runtimes.

    a, flow = tensor_array_v3(n); tensor_array_write_v3(a, i, x, flow) -> tensor_array_write_v2(a, i, x, 1.0)
    """

    def apply(self, graph: Graph, trace: Trace) -> None:
        makers = [n for n in graph if _MAKES_ARRAY.fullmatch(n.op)]
        if asked_for := [n for n in makers if n.output(1).is_graph_output or n.output(1).is_graph_input]:
            for node in makers:  # all or none: both versions of a handle do not go together
                trace.leave(node, f"'{asked_for[0].name}:1' is asked for by name, and version 2 has no flow")
            return
        inside = in_loops(graph) if makers else set()
        for node in makers:
            self._replace_flow(Site(graph, node, self.name), in_loop=node in inside)
        for node in graph:
            if _OF_VERSION_3.fullmatch(node.op):
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
