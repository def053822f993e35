"""Runs a graph with the numpy kernels: slow, exact, and the reference for every other engine.

A `Plan` is the part of a graph that some outputs need, in an order that works, with the loops of TF1 (Enter,
Merge, Switch, NextIteration, Exit) gathered into steps of their own; see `frames`. A branch that is not taken
carries `DEAD` values, as in TensorFlow: a node that reads one or waits for a dead node does not run and
passes it on, and Merge takes whichever input is alive. The bodies of functions are plans as well; see
`calls`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np

from thinflow.calls import Bodies, Runner, caller, is_true
from thinflow.errors import FeedError, GraphError, NodeError, ThinflowError, closest
from thinflow.frames import MAX_ITERATIONS, Loop, Step, endless, max_iterations, schedule
from thinflow.ir.attrs import FunctionAttr
from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import MERGES, ancestors
from thinflow.ops import registry
from thinflow.ops._missing import missing_kernel
from thinflow.ops._state import dereferenced
from thinflow.ops.lookup import FILLERS, Table

Array = np.ndarray[Any, Any]
Observer = Callable[[Value, Array], None]


class Dead:
    """The value on a branch that was not taken."""

    def __repr__(self) -> str:
        return "DEAD"


DEAD = Dead()
Values: TypeAlias = dict[Value | Node, Any]
"""What a run has computed so far, and DEAD for each node that did not run."""


class Turner(Protocol):
    """Somebody else who can run a loop.

    Attributes:
        arguments: the outer values that the loop reads.
    """

    arguments: Sequence[Value]

    def run(self, arguments: Sequence[Any]) -> Sequence[Any] | None:
        """What the loop's Exits hand out, in order; None if it had better be run here."""
        ...


Turners: TypeAlias = Callable[[Loop], "Turner | None"]


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
        turners: gives who else runs a loop; default: nobody.
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
        turners: Turners = lambda _: None,
    ) -> None:
        self.graph = graph
        self.outputs = list(outputs)
        self.inputs = list(inputs)
        self.bodies = bodies or Bodies(graph.functions, self._prepared_body)
        self.bodies.state.folder = self.bodies.state.folder or os.path.dirname(os.fspath(graph.path or ""))
        fed = set(inputs)
        self.steps = schedule(graph, _needed(outputs, targets, fed, within))
        drops = _last_uses(self.steps, keep={*outputs, *inputs})
        self._program = list(zip(_tasks(self.steps, fed, self.bodies, turners), drops, strict=True))

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
            observe: called with each computed value, in order; in a loop once per turn, in a function never.

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
        results = self.compute([feeds[v] for v in self.inputs], observe)
        return [as_array(value, result) for value, result in zip(self.outputs, results, strict=True)]

    def compute(self, inputs: Sequence[Any], observe: Observer | None = None) -> list[Any]:
        """The outputs as they come: arrays, handles, DEAD on a dead branch, None where there is no such port.

        Args:
            inputs: one for each input of the plan, in order.
            observe: see `run`.
        """
        values: Values = dict(zip(self.inputs, inputs, strict=True))
        for task, drops in self._program:
            task.run(values, observe)
            for value in drops:
                values.pop(value, None)
        return [values.get(v) for v in self.outputs]


def as_array(value: Value, result: Any) -> Array:
    """What `Plan.compute` gives for a value as an array; a handle becomes a scalar array of objects.

    Raises:
        FeedError: there is nothing, as its branch was not taken or its op has no such output.
    """
    if result is None:
        raise FeedError(
            f"'{value.name}' is not computed", value.node.where, hint="this op has no such output"
        )
    if result is DEAD:
        raise FeedError(
            f"'{value.name}' lies on a branch that was not taken",
            value.node.where,
            hint="feed the other case",
        )
    result = dereferenced(result)
    return np.asarray(result) if not isinstance(result, registry.Handle) else np.asarray(result, object)


def _needed(
    outputs: Iterable[Value],
    targets: Iterable[Node],
    fed: Collection[Value],
    within: Collection[Node] | None,
) -> set[Node]:
    """What has to run: who makes what is asked for and not fed, and whom that waits for.

    Of a node that makes several values some may be fed. If all that is read are, nobody waits for it.
    """
    wanted = set(outputs)
    idle = {v.node for v in fed if all(o in fed for o in v.node.outputs if o.uses or o in wanted)}
    needed: set[Node] = set()
    stack = [*(v.node for v in outputs if v not in fed), *(n for n in targets if n not in idle)]
    while stack:
        node = stack.pop()
        if node in needed:
            continue
        needed.add(node)
        stack.extend(v.node for v in node.inputs if v not in fed)
        stack.extend(n for n in node.control_inputs if n not in idle and (within is None or n in within))
    return needed


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
        if not self._is_merge and self._is_dead(inputs, values):
            values[self.node] = DEAD
            for _, value in self._results:
                values[value] = DEAD
            return
        if self._runner is None:
            self._runner = _runner(self.node, self._bodies)
        if self._derefs:
            inputs = [dereferenced(x) for x in inputs]
        results = self._runner(inputs)
        for port, value in self._results:
            if port < len(results):
                values[value] = results[port]
                if observe is not None and results[port] is not DEAD:
                    observe(value, results[port])

    def _is_dead(self, inputs: Sequence[Any], values: Values) -> bool:
        for value in inputs:
            if value is DEAD:
                return True
        return bool(self._controls) and any(values.get(n) is DEAD for n in self._controls)


