"""Variables, tables and queues of a session, and what a graph puts into its tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thinflow.interpreter.calls import Bodies, Runner
from thinflow.interpreter.kernels import run_node
from thinflow.ir.attrs import FunctionAttr
from thinflow.ir.function import ARGUMENT
from thinflow.ir.graph import Node, graph_of
from thinflow.ir.order import ancestors
from thinflow.ops.lookup import FILLERS, Table
from thinflow.ops.traits import Trait, has


def resource_runner(node: Node, bodies: Bodies) -> Runner:
    """Gives the session's variable, table or queue of that name, made when it is first asked for."""
    state = bodies.state
    # As in TensorFlow: nodes of one container and shared name mean the same; without a name each is alone.
    key = (node.op, node.get("container", ""), node.get("shared_name", "") or node.name)

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        made = state.resources.get(key)
        if made is None:
            (made,) = run_node(node, inputs)
            made.where, made.folder = node.where, state.folder
            # Before it is filled: what fills it may ask for it again by its name.
            state.resources[key] = made
            if isinstance(made, Table):
                _fill(node, made, bodies)
        return (made,)

    return run


def _fill(node: Node, table: Table, bodies: Bodies) -> None:
    """Puts into a table what the graph's initializers say, so that nobody has to run them."""
    from thinflow.interpreter.plan import Plan  # which runs resources itself

    graph = graph_of(node)
    assert graph is not None
    for reader in node.readers:
        if _initializes(reader, node, bodies):
            plan = Plan(graph, [], [node.output()], targets=[reader], bodies=bodies)
            plan.compute([table])


def _initializes(reader: Node, table: Node, bodies: Bodies) -> bool:
    """True if a node fills the table by itself, or calls a function that does nothing else with it."""
    if reader.op in ("PartitionedCall", "StatefulPartitionedCall"):
        called = reader.attrs.get("f")
        function = bodies.functions.get(called.name) if isinstance(called, FunctionAttr) else None
        places = [i for i, v in enumerate(reader.inputs) if v.node is table]
        if function is None or not places or places[0] >= len(function.inputs):
            return False
        readers = list(function.inputs[places[0]].node.readers)
        others = [v.node for v in reader.inputs if v.node is not table]
        # Anything else that it did with the table would then be done unasked.
        return bool(readers) and all(r.op in FILLERS for r in readers) and _is_ready(others)
    if reader.op not in FILLERS or not reader.inputs or reader.inputs[0].node is not table:
        return False
    return _is_ready([v.node for v in reader.inputs[1:]])


def _is_ready(nodes: Sequence[Node]) -> bool:
    """True if the graph alone says what these give: nothing is fed, restored or kept in a variable."""
    return not any(
        n.op in ("Restore", "RestoreV2", ARGUMENT) or has(n.op, Trait.FED | Trait.VARIABLE)
        for n in ancestors(nodes)
    )
