"""Branches whose condition is a constant: one side becomes the graph, the other goes.

In TF1 graphs a Switch sends its input to one of two outputs and everything behind the other is dead; a Merge
passes on what is alive. In TF2 graphs If and Case call one function of several.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from thinflow.ir.attrs import Attr, FunctionAttr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import BOOL
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import constant_tensor
from thinflow.rewrite.rule import Refuse, Trace
from thinflow.transforms.flow.dependence import is_pure_call
from thinflow.typing import Array


def resolve_calls(graph: Graph, trace: Trace) -> None:
    """Turn If and Case with a constant condition into calls of the branch that runs."""
    for node in list(graph):
        if not has(node.op, Trait.IF | Trait.CASE) or not node.inputs:
            continue
        tensor = constant_tensor(node.inputs[0])
        if tensor is None:
            continue
        branch = _branch(node, tensor.numpy())
        if branch is None:
            continue
        trace.changed(node, f"always calls '{branch.name}'")
        node.op = "PartitionedCall" if is_pure_call(node) else "StatefulPartitionedCall"
        node.set_inputs(node.inputs[1:])
        types: dict[str, Attr] = {key: node.attrs[key] for key in ("Tin", "Tout") if key in node.attrs}
        # Annotations, such as those for a device, hold for the call as well.
        own = {key: attr for key, attr in node.attrs.items() if key.startswith("_")}
        node.attrs.clear()
        node.attrs.update({**types, "f": branch, **own})


def _branch(node: Node, condition: Array) -> FunctionAttr | None:
    if has(node.op, Trait.IF):
        branch = node.attrs.get("then_branch" if _holds(condition) else "else_branch")
    else:
        branches = node.attrs.get("branches")
        if not isinstance(branches, tuple) or not branches or condition.size != 1:
            return None
        index = int(condition.reshape(-1)[0])
        # An index out of range calls the last branch, as in TensorFlow.
        branch = branches[index if 0 <= index < len(branches) else -1]
    return branch if isinstance(branch, FunctionAttr) else None


def _holds(condition: Array) -> bool:
    """A scalar holds if it is not zero or empty, anything else if it has elements."""
    return bool(condition.reshape(-1)[0]) if condition.ndim == 0 else condition.size > 0


def resolve_switches(graph: Graph, trace: Trace, origin: str) -> None:
    """Follow every Switch with a constant condition. O(nodes + edges)."""
    switches = [node for node in graph if has(node.op, Trait.SWITCH) and _taken(node) is not None]
    try:
        dead = _dead(switches)
        merges = _losing(graph, dead)
    except Refuse as refusal:
        for node in switches:
            trace.leave(node, refusal.reason)
        return
    for node, alive in merges.items():
        _join(graph, node, alive, trace, origin)
    for node in switches:
        if node not in dead.nodes:
            _pass_on(graph, node, trace)
    for node in dead.nodes:
        trace.changed(node, "never runs: the condition of its branch is constant")
        for waiter in node.control_outputs:
            waiter.remove_control_input(node)
    graph.remove(*dead.nodes)


def _taken(switch: Node) -> int | None:
    """The output that a Switch always uses; None if nobody knows, or if it is asked for by name."""
    if len(switch.inputs) != 2 or switch.is_protected:
        return None
    tensor = constant_tensor(switch.inputs[1])
    # A number chooses among more than two outputs (_SwitchN).
    if tensor is None or tensor.size != 1 or tensor.dtype is not BOOL:
        return None
    return int(bool(tensor.numpy().reshape(-1)[0]))


class _Dead:
    """Dead parts of a graph: whole nodes, and single outputs of a Switch."""

    def __init__(self) -> None:
        self.nodes: dict[Node, None] = {}
        self.values: set[Value] = set()

    def has(self, value: Value) -> bool:
        return value in self.values or value.node in self.nodes


def _dead(switches: list[Node]) -> _Dead:
    """Everything behind the outputs that are not taken.

    Raises:
        Refuse: something of it is asked for by name.
    """
    dead = _Dead()
    waiting: deque[Node] = deque()
    for node in switches:
        value = node.output(1 - (_taken(node) or 0))
        dead.values.add(value)
        waiting.extend(value.readers)
    while waiting:
        node = waiting.popleft()
        if node in dead.nodes or not _dies(node, dead):
            continue
        if node.is_protected:
            raise Refuse(f"'{node.name}' is asked for by name, and never runs")
        dead.nodes[node] = None
        waiting.extend(node.readers)
    return dead


def _dies(node: Node, dead: _Dead) -> bool:
    # ControlTrigger is the one op that runs even behind what is dead.
    if node.op != "ControlTrigger" and any(n in dead.nodes for n in node.control_inputs):
        return True
    if not has(node.op, Trait.MERGE):
        return any(dead.has(v) for v in node.inputs)
    # The way back of a loop whose entry is dead never carries anything.
    return all(dead.has(v) or has(v.node.op, Trait.NEXT_ITERATION) for v in node.inputs)


def _losing(graph: Graph, dead: _Dead) -> dict[Node, list[Value]]:
    """The Merges that lose inputs, with those that are left.

    Raises:
        Refuse: the number of the input that is passed on is wanted, and cannot be told any more.
    """
    merges: dict[Node, list[Value]] = {}
    for node in graph:
        if not has(node.op, Trait.MERGE) or node in dead.nodes:
            continue
        alive = [v for v in node.inputs if not dead.has(v)]
        if len(alive) == len(node.inputs):
            continue
        merges[node] = alive
        number = node.output(1)
        # Port 1 tells the number of the input among those that are gone by then.
        if number.is_graph_output or (number.uses and len(alive) > 1):
            raise Refuse(f"'{number.name}', which tells the input of a Merge, is used")
    return merges


def _join(graph: Graph, merge: Node, alive: list[Value], trace: Trace, origin: str) -> None:
    """Drop the dead inputs of a Merge; with one left it hands that on."""
    if len(alive) > 1:
        trace.changed(merge, f"merges {len(alive)} of {len(merge.inputs)} inputs, the others are dead")
        merge.set_inputs(alive)
        merge.attrs["N"] = len(alive)
        return
    trace.changed(merge, f"hands on '{alive[0].name}', its other inputs are dead")
    if merge.output(1).uses:
        number = np.int32(merge.inputs.index(alive[0]))
        constant = Site(graph, merge, origin).constant(np.asarray(number), f"{merge.name}/value_index")
        # The constant belongs to the branch or loop in which the Merge is.
        constant.node.add_control_input(alive[0].node)
        merge.output(1).replace_uses(constant)
    if merge.is_protected:
        merge.op = "Identity"
        merge.set_inputs(alive)
        merge.attrs.pop("N", None)
    else:
        graph.bypass(merge, {0: alive[0]})


def _pass_on(graph: Graph, switch: Node, trace: Trace) -> None:
    """Let the readers of the output that is taken read the input instead; the others never run and go."""
    data = switch.inputs[0]
    trace.changed(switch, f"always takes output {_taken(switch)}; its readers read '{data.name}'")
    # Both outputs: what read the one not taken is dead and removed below.
    graph.bypass(switch, {0: data, 1: data})
