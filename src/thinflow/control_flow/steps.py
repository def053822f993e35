"""The control flow of TF1 graphs as steps: each loop is one, and so is all between a Switch and its Merge.

The form that TF2 graphs and the targets have is made of them in `functionalize`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

from thinflow.control_flow.frames import Loop, schedule
from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.ir.disjoint_sets import DisjointSets
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import MERGES, ancestors
from thinflow.ir.types import RESOURCE, VARIANT
from thinflow.ops import registry
from thinflow.ops.traits import Trait, has


@dataclass(eq=False)
class Branching:
    """The nodes between the Switches of one predicate and the Merges that join its two sides.

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
    """The steps that compute outputs from inputs, in order; each loop and each branching is one step.

    O(nodes + edges) per level of loops.

    Raises:
        UnsupportedOp: the inputs cut a loop, or it is damaged.
    """
    fed = set(inputs)
    needed = ancestors([v.node for v in outputs if v not in fed], stop=frozenset(v.node for v in fed))
    # A node with a fed output still runs if another of its outputs is needed and not fed.
    needed -= {v.node for v in fed if all(o in fed for o in v.node.outputs if o.uses or o in outputs)}
    return _needed(_gathered(graph, needed), outputs, fed)


def all_steps(graph: Graph) -> list[Step]:
    """All that a graph computes; each loop and each branching is one step. Not sorted.

    O(nodes + edges) per level of loops.

    Raises:
        UnsupportedOp: a loop is damaged.
    """
    return _gathered(graph, graph)


def _gathered(graph: Graph, needed: Iterable[Node]) -> list[Step]:
    try:
        return gathered(schedule(graph, needed))
    except ThinflowError as error:
        raise UnsupportedOp(error.problem, error.where, error.hint) from error
    # Frames are followed recursively, one level for each loop in a loop.
    except RecursionError as error:
        raise UnsupportedOp("its loops are too many inside each other") from error
    except (LookupError, ValueError, StopIteration) as error:
        raise UnsupportedOp(f"its loops are not built as TensorFlow builds them ({error})") from error


