"""How often loops turn, where that is fixed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.errors import ThinflowError
from thinflow.interpreter.plan import Plan
from thinflow.ir.attrs import FunctionAttr
from thinflow.ir.function import Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.pattern import constant_tensor
from thinflow.typing import Array

_MOST = 10_000
"""Turns that are counted."""
_DIFFERS = Trait.STATEFUL | Trait.RANDOM | Trait.RESOURCE | Trait.VARIABLE
_LARGEST = 1024
"""Elements of a variable that counts turns; more are what the loop is about."""


def turns_of(graph: Graph, loop: Node) -> int | None:
    """How often a While turns; None if what it computes decides that, or more than ten thousand times.

    What the condition needs is run by itself, from the constants that it starts with.
    """
    condition, body = _function(graph, loop, "cond"), _function(graph, loop, "body")
    if condition is None or body is None:
        return None
    counting = _counting(condition, body)
    if counting is None:
        return None
    # What starts with something computed may turn as often as that says.
    state: list[Array] = []
    for number in counting:
        start = constant_tensor(loop.inputs[number])
        if start is None or np.prod(start.shape, dtype=int) > _LARGEST:
            return None
        state.append(start.numpy())
    try:
        return _counted(condition, body, counting, state)
    except ThinflowError:
        return None


def _function(graph: Graph, loop: Node, name: str) -> Function | None:
    called = loop.get(name)
    return graph.functions.get(called.name) if isinstance(called, FunctionAttr) else None


def _counting(condition: Function, body: Function) -> list[int] | None:
    """The variables that decide, and those that these are computed from; None if they differ each time."""
    wanted = _read(condition, condition.outputs[:1])
    known: dict[int, None] = {}
    # A limit that is counted up itself decides as well, and so on until nothing new is read.
    while wanted:
        number = wanted.pop()
        if number not in known:
            known[number] = None
            wanted += _read(body, [body.outputs[number]])
    decisive = [condition.outputs[0].node, *(body.outputs[n].node for n in known)]
    return None if any(has(n.op, _DIFFERS) for n in ancestors(decisive)) else sorted(known)


def _read(function: Function, values: Sequence[Value]) -> list[int]:
    """The arguments that values are computed from."""
    nodes = ancestors([v.node for v in values])
    return [number for number, argument in enumerate(function.inputs) if argument.node in nodes]


def _counted(condition: Function, body: Function, counting: Sequence[int], state: list[Array]) -> int | None:
    asks = Plan(condition.graph, condition.outputs[:1], [condition.inputs[n] for n in counting])
    follows = Plan(body.graph, [body.outputs[n] for n in counting], [body.inputs[n] for n in counting])
    # The variables of the next turn are computed from all of this one, so that they change together.
    for turn in range(_MOST + 1):
        (goes_on,) = asks.run(dict(zip(asks.inputs, state, strict=True)))
        if not goes_on.all():
            return turn
        state = follows.run(dict(zip(follows.inputs, state, strict=True)))
    return None
