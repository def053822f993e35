"""Nodes that call library functions: plain calls, and the branches and loops of TF2 (If, Case, While).

How a body runs is left to whoever makes the `Bodies`; here is only which body runs, with what, and how often.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from thinflow.control_flow.frames import MAX_ITERATIONS, endless, max_iterations
from thinflow.errors import GraphError, ThinflowError, closest
from thinflow.ir.attrs import Attr, FunctionAttr, attr_key
from thinflow.ir.function import Function
from thinflow.ir.graph import Node
from thinflow.ops.traits import Trait, has

Runner = Callable[[Sequence[Any]], Sequence[Any]]
"""Output values from input values."""

MAX_DEPTH = 50
"""Calls inside calls beyond this are taken to be endless."""


class State:
    """The variables, tables and queues of one session.

    Attributes:
        folder: where the model's file lies; the text files of tables are looked for there.
        resources: what was made so far, by op, container and name; and what was counted.
    """

    def __init__(self) -> None:
        self.folder = ""
        self.resources: dict[Hashable, Any] = {}


_SHARED: ContextVar[State | None] = ContextVar("state", default=None)


@contextmanager
def sharing(state: State) -> Iterator[None]:
    """Let whatever is prepared inside keep its variables, tables and queues in `state`."""
    token = _SHARED.set(state)
    try:
        yield
    finally:
        _SHARED.reset(token)


class TooDeep(GraphError):
    """Functions that call each other without end. Not placed at the calls on the way."""


class Bodies:
    """The functions a graph can call, each prepared when it is first called.

    Args:
        functions: the library.
        prepare: what runs a function once its attributes are filled in.

    Attributes:
        state: what outlives a run, the same for all of them: that of the innermost `sharing`, or a new one.
    """

    def __init__(self, functions: Mapping[str, Function], prepare: Callable[[Function], Runner]) -> None:
        self.functions = functions
        self.state = _SHARED.get() or State()
        self._prepare = prepare
        self._runners: dict[Hashable, Runner] = {}
        self._depth = 0

    def body(self, function: Attr | None) -> Runner:
        """A runner that calls a function; it is decoded and prepared at the first call.

        Raises:
            GraphError: there is no such function.
        """
        if not isinstance(function, FunctionAttr):
            raise GraphError("it does not say which function to call", hint="the file is damaged")
        name, key = function.name, attr_key(function)
        if name not in self.functions:
            near = closest(name, self.functions)
            raise GraphError(
                f"there is no function '{name}'", hint=near or "the file has lost its function library"
            )

        def call(arguments: Sequence[Any]) -> Sequence[Any]:
            # Prepared at the first call: a function that calls itself would never be ready otherwise. The key
            # holds the attributes, as each choice of types is a function of its own.
            runner = self._runners.get(key)
            if runner is None:
                runner = self._runners[key] = self._prepared(function)
            if self._depth >= MAX_DEPTH:
                raise TooDeep(
                    f"{MAX_DEPTH} calls inside each other, the last to '{name}'",
                    hint="does a function call itself?",
                )
            self._depth += 1
            try:
                return runner(arguments)
            finally:
                self._depth -= 1

        return call

    def _prepared(self, function: FunctionAttr) -> Runner:
        definition = self.functions[function.name].instantiated(function.attrs)
        runner, count = self._prepare(definition), len(definition.inputs)

        def run(arguments: Sequence[Any]) -> Sequence[Any]:
            if len(arguments) != count:
                raise GraphError(
                    f"'{function.name}' takes {count} arguments, not {len(arguments)}",
                    hint="the file is damaged",
                )
            return runner(arguments)

        return run


def caller(node: Node, bodies: Bodies) -> Runner | None:
    """The runner of a node that calls functions; None for any other node.

    Raises:
        GraphError: a function it calls does not exist; placed at the node.
    """
    try:
        # TF1's library functions are called by nodes whose op is the function's name.
        if node.op in bodies.functions:
            run = bodies.body(FunctionAttr(node.op, node.attrs))
        else:
            rules = (rule for trait, rule in _RULES.items() if has(node.op, trait))
            rule = _for if node.op == "For" else next(rules, None)
            if rule is None:
                return None
            run = rule(node, bodies)
    except ThinflowError as error:
        raise error.at(node.where) from error

    def placed(inputs: Sequence[Any]) -> Sequence[Any]:
        try:
            return run(inputs)
        # Fifty places on the way would bury what it says.
        except TooDeep:
            raise
        except ThinflowError as error:
            raise error.at(node.where) from error

    return placed


def _plain_call(node: Node, bodies: Bodies) -> Runner:
    return bodies.body(node.attrs.get("f"))


def _if(node: Node, bodies: Bodies) -> Runner:
    then, otherwise = bodies.body(node.attrs.get("then_branch")), bodies.body(node.attrs.get("else_branch"))
    return lambda inputs: (then if is_true(inputs[0]) else otherwise)(inputs[1:])


def _case(node: Node, bodies: Bodies) -> Runner:
    listed = node.attrs.get("branches")
    branches = [bodies.body(f) for f in listed] if isinstance(listed, tuple) else []
    if not branches:
        raise GraphError("it has no branches", hint="the file is damaged")

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        index = int(inputs[0])
        # As in TensorFlow, an index out of range takes the last branch.
        return branches[index if 0 <= index < len(branches) else -1](inputs[1:])

    return run


def _while(node: Node, bodies: Bodies) -> Runner:
    condition, body = bodies.body(node.attrs.get("cond")), bodies.body(node.attrs.get("body"))

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        values = inputs
        limit = max_iterations(MAX_ITERATIONS)
        # Shapes and types may change from iteration to iteration, so nothing is taken over but the values.
        for _ in range(limit):
            if not is_true(condition(values)[0]):
                return values
            values = body(values)
        raise endless(limit)

    return run


def _for(node: Node, bodies: Bodies) -> Runner:
    """Runs `body` on a counter and what is carried, from start to limit by delta."""
    body = bodies.body(node.attrs.get("body"))

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        start, limit, delta = (int(x) for x in inputs[:3])
        if (limit - start) * delta < 0 or (delta == 0 and start != limit):
            raise GraphError(
                f"it counts from {start} to {limit} by {delta}", hint="the delta must lead to the limit"
            )
        # Known beforehand, unlike those of a While: an endless loop is refused before its first iteration.
        counts = range(start, limit, delta or 1)
        most = max_iterations(MAX_ITERATIONS)
        if len(counts) > most:
            raise endless(most)
        values = list(inputs[3:])
        for count in counts:
            values = list(body([np.array(count, np.int32), *values]))
        return values

    return run


def is_true(value: Any) -> bool:
    """True if TensorFlow takes it so: a scalar neither zero nor empty text, or any tensor with elements."""
    array = np.asarray(value)
    return bool(array[()]) if array.ndim == 0 else array.size > 0


_RULES: dict[Trait, Callable[[Node, Bodies], Runner]] = {
    Trait.CALL: _plain_call,
    Trait.IF: _if,
    Trait.CASE: _case,
    Trait.WHILE: _while,
}
