"""Delete attributes that are not needed, or that an old runtime does not know.

y = Mul(x, w) {T=float, _note=[...]}  ->  y = Mul(x, w) {T=float}      attribute_name=_note
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from thinflow.ir.graph import Graph, Node
from thinflow.ops._defaults import is_required
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace


@transform("remove_attribute")
@dataclass(frozen=True)
class RemoveAttribute(Transform):
    """Delete the named attributes.

    Attributes:
        attribute_name: which, by exact name.
        op_name: only from nodes of this op; `*` is every op.
        name_: only from nodes whose name fits one of these patterns.
    """

    exact = False  # an absent attribute means its default, which may compute something else, as asked for

    attribute_name: tuple[str, ...]
    op_name: str = "*"
    name_: tuple[str, ...] = ()

    def apply(self, graph: Graph, trace: Trace) -> None:
        required: dict[tuple[str, str], int] = {}
        for node in graph:
            if not self.wants(node):
                continue
            gone = [a for a in self.attribute_name if a in node.attrs_view]
            for attribute in gone:
                # Without a default TensorFlow refuses the node, so the user is warned.
                if is_required(node.op, attribute, node.attrs.pop(attribute)):
                    required[node.op, attribute] = required.get((node.op, attribute), 0) + 1
            if gone:
                trace.changed(node, f"removed {', '.join(gone)}")
        for (op, attribute), count in required.items():
            where = f"{count} nodes" if count > 1 else "1 node"
            trace.warnings.append(f"'{attribute}' of {op} has no default: {where} may not load any more")

    def wants(self, node: Node) -> bool:
        """Whether the filters let this node through."""
        if self.op_name not in {"*", node.op}:
            return False
        return not self.name_ or any(fnmatchcase(node.name, pattern) for pattern in self.name_)
