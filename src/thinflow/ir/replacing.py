"""Other nodes and values in the place of a node: edits that move readers, waiters and roles at once.

They are methods of `Graph`; everything is checked before anything changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from thinflow.errors import GraphError
from thinflow.ir.node import Node
from thinflow.ir.types import UNKNOWN
from thinflow.ir.value import Value

if TYPE_CHECKING:
    from thinflow.ir.graph import Graph


def replace(graph: Graph, old: Node, new: Node, ports: Mapping[int, Value]) -> None:
    """See `Graph.replace`."""
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


def bypass(graph: Graph, node: Node, values: Mapping[int, Value], *, keep_control: bool) -> None:
    """See `Graph.bypass`."""
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
