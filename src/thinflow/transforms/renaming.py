"""Other names for nodes and ops."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from thinflow.errors import GraphError, ParameterError, WriteError, closest
from thinflow.ir.graph import Graph
from thinflow.ir.names import LEGAL_NAME
from thinflow.rewrite.edits import rename_colocation
from thinflow.rewrite.rule import Trace, Transform, transform


@transform("rename_node")
@dataclass(frozen=True)
class RenameNode(Transform):
    r"""Give nodes other names; every reference follows, also the graph's own list of inputs and outputs.

    x = Placeholder(); y = Relu(x)  ->  image = Placeholder(); y = Relu(image)

    Attributes:
        old_node_name: names to change; may be repeated, paired with `new_node_name`.
        new_node_name: what they become.
        pattern: a regular expression; nodes in whose name it is found are renamed...
        replacement: ... by replacing each find with this; `\1` stands for the first group.
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
    rename_colocation(graph, plan)


@transform("rename_op")
@dataclass(frozen=True)
class RenameOp(Transform):
    """Turn all nodes of one op into another op, inputs and attributes as they are.

    y = Mul(a, b)  ->  y = Multiply(a, b)      rename_op(old_op_name=Mul, new_op_name=Multiply)

    Attributes:
        old_op_name: the op to look for.
        new_op_name: the op to write.
    """

    exact = False  # another op computes something else: that is what was asked for

    old_op_name: str
    new_op_name: str

    def __post_init__(self) -> None:
        # The form of op names; `>` stands between a namespace and the op.
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_>]*", self.new_op_name):
            raise ParameterError(f"'{self.new_op_name}' is not an op name", hint="use letters, digits and _")

    def apply(self, graph: Graph, trace: Trace) -> None:
        if self.old_op_name == self.new_op_name:
            return
        for node in graph:
            if node.op == self.old_op_name:
                trace.changed(node, f"is now {self.new_op_name}")
                node.op = self.new_op_name


# 62 digits, which all may begin a name in TensorFlow.
_DIGITS = string.digits + string.ascii_lowercase + string.ascii_uppercase


@transform("obfuscate_names")
@dataclass(frozen=True)
class ObfuscateNames(Transform):
    """Replace node names by short ones that tell nothing; inputs and outputs keep theirs.

    conv1/weights, conv1/bias, ...  ->  0, 1, ..., 9, a, ..., z, A, ..., Z, 10, 11, ...

    Attributes:
        prefix: stands before every number.
        mapping: a JSON file to write with old name -> new name; the only way back.
    """

    prefix: str = ""
    mapping: str = ""

    def __post_init__(self) -> None:
        if not LEGAL_NAME.match(self.prefix + "0"):
            raise ParameterError(
                f"no node name may start with '{self.prefix}'", hint="use letters, digits and _ . / -"
            )

    def for_function(self) -> ObfuscateNames | None:
        return None if self.mapping else self  # the file holds the names of one graph

    def apply(self, graph: Graph, trace: Trace) -> None:
        protected = {v.node.name for v in (*graph.inputs, *graph.outputs)}
        # A number may be the name of an input or output already.
        fresh = (name for name in numbered(self.prefix) if name not in protected)
        plan = {node.name: next(fresh) for node in graph if node.name not in protected}
        changed = {old: new for old, new in plan.items() if old != new}
        # Told by the old names, before they are gone.
        for old, new in changed.items():
            trace.changed(graph.node(old), f"is now '{new}'")
        for name in sorted(protected):
            trace.leave(graph.node(name), "it is an input or output, which keep their names")
        rename_all(graph, changed)
        if self.mapping:
            self.write(plan)

    def write(self, plan: dict[str, str]) -> None:
        """Store the mapping.

        Raises:
            WriteError: the file cannot be written.
        """
        try:
            with open(self.mapping, "w", encoding="utf-8") as file:
                json.dump(plan, file, indent=1, ensure_ascii=True)
                file.write("\n")
        except OSError as error:
            raise WriteError(
                f"cannot be written: {error.strerror or error}", self.mapping, hint="choose another path"
            ) from error


def numbered(prefix: str) -> Iterator[str]:
    """0, 1, ..., Z, 10, 11, ... in base 62, most significant digit first."""
    for number in count():
        digits = ""
        while True:
            number, digit = divmod(number, len(_DIGITS))
            digits = _DIGITS[digit] + digits
            if not number:
                break
        yield prefix + digits
