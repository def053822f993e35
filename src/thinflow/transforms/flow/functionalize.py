"""Puts While and If in the place of the loops and branches of a TF1 graph, inner ones first.

Everything is checked before the first edit of a loop or a branching, those inside it included.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from thinflow.analysis.shapes import infer_with_loops
from thinflow.control_flow.frames import Loop
from thinflow.control_flow.functionalize import branch_functions, loop_functions
from thinflow.control_flow.steps import Branching, all_steps, are_tangled, nodes_of
from thinflow.errors import ThinflowError
from thinflow.ir.attrs import Attr, FunctionAttr
from thinflow.ir.function import Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors
from thinflow.ir.types import BOOL, DType, TensorSpec
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.flow.bodies import (
    NewFunctions,
    copied,
    declare,
    finished,
    has_effects,
    is_pure,
    type_of,
    without_unread,
)

Unit = Loop | Branching
"""A part of a graph that becomes one node."""
Nodes = Mapping[Node, None]
"""A set of nodes in order."""
MAX_DEPTH = 40
"""Calls somewhat deeper than this are taken to be endless by what runs and lowers graphs."""
_PARALLEL = "parallel_iterations"


@dataclass(frozen=True)
class Units:
    """The loops and branchings of a graph that are in no other.

    Attributes:
        units: those that read the results of others tend to come first.
        are_tangled: whether one of them may need what is computed from its own results.
    """

    units: list[Unit]
    are_tangled: bool


def units_of(graph: Graph) -> Units:
    """The loops and branchings to raise. O(nodes + edges) per level of loops.

    Raises:
        UnsupportedOp: a loop is not built as TensorFlow builds them.
    """
    steps = all_steps(graph)
    # Readers first: raised later, a unit would have to be found again with its new inputs.
    units = [s for s in reversed(steps) if not isinstance(s, Node)]
    return Units(units, bool(units) and are_tangled(steps))


def head_of(unit: Unit) -> Node:
    """The node that stands for a loop or a branching in what is told about it."""
    if isinstance(unit, Loop):
        return unit.condition
    return unit.merges[0] if unit.merges else nodes_of(unit)[0]


def is_stale(unit: Unit, graph: Graph) -> bool:
    """True if what a loop or a branching reads has been replaced since it was found."""
    outer = unit.free if isinstance(unit, Loop) else [unit.predicate]
    return any(v.node.graph is not graph for v in outer)


@dataclass(frozen=True)
class Plan:
    """A call in the place of a loop or a branching.

    Attributes:
        op: of the node that calls.
        inputs: what it reads.
        attrs: its attributes.
        types: of what it gives.
        leaving: the Exits or Merges.
        ending: what they hand out, as a function of what the node gives; None if it is just that.
    """

    op: str
    name: str
    inputs: list[Value]
    attrs: dict[str, Attr]
    types: list[DType]
    leaving: list[Node]
    ending: Function | None


class Raising:
    """The loops and branchings of one graph, and of the bodies made of them.

    Args:
        graph: to be edited.
        new: the functions made so far.
        origin: name of the transform.
        are_tangled: see `Units`.
        depth: how many loops and branchings are around the graph.
    """

    def __init__(
        self, graph: Graph, new: NewFunctions, origin: str, *, are_tangled: bool, depth: int = 0
    ) -> None:
        self.graph, self.new_functions, self.origin = graph, new, origin
        self.are_tangled, self.depth = are_tangled, depth

    def raised(self, unit: Unit) -> Node | None:
        """Replace a loop or a branching; the node that is there now, None if nothing reads its results.

        Raises:
            Refuse: it has to stay; nothing was changed then.
        """
        # A failed attempt must leave no functions behind.
        before = dict(self.new_functions.functions)
        try:
            inside = self._checked(unit)
            if isinstance(unit, Branching) and not unit.merges:
                self.graph.remove(*inside)
                return None
            plan = self._loop(unit) if isinstance(unit, Loop) else self._branching(unit)
        except (Refuse, ThinflowError, LookupError, ValueError, RecursionError) as error:
            self.new_functions.functions = before
            raise _refusal(error) from error
        return self._put(plan, inside)

    # --- checks -------------------------------------------------------------------------------------------

    def _checked(self, unit: Unit) -> Nodes:
        """The nodes that go.

        What nothing inside waits for never ran: TensorFlow fetches nothing from there.

        Raises:
            Refuse: one of them is needed from outside.
        """
        inside = dict.fromkeys(nodes_of(unit))
        leaving = set(unit.exits if isinstance(unit, Loop) else unit.merges)
        for node in inside:
            # Functions cannot take a reference to a variable's memory.
            if node.op.startswith("Ref"):
                raise Refuse(f"'{node.name}' hands on a variable by reference; freeze the model first", node)
            reason = _wanted_outside(node, inside, is_result=node in leaving)
            if reason:
                raise Refuse(reason if leaving else "no Merge joins its branches", node)
        if isinstance(unit, Loop):
            waiting = next((n for n in unit.exits if any(c in inside for c in n.control_inputs)), None)
            if waiting is not None:
                raise Refuse(f"'{waiting.name}' waits for what is inside the loop", waiting)
        # Only then can a call wait for itself, and looking for that costs a walk over the graph.
        if self.are_tangled:
            self._refuse_cycle(inside, leaving)
        return inside

    def _refuse_cycle(self, inside: Nodes, leaving: set[Node]) -> None:
        outer = [n for n in _outer(inside) if n not in inside]
        if any(n in leaving for n in ancestors(outer)):
            raise Refuse("it reads what is computed from its own results")

    # --- what takes the place -----------------------------------------------------------------------------

    def _loop(self, loop: Loop) -> Plan:
        if not loop.merges:
            raise Refuse("it has no variables")
        functions = loop_functions(loop)
        types = [type_of(v) for v in _entered(loop)]
        # TensorFlow's own suffix of frame names.
        name = _legal(loop.name.removesuffix("/while_context"))
        handed = [type_of(e.output()) for e in loop.exits]
        condition = self._function(functions.condition, types, [BOOL], name)
        body = self._function(functions.body, types, types, name)
        ending = self._function(functions.ending, types, handed, name)
        _refuse_twice(condition, body)
        if has_effects(ending):
            raise Refuse("what its Exits hand out has effects")
        stateful = has_effects(condition, body)
        attrs: dict[str, Attr] = {
            "T": tuple(types),
            "cond": FunctionAttr(self.new_functions.add(f"{name}_cond", condition)),
            "body": FunctionAttr(self.new_functions.add(f"{name}_body", body)),
            "output_shapes": (),
            _PARALLEL: _parallel(loop),
            # TensorFlow makes Switch and Merge of it again before it runs, so that parts run in parallel.
            "_lower_using_switch_merge": True,
        }
        op = "While" if stateful else "StatelessWhile"
        return Plan(op, name, functions.arguments, attrs, types, loop.exits, ending)

    def _branching(self, unit: Branching) -> Plan:
        if unit.predicate.dtype is None and unit.count == 2:
            unit.predicate.spec = TensorSpec(BOOL, ())
        arguments, functions = branch_functions(unit)
        types = [type_of(v) for v in arguments]
        results = [type_of(m.output()) for m in unit.merges]
        scope = unit.merges[0].name.rpartition("/")[0] or f"{unit.merges[0].name}_if"
        functions_of_branches = [self._function(f, types, results, scope) for f in functions]
        # Arguments are all that the step reads; what no branch uses of them is not passed.
        used, bodies = without_unread(functions_of_branches)
        arguments, types = [arguments[i] for i in used], [types[i] for i in used]
        stateless = "" if has_effects(*bodies) else "Stateless"
        attrs: dict[str, Attr] = {"Tin": tuple(types), "Tout": tuple(results), "output_shapes": ()}
        attrs["_lower_using_switch_merge"] = True
        if unit.predicate.dtype is BOOL:
            otherwise, then = bodies
            attrs["Tcond"] = BOOL
            attrs["then_branch"] = FunctionAttr(self.new_functions.add(f"{scope}_true", then))
            attrs["else_branch"] = FunctionAttr(self.new_functions.add(f"{scope}_false", otherwise))
            op = f"{stateless}If"
        else:
            names = [self.new_functions.add(f"{scope}_branch{i}", b) for i, b in enumerate(bodies)]
            attrs["branches"] = tuple(FunctionAttr(n) for n in names)
            op = f"{stateless}Case"
        return Plan(op, _legal(scope), [unit.predicate, *arguments], attrs, results, unit.merges, None)

    def _function(
        self, function: Function, arguments: Sequence[DType], results: Sequence[DType], scope: str
    ) -> Function:
        """A body with its own loops and branchings raised.

        Raises:
            Refuse: one of those has to stay.
        """
        declare(function, arguments, scope)
        graph = function.graph
        graph.inputs, graph.outputs = function.inputs, function.outputs
        # Effects are outputs for the time being, so that nothing takes them for useless.
        graph.outputs = [*function.outputs, *(n.output() for n in function.control_outputs)]
        self._raise_all(graph)
        count = len(function.outputs)
        outputs, effects = graph.outputs[:count], [v.node for v in graph.outputs[count:]]
        graph.outputs = outputs
        settled = Function(function.name, graph, graph.inputs, outputs, effects)
        graph.inputs, graph.outputs = [], []
        return finished(settled, arguments, results)

    def _raise_all(self, graph: Graph) -> None:
        """Raise every loop and branching of a body.

        Raises:
            Refuse: one has to stay.
        """
        while (units := units_of(graph)).units:
            if self.depth >= MAX_DEPTH:
                raise Refuse(f"more than {MAX_DEPTH} loops and branches are inside each other")
            # Again for each level: raising inner ones gave new nodes, and types are needed for functions.
            infer_with_loops(graph)
            tangled, depth = units.are_tangled, self.depth + 1
            inner = Raising(graph, self.new_functions, self.origin, are_tangled=tangled, depth=depth)
            for unit in units.units:
                # It reads a result of a unit that was just raised; the next round finds it again.
                if not is_stale(unit, graph):
                    inner.raised(unit)

    # --- the edit -----------------------------------------------------------------------------------------

    def _put(self, plan: Plan, inside: Nodes) -> Node:
        awaited = dict.fromkeys(n for node in inside for n in node.control_inputs if n not in inside)
        first = plan.leaving[0] if plan.leaving else next(iter(inside))
        call = self.graph.add(
            plan.op,
            plan.inputs,
            plan.name,
            attrs=plan.attrs,
            control_inputs=awaited,
            device=first.device,
            before=first,
        )
        call.origin = self.origin
        results = [call.output(i) for i in range(len(plan.types))]
        for value, element in zip(results, plan.types, strict=True):
            value.spec = TensorSpec(element)
        if plan.ending is not None:
            results = copied(plan.ending, results, first, self.origin)
        for node, result in zip(plan.leaving, results, strict=False):
            self._hand_out(node, result, call)
        _join_waiters(self.graph, call)
        going = [n for n in inside if n.graph is self.graph]
        self.graph.remove(*going)
        return call

    def _hand_out(self, node: Node, result: Value, call: Node) -> None:
        """Let what read an Exit or a Merge read a result; one that is asked for keeps its name."""
        # It reads nothing any more: what it read is removed with it.
        node.set_inputs(())
        node.set_control_inputs(())
        for waiter in node.control_outputs:
            waiter.remove_control_input(node)
            waiter.add_control_input(call)
        if not node.is_protected:
            node.output().replace_uses(result)
            return
        element = type_of(node.output())
        holder = self.graph.add(
            "Identity", [result], f"{node.name}/result", attrs={"T": element}, before=node
        )
        holder.origin = self.origin
        self.graph.replace(node, holder)


def _join_waiters(graph: Graph, call: Node) -> None:
    """Let whoever waited for a NoOp that waited for the Exits wait for the call, which is one node."""
    for node in call.control_outputs:
        if node.op != "NoOp" or node.is_protected or node.control_inputs != (call,):
            continue
        for waiter in node.control_outputs:
            waiter.remove_control_input(node)
            waiter.add_control_input(call)
        graph.remove(node)


def _wanted_outside(node: Node, inside: Nodes, *, is_result: bool) -> str:
    """A sentence about who needs a node beside what reads results; "" if nobody does."""
    for value in node.outputs:
        if value.is_graph_input or (value.is_graph_output and not (is_result and value.port == 0)):
            return f"'{value.name}', inside it, is asked for by name"
    others = () if is_result else (r for r in node.readers if r not in inside)
    reader = next(iter(others), None)
    return "" if reader is None else f"'{reader.name}', outside, needs '{node.name}', inside"


def _outer(inside: Nodes) -> Iterable[Node]:
    """The nodes that some nodes read or wait for."""
    for node in inside:
        yield from (v.node for v in node.inputs)
        yield from node.control_inputs


def _entered(loop: Loop) -> list[Value]:
    """The values inside a loop that are the arguments of its functions, in their order."""
    variables: Mapping[Node, tuple[Node, Node]] = loop.merges
    entering = [enter for enter, _ in variables.values()]
    fixed = [e for e in loop.enters if e not in set(entering)]
    return [*(e.output() for e in (*entering, *fixed)), *loop.free]


def _parallel(loop: Loop) -> Attr:
    """The number of iterations that may run at once: the same at every Enter of a loop."""
    # 10 is TensorFlow's default.
    return next((e.attrs[_PARALLEL] for e in loop.enters if _PARALLEL in e.attrs), 10)


def _refuse_twice(condition: Function, body: Function) -> None:
    """Raise Refuse if the condition and the body would both do what is to be done once in an iteration."""
    # By name: both functions are copies of the same nodes of the loop.
    # The size of a tensor array may be asked for twice.
    doing = {n.name for n in condition.graph if not is_pure(n) and not has(n.op, Trait.TENSOR_ARRAY_SIZE)}
    twice = sorted(doing & {n.name for n in body.graph})
    if twice:
        raise Refuse(f"both its condition and its body need '{twice[0]}', which may have effects")


def _legal(name: str) -> str:
    return re.sub(r"^[^A-Za-z0-9.]+|[^A-Za-z0-9_.\\/\-]", "_", name).lstrip("_") or "flow"


def _refusal(error: Exception) -> Refuse:
    if isinstance(error, Refuse):
        return error
    if isinstance(error, ThinflowError):
        return Refuse(error.problem)
    return Refuse(f"it is not built as TensorFlow builds it ({error})")
