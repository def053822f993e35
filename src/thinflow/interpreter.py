"""Runs a graph with the numpy kernels: slow, exact, and the reference for every other engine.

A `Plan` is the part of a graph that some outputs need, in an order that works, with the loops of TF1 (Enter, Merge, Switch,
NextIteration, Exit) gathered into steps of their own; see `frames`. A branch that is not taken carries `DEAD` values, as in
TensorFlow: a node that reads one does not run and passes it on, and Merge takes whichever input is alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from thinflow.errors import FeedError, GraphError, NodeError, ThinflowError, UnsupportedOp, closest
from thinflow.frames import Loop, Step, schedule
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import MERGES, ancestors
from thinflow.ops import registry

Array = np.ndarray[Any, Any]
Observer = Callable[[Value, Array], None]

MAX_ITERATIONS = 1_000_000
"""A loop that turns more often is taken to be endless."""


class Dead:
    """The value on a branch that was not taken."""

    def __repr__(self) -> str:
        return "DEAD"


DEAD = Dead()
_SWITCHES = frozenset({"Switch", "RefSwitch"})
_PASSING = frozenset({"Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration", "LoopCond"})


class Plan:
    """A graph prepared for running: what to run in which order, and when each value can be dropped.

    Args:
        graph: must not change while the plan is in use.
        outputs: what to compute.
        inputs: values that will be fed; nothing above them runs.
    """

    def __init__(self, graph: Graph, outputs: Sequence[Value], inputs: Sequence[Value] = ()) -> None:
        self.graph = graph
        self.outputs = list(outputs)
        self.inputs = list(inputs)
        fed = set(inputs)
        # A node is cut away only when every port that is read is fed.
        wanted = set(outputs)
        cut = {v.node for v in inputs if all(o in fed for o in v.node.outputs if o.uses or o in wanted)}
        needed = ancestors([v.node for v in outputs], stop=frozenset(cut)) - cut
        self.steps = schedule(graph, needed)
        self.drops = _last_uses(self.steps, keep={*outputs, *inputs})

    @property
    def nodes(self) -> list[Node]:
        """Every node that will run, those inside loops included."""
        nodes: list[Node] = []
        stack: list[Step] = list(reversed(self.steps))
        while stack:
            step = stack.pop()
            if isinstance(step, Loop):
                stack.extend(reversed([*step.enters, *step.body, *step.exits]))
            else:
                nodes.append(step)
        return nodes

    def run(self, feeds: Mapping[Value, Array], observe: Observer | None = None) -> list[Array]:
        """Compute the outputs.

        Args:
            feeds: an array for every input of the plan.
            observe: called with each computed value, in order; inside loops once per iteration.

        Raises:
            FeedError: an input is missing, or an output lies on a branch that was not taken.
            NodeError: a node failed, or its op has no kernel; the error names it.
        """
        for value in self.inputs:
            if value not in feeds:
                near = closest(value.name, [v.name for v in feeds])
                raise FeedError(f"nothing was fed for the input '{value.name}'", hint=near or "feed every input of the plan")
        values: dict[Value, Any] = dict(feeds)
        fed = set(feeds)
        for step, drops in zip(self.steps, self.drops, strict=True):
            self._run_step(step, values, fed, observe)
            for value in drops:
                values.pop(value, None)
        return [self._result(v, values) for v in self.outputs]

    def _result(self, value: Value, values: Mapping[Value, Any]) -> Array:
        result = values.get(value)
        if result is None:
            raise FeedError(f"'{value.name}' is not computed", value.node.where, hint="this op has no such output")
        if result is DEAD:
            raise FeedError(f"'{value.name}' lies on a branch that was not taken", value.node.where, hint="feed the other case")
        return np.asarray(result) if not isinstance(result, registry.Handle) else np.asarray(result, object)

    def _run_step(self, step: Step, values: dict[Value, Any], fed: set[Value], observe: Observer | None) -> None:
        if isinstance(step, Loop):
            self._run_loop(step, values, fed, observe)
            return
        results = _evaluate(step, [values.get(v, DEAD) for v in step.inputs], self.graph)
        for port, result in enumerate(results):
            value = step.output(port)
            if value not in fed:
                values[value] = result
                if observe is not None and result is not DEAD:
                    observe(value, result)

    def _run_loop(self, loop: Loop, outer: dict[Value, Any], fed: set[Value], observe: Observer | None) -> None:
        """Turn the loop until its condition is false, then hand out what its Exits hold."""
        constants: dict[Value, Any] = {}
        carried: dict[Node, Any] = {}
        for enter in loop.enters:
            constants[enter.output()] = outer.get(enter.inputs[0], DEAD)
        if any(v is DEAD for v in constants.values()):
            outer.update({e.output(): DEAD for e in loop.exits})
            return
        for turn in range(MAX_ITERATIONS + 1):
            if turn == MAX_ITERATIONS:
                raise NodeError(f"the loop did not end after {MAX_ITERATIONS} turns", loop.condition.where, hint="check its inputs")
            values = dict(constants)
            for merge, (first, following) in loop.merges.items():
                values[merge.output(0)] = constants[first.output()] if turn == 0 else carried[following]
                values[merge.output(1)] = np.int32(turn > 0)
            for name in loop.free:
                values[name] = outer[name]
            for step in loop.body:
                self._run_step(step, values, fed, observe)
            if not np.any(values[loop.condition.inputs[0]]):
                break
            carried = {n: values.get(n.inputs[0], DEAD) for n in loop.next_iterations}
        for exit_node in loop.exits:
            outer[exit_node.output()] = values.get(exit_node.inputs[0], DEAD)


def _last_uses(steps: Sequence[Step], keep: Iterable[Value]) -> list[list[Value]]:
    last: dict[Value, int] = {}
    for index, step in enumerate(steps):
        read = [e.inputs[0] for e in step.enters] + list(step.free) if isinstance(step, Loop) else step.inputs
        made = [o for e in step.exits for o in e.outputs] if isinstance(step, Loop) else step.outputs
        for value in (*made, *read):
            last[value] = index
    kept = set(keep)
    drops: list[list[Value]] = [[] for _ in steps]
    for value, index in last.items():
        if value not in kept:
            drops[index].append(value)
    return drops


def _evaluate(node: Node, inputs: Sequence[Any], graph: Graph) -> Sequence[Any]:
    if node.op in MERGES:
        for index, value in enumerate(inputs):
            if value is not DEAD:
                return value, np.int32(index)
        return DEAD, DEAD
    if any(value is DEAD for value in inputs):
        return [DEAD] * max(len(node.outputs), 1)
    if node.op in _SWITCHES:
        data, taken = inputs
        return (DEAD, data) if bool(taken) else (data, DEAD)
    if node.op in _PASSING:
        return (inputs[0],)
    return run_node(node, inputs)


def run_node(node: Node, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Outputs of one node, by its kernel.

    Raises:
        NodeError: placed at the node.
    """
    if node.op in {"Placeholder", "PlaceholderV2"}:
        raise FeedError("nothing was fed for it", node.where, hint=f"pass a value for '{node.name}'")
    tensor = node.tensor
    if tensor is not None:
        return (tensor.numpy(),)
    definition = registry.find(node.op)
    if definition is None or definition.kernel is None:
        raise UnsupportedOp(
            "the reference engine has no kernel for this op", node.where, hint="add one in src/thinflow/ops/, see CONTRIBUTING.md"
        )
    try:
        results = registry.call_kernel(definition, inputs, node.attrs)
    except ThinflowError as error:
        raise error.at(node.where) from error
    except (ValueError, TypeError, IndexError, ArithmeticError, KeyError, AssertionError) as error:
        shapes = ", ".join(f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else str(x) for x in inputs)
        raise NodeError(f"{error} (inputs: {shapes})", node.where, hint="the graph does not fit its inputs") from error
    return tuple(r if isinstance(r, (np.ndarray, registry.Handle)) else np.asarray(r) for r in results)


def run_graph(graph: Graph, feeds: Mapping[str, Any], outputs: Sequence[str]) -> list[Array]:
    """Compute values by name, once; for repeated runs keep a `Plan`.

    Raises:
        GraphError: a name does not exist.
    """
    values = {graph.value(name): np.asarray(array) for name, array in feeds.items()}
    wanted = [graph.value(name) for name in outputs]
    if not wanted:
        raise GraphError("no outputs were asked for", hint="name at least one")
    return Plan(graph, wanted, list(values)).run(values)
