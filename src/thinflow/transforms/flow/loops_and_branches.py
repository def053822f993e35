"""The loops, branches and calls of a graph: as functions, as frames, and without what nobody needs."""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.analysis.shapes import infer_with_loops
from thinflow.errors import ThinflowError, TransformError
from thinflow.ir.attrs import Attr
from thinflow.ir.function import Selection, mentioned, reachable
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.ledger import Entry
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import sweep
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.transforms.flow.bodies import CallableBodies, NewFunctions, Place, types_in
from thinflow.transforms.flow.dependence import CALLING_OPS
from thinflow.transforms.flow.frames import Branches, Frame
from thinflow.transforms.flow.functionalize import Raising, head_of, is_stale, units_of
from thinflow.transforms.flow.inline_partitionedcall import MAX_NODES, InlinePartitionedCall
from thinflow.transforms.flow.library import apply_in_functions, endless, mentioned_in, prune, with_changes
from thinflow.transforms.flow.narrowing import Narrowing


@transform("raise_control_flow")
@dataclass(frozen=True)
class RaiseControlFlow(Transform):
    """Functionalize the loops and branches of TF1 graphs: While and If, which call functions.

    enter(x) ... merge, switch, next_iteration ... exit  ->  while(x) {cond=loop_cond, body=loop_body}
    switch(x, p) ... merge(a, b)                         ->  if(p, x) {then_branch=true, else_branch=false}

    What goes in stays as it is, and a result that is asked for keeps its name. A loop or a branching is
    raised with all that is inside it, or stays as it is. TensorArrays go on as TensorArrays.

    Attributes:
        functions: raise inside library functions, too.
    """

    functions: bool = False

    def for_function(self) -> Transform | None:
        return None

    def apply(self, graph: Graph, trace: Trace) -> None:
        new = NewFunctions(graph.functions)
        _InBody(new).apply(graph, trace)
        if self.functions:
            # The same `new`, so that names of new functions stay unique across all bodies.
            apply_in_functions(_InBody(new), graph, trace)
        elif graph.functions:
            trace.notes.append(
                "loops and branches in library functions stay; functions=true raises them, too"
            )
        if new.functions:
            # At once and at the end: bodies made later may call those made before.
            graph.functions = with_changes(graph.functions, new.functions)


class _InBody(Transform):
    """The same for one graph: the main one, or the body of a function."""

    name = "raise_control_flow"

    def __init__(self, new: NewFunctions) -> None:
        self._new = new

    def apply(self, graph: Graph, trace: Trace) -> None:
        if any(has(node.op, Trait.ENTER | Trait.SWITCH) for node in graph):
            # Raising one loop may leave others with new inputs, which the next round finds again.
            while self._round(graph, self._new, trace):
                trace.forget_left()

    def _round(self, graph: Graph, new: NewFunctions, trace: Trace) -> bool:
        """Raise what is there now; whether anything was, so that there may be more."""
        try:
            units = units_of(graph)
        except ThinflowError as error:
            first = next(n for n in graph if has(n.op, Trait.ENTER | Trait.SWITCH))
            trace.leave(first, error.problem)
            return False
        infer_with_loops(graph)
        before = len(trace.changes)
        raising = Raising(graph, new, self.name, are_tangled=units.are_tangled)
        for unit in units.units:
            # It reads a result of a unit raised in this round.
            if is_stale(unit, graph):
                continue
            head = head_of(unit)
            name, op = head.name, head.op
            try:
                call = raising.raised(unit)
            except Refuse as refusal:
                trace.leave(head, refusal.reason)
                continue
            text = "removed with its branches: nothing reads what they give"
            if call is not None:
                text = f"is now in {call.op} '{call.name}'"
            trace.changes.append(Entry(name, op, text))
        return len(trace.changes) > before


FLOW = Trait.IF | Trait.CASE | Trait.WHILE
"""The ops that become Switch and Merge, or a frame."""


