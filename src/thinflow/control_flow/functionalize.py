"""Loops and branches of TF1 graphs as functions, the form that TF2 graphs and the targets have.

A loop becomes a condition, a body and an ending; what Switch and Merge make of a predicate becomes its
branches. Each function is a graph of its own, and takes what it reads from outside as arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.control_flow.frames import Loop
from thinflow.control_flow.steps import Branching, Step, decides, nodes_of, reads, root_of
from thinflow.errors import GraphError, UnsupportedOp
from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Node, Value, library_of
from thinflow.ir.types import BOOL
from thinflow.ops.traits import Trait, has


def branch_functions(branching: Branching) -> tuple[list[Value], list[Function]]:
    """The values that the branches read, and each branch as a function of these, side 0 first.

    Raises:
        UnsupportedOp: they cannot be told apart.
    """
    if branching.problem:
        raise UnsupportedOp(branching.problem, branching.predicate.node.where)
    # In a branch the predicate is known, so no argument is needed for it.
    arguments = [v for v in reads(branching) if v is not branching.predicate]
    results = _arriving(branching)
    switches = [m for m in branching.members if decides(m, branching.predicate)]
    played = {*switches, *branching.merges}
    functions = []
    for side in range(branching.count):
        extraction = _Extraction(branching, arguments)
        for switch in switches:
            # On its side a Switch only hands on what it reads.
            extraction.alias(switch.output(side), switch.inputs[0])
        # Members on no certain side are given to both; each function keeps what its results need.
        members = [m for m in branching.members if branching.sides.get(m, side) == side]
        # To wait for a Switch is to wait for what is an argument here.
        nodes = [n for m in members for n in nodes_of(m) if n not in played]
        # Whoever reads the predicate itself inside a branch gets what it must be there.
        is_truth = branching.predicate.dtype is BOOL
        known = {branching.predicate: np.array(bool(side) if is_truth else side)}
        name = f"{branching.predicate.node.name}/branch{side}"
        awaited = [n for merge in branching.merges for n in merge.control_inputs]
        functions.append(extraction.function(name, nodes, results[side], known, awaited))
    return arguments, functions


def _arriving(branching: Branching) -> list[list[Value]]:
    """For each side what the Merges get from it."""
    side_of = {node: side for m, side in branching.sides.items() for node in nodes_of(m)}
    arriving: list[list[Value]] = [[] for _ in range(branching.count)]
    for merge in branching.merges:
        # Port 1 of a Merge is `value_index`, for which functions have no counterpart.
        if merge.output(1).uses:
            raise UnsupportedOp("somebody reads which branch was taken from its Merge", merge.where)
        for value in merge.inputs:
            node = value.node
            side = value.port if decides(node, branching.predicate) else side_of.get(node)
            if side is None:
                raise UnsupportedOp("it is not known on which side an input arrives", merge.where)
            arriving[side].append(value)
    # Functions give a value for each result; a TF1 Merge may have an input from one side alone.
    if any(len(values) != len(branching.merges) for values in arriving):
        raise UnsupportedOp("a Merge does not join one value of each side", branching.merges[0].where)
    return arriving


@dataclass(frozen=True, eq=False)
class LoopFunctions:
    """A loop as functions of the same arguments.

    Attributes:
        arguments: what they start with: the variables, then what stays the same in every iteration.
        condition: gives whether to iterate once more.
        body: gives the arguments of the next iteration.
        ending: gives what the Exits hand out, from the arguments for which the condition is false.
    """

    arguments: list[Value]
    condition: Function
    body: Function
    ending: Function


def loop_functions(loop: Loop) -> LoopFunctions:
    """The loop's nodes, copied into functions. O(nodes); constants are shared.

    Raises:
        UnsupportedOp: a loop variable tells by which input it came.
    """
    for merge in loop.merges:
        if merge.output(1).uses:
            raise UnsupportedOp("somebody reads in which iteration the loop is by its Merge", merge.where)
    variables = {merge.output(): enter.inputs[0] for merge, (enter, _) in loop.merges.items()}
    entering = {enter for enter, _ in loop.merges.values()}
    fixed = {e.output(): e.inputs[0] for e in loop.enters if e not in entering}
    arguments = [*variables.values(), *fixed.values(), *loop.free]
    # The same values as `arguments`, item by item, by the names that they have inside the loop.
    inner = [*variables, *fixed, *loop.free]
    going_on = loop.condition.inputs[0]
    nodes = [n for s in (*loop.head, *loop.body) for n in nodes_of(s)]
    # Other Switches inside belong to branches, whose predicates are computed in the loop.
    switches = [n for n in nodes if has(n.op, Trait.SWITCH) and root_of(n.inputs[1]).node is loop.condition]
    nodes = [n for n in nodes if n not in set(switches) and n is not loop.condition]

    def function(name: str, side: int, results: Sequence[Value], waiting: Sequence[Node] = ()) -> Function:
        extraction = _Extraction(loop, inner)
        for switch in switches:
            extraction.alias(switch.output(side), switch.inputs[0])
        known = {loop.condition.output(): np.array(bool(side))}
        # What ran in every iteration because something waited for it has to run in every call.
        awaited = [n for w in waiting for n in w.control_inputs]
        return extraction.function(f"{loop.name}/{name}", nodes, results, known, awaited)

    following = [n.inputs[0] for n in loop.next_iterations]
    return LoopFunctions(
        arguments,
        function("condition", 1, [going_on], [loop.condition, *switches]),
        # Values that stay the same are handed on: a body gives all of its arguments again.
        function("body", 1, [*following, *fixed, *loop.free], loop.next_iterations),
        function("ending", 0, [e.inputs[0] for e in loop.exits]),
    )


class _Extraction:
    """Copies nodes into a graph of their own, whose arguments stand for given values."""

    def __init__(self, step: Step, arguments: Sequence[Value]) -> None:
        # The nodes of a step are all of one graph; bodies call functions of its library.
        self._graph = Graph()
        self._graph.functions = library_of(nodes_of(step)[0])
        self._twins: dict[Value, Value] = {}
        self._aliases: dict[Value, Value] = {}
        self._arguments: list[Value] = []
        for value in arguments:
            attrs = {} if value.dtype is None else {"T": value.dtype}
            argument = self._graph.add(ARGUMENT, name=value.node.name, attrs=attrs).output()
            self._twins[value] = argument
            self._arguments.append(argument)

    def alias(self, value: Value, source: Value) -> None:
        """Let a value be another one."""
        self._aliases[value] = source

    def function(
        self,
        name: str,
        nodes: Sequence[Node],
        outputs: Sequence[Value],
        known: Mapping[Value, np.ndarray],
        awaited: Sequence[Node] = (),
    ) -> Function:
        """The function of those nodes that the outputs need; `known` values are constants.

        Those of the `awaited` nodes that are among them run in every call.
        """
        for value, content in known.items():
            self._twins[value] = self._graph.constant(content, value.node.name)
        among = set(nodes)
        effects = [n for n in dict.fromkeys(awaited) if n in among]
        # What only serves other functions of the same step is left out of this one.
        chosen = self._needed(among, outputs, effects)
        copies: dict[Node, Node] = {}
        for node in nodes:
            if node in chosen and node not in copies:
                copies[node] = self._graph.add(node.op, name=node.name, attrs=node.attrs, device=node.device)
        for node, copy in copies.items():
            copy.set_inputs([self._inner(v, copies) for v in node.inputs])
            # Only among copies: what a step waits for outside is a matter of the calling node.
            copy.set_control_inputs([copies[n] for n in node.control_inputs if n in copies])
        results = [self._inner(v, copies) for v in outputs]
        return Function(name, self._graph, list(self._arguments), results, [copies[n] for n in effects])

    def _resolved(self, value: Value) -> Value:
        while value in self._aliases and value not in self._twins:
            value = self._aliases[value]
        return value

    def _needed(self, among: set[Node], outputs: Sequence[Value], effects: Sequence[Node]) -> set[Node]:
        chosen: set[Node] = set()
        stack = list(outputs)
        waited = list(effects)
        while stack or waited:
            if stack:
                value = self._resolved(stack.pop())
                if value in self._twins:
                    continue
                node = value.node
            else:
                node = waited.pop()
            if node in among and node not in chosen:
                chosen.add(node)
                stack.extend(node.inputs)
                # What a constant on a branch waits for tells on which branch it is.
                waited.extend(node.control_inputs)
        return chosen

    def _inner(self, value: Value, copies: Mapping[Node, Node]) -> Value:
        value = self._resolved(value)
        if value in self._twins:
            return self._twins[value]
        if value.node not in copies:
            raise GraphError(f"'{value.name}' is not part of the loop or branch that reads it")
        return copies[value.node].output(value.port)
