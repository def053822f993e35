"""LiteRT's loops, branches and calls, whose subgraphs become functions, and its resource variables.

Variables outlive a run, by name; a subgraph that runs once fills them. Operators run in the order of the file
there. In a graph the order is kept by control edges: a read waits for the last write before it, a write for
the reads before it, and the outputs for every write.
"""

from __future__ import annotations

from typing import Any

from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import DType
from thinflow.lift.lifter import Call
from thinflow.lift.rules import lifts


def _arguments(c: Call, start: int) -> list[Value]:
    return [c[i] for i in range(start, len(c.xs))]


def _results(c: Call, op: str, inputs: list[Value], attrs: dict[str, Attr]) -> list[Value]:
    """The outputs of a node that calls functions, one per output of the op in the file."""
    node = c.many(op, *inputs, **attrs)
    # `outputs` are the ports that somebody reads; the op has its first in any case.
    return [node.output(i) for i in range(max(len(c.node.outputs), 1))]


def _types(values: list[Value]) -> tuple[DType, ...]:
    types = tuple(v.dtype for v in values)
    if None in types:
        raise UnsupportedOp("the type of an operand is not known")
    return tuple(t for t in types if t is not None)


def _output_types(c: Call) -> tuple[DType, ...]:
    return _types([c.node.output(i) for i in range(max(len(c.node.outputs), 1))])


@lifts("tfl.WHILE", "tfl.STABLEHLO_WHILE")
def _while(c: Call) -> list[Value]:
    """WHILE: the condition may be a tensor of one element, which `lift` makes a scalar."""
    values = _arguments(c, 0)
    functions = {"cond": c.function("cond_subgraph_index"), "body": c.function("body_subgraph_index")}
    return _results(c, "StatelessWhile", values, {**functions, "T": _types(values)})


@lifts("tfl.IF")
def _if(c: Call) -> list[Value]:
    """IF: the condition is a tensor of one element."""
    functions = {
        "then_branch": c.function("then_subgraph_index"),
        "else_branch": c.function("else_subgraph_index"),
    }
    # TensorFlow takes a tensor that is no scalar for true if it has elements, whatever they are.
    condition = c.emit("Reshape", c[0], c.constant(()))
    values = _arguments(c, 1)
    attrs = {**functions, "Tin": _types(values), "Tout": _output_types(c), "Tcond": c[0].dtype}
    return _results(c, "StatelessIf", [condition, *values], {k: v for k, v in attrs.items() if v is not None})


def called(c: Call, option: str) -> list[Value]:
    """What the subgraph behind an option makes of all operands."""
    values = _arguments(c, 0)
    attrs = {"f": c.function(option), "Tin": _types(values), "Tout": _output_types(c)}
    return _results(c, "PartitionedCall", values, attrs)


@lifts("tfl.STABLEHLO_CASE")
def _case(c: Call) -> list[Value]:
    """STABLEHLO_CASE: the last branch where the index is none of them, as TensorFlow's Case."""
    values = _arguments(c, 1)
    index = c.emit("Reshape", c[0], c.constant(()))
    attrs: dict[str, Attr] = {"branches": c.functions("branch_subgraph_indices")}
    attrs |= {"Tin": _types(values), "Tout": _output_types(c)}
    return _results(c, "StatelessCase", [index, *values], attrs)


lifts("tfl.CALL")(lambda c: called(c, "subgraph"))


# --- variables ----------------------------------------------------------------------------------------------

_HANDLE, _ASSIGN = "tfl.VAR_HANDLE", "tfl.ASSIGN_VARIABLE"


@lifts("tfl.VAR_HANDLE")
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


@lifts("tfl.READ_VARIABLE")
def read(c: Call) -> Value:
    """READ_VARIABLE: what the variable holds by now."""
    return c.variable_read(c[0])


@lifts("tfl.ASSIGN_VARIABLE")
def assign(c: Call) -> list[Value]:
    """ASSIGN_VARIABLE: the variable holds the second operand from now on. No results."""
    c.variable_written(c[0], c[1])
    return []


@lifts("tfl.CALL_ONCE")
def call_once(c: Call) -> list[Value]:
    """CALL_ONCE: what it does is in the handles; nothing is left to do, if it does nothing else."""
    # It may do no more than put constants into variables: only that is carried over, as their first values.
    inner = c.body("init_subgraph_index").graph
    filling = (_HANDLE, _ASSIGN, "Const", "tfl.HASHTABLE", "tfl.HASHTABLE_IMPORT")
    other = next((n for n in inner if n.op not in filling), None)
    if other is not None:
        raise UnsupportedOp(f"the subgraph that runs once has more to do than to fill variables: {other.op}")
    return []


def _first_values(c: Call) -> dict[str, Tensor]:
    """Variable -> the constant that a subgraph which runs once puts into it."""
    first_values: dict[str, Tensor] = {}
    for graph in c.started_by():
        for node in graph:
            if node.op == _ASSIGN and (tensor := node.inputs[1].node.tensor) is not None:
                first_values[_named_by(node)] = tensor
    return first_values


def _named_by(node: Node) -> str:
    source = node.inputs[0].node
    return _name(source.get("container"), source.get("shared_name"))


def _name(container: Any, shared: Any) -> str:
    parts = (
        x.decode("utf-8", "replace") if isinstance(x, bytes) else str(x or "") for x in (container, shared)
    )
    return "/".join(filter(None, parts))
