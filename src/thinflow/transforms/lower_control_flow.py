"""Say While, If and Case in the words of TF1: frames of Enter and Exit, and Switch and Merge.

while(x) {cond=loop_cond, body=loop_body}    ->  enter(x) ... merge, switch, next_iteration ... exit
if(p, x) {then_branch=true, else_branch=false}  ->  switch(x, p) ... merge(a, b)

Any TensorFlow runs that, the first ones included. The functions are put in place of what calls them, what
has effects keeps its order, and a result that is asked for keeps its name. TensorLists stay TensorLists,
which TensorFlow has since 1.6.
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.analysis.loops import infer_with_loops
from thinflow.errors import ThinflowError, TransformError
from thinflow.ir.attrs import Attr
from thinflow.ir.function import mentioned, reachable
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.colocation import drop_lost_classes
from thinflow.rewrite.edits import sweep
from thinflow.rewrite.rule import Refuse, Transform, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.flow.bodies import Library, Place, types_in
from thinflow.transforms.flow.library import endless, mentioned_in, prune
from thinflow.transforms.flow.to_frames import Frame
from thinflow.transforms.flow.to_switch_merge import Branches
from thinflow.transforms.inline_partitionedcall import MAX_NODES, InlinePartitionedCall
from thinflow.transforms.raise_control_flow import RaiseControlFlow

FLOW = Trait.IF | Trait.CASE | Trait.WHILE
"""What becomes Switch and Merge, or a frame."""


@transform("lower_control_flow")
@dataclass(frozen=True)
class LowerControlFlow(Transform):
    """Replace While, If and Case, at every depth, those in functions that are called included.

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
        if not self.raised and any(_has_flow(graph, name) for name in _called(graph)):
            InlinePartitionedCall(prune_library=False).apply(graph, trace)
        calls = [
            n for n in graph if has(n.op, FLOW) and (not self.raised or n.origin == RaiseControlFlow.name)
        ]
        if calls:
            names = {node.name for node in graph}
            self._lower_all(graph, calls, trace)
            drop_lost_classes(graph, names)
        for node in graph:
            if node.op == "For" and not self.raised:
                trace.leave(node, "For has no form in TensorFlow 1")
        if self.prune_library and trace.changes:
            prune(graph, trace)

    def _lower_all(self, graph: Graph, calls: list[Node], trace: Trace) -> None:
        functions = graph.functions
        library = Library(functions, endless(mentioned_in(graph), lambda f: mentioned_in(functions[f].graph)))
        # Types and shapes decide how a condition is read.
        infer_with_loops(graph)
        frames = {str(n.get("frame_name", "")) for n in graph if has(n.op, Trait.ENTER)}
        stack = calls[::-1]
        added = 0
        # Bodies bring loops of their own, which are lowered next.
        while stack:
            made = self._lower(graph, stack.pop(), library, frames, trace)
            added += len(made)
            if added > MAX_NODES:
                raise TransformError(
                    f"the functions would grow to more than {MAX_NODES:,} nodes",
                    hint="the model cannot be said without functions; leave the transform out",
                )
            stack.extend(node for node in reversed(made) if has(node.op, FLOW) and node.graph is graph)

    def _lower(
        self, graph: Graph, call: Node, library: Library, frames: set[str], trace: Trace
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
        sweep(graph, [n for n in reversed(place.made) if not has(n.op, FLOW)])
        return place.made


def _has_flow(graph: Graph, name: str) -> bool:
    """Whether a function, or one that it calls, has loops or branches in it; no if it cannot be read."""
    try:
        function = graph.functions[name]
        names = {name, *reachable(function.graph)}
        return any(has(node.op, FLOW) for other in names for node in graph.functions[other].graph)
    except ThinflowError:
        return False


def _called(graph: Graph) -> set[str]:
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