@transform("lower_control_flow")
@dataclass(frozen=True)
class LowerControlFlow(Transform):
    """Lower While, If and Case to the control flow of TF1: frames of Enter and Exit, Switch and Merge.

    while(x) {cond=loop_cond, body=loop_body}    ->  enter(x) ... merge, switch, next_iteration ... exit
    if(p, x) {then_branch=true, else_branch=false}  ->  switch(x, p) ... merge(a, b)

    Any TensorFlow runs that, the first ones included. The functions are put in place of what calls them, what
    has effects keeps its order, and a result that is asked for keeps its name. TensorLists stay TensorLists,
    which TensorFlow has since 1.6.

    Attributes:
        raised: replace only what `raise_control_flow` made in the same run, and what is inside it.
        prune_library: drop the functions that nothing calls any more.
    """

    raised: bool = False
    prune_library: bool = True

    def for_function(self) -> Transform | None:
        return None

    def apply(self, graph: Graph, trace: Trace) -> None:
        # Functions called outside of loops hold loops: those are brought into the graph first.
        if not self.raised and any(_has_flow(graph, name) for name in _called_elsewhere(graph)):
            InlinePartitionedCall(prune_library=False).apply(graph, trace)
        calls = [
            n for n in graph if has(n.op, FLOW) and (not self.raised or n.origin == RaiseControlFlow.name)
        ]
        if calls:
            self._lower_all(graph, calls, trace)
        for node in graph:
            if node.op == "For" and not self.raised:
                trace.leave(node, "For has no form in TensorFlow 1")
        if self.prune_library and trace.changes:
            prune(graph, trace)

    def _lower_all(self, graph: Graph, calls: list[Node], trace: Trace) -> None:
        functions = graph.functions
        library = CallableBodies(
            functions, endless(mentioned_in(graph), lambda f: mentioned_in(functions[f].graph))
        )
        # Types and shapes decide how a condition is read.
        infer_with_loops(graph)
        frames = {str(n.get("frame_name", "")) for n in graph if has(n.op, Trait.ENTER)}
        stack = calls[::-1]
        added = 0
        # Bodies bring loops of their own, which are lowered next.
        while stack:
            nodes = self._lower(graph, stack.pop(), library, frames, trace)
            added += len(nodes)
            if added > MAX_NODES:
                raise TransformError(
                    f"the functions would grow to more than {MAX_NODES:,} nodes",
                    hint="the model cannot be said without functions; leave the transform out",
                )
            stack.extend(node for node in reversed(nodes) if has(node.op, FLOW) and node.graph is graph)

    def _lower(
        self, graph: Graph, call: Node, library: CallableBodies, frames: set[str], trace: Trace
    ) -> list[Node]:
        """Replace one node; what came in its place, in order. Nothing if it has to stay."""
        try:
            count = _result_count(call)
            unit = (
                Frame(call, library, frames) if has(call.op, Trait.WHILE) else Branches(call, library, count)
            )
        except Refuse as refusal:
            trace.leave(call, refusal.reason)
            return []
        if isinstance(unit, Frame):
            frames.add(unit.name)
        trace.changed(call, "is a frame now" if isinstance(unit, Frame) else "is Switch and Merge now")
        place = Place(graph, call, self.name, [])
        results, done = unit.put(place)
        _hand_out(place, results, done, has_effects=unit.has_effects)
        # Of both branches or a body some nodes may be read by nobody.
        sweep(graph, [n for n in reversed(place.nodes) if not has(n.op, FLOW)])
        return place.nodes


def _has_flow(graph: Graph, name: str) -> bool:
    """True if a function, or one that it calls, has loops or branches in it; False if it cannot be read."""
    try:
        function = graph.functions[name]
        names = {name, *reachable(function.graph)}
        return any(has(node.op, FLOW) for other in names for node in graph.functions[other].graph)
    except ThinflowError:
        return False


def _called_elsewhere(graph: Graph) -> set[str]:
    """The functions that a graph calls without loops and branches."""
    outside = (node for node in graph if not has(node.op, FLOW))
    return {name for node in outside for name in mentioned(node) if name in graph.functions}


def _result_count(call: Node) -> int:
    """The number of values that a node gives.

    Raises:
        Refuse: one of them is an input of the graph, or there are more readers than values.
    """
    listed = call.attrs_view.get("Tout")
    last = max((v.port + 1 for v in call.outputs if v.uses or v.is_graph_output), default=0)
    count = (
        len(call.inputs) if has(call.op, Trait.WHILE) else len(listed) if isinstance(listed, tuple) else last
    )
    for value in call.outputs:
        if value.is_graph_input:
            raise Refuse(f"'{value.name}' is an input of the graph")
    if last > count:
        raise Refuse(f"output {last - 1} is used, but it gives {count} values")
    return count


