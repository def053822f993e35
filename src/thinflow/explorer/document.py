"""What is written into an explorer's page; `pages/explorer/schema.ts` holds the same types.

Columns and not objects, and every text once: graphs of thousands of nodes go into one page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

VERSION = 1


class NodeKind(IntEnum):
    """How a node is drawn."""

    OP = 0
    INPUT = 1
    OUTPUT = 2
    CONSTANT = 3
    VARIABLE = 4
    CALL = 5


class ScopeKind(IntEnum):
    """Where a scope comes from: names, structure, several of one structure in a row, or a function's body."""

    NAMED = 0
    BLOCK = 1
    REPEATED = 2
    FUNCTION = 3


class Texts:
    """Every text once; a text is told by its place."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def of(self, text: str) -> int:
        """The place of a text, new or known."""
        return self._places.setdefault(text, len(self._places))

    @property
    def strings(self) -> list[str]:
        return list(self._places)


@dataclass
class Nodes:
    """Columns; entry i of each belongs to node i. Texts are places in `Document.strings`."""

    name: list[int] = field(default_factory=list)
    op: list[int] = field(default_factory=list)
    scope: list[int] = field(default_factory=list)
    kind: list[NodeKind] = field(default_factory=list)
    attributes: list[list[int]] = field(default_factory=list)
    outputs: list[list[int]] = field(default_factory=list)
    quantization: dict[int, list[int]] = field(default_factory=dict)
    documentation: dict[int, str] = field(default_factory=dict)
    remarks: dict[int, list[int]] = field(default_factory=dict)
    bodies: dict[int, list[int]] = field(default_factory=dict)
    roles: dict[int, list[int]] = field(default_factory=dict)
    roles_of_node: dict[int, list[int]] = field(default_factory=dict)

    def set_roles(self, node: int, roles: Sequence[int]) -> None:
        """Note what the inputs of a node are for: by its op, unless another node of the op has others."""
        if self.roles.setdefault(self.op[node], list(roles)) != list(roles):
            self.roles_of_node[node] = list(roles)

    def roles_at(self, node: int) -> Sequence[int]:
        """What the inputs of a node are for; nothing where it is not known."""
        return self.roles_of_node.get(node, self.roles.get(self.op[node], ()))

    def data(self) -> dict[str, Any]:
        found = dict(vars(self))
        # Few graphs have any; an absent column costs no page a byte.
        for optional in ("quantization", "remarks", "bodies", "roles", "roles_of_node"):
            if not found[optional]:
                del found[optional]
        if "roles_of_node" in found:
            found["rolesOfNode"] = found.pop("roles_of_node")
        return found


@dataclass
class Scopes:
    """Columns; entry 0 is the root."""

    name: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    kind: list[ScopeKind] = field(default_factory=list)
    repeats: list[int] = field(default_factory=list)
    caption: list[int] = field(default_factory=list)

    def data(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass
class Edges:
    """Columns; port -1 is a control edge."""

    source: list[int] = field(default_factory=list)
    port: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    input: list[int] = field(default_factory=list)

    def add(self, source: int, port: int, target: int, place: int) -> None:
        self.source.append(source)
        self.port.append(port)
        self.target.append(target)
        self.input.append(place)

    def data(self) -> dict[str, Any]:
        return {"from": self.source, "port": self.port, "to": self.target, "input": self.input}


@dataclass(frozen=True)
class Picture:
    """Filters side by side.

    Attributes:
        width, height: pixels.
        channels: 1 for gray, 3 for colour.
        pixels: a byte a pixel and channel, row by row, in base64.
    """

    width: int
    height: int
    channels: int
    pixels: str


@dataclass(frozen=True)
class Statistics:
    """What the numbers of a constant look like.

    Attributes:
        minimum, maximum, mean: of the finite ones; None if there is none.
        zeros: share of exact zeros, 0..1.
        non_finite: how many are NaN or infinite.
        histogram: counts in equal bins from `minimum` to `maximum`.
        sampled: how many elements were looked at, where that is not all of them.
    """

    minimum: float | None
    maximum: float | None
    mean: float | None
    zeros: float
    non_finite: int
    histogram: tuple[int, ...] = ()
    sampled: int | None = None


@dataclass(frozen=True)
class Numbers:
    """All numbers of a constant.

    Attributes:
        type: as numpy spells it, little-endian: `<f4`.
        data: their bytes, row by row, in base64.
    """

    type: str
    data: str


@dataclass(frozen=True)
class Constant:
    """One constant of the graph; `node` is its place among the nodes."""

    node: int
    dtype: int
    shape: int
    size_bytes: int
    statistics: Statistics | None = None
    picture: Picture | None = None
    values: str = ""
    numbers: Numbers | None = None

    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "node": self.node,
            "dtype": self.dtype,
            "shape": self.shape,
            "bytes": self.size_bytes,
        }
        if (s := self.statistics) is not None:
            found |= {"zeros": s.zeros, "nonFinite": s.non_finite}
            ends = {"min": s.minimum, "max": s.maximum, "mean": s.mean, "sampled": s.sampled}
            found |= {name: value for name, value in ends.items() if value is not None}
            if s.histogram:
                found["histogram"] = list(s.histogram)
        if self.picture is not None:
            found["picture"] = vars(self.picture)
        if self.values:
            found["values"] = self.values
        if self.numbers is not None:
            found["numbers"] = vars(self.numbers)
        return found


@dataclass(frozen=True)
class Category:
    """A word that an overlay gives nodes; `tone` is "good", "neutral", "warn" or "bad"."""

    label: str
    tone: str = "neutral"


@dataclass(frozen=True)
class Overlay:
    """A number or a word for nodes, drawn as their colour.

    Attributes:
        id: "time", "flops", "bytes", "weights", "placement", "error", "range", "transforms".
        label: what the legend says.
        about: what the number is, where it comes from, how it was measured.
        values: by node: the amount, or an index into `categories`; None where nothing is known.
        unit: of amounts.
        worse: "high" or "low"; "" if neither.
        adds: whether amounts add up over a scope.
        categories: for words in place of amounts.
        reasons: by node, words of its own, as places in the strings.
    """

    id: str
    label: str
    about: str
    values: Sequence[float | None]
    unit: str = ""
    worse: str = ""
    adds: bool = False
    categories: Sequence[Category] = ()
    reasons: Mapping[int, int] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        kind = "category" if self.categories else "amount"
        found: dict[str, Any] = {"id": self.id, "label": self.label, "about": self.about, "kind": kind}
        found |= {name: text for name in ("unit", "worse") if (text := getattr(self, name))}
        found["values"] = list(self.values)
        if self.adds:
            found["adds"] = True
        if self.categories:
            found["categories"] = [vars(c) for c in self.categories]
        if self.reasons:
            found["reasons"] = dict(self.reasons)
        return found


@dataclass
class GraphView:
    """One graph: a tab, or a side of a comparison.

    Attributes:
        label: of its tab.
        facts: rows of the panel while nothing is selected.
        start: scopes that are open in the first picture.
        stored: constants, variables and what only hands one of them on; the page finds them by itself.
    """

    label: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    nodes: Nodes = field(default_factory=Nodes)
    scopes: Scopes = field(default_factory=Scopes)
    edges: Edges = field(default_factory=Edges)
    constants: list[Constant] = field(default_factory=list)
    overlays: list[Overlay] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    stored: frozenset[int] = frozenset()

    def data(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "facts": [list(fact) for fact in self.facts],
            "nodes": self.nodes.data(),
            "scopes": self.scopes.data(),
            "edges": self.edges.data(),
            "constants": [c.data() for c in self.constants],
            "overlays": [o.data() for o in self.overlays],
            "start": self.start,
        }


@dataclass
class Comparison:
    """Pairs of nodes of the first two graphs.

    Attributes:
        pairs: [node of the first, node of the second], flat.
        differs: for each pair 0, 1, or 2 if only the constants that it reads differ.
        differences: by place in `differs`: what differs, a line each, as places in the strings.
    """

    pairs: list[int] = field(default_factory=list)
    differs: list[int] = field(default_factory=list)
    differences: dict[int, list[int]] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass
class Document:
    """All of a page.

    Attributes:
        overlay: id of the one that colours the first picture; "" for none.
    """

    title: str
    texts: Texts = field(default_factory=Texts)
    graphs: list[GraphView] = field(default_factory=list)
    comparison: Comparison | None = None
    notes: list[str] = field(default_factory=list)
    overlay: str = ""

    def data(self) -> dict[str, Any]:
        """What JSON holds of it."""
        found: dict[str, Any] = {
            "version": VERSION,
            "title": self.title,
            "strings": self.texts.strings,
            "graphs": [g.data() for g in self.graphs],
            "notes": self.notes,
            "overlay": self.overlay,
        }
        if self.comparison is not None:
            found["comparison"] = self.comparison.data()
        return found
