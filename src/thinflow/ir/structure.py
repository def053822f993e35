"""Nodes in file order and the edges between them, with edits that cannot leave them half-changed.

A `Value` is one output port of a node and knows every place that reads it; only `Node` changes that index.
Names and the file order are kept by `names`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from thinflow.errors import GraphError, closest
from thinflow.ir.attrs import Attr, normalize
from thinflow.ir.names import Names, NodeList, require_legal
from thinflow.ir.node import Node, Value
from thinflow.ir.types import UNKNOWN


class Structure:
    """The structure of a graph: nodes, and the values that go in and come out."""

    def __init__(self) -> None:
        self._inputs: list[Value] = []
        self._outputs: list[Value] = []
        self._input_set: set[Value] = set()
        self._output_set: set[Value] = set()
        self._protected: set[Node] = set()
        self._names = Names()
        self._nodes = NodeList()
        self._edits = 0

    # --- reading ------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> list[Value]:
        """Values the caller feeds; declared, or guessed when the file was loaded.

        Assign a list to change them.
        """
        return list(self._inputs)

    @inputs.setter
    def inputs(self, values: Iterable[Value]) -> None:
        self._declare(list(values), self._outputs)

    @property
    def outputs(self) -> list[Value]:
        """Values the caller wants; their names survive every transform. Assign a list to change them."""
        return list(self._outputs)

    @outputs.setter
    def outputs(self, values: Iterable[Value]) -> None:
        self._declare(self._inputs, list(values))

    def _declare(self, inputs: list[Value], outputs: list[Value]) -> None:
        for value in (*inputs, *outputs):
            self._require_mine(value.node)
        self._edits += 1
        self._inputs, self._outputs = inputs, outputs
        self._input_set, self._output_set = set(inputs), set(outputs)
        self._protected = {v.node for v in (*inputs, *outputs)}

    def __iter__(self) -> Iterator[Node]:
        """Nodes in the file order of this moment; those removed meanwhile are skipped, those added are not
        seen.
        """
        return (n for n in self._nodes.now() if n.graph is self)

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, item: str | Node) -> bool:
        return item.graph is self if isinstance(item, Node) else item in self._names.by_name

    def find(self, name: str) -> Node | None:
        """The node of that name, None if there is none.

        Of duplicates the last, as in TensorFlow's tools. O(1).
        """
        return self._names.by_name.get(name)

    def node(self, name: str) -> Node:
        """The node of that name. O(1).

        Raises:
            GraphError: there is none; the closest names are offered.
        """
        names = self._names.by_name
        node = names.get(name)
        if node is None:
            # Closest names are found by comparing with every one, which takes too long in a large graph.
            near = closest(name, names) if len(names) < 20_000 else ""
            raise GraphError(
                f"there is no node named '{name}'",
                hint=near or "`thinflow inspect MODEL` lists inputs and outputs",
            )
        return node

    @property
    def missing(self) -> Mapping[str, Node]:
        """Stand-ins for nodes that inputs refer to and the file lacks. They belong to no graph."""
        return self._names.missing

    @property
    def duplicates(self) -> list[str]:
        """Names that more than one node has."""
        return self._names.duplicates

    # --- editing ------------------------------------------------------------------------------------------

    def add(
        self,
        op: str,
        inputs: Sequence[Value | Node] = (),
        name: str = "",
        *,
        attrs: Mapping[str, Attr] | None = None,
        control_inputs: Iterable[Node] = (),
        device: str = "",
        before: Node | None = None,
    ) -> Node:
        """A new node, at the end or in front of `before`. O(inputs).

        Args:
            op: TensorFlow op name.
            inputs: data inputs; a node stands for its output 0.
            name: wished name; `_1`, `_2`... is appended if it is taken. Default: the op's name. In a graph
                that came with illegal names, a name made from one of those has `_` for what is illegal.
            attrs: attributes; `str` becomes bytes, lists tuples, numpy scalars plain numbers.
            control_inputs: nodes to wait for.
            device: placement.
            before: the node to stand in front of in file order.

        Raises:
            GraphError: an illegal name, or a node of another graph. Nothing is added then.
        """
        wished = self._names.legal(name or op)
        if before is not None:
            self._require_mine(before)
        node = Node(self._names.unique(wished), op, device)
        node._attrs = {k: normalize(v) for k, v in (attrs or {}).items()}
        node.graph = self  # for the checks
        awaited = list(control_inputs)
        # Everything is checked before the node enters, so that an error leaves no half-made node behind.
        for item in (*inputs, *awaited):
            node._checked(item)
        self._enter(node, before)
        node.set_inputs(inputs)
        node.set_control_inputs(awaited)
        return node

    def graft(self, original: Node, name: str, *, device: str = "", before: Node | None = None) -> Node:
        """A new node with the op and the attributes of one of another graph, still without edges. O(1).

        Attributes that nobody changed are shared, and decoded when somebody asks.

        Args:
            original: what to copy.
            name: wished name, as in `add`.
            device: placement.
            before: the node to stand in front of in file order; default the end.

        Raises:
            GraphError: an illegal name. Nothing is added then.
        """
        wished = self._names.legal(name)
        if before is not None:
            self._require_mine(before)
        node = Node(self._names.unique(wished), original.op, device, original.source)
        # As yet undecoded attributes stay undecoded: the source behind both nodes gives them when asked.
        node._attrs = None if original._attrs is None else dict(original._attrs)
        self._enter(node, before)
        return node

    def restore(self, node: Node) -> None:
        """Append a loaded node under its own name, even if the name is taken; `find` then gives the newer
        one.
        """
        self._enter(node, None)

    def _enter(self, node: Node, before: Node | None) -> None:
        node.graph = self
        self._edits += 1
        self._names.enter(node)
        self._nodes.insert(node, before)

    def stand_in(self, name: str) -> Node:
        """The stand-in for a node the file does not have, so that the reference survives."""
        self._edits += 1
        return self._names.missing.setdefault(name, Node(name, ""))

    def remove(self, *nodes: Node) -> None:
        """Take nodes out, all or none. O(their edges).

        Raises:
            GraphError: a node that stays uses one of them, or one is an input or output of the graph.
        """
        going = dict.fromkeys(nodes)
        # All checks come before the first removal: either every node goes or none.
        for node in going:
            self._require_mine(node)
            if node in self._protected:
                raise GraphError(f"'{node.name}' cannot go: it is an input or output of the graph")
            for reader in node.readers:
                # Nodes may go together that read each other, such as a loop.
                if reader not in going:
                    raise GraphError(f"'{node.name}' cannot go: '{reader.name}' still uses it")
        for node in going:
            node.set_inputs(())
            node.set_control_inputs(())
            self._names.forget(node)
            self._nodes.remove(node)
            node.graph = None

    def rename(self, node: Node, name: str) -> None:
        """Give a node another name; every reference follows. O(1). `_class` annotations do not, see
        `rewrite.edits`.

        Raises:
            GraphError: the name is taken or illegal.
        """
        self._require_mine(node)
        if name == node.name:
            return
        if self._names.is_taken(name):
            raise GraphError(
                f"'{node.name}' cannot be renamed: there is already a node '{name}'",
                hint="choose another name",
            )
        require_legal(name)
        self._set_name(node, name)

    def _set_name(self, node: Node, name: str) -> None:
        self._edits += 1
        # No check of the name here: a node that takes the place of another may have to keep an illegal one.
        self._names.forget(node)
        node._name = name
        self._names.enter(node)

    def replace(self, old: Node, new: Node, ports: Mapping[int, Value] | None = None) -> None:
        """Put the fresh node `new` in the place of `old`: name, position, readers, waiters, role as input or
        output. O(readers).

        `old` leaves the graph; what it read stays. `new` may read `old` no longer; nobody else may read `new`
        yet, but for nodes made for this replacement. Values map port by port unless `ports` says otherwise.
        Control inputs of `old` go over to `new`.

        Raises:
            GraphError: `new` is `old` or protected, or a protected port would not be on `new`. Nothing
                changes then.
        """
        self._require_mine(old)
        self._require_mine(new)
        _replace(self, old, new, ports or {})

    def bypass(self, node: Node, values: Mapping[int, Value], *, keep_control: bool = True) -> None:
        """Take a node out and let its readers read other values instead; nothing is renamed. O(readers).

        Whoever waited for the node waits for the producers of those values; what the node waited for, its
        readers and waiters wait for from now on, unless `keep_control` is False.

        Raises:
            GraphError: the node is an input or output of the graph, or a port that is read has no value.
                Nothing changes then.
        """
        self._require_mine(node)
        if node in self._protected:
            raise GraphError(f"'{node.name}' cannot go: it is an input or output of the graph")
        _bypass(self, node, values, keep_control)

    def move_before(self, node: Node, mark: Node) -> None:
        """Change file order: `node` goes right in front of `mark`. O(1)."""
        self._require_mine(node)
        self._require_mine(mark)
        if node is not mark:
            self._edits += 1
            self._nodes.remove(node)
            self._nodes.insert(node, mark)

    def reorder(self, nodes: Sequence[Node]) -> None:
        """Set the file order of all nodes at once.

        Raises:
            GraphError: the sequence is not a permutation of the graph's nodes.
        """
        if not len(nodes) == len(set(nodes)) == len(self) or any(n.graph is not self for n in nodes):
            raise GraphError("reorder needs every node of the graph exactly once")
        self._edits += 1
        # All out, then all in: inserting at the end is O(1), and no node is ever looked for.
        for node in nodes:
            self._nodes.remove(node)
        for node in nodes:
            self._nodes.insert(node, None)

    def unique_name(self, base: str) -> str:
        """`base` if it is free, else `base_1`, `base_2`... O(1) on average."""
        return self._names.unique(base)

    def _require_mine(self, node: Node) -> None:
        if node.graph is not self:
            raise GraphError(
                "the node is not in this graph, or no longer",
                node.where,
                hint="look it up in this graph again",
            )


def _replace(graph: Structure, old: Node, new: Node, ports: Mapping[int, Value]) -> None:
    """See `Structure.replace`."""
    targets = _targets(old, new, ports)
    _require_fresh(new, old)
    # Remembered before anything moves: the roles are handed over by value.
    inputs, outputs = graph.inputs, graph.outputs
    is_protected = old.is_protected
    for value, target in targets.items():
        value.replace_uses(target)
        # Shape inference need not run again only because a node was replaced.
        if target.spec is UNKNOWN:
            target.spec = value.spec
    _take_over_control(old, new)
    new.device = new.device or old.device
    # Before the removal, which is refused for inputs and outputs of the graph.
    if is_protected:
        graph.inputs = [targets.get(v, v) for v in inputs]
        graph.outputs = [targets.get(v, v) for v in outputs]
    graph.move_before(new, old)
    # The name is free only once the old node is gone.
    name = old.name
    graph.remove(old)
    graph._set_name(new, name)  # which may be illegal: it comes from the file


def _targets(old: Node, new: Node, ports: Mapping[int, Value]) -> dict[Value, Value]:
    """For each value of `old` that is read or protected, the one that takes its place."""
    targets: dict[Value, Value] = {}
    for value in old.outputs:
        is_protected = value.is_graph_output or value.is_graph_input
        if value.is_used or is_protected:
            target = ports.get(value.port)
            targets[value] = new.output(value.port) if target is None else target
            # Protected values are asked for as `name:port`, and only the new node will have the name.
            if is_protected and targets[value].node is not new:
                raise GraphError(f"'{value.name}' is asked for by name and '{new.name}' does not provide it")
    return targets


def _require_fresh(new: Node, old: Node) -> None:
    if new is old or new.is_protected:
        raise GraphError(
            f"'{new.name}' cannot take the place of '{old.name}': it has a name of its own to keep"
        )
    if any(v.node is old for v in new.inputs):
        raise GraphError(f"'{new.name}' reads '{old.name}', which it is to replace")


def _take_over_control(old: Node, new: Node) -> None:
    """Let `new` wait for what `old` waits for, and those who wait for `old` wait for `new`."""
    for waiter in old.control_outputs:
        waiter.replace_control_input(old, new)
    for awaited in old.control_inputs:
        if awaited is not new:
            new.add_control_input(awaited)


def _bypass(graph: Structure, node: Node, values: Mapping[int, Value], keep_control: bool) -> None:
    """See `Structure.bypass`."""
    for value in node.outputs:
        if value.is_used and value.port not in values:
            raise GraphError(f"'{value.name}' is read, and nothing is given to read instead")
    producers = dict.fromkeys(v.node for v in values.values())
    awaited = node.control_inputs if keep_control else ()
    # Taken now: the edits below empty both.
    readers, waiters = node.readers, node.control_outputs
    for value in node.outputs:
        if value.is_used:
            value.replace_uses(values[value.port])
    for waiter in waiters:
        waiter.remove_control_input(node)
        for producer in producers:
            waiter.add_control_input(producer)
    # The values read instead may be there earlier than what the node waited for.
    for reader in readers:
        for before in awaited:
            # It may be the reader itself, in a loop, and nobody can wait for himself.
            if before is not reader:
                reader.add_control_input(before)
    graph.remove(node)
