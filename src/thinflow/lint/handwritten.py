"""Activations that are written in several ops, recognised by what they compute and not by how it is spelled.

A part of the graph that reads one value, computes element by element, and gives one value is a function of
one number. It is run on a row of numbers, and compared with the functions that runtimes have an operator for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass

import numpy as np

from thinflow.errors import ThinflowError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import execution_order
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.pattern import constant_node
from thinflow.typing import Array

_COMPUTES = Trait.ELEMENTWISE | Trait.SELECT
_LEADS_IN = Trait.ENTER | Trait.SWITCH | Trait.IDENTITY
"""What brings a constant into a loop or a branch."""
_MOST = 16
"""Nodes of an activation; a tanh-GELU with everything spelled out has 12."""
_NUMBERS = np.concatenate([np.linspace(-8, 8, 129), np.linspace(-0.99, 0.99, 34)]).astype(np.float32)
_CLOSE = 2e-5
"""Absolute, for numbers of up to 8 in single precision. The two forms of GELU differ by 4e-4."""


def _gelu(x: Array) -> Array:
    y: Array = x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    return y


def _gelu_by_tanh(x: Array) -> Array:
    y: Array = x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return y


_KNOWN: dict[str, Callable[[Array], Array]] = {
    "ReLU": lambda x: np.maximum(x, 0),
    "ReLU6": lambda x: np.clip(x, 0, 6),
    "hard swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "GELU": _gelu,
    "GELU by tanh": _gelu_by_tanh,
    "ELU": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
"""Activations that LiteRT has one operator for, and ONNX mostly as well."""


@dataclass(frozen=True)
class Activation:
    """An activation in several nodes.

    Attributes:
        kind: such as "GELU".
        x: what it reads.
        nodes: what it consists of, the last first; Identities are left out.
    """

    kind: str
    x: Value
    nodes: tuple[Node, ...]


def handwritten_activations(graph: Graph, needed: Set[Node]) -> Iterator[Activation]:
    """The activations of single precision that are written in several ops, the last first."""
    order = execution_order(graph)
    place = {node: number for number, node in enumerate(order)}
    taken: set[Node] = set()
    # From the end: a hard swish holds a ReLU6, which is told with it and not besides.
    for node in reversed(order):
        if node in needed and node not in taken and _may_take(node):
            found = _ending_in(graph, node, place)
            if found is not None:
                taken.update(found.nodes)
                yield found


def _may_take(node: Node) -> bool:
    # A cast is there for what reads it, and no part of the function.
    return has(node.op, _COMPUTES | Trait.IDENTITY) and node.op != "Cast" and len(node.outputs) <= 1


def _ending_in(graph: Graph, head: Node, place: dict[Node, int]) -> Activation | None:
    """The smallest part that ends in a node, reads one value, and is an activation."""
    inside = {head: None}
    # An Identity behind the activation is none of it.
    if not has(head.op, _COMPUTES) or head.output().dtype is not FLOAT:
        return None
    while len(inside) <= _MOST:
        outer = dict.fromkeys(v for n in inside for v in n.inputs if v.node not in inside)
        fixed = {v: tensor.numpy() for v in outer if (tensor := _constant(v)) is not None}
        reads = [v for v in outer if v not in fixed]
        if len(reads) == 1:
            (x,) = reads
            nodes = tuple(n for n in inside if has(n.op, _COMPUTES))
            # A single op is written as one already, unless it is a maximum with zero.
            spelled = len(nodes) > 1 or has(head.op, Trait.EXTREME)
            kind = _kind(graph, x, head, fixed) if spelled and x.dtype is FLOAT else ""
            if kind:
                return Activation(kind, x, nodes)
        # What comes last in the order cannot be what others of the part are computed from.
        before = [v.node for v in reads if _may_grow(v, inside)]
        if not before:
            return None
        inside[max(before, key=place.__getitem__)] = None
    return None


def _constant(value: Value) -> Tensor | None:
    """The constant behind a value, also where it is brought into a loop or a branch."""
    while has(value.node.op, _LEADS_IN) and not value.is_graph_input:
        value = value.node.inputs[0]
    constant = constant_node(value)
    return None if constant is None else constant.tensor


def _may_grow(value: Value, inside: dict[Node, None]) -> bool:
    """True if what makes a value can be part of the activation: nobody else reads it."""
    return _may_take(value.node) and not value.node.is_protected and all(r in inside for r in value.readers)


def _kind(graph: Graph, x: Value, head: Node, fixed: dict[Value, Array]) -> str:
    """The activation that a part of the graph computes of `x`; "" if it is none that is known.

    Args:
        fixed: the constants that it reads.
    """
    channels = _channels(fixed.values())
    if channels is None:
        return ""
    # A row for each number: channels are last, and constants for each of them broadcast along the rows.
    numbers = np.repeat(_NUMBERS[:, None], channels, axis=1)
    rows = {v: a.reshape(a.size) if a.size > 1 else a.reshape(()) for v, a in fixed.items()}
    # Fed in place of the constants as well, which the frame of a loop or a Switch would stand before.
    try:
        (y,) = Plan(graph, [head.output()], [x, *rows]).run({x: numbers, **rows})
    # An op that does not run so, such as one that wants equal shapes.
    except (ThinflowError, ValueError):
        return ""
    if y.shape != numbers.shape:
        return ""
    exact = _NUMBERS.astype(np.float64)[:, None]
    for kind, function in _KNOWN.items():
        if np.abs(y - function(exact)).max() <= _CLOSE:
            return kind
    return _leaky(exact, y)


def _channels(constants: Iterable[Array]) -> int | None:
    """The elements of the longest constant, which are one for each channel; None if it is no row of them."""
    longest = 1
    for constant in constants:
        if constant.size > 1:
            is_row = constant.shape[-1] == constant.size and longest in (1, constant.size)
            if not is_row:
                return None
            longest = constant.size
    return longest


def _leaky(x: Array, y: Array) -> str:
    """Whether numbers below zero are multiplied, by one factor or by one for each channel."""
    # What -1 becomes tells the slope; the other numbers tell whether it is one.
    # The logarithm of what may be negative is no number there, and has no slope.
    if not np.isfinite(y).all():
        return ""
    slopes = -y[np.argmin(np.abs(x[:, 0] + 1))]
    if np.abs(y - np.where(x > 0, x, slopes * x)).max() > _CLOSE or not np.abs(slopes - 1).max() > _CLOSE:
        return ""
    return "leaky ReLU" if slopes.size == 1 and 0 < slopes[0] < 1 else "PReLU" if slopes.size > 1 else ""
