"""Patterns, written as the graph one wants to see.

    node("Mul", node("Conv2D|DepthwiseConv2dNative", any_value("x"), const("w"), name="conv"), const("s"),
         name="mul", commutative=True)

A pattern is tried at a node (its head) and follows inputs upwards. Pass-through ops (Identity...) between
two levels are looked through, unless somebody feeds them. A failed try says how far it came and what stopped
it, so that near misses can be told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from thinflow.ir.graph import Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ops.traits import Trait, has, ops_with


@dataclass(frozen=True)
class AnyValue:
    """Matches whatever is there and does not claim it."""

    name: str = ""


@dataclass(frozen=True)
class ConstValue:
    """Matches a constant, also behind pass-through ops."""

    name: str = ""


@dataclass(frozen=True)
class OutputOf:
    """Matches one output of a node that is bound already, and nothing else."""

    name: str
    port: int


@dataclass(frozen=True)
class NodePattern:
    """Matches a node by op and, if inputs are given, by its data inputs; see `node`."""

    kind: frozenset[str] | Trait
    inputs: tuple[Pattern, ...] | None
    name: str
    commutative: bool
    boundary: bool
    where: Callable[[Node], str | None] | None
    port: int | None = 0
    through: frozenset[str] | None = None
    """Ops that may stand between the node and its reader; None: those that pass values on."""

    def accepts(self, op: str) -> bool:
        """Whether a node of that op may stand here."""
        if isinstance(self.kind, Trait):
            return has(op, self.kind)
        return op in self.kind or "*" in self.kind

    @property
    def ops(self) -> Set[str]:
        """The names of the ops that may stand here, `*` for any."""
        return ops_with(self.kind) if isinstance(self.kind, Trait) else self.kind


@dataclass(frozen=True)
class AnyOf:
    """Matches what one of several patterns does; the first that does counts."""

    patterns: tuple[NodePattern, ...]

    def accepts(self, op: str) -> bool:
        """Whether a node of that op may stand here."""
        return any(pattern.accepts(op) for pattern in self.patterns)


HeadPattern = NodePattern | AnyOf


@dataclass(frozen=True)
class OptionalInput:
    """The last input of a node, if it is there."""

    pattern: SingleInput


@dataclass(frozen=True)
class ManyInputs:
    """Any number of inputs, bound together as a tuple of values."""

    name: str


SingleInput = AnyValue | ConstValue | OutputOf | NodePattern | AnyOf
Pattern = SingleInput | OptionalInput | ManyInputs


def any_value(name: str = "") -> AnyValue:
    """Some input, bound under a name."""
    return AnyValue(name)


def const(name: str = "") -> ConstValue:
    """A constant input, bound under a name; `Match.array(name)` gives its numbers."""
    return ConstValue(name)


def output_of(name: str, port: int) -> OutputOf:
    """Output `port` of the node bound under a name by a pattern to the left or around."""
    return OutputOf(name, port)


def any_of(*patterns: NodePattern) -> AnyOf:
    """One of several patterns, tried in this order."""
    return AnyOf(patterns)


def optional(pattern: SingleInput) -> OptionalInput:
    """A last input that may be absent; its name is bound only if it is there."""
    return OptionalInput(pattern)


def many(name: str) -> ManyInputs:
    """As many inputs as the patterns around it leave, bound under a name as a tuple of values."""
    return ManyInputs(name)


def node(
    ops: str | Trait,
    *inputs: Pattern | str,
    name: str = "",
    commutative: bool = False,
    boundary: bool = False,
    where: Callable[[Node], str | None] | None = None,
    port: int | None = 0,
    no_inputs: bool = False,
    through: Iterable[str] | None = None,
) -> NodePattern:
    """A node of one of the ops ("A|B"), or with one of the traits.

    Args:
        ops: op names separated by `|`, `*` is any op; or traits.
        inputs: one pattern per data input, all of them; none at all matches any inputs. A string is short for
            a pattern without a name: `"*"` some input, `"Const"` a constant, else a node of that op.
        name: to bind the node under.
        commutative: two inputs may stand in either order.
        boundary: the node is looked at, but no part of the match: others may use it, and it stays for them.
        where: a further condition, asked once all inputs match; returns why the node does not qualify, or
            None.
        port: which output of it is read, None for any; the head of a pattern is always used at its output 0.
        no_inputs: it has no data inputs at all.
        through: ops that may stand between the node and its reader; by default those that pass values on.
    """
    listed = () if no_inputs else tuple(map(_spelled_out, inputs)) or None
    looked_through = None if through is None else frozenset(through)
    alternatives = ops if isinstance(ops, Trait) else frozenset(ops.split("|"))
    return NodePattern(alternatives, listed, name, commutative, boundary, where, port, looked_through)


def required(pattern: NodePattern) -> Iterator[Set[str]]:
    """The ops of each node that a match must have, the head's first."""
    yield pattern.ops
    for part in pattern.inputs or ():
        if isinstance(part, NodePattern):
            yield from required(part)


