"""The steps of a plan, ready to run: nodes, and loops of TF1.

How a node runs depends on its op: it is control flow, a variable, table or queue of the session, a call of a
function, or has a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np

from thinflow.control_flow.frames import MAX_ITERATIONS, Loop, Step, endless, max_iterations, schedule
from thinflow.interpreter.calls import Bodies, Runner, caller, is_true
from thinflow.interpreter.kernels import DEAD, Observer, Values, kernel_runner, run_node
from thinflow.ir.attrs import FunctionAttr
from thinflow.ir.function import ARGUMENT
from thinflow.ir.graph import Node, Value, graph_of
from thinflow.ir.order import MERGES, ancestors
from thinflow.ops._state import dereferenced
from thinflow.ops.lookup import FILLERS, Table
from thinflow.ops.traits import Trait, has


class LoopRunner(Protocol):
    """Somebody else who can run a loop.

    Attributes:
        arguments: the outer values that the loop reads.
    """

    arguments: Sequence[Value]

    def run(self, arguments: Sequence[Any]) -> Sequence[Any] | None:
        """The values of the loop's Exits, in order; None if it had better be run here."""
        ...


LoopRunners: TypeAlias = Callable[[Loop], "LoopRunner | None"]


class _NodeTask:
    """One node, its kernel looked up and its attributes selected at the first run."""

    __slots__ = ("_bodies", "_controls", "_derefs", "_inputs", "_is_merge", "_results", "_runner", "node")

    def __init__(self, node: Node, fed: set[Value], bodies: Bodies) -> None:
        self.node = node
        self._inputs = node.inputs
        self._is_merge = node.op in MERGES
        # A ControlTrigger runs whether or not the branches that it waits for were taken.
        waits = not self._is_merge and node.op != "ControlTrigger"
        self._controls = node.control_inputs if waits else ()
        self._results = [(v.port, v) for v in dict.fromkeys((node.output(), *node.outputs)) if v not in fed]
        self._bodies = bodies
        self._runner: Runner | None = None
        self._derefs = _reads_references(node)

    def run(self, values: Values, observe: Observer | None) -> None:
        inputs = [values.get(v, DEAD) for v in self._inputs]
        # Merge is the one op that runs with dead inputs: one that is alive is all it takes.
        if not self._is_merge and self._is_dead(inputs, values):
            values[self.node] = DEAD
            for _, value in self._results:
                values[value] = DEAD
            return
        if self._runner is None:
            self._runner = runner(self.node, self._bodies)
        if self._derefs:
            inputs = [dereferenced(x) for x in inputs]
        results = self._runner(inputs)
        for port, value in self._results:
            if port < len(results):
                values[value] = results[port]
                if observe is not None and results[port] is not DEAD:
                    observe(value, results[port])

    def _is_dead(self, inputs: Sequence[Any], values: Values) -> bool:
        # Not `DEAD in inputs`, which compares arrays element by element.
        for value in inputs:
            if value is DEAD:
                return True
        return bool(self._controls) and any(values.get(n) is DEAD for n in self._controls)


class _LoopTask:
    """Iterates a loop until its condition is false, then hands out what its Exits hold."""

    def __init__(self, loop: Loop, fed: set[Value], bodies: Bodies, loop_runners: LoopRunners) -> None:
        self.loop = loop
        self._head = tasks(loop.head, fed, bodies, loop_runners)
        self._body = tasks(loop.body, fed, bodies, loop_runners)
        self._ending = [t for t, step in zip(self._body, loop.body, strict=True) if step in loop.ending]
        self._carried = [
            (m.output(0), m.output(1), e.output(), n.inputs[0]) for m, (e, n) in loop.merges.items()
        ]

    def run(self, values: Values, observe: Observer | None) -> None:
        loop = self.loop
        constants: Values = {
            enter.output(): _entering(enter, values.get(enter.inputs[0], DEAD)) for enter in loop.enters
        }
        # The whole loop lies on a branch that was not taken.
        if any(v is DEAD for v in constants.values()):
            for node in loop.exits:
                values[node] = values[node.output()] = DEAD
            return
        constants.update((v, values.get(v, DEAD)) for v in loop.free)
        inner = self._last_iteration(constants, observe)
        for node in loop.exits:
            result = values[node.output()] = inner.get(node.inputs[0], DEAD)
            if observe is not None and result is not DEAD:
                observe(node.output(), result)

    def _last_iteration(self, constants: Values, observe: Observer | None) -> Values:
        """The values of the iteration in which the condition became false."""
        condition = self.loop.condition.inputs[0]
        inner = dict(constants)
        for merged, index, first, _ in self._carried:
            # Merge's second output: 0 for what an Enter brought, 1 for what a NextIteration did.
            inner[merged], inner[index] = constants[first], np.int32(0)
        limit = max_iterations(MAX_ITERATIONS)
        for _ in range(limit):
            for task in self._head:
                task.run(inner, observe)
            if not is_true(inner[condition]):
                for task in self._ending:
                    task.run(inner, observe)
                return inner
            for task in self._body:
                task.run(inner, observe)
            # A fresh set for each iteration: a node that was dead in the last one may run in this, and vice
            # versa.
            before, inner = inner, dict(constants)
            for merged, index, _, following in self._carried:
                inner[merged], inner[index] = before.get(following, DEAD), np.int32(1)
        raise endless(limit).at(self.loop.condition.where)


class _HandedLoopTask:
    """A loop that somebody else runs, unless some of what it reads is dead or somebody watches."""

    def __init__(self, own: _LoopTask, loop_runner: LoopRunner) -> None:
        self._own, self._runner = own, loop_runner

    def run(self, values: Values, observe: Observer | None) -> None:
        arguments = [values.get(v, DEAD) for v in self._runner.arguments]
        results = None
        if observe is None and not any(a is DEAD for a in arguments):
            results = self._runner.run(arguments)
        if results is None:
            self._own.run(values, observe)
            return
        values.update((n.output(), r) for n, r in zip(self._own.loop.exits, results, strict=True))


