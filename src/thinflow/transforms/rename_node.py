"""Give nodes other names; every reference follows, also the graph's own list of inputs and outputs.

x = Placeholder(); y = Relu(x)  ->  image = Placeholder(); y = Relu(image)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from thinflow.errors import GraphError, ParameterError, closest
from thinflow.ir.graph import Graph
from thinflow.ir.names import LEGAL_NAME
from thinflow.rewrite.colocation import rename_classes
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace


@transform("rename_node")
@dataclass(frozen=True)
class RenameNode(Transform):
    """Rename nodes one by one, by pattern, or both. All renames happen at once, so two nodes may swap names.

    Attributes:
        old_node_name: names to change; may be repeated, paired with `new_node_name`.
        new_node_name: what they become.
        pattern: a regular expression; nodes in whose name it is found are renamed...
        replacement: ... by replacing each find with this; `\\1` stands for the first group.
        missing_ok: an old name that does not exist is fine.
    """

    renames = True
    repeatable = False

    old_node_name: tuple[str, ...] = ()
    new_node_name: tuple[str, ...] = ()
    pattern: str | None = None
    replacement: str | None = None
    missing_ok: bool = False

    def __post_init__(self) -> None:
        if len(self.old_node_name) != len(self.new_node_name):
            raise ParameterError(
                f"there are {len(self.old_node_name)} old names and {len(self.new_node_name)} new ones",
                hint="give old_node_name and new_node_name in pairs",
            )
        if (self.pattern is None) != (self.replacement is None):
            raise ParameterError("'pattern' and 'replacement' go together", hint="give both or neither")
        if not self.old_node_name and self.pattern is None:
            raise ParameterError(
                "nothing to rename", hint="give old_node_name and new_node_name, or pattern and replacement"
            )
        try:
            re.compile(self.pattern or "").sub(self.replacement or "", "")
        except (re.error, IndexError) as error:
            raise ParameterError(
                f"the pattern or its replacement cannot be used: {error}", hint="see Python's re"
            ) from error

    def for_function(self) -> RenameNode:
        # A function has some of the names at most.
        return replace(self, missing_ok=True)

    def apply(self, graph: Graph, trace: Trace) -> None:
        plan = {old: new for old, new in self.plan(graph, trace).items() if old != new}
        reverse: dict[str, str] = {}
        for old, new in plan.items():
            if new in reverse:
                raise GraphError(
                    f"'{reverse[new]}' and '{old}' would both be named '{new}'", hint="choose another name"
                )
            # A name is free if its node moves away as well.
            if new in graph and new not in plan:
                raise GraphError(f"A node is already using '{new}' as name", hint="choose another name")
            if not LEGAL_NAME.match(new):
                raise GraphError(f"'{new}' is not a legal node name", hint="use letters, digits and _ . / -")
            reverse[new] = old
        nodes = [(graph.node(old), new) for old, new in plan.items()]
        for node, new in nodes:
            trace.changed(node, f"is now '{new}'")
        rename_all(graph, plan)

    def plan(self, graph: Graph, trace: Trace) -> dict[str, str]:
        """Old name -> new name.

        Raises:
            GraphError: there is no node of an old name.
        """
        plan: dict[str, str] = {}
        for old, new in zip(self.old_node_name, self.new_node_name, strict=True):
            if old in graph:
                plan[old] = new
            elif self.missing_ok:
                trace.notes.append(f"there is no node '{old}' to rename")
            else:
                near = closest(old, (n.name for n in graph)) if len(graph) < 20_000 else ""
                raise GraphError(
                    f"there is no node named '{old}'", hint=near or "missing_ok=true goes on without it"
                )
        if self.pattern is not None and self.replacement is not None:
            search = re.compile(self.pattern)
            for node in graph:
                if node.name not in plan and search.search(node.name):
                    plan[node.name] = search.sub(self.replacement, node.name)
        return plan


def rename_all(graph: Graph, plan: dict[str, str]) -> None:
    """Rename many nodes at once; names may move in a circle. O(nodes)."""
    nodes = [(graph.node(old), new) for old, new in plan.items()]
    # By way of other names: in a circle no name is free at first.
    for node, _ in nodes:
        graph.rename(node, graph.unique_name("renaming"))
    for node, new in nodes:
        graph.rename(node, new)
    rename_classes(graph, plan)
