"""Plans: the nodes to run for some outputs, in order, and when each value can be dropped."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from thinflow.control_flow.frames import Loop, Step, schedule
from thinflow.errors import FeedError, GraphError, closest
from thinflow.interpreter.calls import Bodies, Runner
from thinflow.interpreter.kernels import Observer, Values, as_array
from thinflow.interpreter.tasks import LoopRunners, tasks
from thinflow.ir.function import Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.progress import counted
from thinflow.typing import Array


class Plan:
    """A graph prepared for running: what to run in which order, and when each value can be dropped.

    Nodes are prepared when they first run, so a second run is faster than the first.

    Args:
        graph: must not change while the plan is in use.
        outputs: what to compute.
        inputs: values that will be fed; nothing above them runs.
        targets: nodes to run as well, for their effects.
        within: what control edges may lead to; default: every node.
        bodies: the functions that nodes may call, if they are prepared already; default: those of the graph.
        loop_runners: gives who else runs a loop; default: nobody.
    """

    def __init__(
        self,
        graph: Graph,
        outputs: Sequence[Value],
        inputs: Sequence[Value] = (),
        *,
        targets: Sequence[Node] = (),
        within: Collection[Node] | None = None,
        bodies: Bodies | None = None,
        loop_runners: LoopRunners = lambda _: None,
    ) -> None:
        self.graph = graph
        self.outputs = list(outputs)
        self.inputs = list(inputs)
        self.bodies = bodies or Bodies(graph.functions, self._prepared_body)
        # Now, since the program may change its working directory before a table's text file is read.
        self.bodies.state.folder = self.bodies.state.folder or _folder_of(graph)
        fed = set(inputs)
        self.steps = schedule(graph, _needed(outputs, targets, fed, within))
        # Activations are let go behind their last reader: a run needs the memory of those alive, not of all.
        drops = _last_uses(self.steps, keep={*outputs, *inputs})
        self._program = list(zip(tasks(self.steps, fed, self.bodies, loop_runners), drops, strict=True))

    def _prepared_body(self, function: Function) -> Runner:
        plan = Plan(
            function.graph,
            function.outputs,
            function.inputs,
            targets=function.control_outputs,
            bodies=self.bodies,
        )
        return plan.compute

    @property
    def looped(self) -> list[Node]:
        """The nodes inside loops."""
        outside = {step for step in self.steps if isinstance(step, Node)}
        return [n for n in self.nodes if n not in outside]

    @property
    def nodes(self) -> list[Node]:
        """Every node that will run, those inside loops included, those inside functions not."""
        nodes: list[Node] = []
        stack: list[Step] = list(reversed(self.steps))
        while stack:
            step = stack.pop()
            if isinstance(step, Loop):
                stack.extend(reversed([*step.enters, *step.head, *step.body, *step.exits]))
            else:
                nodes.append(step)
        return nodes

    def run(self, feeds: Mapping[Value, Array], observe: Observer | None = None) -> list[Array]:
        """Compute the outputs.

        Args:
            feeds: an array for every input of the plan.
            observe: called with each computed value in order: in loops each time, in functions never.

        Raises:
            FeedError: an input is missing, or an output lies on a branch that was not taken.
            NodeError: a node failed, or its op has no kernel; the error names it.
        """
        for value in self.inputs:
            if value not in feeds:
                near = closest(value.name, [v.name for v in feeds])
                raise FeedError(
                    f"nothing was fed for the input '{value.name}'",
                    hint=near or "feed every input of the plan",
                )
        with np.errstate(all="ignore"):  # infinities and NaN are results like others
            results = self.compute([feeds[v] for v in self.inputs], observe)
        return [as_array(value, result) for value, result in zip(self.outputs, results, strict=True)]

    def compute(self, inputs: Sequence[Any], observe: Observer | None = None) -> list[Any]:
        """The outputs as they come: arrays, handles, DEAD on a dead branch, None where there is no such port.

        Args:
            inputs: one for each input of the plan, in order.
            observe: see `run`.
        """
        values: Values = dict(zip(self.inputs, inputs, strict=True))
        for task, drops in counted(self._program, len(self._program), "running nodes"):
            task.run(values, observe)
            for value in drops:
                # Nodes may leave out outputs, so some of them were never there.
                values.pop(value, None)
        return [values.get(v) for v in self.outputs]


def _folder_of(graph: Graph) -> str:
    """Absolute folder of a graph's file, wherever the program goes from here; "" for a graph without one."""
    return os.path.dirname(os.path.abspath(graph.path)) if graph.path else ""


def _needed(
    outputs: Iterable[Value],
    targets: Iterable[Node],
    fed: Collection[Value],
    within: Collection[Node] | None,
) -> set[Node]:
    """The nodes that have to run: who makes what is asked for and not fed, and whom that waits for.

    Of a node that makes several values some may be fed. If all that is read are, nobody waits for it.
    """
    asked = set(outputs)
    idle = {v.node for v in fed if all(o in fed for o in v.node.outputs if o.uses or o in asked)}
    needed: set[Node] = set()
    stack = [*(v.node for v in outputs if v not in fed), *(n for n in targets if n not in idle)]
    while stack:
        node = stack.pop()
        if node in needed:
            continue
        needed.add(node)
        stack.extend(v.node for v in node.inputs if v not in fed)
        # A control edge brings a node's effect, fed or not; only one that has no more to give is passed over.
        stack.extend(n for n in node.control_inputs if n not in idle and (within is None or n in within))
    return needed


def _last_uses(steps: Sequence[Step], keep: Iterable[Value]) -> list[list[Value]]:
    last: dict[Value, int] = {}
    for index, step in enumerate(steps):
        # From outside, a loop is one step: it reads what enters it and what its body names directly, and
        # makes what its Exits hand out.
        read = [e.inputs[0] for e in step.enters] + list(step.free) if isinstance(step, Loop) else step.inputs
        results = [o for e in step.exits for o in e.outputs] if isinstance(step, Loop) else step.outputs
        # What is made and never read goes right behind the step that makes it.
        for value in (*results, *read):
            last[value] = index
    lasting = set(keep)
    drops: list[list[Value]] = [[] for _ in steps]
    for value, index in last.items():
        if value not in lasting:
            drops[index].append(value)
    return drops


def run_graph(graph: Graph, feeds: Mapping[str, Any], outputs: Sequence[str]) -> list[Array]:
    """Compute values by name, once; for repeated runs keep a `Plan`.

    Raises:
        GraphError: a name does not exist.
    """
    values = {graph.value(name): np.asarray(array) for name, array in feeds.items()}
    results = [graph.value(name) for name in outputs]
    if not results:
        raise GraphError("no outputs were asked for", hint="name at least one")
    return Plan(graph, results, list(values)).run(values)
