"""Structural rules that every graph obeys before and after a transform."""

from __future__ import annotations

import re
from collections.abc import Callable

from thinflow.errors import GraphError
from thinflow.ir.graph import Graph, Node, Problem
from thinflow.ir.order import cycle_members

_LEGAL_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>\-]*\Z")

PortCount = Callable[[Node], int | None]
"""How many outputs a node has; None when its op is unknown."""


def find_problems(graph: Graph, port_count: PortCount | None = None) -> list[Problem]:
    """Every broken rule, in file order. O(nodes + edges).

    1. every input names an existing node; 2. names are unique and legal; 3. data inputs come before control inputs (found
    while loading); 4. port numbers are in range for known ops; 5. no cycle except through NextIteration; 6. inputs and
    outputs of the graph belong to it.
    """
    problems = list(graph.problems)
    names: dict[str, Node] = {}
    for node in graph:
        if names.setdefault(node.name, node) is not node and not graph.problems:
            problems.append(Problem("another node has the same name", node.name))
        if not _LEGAL_NAME.match(node.name):
            problems.append(Problem("the name is not legal in TensorFlow", node.name))
        for index, value in enumerate(node.inputs):
            if value.node.graph is not graph:
                problems.append(Problem(f"input {index} refers to '{value.name}', which does not exist", node.name))
            elif port_count is not None and value.port > 0:
                count = port_count(value.node)
                if count is not None and value.port >= count:
                    text = f"input {index} reads port {value.port} of {value.node.where}, which has {count}"
                    problems.append(Problem(text, node.name))
        problems.extend(
            Problem(f"control input '^{awaited.name}' refers to a node that does not exist", node.name)
            for awaited in node.control_inputs
            if awaited.graph is not graph
        )
    stuck = cycle_members(graph)
    if stuck:
        problems.append(Problem(f"{len(stuck)} nodes are in a cycle or depend on one", stuck[0].name))
    for role, values in (("input", graph.inputs), ("output", graph.outputs)):
        problems.extend(
            Problem(f"it is a declared {role} of the graph and is not in it", v.node.name)
            for v in values
            if v.node.graph is not graph
        )
    return problems


def require_valid(graph: Graph, port_count: PortCount | None = None, *, known: list[Problem] | None = None) -> None:
    """Raise on the first problem that is not among the `known` ones.

    Raises:
        GraphError: names the first problem and how many there are.
    """
    old = set(known or ())
    problems = [p for p in find_problems(graph, port_count) if p not in old]
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise GraphError(
            f"the graph is not valid: {problems[0]}{more}", graph.path, hint="`thinflow inspect MODEL` lists everything wrong"
        )
