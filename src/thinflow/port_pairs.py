"""Which input or output of one model is which of another, when both may call it differently.

First by name, also by the names that signatures give and by names without the scopes in front; then, for what
is left, by type and shape where only one fits; then by position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from thinflow.errors import GraphError
from thinflow.ir.types import Shape, TensorSpec


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


@dataclass
class PortPairs:
    """Pairs of names, `a` -> `b`, and in words how those were found that have no name in common."""

    names: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def pair_ports(a: Ports, b: Ports, role: str) -> PortPairs:
    """Pairs of ports of two models; names of `a` without ":0".

    Args:
        a, b: ports with their names.
        role: "input" or "output".

    Raises:
        GraphError: no output can be paired, or an input of `b` that nothing in `a` fits.
    """
    found = PortPairs()
    _by_key(found, a, b, _all_names)
    _by_key(found, a, b, _last_names)
    by_name = set(found.names)
    alike = _by_form(found, a, b)
    if len(_left(a, found.names)) == len(_left(b, found.names.values())):
        for x, y in zip(_left(a, found.names), _left(b, found.names.values()), strict=True):
            found.names[plain(x)] = y
    _require(found, a, b, role)
    guessed = [n for n in found.names if n not in by_name]
    if guessed:
        pairs = ", ".join(f"{n} with {found.names[n]}" for n in guessed)
        how = "by type and shape" if alike >= set(guessed) and len(guessed) > 1 else "by position"
        found.notes = [f"{role}s are paired {how}, as no names are shared: {pairs}"]
    return found


def plain(name: str) -> str:
    """A name without ":0"."""
    return name.removesuffix(":0")


def _by_key(found: PortPairs, a: Ports, b: Ports, keys: Callable[[Ports, str], Iterable[str]]) -> None:
    """Add pairs that share a key which no third port has."""
    there: dict[str, set[str]] = {}
    for name in _left(b, found.names.values()):
        for key in keys(b, name):
            there.setdefault(key, set()).add(name)
    claims: dict[str, list[str]] = {}
    for name in _left(a, found.names):
        twins = next((there[k] for k in keys(a, name) if len(there.get(k, ())) == 1), set())
        for twin in twins:
            claims.setdefault(twin, []).append(name)
    for twin, names in claims.items():
        exact = [n for n in names if plain(n) == plain(twin)]
        if len(exact or names) == 1:
            found.names[plain((exact or names)[0])] = twin


def _all_names(ports: Ports, name: str) -> list[str]:
    return ports.spellings(name)


def _last_names(ports: Ports, name: str) -> list[str]:
    """`scope/x` and `serving_default_x` as `x`: what tools put in front of names falls away."""
    return [s.rpartition("/")[2].removeprefix("serving_default_") for s in ports.spellings(name)]


def _by_form(found: PortPairs, a: Ports, b: Ports) -> set[str]:
    """Add pairs of the only two ports, of those left, that have some type and shape; their names in `a`."""
    left, right = _left(a, found.names), _left(b, found.names.values())
    fits = {x: [y for y in right if _may_be(a.specs[x], b.specs[y])] for x in left}
    added: set[str] = set()
    for x, twins in fits.items():
        if len(twins) == 1 and sum(twins[0] in other for other in fits.values()) == 1:
            found.names[plain(x)] = twins[0]
            added.add(plain(x))
    return added


def _left(ports: Ports, taken: Iterable[str]) -> list[str]:
    gone = {plain(t) for t in taken}
    return [n for n in ports.specs if plain(n) not in gone]


def _require(found: PortPairs, a: Ports, b: Ports, role: str) -> None:
    missing = _left(b, found.names.values())
    if (role == "input" and missing) or (not found.names and (a.specs or b.specs)):
        raise GraphError(
            f"the {role}s cannot be paired: {_listed(a.specs)} beside {_listed(b.specs)}",
            hint=f"name those of the first model: --{role}s NAMES",
        )


def _listed(specs: Mapping[str, TensorSpec]) -> str:
    return ", ".join(f"{n} {s}" if s.dtype is not None else n for n, s in specs.items()) or "none"


def _may_be(a: TensorSpec, b: TensorSpec) -> bool:
    """Whether shapes fit, and types as far as a quantized form of the same numbers goes."""
    kinds = {a.dtype.kind, b.dtype.kind} if a.dtype is not None and b.dtype is not None else set()
    return ("O" not in kinds or len(kinds) == 1) and (
        shapes_fit(a.shape, b.shape) or is_channels_first(a.shape, b.shape)
    )


def shapes_fit(a: Shape, b: Shape) -> bool:
    """Whether both may be one shape; an unknown size fits any."""
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(m is None or n is None or m == n for m, n in zip(a, b, strict=True))


def is_channels_first(a: Shape, b: Shape) -> bool:
    """Whether `b` [n, c, ...] is `a` [n, ..., c] with the channels moved to the front, and no other form."""
    if a is None or b is None or len(a) != len(b) or len(a) < 3:
        return False
    return not shapes_fit(a, b) and shapes_fit(a, (b[0], *b[2:], b[1]))


def order_between(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...] | None:
    """How to transpose an array of shape `b` into shape `a`; None if no move of the channels does it.

    Both ways of the channels, first to last and last to first; equal shapes: as it is.
    """
    if tuple(a) == tuple(b):
        return tuple(range(len(a)))
    rank = len(a)
    if rank < 3 or rank != len(b):
        return None
    for order in ((0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))):
        if tuple(b[i] for i in order) == tuple(a):
            return order
    return None
