"""Loops, branches and calls of LiteRT: subgraphs become functions."""

from __future__ import annotations

from collections.abc import Callable

from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Value
from thinflow.ir.types import DType
from thinflow.lift.lifter import Call

Rule = Callable[[Call], Value | list[Value]]


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


def _while(c: Call) -> list[Value]:
    """WHILE: the condition may be a tensor of one element, which `lift` makes a scalar."""
    values = _arguments(c, 0)
    functions = {"cond": c.function("cond_subgraph_index"), "body": c.function("body_subgraph_index")}
    return _results(c, "StatelessWhile", values, {**functions, "T": _types(values)})


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


def _call(c: Call) -> list[Value]:
    values = _arguments(c, 0)
    attrs = {"f": c.function("subgraph"), "Tin": _types(values), "Tout": _output_types(c)}
    return _results(c, "PartitionedCall", values, attrs)


RULES: dict[str, Rule] = {"tfl.WHILE": _while, "tfl.IF": _if, "tfl.CALL": _call}
