"""Matching inner tensors of two models, by the names that conversion keeps.

Converters name a tensor after the node it came from, or after all nodes that were fused into the operator
(`a;b;c`); they may put a scope in front, and thinflow's own marks one whose channels moved by `/raw`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thinflow.compare.match import Match
from thinflow.compare.match_io import RAW, Ports, match_ports, plain
from thinflow.errors import GraphError
from thinflow.formats._foreign import file_name
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors, execution_order

_MOST_SCOPES = 12


def match_tensors(first: Graph, second: Graph) -> Match[Value]:
    """Inner tensors and outputs that both have, in the running order of the first. O(nodes * scopes)."""
    order = {v: n for n, v in enumerate(_inner(first))}
    there = _Index(list(order))
    claimed = Match[Value]()
    others = list(_inner(second))
    # All exact names first: a name's end must not take what another tensor has by its whole name.
    for exact in (True, False):
        for value in others:
            twin = _twin(value, there, exact)
            if twin is not None and twin not in claimed.pairs and _may_be_alike(twin, value):
                claimed.add(twin, value)
    for twin, value in _outputs(first, second):
        if twin in order and claimed.is_open(twin, value) and _may_be_alike(twin, value):
            claimed.add(twin, value)
    # In running order, so that the first difference is the first to look at.
    claimed.pairs = {a: claimed.pairs[a] for a in sorted(claimed.pairs, key=order.__getitem__)}
    return claimed


def is_source(node: Node) -> bool:
    """True if a node is an input or a constant."""
    return node.tensor is not None or node.op.startswith("Placeholder")


def names_of(value: Value) -> list[str]:
    """The names that a file gives to a value, those of what was fused into it included; without ":0"."""
    own = [value.name.removesuffix(":0")]
    spelled = file_name(value)
    own += [name.strip().removesuffix(":0") for name in spelled.split(";")]
    plain = [n[: -len(RAW)] for n in own if n.endswith(RAW)]
    return list(dict.fromkeys(n for n in (*own, *plain) if n))


def _outputs(first: Graph, second: Graph) -> Iterator[tuple[Value, Value]]:
    """The declared outputs in pairs, as they are paired for running."""
    ends = [{v.name: v for v in g.outputs} for g in (first, second)]
    ports = [
        Ports({n: v.spec for n, v in known.items()}, g.aliases)
        for known, g in zip(ends, (first, second), strict=True)
    ]
    try:
        pairs = match_ports(ports[0], ports[1], "output").pairs
    except GraphError:
        return
    for name, twin in pairs.items():
        value = next((v for n, v in ends[0].items() if plain(n) == name), None)
        if value is not None:
            yield value, ends[1][twin]


class _Index:
    """Values of the first model by their names, and by the ends of those."""

    def __init__(self, values: Sequence[Value]) -> None:
        self.whole: dict[str, Value] = {}
        self.ends: dict[str, Value | None] = {}
        for value in values:
            for name in names_of(value):
                self.whole.setdefault(name, value)
                for end in _ends(name):
                    known = self.ends.setdefault(end, value)
                    if known is not value:
                        # Two values end alike: the end tells nothing, but must be remembered as such.
                        self.ends[end] = None

    def find(self, name: str, exact: bool) -> Value | None:
        """The value of that name; if not `exact`, the only one that ends alike."""
        if exact:
            return self.whole.get(name)
        return next((v for end in _ends(name) if (v := self.ends.get(end)) is not None), None)


def _ends(name: str) -> Iterator[str]:
    """A name, and what is left of it without its outer scopes, as long as that has a scope."""
    parts = name.split("/")
    for start in range(min(len(parts) - 1, _MOST_SCOPES)):
        yield "/".join(parts[start:])


def _twin(value: Value, there: _Index, exact: bool) -> Value | None:
    """The value of the first model that one of the second computes: the last of those fused into it."""
    named = [v for n in names_of(value) if (v := there.find(n, exact)) is not None]
    if not named:
        return None
    found = named[0]
    while True:
        # Of `conv;bias;relu` the operator computes the one that is computed from the others.
        later = [r.output() for r in found.readers if r.output() in named] if named[1:] else []
        if len(later) != 1 or later[0] is found:
            return found
        found = later[0]


def _inner(graph: Graph) -> Iterator[Value]:
    """Values that reach an output, but for inputs and constants, in running order."""
    needed = ancestors([v.node for v in graph.outputs])
    for node in execution_order(graph):
        if node in needed and not is_source(node):
            yield from node.outputs or (node.output(),)


def _may_be_alike(a: Value, b: Value) -> bool:
    """True if they hold as many numbers, as far as known: layouts may differ."""
    return None in (a.spec.size, b.spec.size) or a.spec.size == b.spec.size
