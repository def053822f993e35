"""The control flow of TF1 graphs as functions, the form that TF2 graphs and the targets have.

A loop (see `frames`) becomes a condition, a body and an ending; what Switch and Merge make of a predicate
becomes its branches. Each function is a graph of its own, and takes what it reads from outside as arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

import numpy as np

from thinflow.errors import GraphError, ThinflowError, UnsupportedOp
from thinflow.frames import Loop, schedule
from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import MERGES, ancestors
from thinflow.ir.types import BOOL, RESOURCE, VARIANT
from thinflow.ops import registry

_SWITCHES = frozenset({"Switch", "RefSwitch", "_SwitchN"})
_ALIASES = frozenset({"Identity", "RefIdentity", "StopGradient", "PreventGradient", "Snapshot"})


@dataclass(eq=False)
class Branching:
    """What stands between the Switches of one predicate and the Merges that join its two sides.

    Attributes:
        predicate: decides; computed outside.
        members: Switches, Merges and all between, in order.
        merges: their outputs are read outside.
        sides: member -> the side on which alone it runs; missing if on all.
        count: how many sides there are: 0 for false and 1 for true, or as many as the predicate can tell.
        problem: why it cannot be taken as two branches; "" if it can.
    """

    predicate: Value
    members: list[Step]
    merges: list[Node]
    sides: dict[Step, int]
    count: int = 2
    problem: str = ""


Step: TypeAlias = "Node | Loop | Branching"
_Conditions: TypeAlias = frozenset[tuple[Value, int]]


def steps_of(graph: Graph, outputs: Sequence[Value], inputs: Iterable[Value]) -> list[Step]:
    """What computes outputs from inputs, in order; each loop and each branching is one step.

    O(nodes + edges) per level of loops.

    Raises:
        UnsupportedOp: the inputs cut a loop, or it is damaged.
    """
    fed = set(inputs)
    needed = ancestors([v.node for v in outputs if v not in fed], stop=frozenset(v.node for v in fed))
    needed -= {v.node for v in fed if all(o in fed for o in v.node.outputs if o.uses or o in outputs)}
    try:
        return _needed(gathered(schedule(graph, needed)), outputs, fed)
    except ThinflowError as error:
        raise UnsupportedOp(error.problem, error.where, error.hint) from error
    except (LookupError, ValueError, StopIteration) as error:
        raise UnsupportedOp(f"its loops are not built as TensorFlow builds them ({error})") from error


def gathered(steps: Sequence[Step]) -> list[Step]:
    """The steps with each branching in the place of its members; not sorted. O(nodes + edges)."""
    if not any(_is_switch(s) for s in steps):
        return list(steps)
    conditions = _conditions(steps)
    groups = _components(steps, conditions)
    within = {member for group in groups for member in group}
    rest: list[Step] = [s for s in steps if s not in within]
    return rest + [_branching(group, conditions) for group in groups]


def nodes_of(step: Step) -> list[Node]:
    """Every node a step stands for, those inside loops included."""
    nodes: list[Node] = []
    stack: list[Step] = [step]
    while stack:
        step = stack.pop()
        if isinstance(step, Loop):
            nodes += [*step.enters, *step.merges, *step.next_iterations, *step.exits]
            stack += [*step.body[::-1], *step.head[::-1]]
        elif isinstance(step, Branching):
            stack += step.members[::-1]
        else:
            nodes.append(step)
    return list(dict.fromkeys(nodes))


def reads(step: Step) -> list[Value]:
    """The outer values that a step needs, each once."""
    if isinstance(step, Node):
        return list(step.inputs)
    if isinstance(step, Loop):
        return list(dict.fromkeys([*(e.inputs[0] for e in step.enters), *step.free]))
    inside = set(nodes_of(step))
    found = dict.fromkeys(v for n in nodes_of(step) for v in n.inputs if v.node not in inside)
    return list(dict.fromkeys([step.predicate, *found]))


def constant_nodes(nodes: Iterable[Node]) -> list[Node]:
    """The nodes that compute something from constants alone; constants themselves are not among them.

    Args:
        nodes: each after those it reads.
    """
    known: set[Node] = set()
    computed: list[Node] = []
    for node in nodes:
        if node.tensor is not None:
            known.add(node)
            continue
        definition = registry.find(node.op)
        if definition is None or definition.stateful or definition.control_flow or not node.inputs:
            continue
        makes_list = any(v.dtype in (VARIANT, RESOURCE) for v in node.outputs)
        can_run = definition.kernel is not None or definition.passes_through
        if can_run and not makes_list and all(v.node in known for v in node.inputs):
            known.add(node)
            computed.append(node)
    return computed


# ------------------------------------------------------------------------------------------------------ order


def _needed(steps: Sequence[Step], outputs: Sequence[Value], fed: set[Value]) -> list[Step]:
    """The steps that outputs need by data, each after those it reads; control edges mean nothing here."""
    step_of = {node: step for step in steps for node in nodes_of(step)}
    order: list[Step] = []
    seen: set[Step] = set()
    stack = [(step_of[v.node], False) for v in reversed(outputs) if v not in fed and v.node in step_of]
    while stack:
        step, is_done = stack.pop()
        if is_done:
            order.append(step)
        elif step not in seen:
            seen.add(step)
            stack.append((step, True))
            before = [step_of[v.node] for v in reads(step)[::-1] if v not in fed and v.node in step_of]
            stack += [(other, False) for other in before if other not in seen]
    return order


# --------------------------------------------------------------------------------------------------- branches


def root_of(value: Value) -> Value:
    """What a value is but for Identity."""
    while value.node.op in _ALIASES and value.node.inputs:
        value = value.node.inputs[0]
    return value


def _is_switch(step: Step) -> TypeGuard[Node]:
    return isinstance(step, Node) and step.op in _SWITCHES


def _conditions(steps: Sequence[Step]) -> dict[Step, _Conditions]:
    """What must hold for each step to run: predicates with their sides."""
    found: dict[Step, _Conditions] = {}
    step_of = {node: step for step in steps for node in nodes_of(step)}

    def alive(value: Value) -> _Conditions:
        step = step_of.get(value.node)
        if step is None:
            return frozenset()
        here = found.get(step, frozenset())
        return here | {(root_of(step.inputs[1]), value.port)} if _is_switch(step) else here

    for step in steps:
        arriving = [alive(v) for v in reads(step)]
        waited = [n for node in nodes_of(step) for n in node.control_inputs if n in step_of]
        controls = [found.get(step_of[n], frozenset()) for n in waited if step_of[n] is not step]
        if isinstance(step, Node) and step.op in MERGES:
            found[step] = _joined(arriving)
        else:
            found[step] = frozenset().union(*arriving, *controls)
    return found


def _joined(arriving: Sequence[_Conditions]) -> _Conditions:
    return frozenset.intersection(*arriving) if arriving else frozenset()


def _components(steps: Sequence[Step], conditions: Mapping[Step, _Conditions]) -> list[list[Step]]:
    """Steps that hang together by values or control edges that are there on one side only."""
    root: dict[Step, Step] = {}
    step_of = {node: step for step in steps for node in nodes_of(step)}

    def find(step: Step) -> Step:
        while root[step] is not step:
            root[step] = step = root[root[step]]
        return step

    def is_partial(step: Step) -> bool:
        return bool(conditions[step]) or _is_switch(step)

    for step in steps:
        before = [v.node for v in reads(step)]
        if not (isinstance(step, Node) and step.op in MERGES):
            before += [n for node in nodes_of(step) for n in node.control_inputs]
        sources = [s for n in before if (s := step_of.get(n)) is not None and s is not step and is_partial(s)]
        if sources or is_partial(step):
            root.setdefault(step, step)
        for source in sources:
            root.setdefault(source, source)
            root[find(source)] = find(step)
    groups: dict[Step, list[Step]] = {}
    for step in steps:
        if step in root:
            groups.setdefault(find(step), []).append(step)
    return list(groups.values())


def _side_count(switch: Node) -> int:
    count = switch.get("num_outs", 0) if switch.op == "_SwitchN" else 2
    return count if isinstance(count, int) else 0


def _branching(members: list[Step], conditions: Mapping[Step, _Conditions]) -> Branching:
    inside = {node for member in members for node in nodes_of(member)}
    switches = [m for m in members if _is_switch(m)]
    deciding = list(dict.fromkeys(p for s in switches if (p := root_of(s.inputs[1])).node not in inside))
    merges = [m for m in members if isinstance(m, Node) and m.op in MERGES and not conditions[m]]
    if not deciding:
        return Branching(
            switches[0].inputs[1], members, merges, {}, problem="its Switches decide for each other"
        )
    predicate = deciding[0]
    sides = {m: side for m in members for p, side in conditions[m] if p is predicate}
    problem = ""
    if len(deciding) > 1:
        problem = f"branches of '{predicate.name}' and of '{deciding[1].name}' are interwoven"
    elif not merges:
        problem = "no Merge joins its branches"
    for member in members:
        for node in nodes_of(member):
            outside = [r for r in node.readers if r not in inside and r.op not in ("NoOp", "Assert")]
            if node not in merges and (outside or any(v.is_graph_output for v in node.outputs)):
                problem = problem or f"'{node.name}', on one branch only, is read outside"
    own = [s for s in switches if root_of(s.inputs[1]) is predicate]
    count = max(_side_count(s) for s in own)
    if any(_side_count(s) != count for s in own):
        problem = "its Switches have different numbers of sides"
    return Branching(predicate, members, merges, sides, count, problem)


def branch_functions(branching: Branching) -> tuple[list[Value], list[Function]]:
    """What the branches read, and each as a function of that, side 0 first.

    Raises:
        UnsupportedOp: they cannot be told apart.
    """
    if branching.problem:
        raise UnsupportedOp(branching.problem, branching.predicate.node.where)
    arguments = [v for v in reads(branching) if v is not branching.predicate]
    wanted = _arriving(branching)
    switches = [m for m in branching.members if _decides(m, branching.predicate)]
    functions = []
    for side in range(branching.count):
        extraction = _Extraction(branching, arguments)
        for switch in switches:
            extraction.alias(switch.output(side), switch.inputs[0])
        members = [m for m in branching.members if branching.sides.get(m, side) == side]
        nodes = [n for m in members for n in nodes_of(m) if n not in branching.merges]
        is_truth = branching.predicate.dtype is BOOL
        known = {branching.predicate: np.array(bool(side) if is_truth else side)}
        name = f"{branching.predicate.node.name}/branch{side}"
        functions.append(extraction.function(name, nodes, wanted[side], known))
    return arguments, functions


def _arriving(branching: Branching) -> list[list[Value]]:
    """For each side what the Merges get from it."""
    side_of = {node: side for m, side in branching.sides.items() for node in nodes_of(m)}
    wanted: list[list[Value]] = [[] for _ in range(branching.count)]
    for merge in branching.merges:
        if merge.output(1).uses:
            raise UnsupportedOp("somebody reads which branch was taken from its Merge", merge.where)
        for value in merge.inputs:
            node = value.node
            side = value.port if _decides(node, branching.predicate) else side_of.get(node)
            if side is None:
                raise UnsupportedOp("it is not known on which side an input arrives", merge.where)
            wanted[side].append(value)
    if any(len(values) != len(branching.merges) for values in wanted):
        raise UnsupportedOp("a Merge does not join one value of each side", branching.merges[0].where)
    return wanted


def _decides(step: Step, predicate: Value) -> TypeGuard[Node]:
    """Whether a step is a Switch that this predicate sets."""
    return _is_switch(step) and root_of(step.inputs[1]) is predicate


# ------------------------------------------------------------------------------------------------------ loops


@dataclass(frozen=True, eq=False)
class LoopFunctions:
    """A loop as functions of the same arguments.

    Attributes:
        arguments: what they start with: the variables, then what stays the same in every turn.
        condition: gives whether to turn once more.
        body: gives the arguments of the next turn.
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
            raise UnsupportedOp("somebody reads in which turn the loop is by its Merge", merge.where)
    variables = {merge.output(): enter.inputs[0] for merge, (enter, _) in loop.merges.items()}
    entering = {enter for enter, _ in loop.merges.values()}
    fixed = {e.output(): e.inputs[0] for e in loop.enters if e not in entering}
    arguments = [*variables.values(), *fixed.values(), *loop.free]
    inner = [*variables, *fixed, *loop.free]
    going_on = loop.condition.inputs[0]
    nodes = [n for s in (*loop.head, *loop.body) for n in nodes_of(s)]
    switches = [n for n in nodes if n.op in _SWITCHES and root_of(n.inputs[1]).node is loop.condition]
    nodes = [n for n in nodes if n not in set(switches) and n is not loop.condition]

    def function(name: str, side: int, wanted: Sequence[Value]) -> Function:
        extraction = _Extraction(loop, inner)
        for switch in switches:
            extraction.alias(switch.output(side), switch.inputs[0])
        known = {loop.condition.output(): np.array(bool(side))}
        return extraction.function(f"{loop.name}/{name}", nodes, wanted, known)

    following = [n.inputs[0] for n in loop.next_iterations]
    return LoopFunctions(
        arguments,
        function("condition", 1, [going_on]),
        function("body", 1, [*following, *fixed, *loop.free]),
        function("ending", 0, [e.inputs[0] for e in loop.exits]),
    )


