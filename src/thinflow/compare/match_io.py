"""Matches of two models, and of their inputs and outputs, when both may call them differently.

First as the user says; then by name, also by the names that signatures give and by names without the scopes
in front; then, for what is left, by type and shape where only one fits; then by position, if types and
shapes allow it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from thinflow.errors import GraphError
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import Shape, TensorSpec

RAW = "/raw"
"""Ends the name of a tensor that has its channels elsewhere."""


@brief_repr
@dataclass
class Ports:
    """The inputs or the outputs of one model.

    Attributes:
        specs: name -> type and shape, in order.
        others: other names -> the name.
    """

    specs: Mapping[str, TensorSpec]
    others: Mapping[str, str] = field(default_factory=dict)

    def spellings(self, name: str) -> list[str]:
        """All names of a port, without ":0", its own first."""
        own = plain(name)
        return [own, *(plain(o) for o, n in self.others.items() if plain(n) == own)]


def match_ports(a: Ports, b: Ports, role: str, named: Mapping[str, str] | None = None) -> Match[str]:
    """The ports of `b` that match those of `a`, by name; names of `a` without ":0".

    Args:
        a, b: ports with their names.
        role: "input" or "output".
        named: pairs that are known, name in `a` -> name in `b`.

    Raises:
        GraphError: no output can be paired, or an input of `b` that nothing in `a` fits.
    """
    found = Match[str]()
    for name, twin in (named or {}).items():
        found.add(plain(_declared(a, name, role)), _declared(b, twin, role))
    # Whole names before their ends, and forms before positions: the surest evidence first.
    _by_key(found, a, b, _all_names)
    _by_key(found, a, b, _last_names)
    # What is paired from here on is a guess, and told as one.
    by_name = set(found.pairs)
    alike = _by_form(found, a, b)
    # Outputs may lose or gain axes in a conversion, such as [1,1,1,n] for [1,n]; an input
    # of another rank cannot be fed.
    _by_position(found, a, b, _may_stand_for if role == "output" else forms_fit)
    _require(found, a, b, role)
    guessed = [n for n in found.pairs if n not in by_name]
    if guessed:
        pairs = ", ".join(f"{n} with {found.pairs[n]}" for n in guessed)
        how = "by type and shape" if alike >= set(guessed) and len(guessed) > 1 else "by position"
        found.notes = [f"{role}s are paired {how}, as no names are shared: {pairs}"]
    return found


def plain(name: str) -> str:
    """A name without ":0"."""
    return name.removesuffix(":0")


def _by_key(found: Match[str], a: Ports, b: Ports, keys: Callable[[Ports, str], Iterable[str]]) -> None:
    """Add pairs that share a key which no third port has."""
    there: dict[str, set[str]] = {}
    for name in _left(b, found.reverse):
        for key in keys(b, name):
            there.setdefault(key, set()).add(name)
    claims: dict[str, list[str]] = {}
    for name in _left(a, found.pairs):
        # A key that several ports have tells nothing.
        twins = next((there[k] for k in keys(a, name) if len(there.get(k, ())) == 1), set())
        for twin in twins:
            claims.setdefault(twin, []).append(name)
    for twin, names in claims.items():
        # Several names may claim one port by an alias; that which is spelled the same has it.
        exact = [n for n in names if plain(n) == plain(twin)]
        if len(exact or names) == 1:
            found.add(plain((exact or names)[0]), twin)


def _all_names(ports: Ports, name: str) -> list[str]:
    return ports.spellings(name)


def _last_names(ports: Ports, name: str) -> list[str]:
    """`scope/x` and `serving_default_x` as `x`: what tools put in front of names falls away."""
    return [s.rpartition("/")[2].removeprefix("serving_default_") for s in ports.spellings(name)]


def _by_form(found: Match[str], a: Ports, b: Ports) -> set[str]:
    """Add pairs of the only two ports, of those left, that have some type and shape; their names in `a`."""
    left, right = _left(a, found.pairs), _left(b, found.reverse)
    fits = {x: [y for y in right if forms_fit(a.specs[x], b.specs[y])] for x in left}
    added: set[str] = set()
    for x, twins in fits.items():
        # One fits, and fits no other: both ways round.
        if len(twins) == 1 and sum(twins[0] in other for other in fits.values()) == 1:
            found.add(plain(x), twins[0])
            added.add(plain(x))
    return added


def _by_position(
    found: Match[str], a: Ports, b: Ports, fit: Callable[[TensorSpec, TensorSpec], bool]
) -> None:
    """Add what is left in order, if there are as many on both sides and each fits its twin."""
    left, right = _left(a, found.pairs), _left(b, found.reverse)
    pairs = list(zip(left, right, strict=False))
    if len(left) != len(right) or not all(fit(a.specs[x], b.specs[y]) for x, y in pairs):
        return
    for x, y in pairs:
        found.add(plain(x), y)
    # A single pair leaves no other choice: no order could be wrong.
    found.guessed = [plain(x) for x, _ in pairs] if len(pairs) > 1 else []


def _declared(ports: Ports, name: str, role: str) -> str:
    """The name of a port as its model spells it.

    Raises:
        GraphError: there is none.
    """
    for own in ports.specs:
        if plain(name) in ports.spellings(own):
            return own
    raise GraphError(f"there is no {role} '{name}'", hint=f"the {role}s are {', '.join(ports.specs)}")


def _left(ports: Ports, taken: Iterable[str]) -> list[str]:
    gone = {plain(t) for t in taken}
    return [n for n in ports.specs if plain(n) not in gone]


def _require(found: Match[str], a: Ports, b: Ports, role: str) -> None:
    missing = _left(b, found.reverse)
    # An input that nobody feeds stops a run; an output without a twin is only not compared.
    if (role == "input" and missing) or (not found.pairs and (a.specs or b.specs)):
        raise GraphError(
            f"the {role}s cannot be paired: {_listed(a.specs)} beside {_listed(b.specs)}",
            hint=f"say which is which: --{role}s A=B, for A of the first model and B of the second (inner "
            "values will do); `thinflow inspect MODEL` lists names",
        )


def _listed(specs: Mapping[str, TensorSpec]) -> str:
    return ", ".join(f"{n} {s}" if s.dtype is not None else n for n, s in specs.items()) or "none"


def forms_fit(a: TensorSpec, b: TensorSpec) -> bool:
    """True if shapes fit, and types as far as a quantized form of the same numbers goes."""
    either = is_channels_first(a.shape, b.shape) or is_channels_first(b.shape, a.shape)
    return _kinds_fit(a, b) and (shapes_fit(a.shape, b.shape) or either)


def _may_stand_for(a: TensorSpec, b: TensorSpec) -> bool:
    """As `forms_fit`, also for as many numbers in a shape of another rank."""
    if forms_fit(a, b):
        return True
    if a.shape is None or b.shape is None or len(a.shape) == len(b.shape) or not _kinds_fit(a, b):
        return False
    sizes = [math.prod(n for n in s if n is not None) for s in (a.shape, b.shape)]
    open_sizes = [s.count(None) for s in (a.shape, b.shape)]
    if open_sizes[0] == open_sizes[1]:
        return sizes[0] == sizes[1]
    # The side with more open sizes can only make up a whole multiple of what it knows.
    fewer, more = sizes if open_sizes[0] > open_sizes[1] else sizes[::-1]
    return fewer == 0 or more % fewer == 0


def _kinds_fit(a: TensorSpec, b: TensorSpec) -> bool:
    kinds = {a.dtype.kind, b.dtype.kind} if a.dtype is not None and b.dtype is not None else set()
    # Numbers of any kind may stand for each other, as floats and their quantized form do; text may not.
    return "O" not in kinds or len(kinds) == 1


def shapes_fit(a: Shape, b: Shape) -> bool:
    """True if both may be one shape; an unknown size fits any."""
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(m is None or n is None or m == n for m, n in zip(a, b, strict=True))


def is_channels_first(a: Shape, b: Shape) -> bool:
    """True if `b` [n, c, ...] is `a` [n, ..., c] with the channels moved to the front, and no other form."""
    if a is None or b is None or len(a) != len(b) or len(a) < 3:
        return False
    # Where both readings fit, such as [1,3,3,3], the plain one is taken.
    return not shapes_fit(a, b) and shapes_fit(a, (b[0], *b[2:], b[1]))


def order_between(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...] | None:
    """Order of axes that transposes shape `b` into shape `a`; None if no move of the channels does it.

    Both ways of the channels, first to last and last to first; equal shapes: as it is.
    """
    if tuple(a) == tuple(b):
        return tuple(range(len(a)))
    rank = len(a)
    if rank < 3 or rank != len(b):
        return None
    for order in ((0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))):
        # Channels to the end first: with equal sizes both orders would fit.
        if tuple(b[i] for i in order) == tuple(a):
            return order
    return None


def match_ends(
    a: Sequence[Value], b: Sequence[Value], nodes: Callable[[], Match[Node]], b_graph: Graph
) -> Match[str]:
    """Inputs or outputs of two graphs: by name, else by structure, else by position and form.

    Args:
        a, b: the values of the two graphs.
        nodes: the matching nodes, asked for only if no name is shared.
        b_graph: where names are looked up; a value of that name need not be declared.

    Returns:
        Names in the first -> names in the second, possibly none; with a note if they are not equal.
    """
    found = Match[str]()
    for v in a:
        if v.node.name in b_graph:
            found.add(v.name, b_graph.node(v.node.name).output(v.port).name)
    if found.pairs or not a:
        return found
    pairs = [(v, w) for v in a if (w := nodes().value(v)) in b and w is not None and _same_form(v, w)]
    if len(pairs) < len(a):
        by_position = list(zip(a, b, strict=False))
        pairs = by_position if len(a) == len(b) and all(_same_form(v, w) for v, w in by_position) else []
    for v, w in pairs:
        found.add(v.name, w.name)
    if pairs:
        listed = ", ".join(f"{v.name} with {w.name}" for v, w in pairs)
        found.notes = [f"no names are shared; paired: {listed}"]
    return found


def _same_form(v: Value, w: Value) -> bool:
    """True if both are known to have one type and shapes that fit."""
    a, b = v.spec, w.spec
    known = a.dtype is not None and a.shape is not None and b.shape is not None
    return known and a.dtype is b.dtype and shapes_fit(a.shape, b.shape)


T = TypeVar("T")


@brief_repr
@dataclass
class Match(Generic[T]):
    """Corresponding parts of two models, as `match_nodes`, `match_tensors` and `match_io` find them.

    Attributes:
        pairs: part of the first model -> part of the second.
        reverse: the same the other way round.
        equal: parts of the first that compute exactly what their match computes, where that is known.
        guessed: those of `pairs` that only their order speaks for: another of the same form is there.
        notes: how parts of different names were matched, for people.
    """

    pairs: dict[T, T] = field(default_factory=dict)
    reverse: dict[T, T] = field(default_factory=dict)
    equal: set[T] = field(default_factory=set)
    guessed: list[T] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, x: T, y: T) -> None:
        self.pairs[x] = y
        self.reverse[y] = x

    def is_open(self, x: T, y: T) -> bool:
        """True if neither has a match yet."""
        return x not in self.pairs and y not in self.reverse

    def value(self: Match[Node], value: Value) -> Value | None:
        """The match of an output of a node of the first graph; None if there is none."""
        node = self.pairs.get(value.node)
        return None if node is None else node.output(value.port)
