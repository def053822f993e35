"""Say the loops and branches of TF1 graphs as While and If, which call functions.

enter(x) ... merge, switch, next_iteration ... exit  ->  while(x) {cond=loop_cond, body=loop_body}
switch(x, p) ... merge(a, b)                         ->  if(p, x) {then_branch=true, else_branch=false}

What goes in stays as it is, and a result that is asked for keeps its name. A loop or a branching is raised
with all that is inside it, or stays as it is. TensorArrays go on as TensorArrays.
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.analysis.loops import infer_with_loops
from thinflow.errors import ThinflowError
from thinflow.ir.graph import Graph
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.colocation import drop_lost_classes
from thinflow.rewrite.rule import Refuse, Transform, transform
from thinflow.rewrite.trace import Entry, Trace
from thinflow.transforms.flow.functionalize import Raising, head_of, is_stale, units_of
from thinflow.transforms.flow.functionalized import Made
from thinflow.transforms.flow.library import apply_in_functions, with_changes


@transform("raise_control_flow")
@dataclass(frozen=True)
class RaiseControlFlow(Transform):
    """Replace the frames of while loops, and Switch and Merge, by nodes that call functions.

    Attributes:
        functions: raise inside library functions, too.
    """

    functions: bool = False

    def for_function(self) -> Transform | None:
        return None

    def apply(self, graph: Graph, trace: Trace) -> None:
        names = {node.name for node in graph}
        made = Made(graph.functions)
        _InBody(made).apply(graph, trace)
        if self.functions:
            # The same `made`, so that names of new functions stay unique across all bodies.
            apply_in_functions(_InBody(made), graph, trace)
        elif graph.functions:
            trace.notes.append(
                "loops and branches in library functions stay; functions=true raises them, too"
            )
        if made.functions:
            # At once and at the end: bodies made later may call those made before.
            graph.functions = with_changes(graph.functions, made.functions)
            drop_lost_classes(graph, names)


class _InBody(Transform):
    """The same for one graph: the main one, or the body of a function."""

    name = "raise_control_flow"

    def __init__(self, made: Made) -> None:
        self._made = made

    def apply(self, graph: Graph, trace: Trace) -> None:
        if any(has(node.op, Trait.ENTER | Trait.SWITCH) for node in graph):
            # Raising one loop may leave others with new inputs, which the next round finds again.
            while self._round(graph, self._made, trace):
                trace.forget_left()

    def _round(self, graph: Graph, made: Made, trace: Trace) -> bool:
        """Raise what is there now; whether anything was, so that there may be more."""
        try:
            units = units_of(graph)
        except ThinflowError as error:
            first = next(n for n in graph if has(n.op, Trait.ENTER | Trait.SWITCH))
            trace.leave(first, error.problem)
            return False
        infer_with_loops(graph)
        before = len(trace.changes)
        raising = Raising(graph, made, self.name, are_tangled=units.are_tangled)
        for unit in units.found:
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