class _LoopTask:
    """Turns a loop until its condition is false, then hands out what its Exits hold."""

    def __init__(self, loop: Loop, fed: set[Value], bodies: Bodies, turners: Turners) -> None:
        self.loop = loop
        self._head = _tasks(loop.head, fed, bodies, turners)
        self._body = _tasks(loop.body, fed, bodies, turners)
        self._ending = [t for t, step in zip(self._body, loop.body, strict=True) if step in loop.ending]
        self._carried = [
            (m.output(0), m.output(1), e.output(), n.inputs[0]) for m, (e, n) in loop.merges.items()
        ]

    def run(self, values: Values, observe: Observer | None) -> None:
        loop = self.loop
        constants: Values = {
            enter.output(): _entering(enter, values.get(enter.inputs[0], DEAD)) for enter in loop.enters
        }
        if any(v is DEAD for v in constants.values()):
            for node in loop.exits:
                values[node] = values[node.output()] = DEAD
            return
        constants.update((v, values.get(v, DEAD)) for v in loop.free)
        inner = self._last_turn(constants, observe)
        for node in loop.exits:
            result = values[node.output()] = inner.get(node.inputs[0], DEAD)
            if observe is not None and result is not DEAD:
                observe(node.output(), result)

    def _last_turn(self, constants: Values, observe: Observer | None) -> Values:
        """The values of the turn in which the condition became false."""
        condition = self.loop.condition.inputs[0]
        inner = dict(constants)
        for merged, index, first, _ in self._carried:
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
            before, inner = inner, dict(constants)
            for merged, index, _, following in self._carried:
                inner[merged], inner[index] = before.get(following, DEAD), np.int32(1)
        raise endless(limit).at(self.loop.condition.where)


class _HandedLoopTask:
    """A loop that somebody else runs, unless some of what it reads is dead or somebody watches."""

    def __init__(self, own: _LoopTask, turner: Turner) -> None:
        self._own, self._turner = own, turner

    def run(self, values: Values, observe: Observer | None) -> None:
        arguments = [values.get(v, DEAD) for v in self._turner.arguments]
        results = None
        if observe is None and not any(a is DEAD for a in arguments):
            results = self._turner.run(arguments)
        if results is None:
            self._own.run(values, observe)
            return
        values.update((n.output(), r) for n, r in zip(self._own.loop.exits, results, strict=True))


_Task: TypeAlias = _NodeTask | _LoopTask | _HandedLoopTask


def _tasks(steps: Iterable[Step], fed: set[Value], bodies: Bodies, turners: Turners) -> list[_Task]:
    tasks: list[_Task] = []
    for step in steps:
        if not isinstance(step, Loop):
            tasks.append(_NodeTask(step, fed, bodies))
            continue
        own, turner = _LoopTask(step, fed, bodies, turners), turners(step)
        tasks.append(own if turner is None else _HandedLoopTask(own, turner))
    return tasks


def _runner(node: Node, bodies: Bodies) -> Runner:
    """What computes a node's outputs from its inputs.

    Raises:
        NodeError: nothing can; placed at the node.
    """
    if node.op in _CONTROL_FLOW:
        return _CONTROL_FLOW[node.op]
    if node.op == "_SwitchN":
        return partial(_switch_n, int(node.get("num_outs", 0)))
    definition = registry.find(node.op)
    if definition is not None and definition.resource:
        return _resource_runner(node, bodies)
    return caller(node, bodies) or _kernel_runner(node)


_REFERENCES = frozenset(
    {"RefIdentity", "RefSwitch", "RefMerge", "RefEnter", "RefExit", "RefNextIteration", "RefSelect"}
)
"""Ops that hand a TF1 variable on as it is."""


def _reads_references(node: Node) -> bool:
    """Whether an input may be a TF1 variable, of which the node wants what it holds."""
    if node.op in _REFERENCES:
        return False
    definition = registry.find(node.op)
    if definition is not None and definition.takes_reference:
        return False
    return any(_gives_reference(v.node) for v in node.inputs)


def _gives_reference(node: Node) -> bool:
    definition = registry.find(node.op)
    return node.op in _REFERENCES or (definition is not None and definition.gives_reference)


def _entering(enter: Node, value: Any) -> Any:
    return value if enter.op == "RefEnter" else dereferenced(value)


def _merge(inputs: Sequence[Any]) -> Sequence[Any]:
    return next(((v, np.int32(i)) for i, v in enumerate(inputs) if v is not DEAD), (DEAD, DEAD))


