"""Structural rules that every graph obeys before and after a transform."""

from __future__ import annotations

from collections.abc import Callable

from thinflow.errors import GraphError
from thinflow.ir.graph import Graph, Node, Problem
from thinflow.ir.names import LEGAL_NAME
from thinflow.ir.order import find_cycle

PortCount = Callable[[Node], int | None]
"""The number of outputs of a node; None when its op is unknown."""


def find_problems(
    graph: Graph, port_count: PortCount | None = None, *, acyclic: bool = False
) -> list[Problem]:
    """Every broken rule, in file order. O(nodes + edges).

    1. every input names an existing node; 2. names are unique and legal; 3. data inputs come before control
    inputs (found while loading); 4. port numbers are in range for known ops; 5. no cycle except through
    NextIteration.

    Args:
        graph: what to check.
        port_count: tells the outputs of ops; without it the fourth rule is not looked at.
        acyclic: True if all nodes were put in an order already, so that no cycle is looked for.
    """
    problems = list(graph.problems)
    problems += [
        Problem("duplicate name", name, "another node has the same name") for name in graph.duplicates
    ]
    sources: set[str] = set()
    for node in graph:
        if not LEGAL_NAME.match(node.name):
            problems.append(Problem("illegal name", node.name, "the name is not legal in TensorFlow"))
        problems += _input_problems(node, port_count, sources)
    cycle = [] if acyclic else find_cycle(graph)
    if cycle:
        names = " -> ".join(n.name for n in [*cycle[:6], cycle[0]])
        problems.append(Problem("cycle", min(n.name for n in cycle), f"it is in a cycle: {names}"))
    return problems


def _input_problems(node: Node, port_count: PortCount | None, sources: set[str]) -> list[Problem]:
    """Problems of the inputs of a node; `sources` gathers the ops that were seen to have outputs."""
    problems: list[Problem] = []
    for index, value in enumerate(node.inputs):
        # Nearly all: most graphs read port 0 of few different ops.
        if value.port == 0 and value.node.op in sources:
            continue
        if value.node.is_missing:
            text = f"input {index} refers to '{value.name}', which does not exist"
            problems.append(Problem("missing input", node.name, text))
        elif port_count is not None:
            count = port_count(value.node)
            if count is not None and value.port >= count:
                text = f"input {index} reads port {value.port} of {value.node.where}, which has {count}"
                problems.append(Problem("port", node.name, text))
            elif value.port == 0:
                sources.add(value.node.op)
    for awaited in node.control_inputs:
        if awaited.is_missing:
            text = f"control input '^{awaited.name}' refers to a node that does not exist"
            problems.append(Problem("missing input", node.name, text))
    return problems


def interface_problems(graph: Graph, inputs: list[str], outputs: list[str]) -> list[Problem]:
    """Requested names that the graph does not have (any more)."""
    names = [("input", name) for name in inputs] + [("output", name) for name in outputs]
    # The node alone is looked up: `Graph.value` would make a port of any number.
    lost = [(role, name) for role, name in names if name.partition(":")[0] not in graph]
    return [Problem("interface", name, f"the {role} '{name}' is gone") for role, name in lost]


def require_valid(
    graph: Graph, port_count: PortCount | None = None, *, known: list[Problem] | None = None
) -> None:
    """Raise on the first problem that is not among the `known` ones.

    Raises:
        GraphError: names the first problem and how many there are.
    """
    # A damaged file may be worked on: what was wrong before a transform is not held against it.
    old = set(known or ())
    problems = [p for p in find_problems(graph, port_count) if p not in old]
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise GraphError(
            f"the graph is not valid: {problems[0]}{more}",
            graph.path,
            hint="`thinflow inspect MODEL` lists everything wrong",
        )