def are_tangled(steps: Sequence[Step]) -> bool:
    """True if a step needs what is computed from its own results, so that it cannot run in one go.

    O(nodes + edges). Only branchings can: those of one predicate may take turns with what is around them.
    """
    step_of = {node: step for step in steps for node in nodes_of(step)}
    needs = {step: _needed_by(step, step_of) for step in dict.fromkeys(step_of.values())}
    waiting = {step: len(needed) for step, needed in needs.items()}
    readers: dict[Step, list[Step]] = {}
    for step, needed in needs.items():
        for other in needed:
            readers.setdefault(other, []).append(step)
    # Only the count matters: steps that never become ready are in a circle.
    ready = [step for step, count in waiting.items() if not count]
    done = 0
    while ready:
        done += 1
        for reader in readers.get(ready.pop(), ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return done < len(needs)


def _needed_by(step: Step, step_of: Mapping[Node, Step]) -> set[Step]:
    nodes = nodes_of(step)
    before = (n for node in nodes for n in (*(v.node for v in node.inputs), *node.control_inputs))
    return {step_of[n] for n in before if n in step_of} - {step}


def gathered(steps: Sequence[Step]) -> list[Step]:
    """The steps with each branching in the place of its members; not sorted. O(nodes + edges)."""
    if not any(is_switch(s) for s in steps):
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
    outer = dict.fromkeys(v for n in nodes_of(step) for v in n.inputs if v.node not in inside)
    return list(dict.fromkeys([step.predicate, *outer]))


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
        if definition is None or definition.has(Trait.STATEFUL | Trait.CONTROL_FLOW) or not node.inputs:
            continue
        # Lists and handles have no elements that a constant could hold.
        makes_list = any(v.dtype in (VARIANT, RESOURCE) for v in node.outputs)
        can_run = definition.kernel is not None or definition.has(Trait.PASSES_THROUGH)
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
        # A walk in depth without recursion: a step comes up again, to be listed, once all it reads was.
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
    """The value behind any Identity ops."""
    while has(value.node.op, Trait.IDENTITY) and value.node.inputs:
        value = value.node.inputs[0]
    return value


def is_switch(step: Step) -> TypeGuard[Node]:
    return isinstance(step, Node) and has(step.op, Trait.SWITCH)


def _conditions(steps: Sequence[Step]) -> dict[Step, _Conditions]:
    """The conditions under which each step runs: predicates with their sides."""
    conditions: dict[Step, _Conditions] = {}
    step_of = {node: step for step in steps for node in nodes_of(step)}

    def alive(value: Value) -> _Conditions:
        step = step_of.get(value.node)
        if step is None:
            return frozenset()
        here = conditions.get(step, frozenset())
        # Behind a Switch, what reads an output runs on that output's side only.
        return here | {(root_of(step.inputs[1]), value.port)} if is_switch(step) else here

    for step in steps:
        arriving = [alive(v) for v in reads(step)]
        waited = [n for node in nodes_of(step) for n in node.control_inputs if n in step_of]
        # Waiting for a node of the same step says nothing about when the step runs.
        controls = [conditions.get(step_of[n], frozenset()) for n in waited if step_of[n] is not step]
        if isinstance(step, Node) and step.op in MERGES:
            # A Merge runs as soon as one input arrives: only what all of them need must hold.
            conditions[step] = _joined(arriving)
        else:
            conditions[step] = frozenset().union(*arriving, *controls)
    return conditions


def _joined(arriving: Sequence[_Conditions]) -> _Conditions:
    return frozenset.intersection(*arriving) if arriving else frozenset()


def _components(steps: Sequence[Step], conditions: Mapping[Step, _Conditions]) -> list[list[Step]]:
    """Steps that hang together by values or control edges that are there on one side only."""
    joined: DisjointSets[Step] = DisjointSets()
    step_of = {node: step for step in steps for node in nodes_of(step)}

    def is_partial(step: Step) -> bool:
        return bool(conditions[step]) or is_switch(step)

    for step in steps:
        before = [v.node for v in reads(step)]
        # A Merge joins what it reads by data; what it merely waits for may be of other branches.
        if not (isinstance(step, Node) and step.op in MERGES):
            before += [n for node in nodes_of(step) for n in node.control_inputs]
        sources = [s for n in before if (s := step_of.get(n)) is not None and s is not step and is_partial(s)]
        if sources or is_partial(step):
            joined.join([step, *sources])
    groups: dict[Step, list[Step]] = {}
    # Groups and members stand in the order of the graph, whatever the roots are.
    for step in steps:
        if step in joined:
            groups.setdefault(joined.find(step), []).append(step)
    return list(groups.values())


def _side_count(switch: Node) -> int:
    count = switch.get("num_outs", 0) if switch.op == "_SwitchN" else 2
    return count if isinstance(count, int) else 0


def _branching(members: list[Step], conditions: Mapping[Step, _Conditions]) -> Branching:
    inside = {node for member in members for node in nodes_of(member)}
    switches = [m for m in members if is_switch(m)]
    # Predicates from outside only: a Switch whose predicate is computed inside belongs to an inner branching.
    deciding = list(dict.fromkeys(p for s in switches if (p := root_of(s.inputs[1])).node not in inside))
    # A Merge that runs only under a condition belongs to an inner branching.
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
            # These give nobody a value: that an assertion outside waits for a branch does no harm.
            outside = [r for r in node.readers if r not in inside and r.op not in ("NoOp", "Assert")]
            if node not in merges and (outside or any(v.is_graph_output for v in node.outputs)):
                problem = problem or f"'{node.name}', on one branch only, is read outside"
    own = [s for s in switches if root_of(s.inputs[1]) is predicate]
    count = max(_side_count(s) for s in own)
    if any(_side_count(s) != count for s in own):
        problem = "its Switches have different numbers of sides"
    return Branching(predicate, members, merges, sides, count, problem)


def decides(step: Step, predicate: Value) -> TypeGuard[Node]:
    """True if a step is a Switch that this predicate sets."""
    return is_switch(step) and root_of(step.inputs[1]) is predicate