def _switch(inputs: Sequence[Any]) -> Sequence[Any]:
    data, taken = inputs
    return (DEAD, data) if is_true(taken) else (data, DEAD)


def _switch_n(count: int, inputs: Sequence[Any]) -> Sequence[Any]:
    data, index = inputs
    taken = int(index) if 0 <= int(index) < count else count - 1
    return [data if port == taken else DEAD for port in range(count)]


_CONTROL_FLOW: dict[str, Runner] = {
    **dict.fromkeys(MERGES, _merge),
    **dict.fromkeys(("Switch", "RefSwitch"), _switch),
    **dict.fromkeys(
        ("Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration", "LoopCond"), tuple
    ),
}


def _resource_runner(node: Node, bodies: Bodies) -> Runner:
    """Gives the session's variable, table or queue of that name, made when it is first asked for."""
    state = bodies.state
    key = (node.op, node.get("container", ""), node.get("shared_name", "") or node.name)

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        made = state.resources.get(key)
        if made is None:
            (made,) = run_node(node, inputs)
            made.where, made.folder = node.where, state.folder
            state.resources[key] = made
            if isinstance(made, Table):
                _fill(node, made, bodies)
        return (made,)

    return run


def _fill(node: Node, table: Table, bodies: Bodies) -> None:
    """Puts into a table what the graph's initializers say, so that nobody has to run them."""
    assert node.graph is not None
    for reader in node.readers:
        if _initializes(reader, node, bodies):
            plan = Plan(node.graph, [], [node.output()], targets=[reader], bodies=bodies)
            plan.compute([table])


_UNREADY = frozenset(
    {"Placeholder", "PlaceholderV2", "Restore", "RestoreV2", "VarHandleOp", "VariableV2", ARGUMENT}
)
"""What comes out of these is known only later: a table restored from a checkpoint, say."""


def _initializes(reader: Node, table: Node, bodies: Bodies) -> bool:
    """Whether a node fills the table by itself, or calls a function that does nothing else with it."""
    if reader.op in ("PartitionedCall", "StatefulPartitionedCall"):
        called = reader.attrs.get("f")
        function = bodies.functions.get(called.name) if isinstance(called, FunctionAttr) else None
        places = [i for i, v in enumerate(reader.inputs) if v.node is table]
        if function is None or not places or places[0] >= len(function.inputs):
            return False
        readers = list(function.inputs[places[0]].node.readers)
        others = [v.node for v in reader.inputs if v.node is not table]
        return bool(readers) and all(r.op in FILLERS for r in readers) and _is_ready(others)
    if reader.op not in FILLERS or not reader.inputs or reader.inputs[0].node is not table:
        return False
    return _is_ready([v.node for v in reader.inputs[1:]])


def _is_ready(nodes: Sequence[Node]) -> bool:
    """Whether the graph alone says what these give."""
    return not any(n.op in _UNREADY for n in ancestors(nodes))


def _feeding_hint(node: Node) -> str:
    """What to do about a placeholder that is not fed."""
    name = node.name
    if node.op == ARGUMENT or node.get("shape") not in (None, ()):
        return f"pass a value for '{name}'"
    return (
        f"pass a value for '{name}'; a training switch can be set for good: "
        f"`thinflow transform MODEL OUT -t 'set_training_switches(name={name}, value=...)'`"
    )


def _kernel_runner(node: Node) -> Runner:
    if node.op in {"Placeholder", "PlaceholderV2", ARGUMENT}:
        raise FeedError("nothing was fed for it", node.where, hint=_feeding_hint(node))
    tensor = node.tensor
    if tensor is not None:
        constant = (tensor.numpy(),)
        return lambda inputs: constant
    definition = registry.find(node.op)
    if definition is None or definition.kernel is None:
        raise missing_kernel(node)
    try:
        kernel = partial(definition.kernel, **registry.select_attrs(definition.kernel, node.attrs))
    except ThinflowError as error:
        raise error.at(node.where) from error

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        try:
            results = kernel(*inputs)
        except ThinflowError as error:
            raise error.at(node.where) from error
        except registry.RULE_ERRORS as error:
            shapes = ", ".join(
                f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else str(x) for x in inputs
            )
            raise NodeError(
                f"{error} (inputs: {shapes})", node.where, hint="the graph does not fit its inputs"
            ) from error
        if not isinstance(results, tuple):
            results = (results,)
        return [_as_value(r) for r in results]

    return run


def _as_value(result: Any) -> Any:
    """A kernel's result as an array, or the handle that it is or that a scalar array of objects holds."""
    if not isinstance(result, np.ndarray):
        return result if isinstance(result, registry.Handle) else np.asarray(result)
    is_wrapped = result.dtype.hasobject and result.ndim == 0 and isinstance(result[()], registry.Handle)
    return result[()] if is_wrapped else result


def run_node(node: Node, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Outputs of one node, by its kernel.

    Raises:
        NodeError: placed at the node.
    """
    return tuple(_kernel_runner(node)(inputs))


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
