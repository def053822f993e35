"""Patterns, written as the graph one wants to see.

    node("Mul", node("Conv2D|DepthwiseConv2dNative", any_value("x"), const("w"), name="conv"), const("s"),
    name="mul",
         commutative=True)

A pattern is tried at a node (its head) and follows inputs upwards. Pass-through ops (Identity...) between two
levels are
looked through. A failed try says how far it came and what stopped it, so that near misses can be told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thinflow.ir.graph import Node, Value

TRANSPARENT = frozenset({"Identity", "StopGradient", "PreventGradient", "Snapshot"})
"""Ops whose output is their input: patterns look through them."""


@dataclass(frozen=True)
class AnyValue:
    """Matches whatever is there and does not claim it."""

    name: str = ""


@dataclass(frozen=True)
class ConstValue:
    """Matches a constant, also behind pass-through ops."""

    name: str = ""


@dataclass(frozen=True)
class NodePattern:
    """Matches a node by op and, if inputs are given, by its data inputs; see `node`."""

    ops: frozenset[str]
    inputs: tuple[Pattern, ...] | None
    name: str
    commutative: bool
    where: Callable[[Node], str | None] | None


Pattern = AnyValue | ConstValue | NodePattern


def any_value(name: str = "") -> AnyValue:
    """Some input, bound under a name."""
    return AnyValue(name)


def const(name: str = "") -> ConstValue:
    """A constant input, bound under a name; `Match.array(name)` gives its numbers."""
    return ConstValue(name)


def node(
    ops: str,
    *inputs: Pattern,
    name: str = "",
    commutative: bool = False,
    where: Callable[[Node], str | None] | None = None,
) -> NodePattern:
    """A node of one of the ops ("A|B").

    Args:
        ops: op names separated by `|`.
        inputs: one pattern per data input, all of them; none at all matches any inputs.
        name: to bind the node under.
        commutative: two inputs may stand in either order.
        where: a further condition; returns why the node does not qualify, or None.
    """
    return NodePattern(frozenset(ops.split("|")), inputs or None, name, commutative, where)


@dataclass
class Match:
    """A pattern found in a graph.

    Bound names are attributes: nodes for `node`, values for `any_value` and `const`.
    """

    head: Node
    bound: dict[str, Any] = field(default_factory=dict)
    claimed: list[Node] = field(default_factory=list)
    """The nodes the match consists of, head first, with the pass-through ops in between."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["bound"][name]
        except KeyError:
            raise AttributeError(f"the pattern binds no '{name}'") from None

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """The numbers of a bound constant."""
        tensor = constant_node(self.bound[name])
        assert tensor is not None
        assert tensor.tensor is not None
        return tensor.tensor.numpy()


@dataclass(frozen=True)
class Miss:
    """Why a pattern does not match, and how many nodes of it did."""

    depth: int
    reason: str
    node: Node


def source_of(value: Value) -> Value:
    """The value behind any pass-through ops."""
    while value.node.op in TRANSPARENT and value.port == 0 and value.node.inputs:
        value = value.node.inputs[0]
    return value


def constant_node(value: Value) -> Node | None:
    """The Const node a value comes from, looking through pass-through ops."""
    node = source_of(value).node
    return node if node.tensor is not None else None


def match(pattern: NodePattern, head: Node) -> Match | Miss:
    """Try a pattern with its outermost node at `head`."""
    furthest = Miss(0, "", head)
    for result in _match_node(pattern, head, Match(head)):
        if isinstance(result, Match):
            return result
        if result.depth >= furthest.depth:
            furthest = result
    return furthest


def _match_node(pattern: NodePattern, candidate: Node, so_far: Match) -> Iterator[Match | Miss]:
    depth = len(so_far.claimed)
    if candidate.op not in pattern.ops:
        yield Miss(depth, f"{candidate.op} is not {' or '.join(sorted(pattern.ops))}", candidate)
        return
    objection = pattern.where(candidate) if pattern.where is not None else None
    if objection is not None:
        yield Miss(depth + 1, objection, candidate)
        return
    here = Match(so_far.head, dict(so_far.bound), [*so_far.claimed, candidate])
    if pattern.name:
        here.bound[pattern.name] = candidate
    if pattern.inputs is None:
        yield here
        return
    if len(candidate.inputs) != len(pattern.inputs):
        yield Miss(depth + 1, f"it has {len(candidate.inputs)} inputs, not {len(pattern.inputs)}", candidate)
        return
    yield from _match_inputs(pattern.inputs, candidate.inputs, here)
    if pattern.commutative and len(pattern.inputs) == 2:
        yield from _match_inputs(pattern.inputs[::-1], candidate.inputs, here)


def _match_inputs(
    patterns: tuple[Pattern, ...], values: tuple[Value, ...], so_far: Match
) -> Iterator[Match | Miss]:
    if not patterns:
        yield so_far
        return
    for result in _match_value(patterns[0], values[0], so_far):
        if isinstance(result, Miss):
            yield result
        else:
            yield from _match_inputs(patterns[1:], values[1:], result)


def _match_value(pattern: Pattern, value: Value, so_far: Match) -> Iterator[Match | Miss]:
    if isinstance(pattern, NodePattern):
        through = [] if value.node.op in pattern.ops else _pass_through(value)
        source = source_of(value) if through else value
        if source.port != 0:
            yield Miss(len(so_far.claimed), f"output {source.port} is read, not output 0", source.node)
            return
        yield from _match_node(
            pattern, source.node, Match(so_far.head, so_far.bound, [*so_far.claimed, *through])
        )
        return
    if isinstance(pattern, ConstValue) and constant_node(value) is None:
        yield Miss(len(so_far.claimed), f"{value.node.where} is not a constant", value.node)
        return
    known = so_far.bound.get(pattern.name) if pattern.name else None
    if known is not None and known is not value:
        yield Miss(
            len(so_far.claimed), f"'{pattern.name}' would be both {known.name} and {value.name}", value.node
        )
        return
    yield Match(
        so_far.head, {**so_far.bound, pattern.name: value} if pattern.name else so_far.bound, so_far.claimed
    )


def _pass_through(value: Value) -> list[Node]:
    nodes = []
    while value.node.op in TRANSPARENT and value.port == 0 and value.node.inputs:
        nodes.append(value.node)
        value = value.node.inputs[0]
    return nodes