_Task: TypeAlias = _NodeTask | _LoopTask | _HandedLoopTask


def tasks(steps: Iterable[Step], fed: set[Value], bodies: Bodies, loop_runners: LoopRunners) -> list[_Task]:
    tasks: list[_Task] = []
    for step in steps:
        if not isinstance(step, Loop):
            tasks.append(_NodeTask(step, fed, bodies))
            continue
        own, loop_runner = _LoopTask(step, fed, bodies, loop_runners), loop_runners(step)
        tasks.append(own if loop_runner is None else _HandedLoopTask(own, loop_runner))
    return tasks


def _reads_references(node: Node) -> bool:
    """True if an input may be a TF1 variable, of which the node wants what it holds."""
    if has(node.op, Trait.TAKES_REFERENCE):
        return False
    return any(has(v.node.op, Trait.GIVES_REFERENCE) for v in node.inputs)


def _entering(enter: Node, value: Any) -> Any:
    return value if enter.op == "RefEnter" else dereferenced(value)


def runner(node: Node, bodies: Bodies) -> Runner:
    """The runner of a node, which computes its outputs from its inputs.

    Raises:
        NodeError: nothing can; placed at the node.
    """
    if node.op in MERGES:
        return _merge
    if node.op in ("Switch", "RefSwitch"):
        return _switch
    if has(node.op, Trait.ENTER | Trait.EXIT | Trait.NEXT_ITERATION) or node.op == "LoopCond":
        return tuple
    if node.op == "_SwitchN":
        return partial(_switch_n, int(node.get("num_outs", 0)))
    if has(node.op, Trait.RESOURCE):
        return resource_runner(node, bodies)
    if node.op == "Print" and int(node.get("first_n", -1)) >= 0:
        return _counted(node, bodies)
    return caller(node, bodies) or kernel_runner(node)


def _counted(node: Node, bodies: Bodies) -> Runner:
    """Prints the first `first_n` times of a session, and hands its input on."""
    kernel, most, state = kernel_runner(node), int(node.get("first_n", -1)), bodies.state
    # In the session's state: a plan is made for each choice of outputs, and they count together.
    key = (node.op, node.where)

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        done = state.resources.get(key, 0)
        if done >= most:
            return inputs[:1]
        state.resources[key] = done + 1
        return kernel(inputs)

    return run


def _merge(inputs: Sequence[Any]) -> Sequence[Any]:
    # Its second output is the number of the input that was alive.
    return next(((v, np.int32(i)) for i, v in enumerate(inputs) if v is not DEAD), (DEAD, DEAD))


def _switch(inputs: Sequence[Any]) -> Sequence[Any]:
    data, taken = inputs
    # The first output is the one for false.
    return (DEAD, data) if is_true(taken) else (data, DEAD)


def _switch_n(count: int, inputs: Sequence[Any]) -> Sequence[Any]:
    data, index = inputs
    # As a Case does: an index out of range takes the last branch.
    taken = int(index) if 0 <= int(index) < count else count - 1
    return [data if port == taken else DEAD for port in range(count)]


def resource_runner(node: Node, bodies: Bodies) -> Runner:
    """Gives the session's variable, table or queue of that name, made when it is first asked for."""
    state = bodies.state
    # As in TensorFlow: nodes of one container and shared name mean the same; without a name each is alone.
    key = (node.op, node.get("container", ""), node.get("shared_name", "") or node.name)

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        resource = state.resources.get(key)
        if resource is None:
            (resource,) = run_node(node, inputs)
            resource.where, resource.folder = node.where, state.folder
            # Before it is filled: what fills it may ask for it again by its name.
            state.resources[key] = resource
            if isinstance(resource, Table):
                _fill(node, resource, bodies)
        return (resource,)

    return run


def _fill(node: Node, table: Table, bodies: Bodies) -> None:
    """Puts into a table what the graph's initializers say, so that nobody has to run them."""
    graph = graph_of(node)
    assert graph is not None
    for reader in node.readers:
        if _initializes(reader, node, bodies):
            values: Values = {node.output(): table}
            steps = schedule(graph, ancestors([reader]) - {node})
            for task in tasks(steps, {node.output()}, bodies, lambda _: None):
                task.run(values, None)


def _initializes(reader: Node, table: Node, bodies: Bodies) -> bool:
    """True if a node fills the table by itself, or calls a function that does nothing else with it."""
    if reader.op in ("PartitionedCall", "StatefulPartitionedCall"):
        called = reader.attrs.get("f")
        function = bodies.functions.get(called.name) if isinstance(called, FunctionAttr) else None
        places = [i for i, v in enumerate(reader.inputs) if v.node is table]
        if function is None or not places or places[0] >= len(function.inputs):
            return False
        readers = list(function.inputs[places[0]].node.readers)
        others = [v.node for v in reader.inputs if v.node is not table]
        # Anything else that it did with the table would then be done unasked.
        return bool(readers) and all(r.op in FILLERS for r in readers) and _is_ready(others)
    if reader.op not in FILLERS or not reader.inputs or reader.inputs[0].node is not table:
        return False
    return _is_ready([v.node for v in reader.inputs[1:]])


def _is_ready(nodes: Sequence[Node]) -> bool:
    """True if the graph alone says what these give: nothing is fed, restored or kept in a variable."""
    return not any(
        n.op in ("Restore", "RestoreV2", ARGUMENT) or has(n.op, Trait.FED | Trait.VARIABLE)
        for n in ancestors(nodes)
    )
