"""Attributes and devices of nodes: written out, renamed, removed, set."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from thinflow.errors import NodeError
from thinflow.ir.graph import Graph, Node
from thinflow.ops._defaults import defaults_of, is_required
from thinflow.rewrite.rule import Trace, Transform, transform
from thinflow.transforms.flow.library import note_functions


@transform("add_default_attributes")
@dataclass(frozen=True)
class AddDefaultAttributes(Transform):
    """Write out attributes that newer op definitions added and that old files therefore lack.

    y = LRN(x)  ->  y = LRN(x) {T=float, alpha=1, beta=0.5, bias=1, depth_radius=5}
    """

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


@transform("rename_attribute")
@dataclass(frozen=True)
class RenameAttribute(Transform):
    """Move attributes to another name, for ops whose definition changed.

    y = Squeeze(x) {axis=[1]}  ->  y = Squeeze(x) {squeeze_dims=[1]}

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


@transform("remove_attribute")
@dataclass(frozen=True)
class RemoveAttribute(Transform):
    """Delete attributes that are not needed, or that an old runtime does not know.

    y = Mul(x, w) {T=float, _note=[...]}  ->  y = Mul(x, w) {T=float}      attribute_name=_note

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
        """True if the filters let this node through."""
        if self.op_name not in {"*", node.op}:
            return False
        return not self.name_ or any(fnmatchcase(node.name, pattern) for pattern in self.name_)


@transform("set_device")
@dataclass(frozen=True)
class SetDevice(Transform):
    """Place nodes on a device.

    y = Mul(x, w)  ->  y = Mul(x, w) @/cpu:0      set_device(device="/cpu:0")

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


@transform("remove_device")
@dataclass(frozen=True)
class RemoveDevice(Transform):
    """Forget where nodes were placed in training, so that the graph runs anywhere.

    y = Mul(x, w) @/gpu:0  ->  y = Mul(x, w)
    """

    def apply(self, graph: Graph, trace: Trace) -> None:
        note_functions(graph, trace, "devices inside it stay")
        for node in graph:
            if node.device:
                trace.changed(node, f"device '{node.device}' cleared")
                node.device = ""
