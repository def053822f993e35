"""Move attributes to another name, for ops whose definition changed.

y = Squeeze(x) {axis=[1]}  ->  y = Squeeze(x) {squeeze_dims=[1]}
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.errors import NodeError
from thinflow.ir.graph import Graph
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace


@transform("rename_attribute")
@dataclass(frozen=True)
class RenameAttribute(Transform):
    """Rename one attribute.

    Attributes:
        old_attribute_name: what it is called.
        new_attribute_name: what it shall be called.
        op_name: only on nodes of these ops; every op by default, or with `*`.
        overwrite: replace an attribute that already has the new name; an error without it.
    """

    exact = False  # it may give an op an attribute it reads

    old_attribute_name: str
    new_attribute_name: str
    op_name: tuple[str, ...] = ("*",)
    overwrite: bool = False

    def apply(self, graph: Graph, trace: Trace) -> None:
        old, new = self.old_attribute_name, self.new_attribute_name
        if old == new:
            return
        chosen = [n for n in graph if (n.op in self.op_name or "*" in self.op_name) and old in n.attrs_view]
        for node in chosen:
            if new in node.attrs_view and not self.overwrite:
                raise NodeError(
                    f"it has both '{old}' and '{new}'",
                    node.where,
                    hint="overwrite=true replaces the one that is there",
                )
        for node in chosen:
            trace.changed(node, f"'{old}' is now '{new}'")
            node.attrs[new] = node.attrs.pop(old)