def _spelled_out(pattern: Pattern | str) -> Pattern:
    if not isinstance(pattern, str):
        return pattern
    if pattern == "*":
        return AnyValue()
    return ConstValue() if pattern == "Const" else node(pattern)


@dataclass
class Match:
    """A pattern found in a graph.

    Bound names are attributes: nodes for `node`, values for `any_value` and `const`, tuples of values for
    `many`.
    """

    head: Node
    bound: dict[str, Any] = field(default_factory=dict)
    claimed: list[Node] = field(default_factory=list)
    """The nodes the match consists of, head first, with the pass-through ops in between."""
    depth: int = 0
    """The number of nodes of the pattern matched so far."""

    def __getattr__(self, name: str) -> Any:
        # Through `__dict__`: before `bound` is set, as in a copy, `self.bound` would come back here for ever.
        try:
            return self.__dict__["bound"][name]
        except KeyError:
            raise AttributeError(f"the pattern binds no '{name}'") from None

    def get(self, name: str) -> Any:
        """The value bound under a name; None if there is none, because it was optional."""
        return self.bound.get(name)

    def bind(self, name: str, value: object) -> None:
        """Keep what a check found for the build under a name."""
        self.bound[name] = value

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """The numbers of a bound constant."""
        tensor = constant_tensor(self.bound[name])
        assert tensor is not None
        return tensor.numpy()


@dataclass(frozen=True)
class Miss:
    """The reason why a pattern does not match, and how many nodes of it did."""

    depth: int
    told: str | Callable[[], str]
    """The reason, or what gives it: few are asked for."""
    node: Node

    @property
    def reason(self) -> str:
        return self.told if isinstance(self.told, str) else self.told()


def source_of(value: Value) -> Value:
    """The value behind any pass-through ops."""
    while _passes_through(value):
        value = value.node.inputs[0]
    return value


def constant_node(value: Value) -> Node | None:
    """The Const node a value comes from, looking through pass-through ops; None if it may be fed."""
    source = source_of(value)
    return source.node if source.node.tensor is not None and not source.is_graph_input else None


def constant_tensor(value: Value) -> Tensor | None:
    """The constant behind a value; None if there is none, or it may be fed."""
    node = constant_node(value)
    return None if node is None else node.tensor


def match(pattern: HeadPattern, head: Node, facts: Mapping[str, object] | None = None) -> Match | Miss:
    """Try a pattern with its outermost node at `head`; `facts` are bound besides."""
    furthest = Miss(0, "", head)
    for alternative in pattern.patterns if isinstance(pattern, AnyOf) else (pattern,):
        # Facts are copied: a match binds more names, and a failed try must leave none of them behind.
        for result in _match_node(alternative, head, Match(head, dict(facts or {}))):
            if isinstance(result, Match):
                return result
            # Of several alternatives, the one that came furthest tells best what is missing.
            if result.depth > furthest.depth or not furthest.told:
                furthest = result
    return furthest


def _match_node(pattern: NodePattern, candidate: Node, so_far: Match) -> Iterator[Match | Miss]:
    if not pattern.accepts(candidate.op):
        yield Miss(so_far.depth, lambda: _other_op(pattern, candidate), candidate)
        return
    claimed = so_far.claimed if pattern.boundary else [*so_far.claimed, candidate]
    here = Match(so_far.head, dict(so_far.bound), claimed, so_far.depth + 1)
    if pattern.name:
        here.bound[pattern.name] = candidate
    for result in _match_all_inputs(pattern, candidate, here):
        # Once all inputs match, and for each way in which they do: a condition may suit only one of them.
        objection = pattern.where(candidate) if pattern.where and isinstance(result, Match) else None
        yield result if objection is None else Miss(result.depth, objection, candidate)


def _other_op(pattern: NodePattern, candidate: Node) -> str:
    return f"'{candidate.name}' is {candidate.op}, not {' or '.join(sorted(pattern.ops))}"


