"""Take out of loops, branches and calls what nobody needs: variables, results, and what is passed for them.

while(i, x, grads) {body=f}, grads not read  ->  while(i, x) {body=f}
if(p, x, y), result 1 not read               ->  if(p, x)

Graphs that were trained keep what the gradients were to be computed from in variables of their loops. A
variable stays if its result is read, or if the condition, the next value of a variable that stays, or
something with an effect needs it. This goes on inside functions at every depth; one that others call, too, is
copied.
"""

from __future__ import annotations

from thinflow.errors import ThinflowError
from thinflow.ir.function import Selection, mentioned, reachable
from thinflow.ir.graph import Graph
from thinflow.ops.traits import has
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.flow.dependence import KNOWN
from thinflow.transforms.flow.library import endless, mentioned_in, with_changes
from thinflow.transforms.flow.narrowing import Narrowing


@transform("prune_loop_variables")
class PruneLoopVariables(Transform):
    """Remove variables of While, and results and inputs of If, Case and calls, that nothing needs."""

    def for_function(self) -> Transform | None:
        return None

    def apply(self, graph: Graph, trace: Trace) -> None:
        if not graph.functions or not any(has(node.op, KNOWN) for node in graph):
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
        while waiting := _called(graph, narrowing) - done:
            for name in sorted(waiting):
                narrowing.body(name)
            done |= waiting
        if narrowing.made:
            graph.functions = with_changes(graph.functions, narrowing.made)
            lost = set(names) - reachable(graph)
            # Functions that were only called for what is gone.
            if lost:
                graph.functions = Selection(graph.functions, set(graph.functions) - lost)


def _called(graph: Graph, narrowing: Narrowing) -> set[str]:
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
