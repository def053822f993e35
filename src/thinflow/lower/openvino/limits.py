"""Operators that OpenVINO takes and computes otherwise than they are defined.

Its CPU kernels hold doubles in 32 bits and integers of 64 in 32, divide and reduce integers as floats, let
integers of eight bits saturate, and give 0 for a row that is not there. A refusal would show; these do not.
Asked for a shape that the elements do not fill, they write where they should not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import runnable
from thinflow.lower.convert import Judge
from thinflow.onnx.operators import Trait, facts_of
from thinflow.onnx.operators import has as is_any
from thinflow.onnx.program import Operator
from thinflow.ops import traits

_PLAIN = frozenset({"float", "half", "bool", "int8", "uint8", "int16", "uint16", "int32", "int64"})
"""Types of which it holds every number, those of int64 within 32 bits."""
_SMALL = 1 << 24
"""Floats hold every integer up to it."""
_ROOTS = traits.Trait.SHAPE_OF | traits.Trait.ARG


def judge(graph: Graph, inputs: Iterable[Value]) -> Judge:
    """A function that says why operators are not for OpenVINO; "" if they are.

    Args:
        graph: the operators' origins are names of its nodes.
        inputs: values that will be fed.
    """
    counting = {n.name for n in _counting(graph, set(inputs))}

    def objection(operators: Iterable[Operator]) -> str:
        own = list(_with_bodies(operators))
        writers: dict[Any, Operator | None] = {t: o for o in own for t in o.outputs}
        # What goes round in a loop is mostly its own count.
        writers |= {t: None for o in own for body in o.bodies.values() for t in body.inputs}
        reasons = (_objection(o, o.origin in counting, writers) for o in own)
        return next(filter(None, reasons), "")

    return objection


def _with_bodies(operators: Iterable[Operator]) -> Iterator[Operator]:
    pending = list(operators)
    for operator in pending:  # grows on the way
        pending += [o for body in operator.bodies.values() for o in body.operators]
    yield from pending


def _objection(operator: Operator, counts: bool, writers: Mapping[Any, Operator | None]) -> str:
    """Why one operator is not for OpenVINO.

    Args:
        counts: whether its integers are known to be small.
        writers: tensor -> the operator of the same node that writes it, None for inputs of loops; others come
            from elsewhere.
    """
    code = operator.code
    for tensor in operator.touched():
        if tensor.dtype.name not in _PLAIN:
            return f"OpenVINO computes {tensor.dtype} in another type"
    # Sizes and places fit into a float and into 32 bits, and so does what is made of them.
    if counts:
        return ""
    if is_any(code, Trait.PLACED):
        at = operator.inputs[1]
        while (writer := writers.get(at)) is not None and _passes(writer.code):
            at = writer.inputs[0]
        # Places that the node itself works out are right.
        if at is not None and not at.is_constant and at not in writers:
            return f"OpenVINO does not check what is fed to operand 1 of {code}"
    # It gives the largest int32 for a float beyond it, where int64 has room.
    if code == "Cast" and operator.inputs[0] is not None:
        taken, given = operator.inputs[0].dtype, operator.outputs[0].dtype
        if taken.name in ("float", "half") and given.name == "int64":
            return "OpenVINO casts floats to 32 bits only"
        return ""
    if is_any(code, Trait.MOVES | Trait.GIVES_BOOL):
        return ""
    # Constants say axes, numbers of bits and the like.
    numbers = [t for t in operator.reads() if not t.is_constant and t.dtype.is_integer]
    found = {t.dtype.name for t in (*numbers, *operator.outputs) if t.dtype.is_integer}
    if not found or (found == {"int32"} and _wraps(code)):
        return ""
    # Numbers of floats, such as the largest; the places that come with them are small.
    if not numbers and found == {"int64"}:
        return ""
    return f"OpenVINO computes {code} of {', '.join(sorted(found))} in another type"


def _passes(code: str) -> bool:
    """True if the result holds the numbers that go in, though perhaps in another shape or type."""
    return code == "Cast" or code == "Identity" or is_any(code, Trait.RESHAPE)


def _wraps(code: str) -> bool:
    """True if OpenVINO computes in int32 as numpy does, numbers that are too large included."""
    facts = facts_of(code)
    return code.startswith("Bitwise") or (facts.exact is not None and facts.exact_for == "any")


def _counting(graph: Graph, fed: set[Value]) -> Iterator[Node]:
    """Nodes all of whose integers are sizes, places or small constants, or made of such. O(nodes)."""
    small: set[Value] = set()
    # In running order, so that what a node reads is settled; what goes round in a loop never is.
    for node in runnable(graph):
        if node.tensor is not None:
            if _is_small(node):
                small.add(node.output())
            continue
        numbers = [v for v in node.inputs if v.dtype is None or v.dtype.is_integer]
        counts = bool(numbers) and set(numbers) <= small
        # Integers made of floats may be any; those of a Slice of floats, from where to where, are small.
        if traits.has(node.op, _ROOTS) or (counts and len(numbers) == len(node.inputs)):
            small.update(v for v in node.outputs if v not in fed)
        if counts or traits.has(node.op, _ROOTS):
            yield node


def _is_small(node: Node) -> bool:
    import numpy as np

    tensor = node.tensor
    # Long lists are tables, not sizes; to look through them would read weights.
    if tensor is None or not tensor.dtype.is_integer or (tensor.size or 0) > _SMALL >> 12:
        return False
    array = tensor.numpy()
    return not array.size or bool(np.abs(array.astype(np.float64)).max() < _SMALL)
