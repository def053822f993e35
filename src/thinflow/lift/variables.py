"""LiteRT's resource variables: what outlives a run, by name. A subgraph that runs once fills them.

Operators run in the order of the file there. In a graph the order is kept by control edges: a read waits for
the last write before it, a write for the reads before it, and the outputs for every write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.lift.lifter import Call

_HANDLE, _ASSIGN = "tfl.VAR_HANDLE", "tfl.ASSIGN_VARIABLE"


def handle(c: Call) -> Value:
    """VAR_HANDLE: the handle of a variable that holds what the start-up subgraph puts into it at first."""
    name = _name(c.get("container"), c.get("shared_name"))
    if c.scope:
        # Functions have no place in the chain of control edges that keeps the order of the file.
        raise UnsupportedOp("it is in a loop or branch, where the order of reads and writes is not known")
    start = _first_values(c).get(name)
    if start is None:
        raise UnsupportedOp("no constant is its variable's first value")
    first = c.constant(start.numpy())
    return c.emit("LiteRTVariable", first, dtype=start.dtype, shared_name=f"resource {name}")


def read(c: Call) -> Value:
    """READ_VARIABLE: what the variable holds by now."""
    return c.variable_read(c[0])


def assign(c: Call) -> list[Value]:
    """ASSIGN_VARIABLE: the variable holds the second operand from now on. No results."""
    c.variable_written(c[0], c[1])
    return []


def call_once(c: Call) -> list[Value]:
    """CALL_ONCE: what it does is in the handles; nothing is left to do, if it does nothing else."""
    # It may do no more than put constants into variables: only that is carried over, as their first values.
    inner = c.body("init_subgraph_index").graph
    other = next((n for n in inner if n.op not in (_HANDLE, _ASSIGN, "Const")), None)
    if other is not None:
        raise UnsupportedOp(f"the subgraph that runs once has more to do than to fill variables: {other.op}")
    return []


def _first_values(c: Call) -> dict[str, Tensor]:
    """Variable -> the constant that a subgraph which runs once puts into it."""
    found: dict[str, Tensor] = {}
    for graph in c.started_by():
        for node in graph:
            if node.op == _ASSIGN and (tensor := node.inputs[1].node.tensor) is not None:
                found[_named_by(node)] = tensor
    return found


def _named_by(node: Node) -> str:
    source = node.inputs[0].node
    return _name(source.get("container"), source.get("shared_name"))


def _name(container: Any, shared: Any) -> str:
    parts = (
        x.decode("utf-8", "replace") if isinstance(x, bytes) else str(x or "") for x in (container, shared)
    )
    return "/".join(filter(None, parts))


RULES: dict[str, Callable[[Call], Value | list[Value]]] = {
    "tfl.VAR_HANDLE": handle,
    "tfl.READ_VARIABLE": read,
    "tfl.ASSIGN_VARIABLE": assign,
    "tfl.CALL_ONCE": call_once,
}