def _match_all_inputs(pattern: NodePattern, candidate: Node, here: Match) -> Iterator[Match | Miss]:
    if pattern.inputs is None:
        yield here
        return
    values = candidate.inputs
    places = _places(pattern.inputs, values)
    if places is None:
        count = sum(isinstance(p, SingleInput) for p in pattern.inputs)
        at_least = "at least " if count < len(pattern.inputs) else ""
        problem = f"'{candidate.name}' has {len(values)} inputs, not {at_least}{count}"
        yield Miss(here.depth, problem, candidate)
        return
    yield from _match_places(places, here)
    # Tried even after a match: an input further right may fit only with this order.
    if pattern.commutative and len(places) == 2:
        yield from _match_places(_places(pattern.inputs, values[::-1]) or (), here)


Place = tuple[SingleInput, Value] | tuple[ManyInputs, tuple[Value, ...]]


def _places(patterns: Sequence[Pattern], values: Sequence[Value]) -> tuple[Place, ...] | None:
    """Pairs of a pattern and the input it stands for; None if their numbers do not fit."""
    # Inputs beyond those that single patterns need; `many` takes them all, `optional` one.
    spare = len(values) - sum(isinstance(p, SingleInput) for p in patterns)
    if spare < 0:
        return None
    left = list(values)
    places: list[Place] = []
    for pattern in patterns:
        if isinstance(pattern, ManyInputs):
            places.append((pattern, tuple(left[:spare])))
            del left[:spare]
            # All spare inputs are taken: an optional one behind `many` stays empty.
            spare = 0
        elif isinstance(pattern, OptionalInput):
            if spare > 0:
                spare -= 1
                places.append((pattern.pattern, left.pop(0)))
        else:
            places.append((pattern, left.pop(0)))
    # Inputs are left for which there is no pattern.
    return tuple(places) if spare == 0 else None


def _match_places(places: Sequence[Place], so_far: Match) -> Iterator[Match | Miss]:
    if not places:
        yield so_far
        return
    for result in _match_place(places[0], so_far):
        if isinstance(result, Miss):
            yield result
        else:
            yield from _match_places(places[1:], result)


def _match_place(place: Place, so_far: Match) -> Iterator[Match | Miss]:
    pattern, value = place
    if isinstance(value, tuple):
        assert isinstance(pattern, ManyInputs)
        yield _bind(so_far, pattern.name, value)
    elif isinstance(pattern, AnyOf):
        for alternative in pattern.patterns:
            yield from _match_producer(alternative, value, so_far)
    elif isinstance(pattern, OutputOf):
        output = so_far.bound[pattern.name].output(pattern.port)
        reason = f"'{value.name}' is read where '{output.name}' should be"
        # A node has one object for each port, so identity is equality.
        yield so_far if value is output else Miss(so_far.depth, reason, value.node)
    elif isinstance(pattern, NodePattern):
        yield from _match_producer(pattern, value, so_far)
    elif isinstance(pattern, ConstValue) and constant_node(value) is None:
        yield Miss(so_far.depth, f"{value.node.where} is not a constant", value.node)
    # A name that occurs twice must stand for the same value both times.
    elif pattern.name and so_far.bound.get(pattern.name, value) is not value:
        other = so_far.bound[pattern.name].name
        yield Miss(so_far.depth, f"'{pattern.name}' would be both {other} and {value.name}", value.node)
    else:
        yield _bind(so_far, pattern.name, value)


def _match_producer(pattern: NodePattern, value: Value, so_far: Match) -> Iterator[Match | Miss]:
    """The node behind a value, which must be read at its output 0 and not be fed."""
    through = []
    # Pass-through ops are looked through unless the pattern asks for one of them.
    while _passes_through(value, pattern.through) and not pattern.accepts(value.node.op):
        through.append(value.node)
        value = value.node.inputs[0]
    fits = pattern.accepts(value.node.op)
    if fits and pattern.port not in {None, value.port}:
        reason = f"output {value.port} is read, not output {pattern.port}"
        # The op fits, which counts as a node matched: that is what makes it a near miss.
        yield Miss(so_far.depth + 1, reason, value.node)
    elif fits and value.is_graph_input:
        yield Miss(so_far.depth + 1, f"'{value.name}' is an input of the graph", value.node)
    else:
        claimed = so_far.claimed if pattern.boundary else [*so_far.claimed, *through]
        yield from _match_node(pattern, value.node, replace(so_far, claimed=claimed))


def _bind(so_far: Match, name: str, value: Value | tuple[Value, ...]) -> Match:
    return replace(so_far, bound={**so_far.bound, name: value}) if name else so_far


def _passes_through(value: Value, through: frozenset[str] | None = None) -> bool:
    node = value.node
    passes = has(node.op, Trait.IDENTITY) if through is None else node.op in through
    # One that is fed gives what the caller says, not what it reads.
    return passes and value.port == 0 and bool(node.inputs) and not value.is_graph_input