class _Extraction:
    """Copies nodes into a graph of their own, whose arguments stand for given values."""

    def __init__(self, step: Step, arguments: Sequence[Value]) -> None:
        origin = next(n.graph for n in nodes_of(step))
        self._graph = Graph()
        self._graph.functions = {} if origin is None else origin.functions
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
        self, name: str, nodes: Sequence[Node], outputs: Sequence[Value], known: Mapping[Value, np.ndarray]
    ) -> Function:
        """The function of those nodes that the outputs need; `known` values are constants."""
        for value, content in known.items():
            self._twins[value] = self._graph.constant(content, value.node.name)
        chosen = self._needed(set(nodes), outputs)
        copies: dict[Node, Node] = {}
        for node in nodes:
            if node in chosen and node not in copies:
                copies[node] = self._graph.add(node.op, name=node.name, attrs=node.attrs, device=node.device)
        for node, copy in copies.items():
            copy.set_inputs([self._inner(v, copies) for v in node.inputs])
            copy.set_control_inputs([copies[n] for n in node.control_inputs if n in copies])
        results = [self._inner(v, copies) for v in outputs]
        return Function(name, self._graph, list(self._arguments), results)

    def _resolved(self, value: Value) -> Value:
        while value in self._aliases and value not in self._twins:
            value = self._aliases[value]
        return value

    def _needed(self, among: set[Node], outputs: Sequence[Value]) -> set[Node]:
        chosen: set[Node] = set()
        stack = list(outputs)
        waited: list[Node] = []
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
