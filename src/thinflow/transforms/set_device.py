"""Place nodes on a device.

y = Mul(x, w)  ->  y = Mul(x, w) @/cpu:0      set_device(device="/cpu:0")
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from thinflow.ir.graph import Graph
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace


@transform("set_device")
@dataclass(frozen=True)
class SetDevice(Transform):
    """Set the device of every node, or of those chosen.

    Attributes:
        device: the placement; empty clears it.
        if_default: only nodes that have none yet.
        op: only nodes of these ops.
        name_: only nodes whose name fits one of these patterns (`conv*`).
    """

    device: str = ""
    if_default: bool = False
    op: tuple[str, ...] = ()
    name_: tuple[str, ...] = ()

    def apply(self, graph: Graph, trace: Trace) -> None:
        for node in graph:
            if self.op and node.op not in self.op:
                continue
            if self.name_ and not any(fnmatchcase(node.name, pattern) for pattern in self.name_):
                continue
            if node.device == self.device:
                continue
            if self.if_default and node.device:
                trace.leave(node, f"it is placed on '{node.device}' already")
                continue
            trace.changed(
                node, f"placed on '{self.device}'" if self.device else f"device '{node.device}' cleared"
            )
            node.device = self.device
