"""The steps of a plan, ready to run: nodes, and loops of TF1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from thinflow.control_flow.frames import MAX_ITERATIONS, Loop, Step, endless, max_iterations
from thinflow.interpreter.calls import Bodies, Runner, is_true
from thinflow.interpreter.runners import runner
from thinflow.interpreter.values import DEAD, Observer, Values
from thinflow.ir.graph import Node, Value
from thinflow.ir.order import MERGES
from thinflow.ops._state import dereferenced
from thinflow.ops.traits import Trait, has


class Turner(Protocol):
    """Somebody else who can run a loop.

    Attributes:
        arguments: the outer values that the loop reads.
    """

    arguments: Sequence[Value]

    def run(self, arguments: Sequence[Any]) -> Sequence[Any] | None:
        """The values of the loop's Exits, in order; None if it had better be run here."""
        ...


Turners: TypeAlias = Callable[[Loop], "Turner | None"]


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
    """Turns a loop until its condition is false, then hands out what its Exits hold."""

    def __init__(self, loop: Loop, fed: set[Value], bodies: Bodies, turners: Turners) -> None:
        self.loop = loop
        self._head = tasks(loop.head, fed, bodies, turners)
        self._body = tasks(loop.body, fed, bodies, turners)
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
            # A fresh set for each turn: a node that was dead in the last one may run in this, and the other
            # way round.
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


def tasks(steps: Iterable[Step], fed: set[Value], bodies: Bodies, turners: Turners) -> list[_Task]:
    tasks: list[_Task] = []
    for step in steps:
        if not isinstance(step, Loop):
            tasks.append(_NodeTask(step, fed, bodies))
            continue
        own, turner = _LoopTask(step, fed, bodies, turners), turners(step)
        tasks.append(own if turner is None else _HandedLoopTask(own, turner))
    return tasks


def _reads_references(node: Node) -> bool:
    """True if an input may be a TF1 variable, of which the node wants what it holds."""
    if has(node.op, Trait.TAKES_REFERENCE):
        return False
    return any(has(v.node.op, Trait.GIVES_REFERENCE) for v in node.inputs)


def _entering(enter: Node, value: Any) -> Any:
    return value if enter.op == "RefEnter" else dereferenced(value)
