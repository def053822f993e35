"""Runners compute a node's outputs from its inputs: control flow, a call, a resource, or the op's kernel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from thinflow.interpreter.calls import Bodies, Runner, caller, is_true
from thinflow.interpreter.kernels import kernel_runner
from thinflow.interpreter.resources import resource_runner
from thinflow.interpreter.values import DEAD
from thinflow.ir.graph import Node
from thinflow.ir.order import MERGES
from thinflow.ops.traits import Trait, has, ops_with


def runner(node: Node, bodies: Bodies) -> Runner:
    """The runner of a node, which computes its outputs from its inputs.

    Raises:
        NodeError: nothing can; placed at the node.
    """
    if node.op in _control_flow():
        return _control_flow()[node.op]
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
    taken = int(index) if 0 <= int(index) < count else count - 1
    return [data if port == taken else DEAD for port in range(count)]


@cache
def _control_flow() -> dict[str, Runner]:
    passing = Trait.ENTER | Trait.EXIT | Trait.NEXT_ITERATION
    return {
        **dict.fromkeys(MERGES, _merge),
        **dict.fromkeys(("Switch", "RefSwitch"), _switch),
        **dict.fromkeys(ops_with(passing) | {"LoopCond"}, tuple),
    }