def _hand_out(place: Place, results: list[Value], done: Node, *, has_effects: bool) -> None:
    """Let what read the call read the results, after its effects; a call that is asked for keeps its name."""
    graph, call = place.graph, place.call
    call.set_control_inputs(())
    used = [v for v in call.outputs if v.uses or v.is_graph_output]
    # An effect has to be over before a result is read, as it is with a call.
    wait = [done] if has_effects or call.control_outputs else []
    if call.is_protected or not used:
        _hold(place, results, wait, 1 + max((v.port for v in used), default=-1))
        return
    # The values read by others are put in place one by one; a holder would tie them together.
    for value in used:
        result = results[value.port]
        if has_effects:
            result = _after(place, result, value, wait)
        value.replace_uses(result)
    for waiter in call.control_outputs:
        waiter.remove_control_input(call)
        waiter.add_control_input(done)
    graph.remove(call)


def _after(place: Place, result: Value, value: Value, wait: list[Node]) -> Value:
    (element,) = types_in(value.node, "", [_typed(value, result)])
    return place.add("Identity", [result], "result", {"T": element}, wait).output()


def _typed(value: Value, result: Value) -> Value:
    return value if value.dtype is not None else result


def _hold(place: Place, results: list[Value], wait: list[Node], count: int) -> None:
    """Put a node in the place of the call that has its name and hands on the first `count` results."""
    call = place.call
    types = types_in(
        call, "T" if has(call.op, Trait.WHILE) else "Tout", [call.output(i) for i in range(count)]
    )
    if not count:
        holder = place.add("NoOp", (), "done", wait=wait)
    else:
        attrs: dict[str, Attr] = {"T": types[0] if count == 1 else tuple(types)}
        op = "Identity" if count == 1 else "IdentityN"
        holder = place.add(op, results[:count], "results", attrs, wait)
    place.graph.replace(call, holder)


@transform("prune_loop_variables")
class PruneLoopVariables(Transform):
    """Take out of loops, branches and calls what nobody needs: variables, results, and what is passed for
    them.

    while(i, x, grads) {body=f}, grads not read  ->  while(i, x) {body=f}
    if(p, x, y), result 1 not read               ->  if(p, x)

    Graphs that were trained keep what the gradients were to be computed from in variables of their loops. A
    variable stays if its result is read, or if the condition, the next value of a variable that stays, or
    something with an effect needs it. This goes on inside functions at every depth; one that others call,
    too, is copied.
    """

    def for_function(self) -> Transform | None:
        return None

    def apply(self, graph: Graph, trace: Trace) -> None:
        if not graph.functions or not any(has(node.op, CALLING_OPS) for node in graph):
            return
        try:
            names = sorted(reachable(graph))
        except ThinflowError as error:
            trace.warnings.append(f"loops and branches stay as they are: {error.message}")
            return
        functions = graph.functions
        round_ = endless(mentioned_in(graph), lambda name: mentioned_in(functions[name].graph))
        narrowing = Narrowing(graph, round_, names, trace)
        narrowing.graph(graph)
        done: set[str] = set()
        # Narrowing a function may make new ones, which are looked into in turn.
        while waiting := _called_by_now(graph, narrowing) - done:
            for name in sorted(waiting):
                narrowing.body(name)
            done |= waiting
        if narrowing.new_functions:
            graph.functions = with_changes(graph.functions, narrowing.new_functions)
            lost = set(names) - reachable(graph)
            # Functions that were only called for what is gone.
            if lost:
                graph.functions = Selection(graph.functions, set(graph.functions) - lost)


def _called_by_now(graph: Graph, narrowing: Narrowing) -> set[str]:
    """The functions that are called by now, directly or through others."""
    found: set[str] = set()
    stack = [graph]
    while stack:
        for name in {name for node in stack.pop() for name in mentioned(node)} - found:
            function = narrowing.find(name)
            if function is not None:
                found.add(name)
                stack.append(function.graph)
    return found
