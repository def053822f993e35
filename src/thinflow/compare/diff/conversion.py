"""Report of `thinflow diff` on a model and its conversion, or on two conversions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinflow.analysis.precision import precision
from thinflow.compare.diff.crossing import Crossing, bytes_by_type, cross, ops_text, short_op
from thinflow.compare.diff.report_page import conversion_document
from thinflow.compare.diff.weights import WeightPair, pair_weights, worst_text
from thinflow.compare.differences import Layer, first_beyond, steepest
from thinflow.errors.plain_text import one_line
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Node, paused_gc
from thinflow.ir.notebook import text_html
from thinflow.ir.vocabulary import vocabulary_named
from thinflow.pages.report import ReportDocument
from thinflow.pages.shell import Paged, save_document
from thinflow.typing import FilePath

if TYPE_CHECKING:
    from thinflow.compare.verification import Verification

SHOWN = 10
"""Lines per kind of difference in the text."""


@brief_repr
@dataclass
class ConversionDiff(Paged):
    """Differences of two models of different vocabularies, or number formats.

    Attributes:
        a, b: the graphs.
        crossing: which nodes of `a` became which of `b`.
        weights: what became of the constants.
        numbers: the comparison of their outputs, with that of the inner tensors; None if they were not run.
        note: why they were not, if they could not be.
    """

    a: Graph
    b: Graph
    crossing: Crossing
    weights: list[WeightPair] = field(default_factory=list)
    numbers: Verification | None = None
    note: str = ""

    @property
    def is_equal(self) -> bool:
        """True if the outputs agree: all that two vocabularies can have in common."""
        return self.numbers is not None and self.numbers.ok

    @property
    def is_same_network(self) -> bool:
        """True if every computing node belongs to a value that both have, and the outputs do not disagree."""
        left = self.crossing.only_a or self.crossing.only_b
        return not left and (self.numbers is None or self.numbers.ok)

    @property
    def layers(self) -> list[Layer]:
        """The inner tensors that both have, in running order."""
        return self.numbers.layers if self.numbers is not None else []

    @property
    def verdict(self) -> str:
        """One line: what became what, what it costs in bytes, and whether the numbers are the same."""
        (x, y), (p, q) = self.crossing.counts, (_size(self.a), _size(self.b))
        head = (
            f"{x} {_language(self.a)} {_nodes(self.a, x)} became {y} {_language(self.b)} {_nodes(self.b, y)}"
        )
        return "; ".join([head, f"weights {p} -> {q}", self._outcome()])

    def _outcome(self) -> str:
        if self.numbers is None:
            return "outputs not compared"
        if self.numbers.ok:
            return f"outputs agree to {self.numbers.worst:.3g}"
        worst = max(self.numbers.outputs, key=lambda o: o.relative)
        text = f"outputs DIFFER by {worst.relative:.3g} in '{worst.name}'"
        kinds = self._precisions()
        known = [k for k in kinds if k]
        # The precisions are told only where they may explain the difference.
        return text if len(set(known)) < 2 and len(known) > 1 else f"{text} ({' and '.join(known)})"

    def _precisions(self) -> tuple[str, str]:
        return _precision(self.a), _precision(self.b)

    def document(self, next_steps: Sequence[str] = ()) -> ReportDocument:
        """What the page shows, block by block; with commands to try."""
        return conversion_document(self, next_steps)

    def save_html(self, path: FilePath, next_steps: Sequence[str] = ()) -> int:
        """Write the page, with commands to try; the bytes written.

        Raises:
            PagesUnavailable: the package was installed without the scripts of its pages.
            WriteError: it cannot be written.
        """
        return save_document(self.document(next_steps), path)

    def lines(self, *, everything: bool = False) -> list[str]:
        """The verdict, then every kind of difference; long lists are cut unless `everything`."""
        limit = 1 << 60 if everything else SHOWN
        lines = [self.verdict, *(self._about(g) for g in (self.a, self.b))]
        if self.numbers is not None:
            lines += self.numbers.notes
            lines += _section("outputs", [str(o) for o in self.numbers.outputs], limit)
            lines += self._layer_lines(limit)
        lines += self._became(everything, limit)
        for title, nodes in (("first", self.crossing.only_a), ("second", self.crossing.only_b)):
            rows = [f"{n.name} ({short_op(n.op)})" for n in nodes]
            lines += _section(f"only in the {title}, in no value that both have", rows, limit)
        lines += self._weight_lines(limit)
        return [*lines, self.note] if self.note else lines

    def _about(self, graph: Graph) -> str:
        name = Path(graph.path).name or "a graph"
        types = bytes_by_type(graph)
        listed = [f"{_bytes(size)} of {kind}" for kind, (_, size) in list(types.items())[:3]]
        about = ", ".join(filter(None, (_language(graph), _precision(graph))))
        return f"{name}: {about}; constants: {', '.join(listed) or 'none'}"

    def _became(self, everything: bool, limit: int) -> list[str]:
        groups = self.crossing.groups
        if everything:
            rows = [f"{_names(g.a)} -> {_names(g.b)}" for g in groups]
            return _section("became, value by value", rows, limit)
        rows = [f"{n} x {x} -> {y}" for (x, y), n in self.crossing.kinds]
        return _section("became", rows, limit)

    def _layer_lines(self, limit: int) -> list[str]:
        assert self.numbers is not None
        layers = self.layers
        if not layers:
            return [] if self.numbers.ok else ["no inner tensor could be compared"]
        found = first_beyond(layers, self.numbers.tolerance)
        head = f"inner tensors compared: {len(layers)}"
        if found is None:
            worst = max(layers, key=lambda x: x.difference.relative)
            lines = [f"{head}, all alike; the furthest apart: {worst}"]
        else:
            lines = [f"{head}; the first beyond {self.numbers.tolerance:g}: {found}"]
        if reordered := [x.name for x in layers if x.reordered]:
            more = f" and {len(reordered) - 1} more" if reordered[1:] else ""
            lines.append(f"elements in another order, by which what follows goes: {reordered[0]}{more}")
        if (step := steepest(layers)) is not None:
            x, y = step
            lines.append(f"noise grows most at {y.name}: from {x.noise:.2g} to {y.noise:.2g}")
        if found is not None:
            shown = layers if limit > len(layers) else _worst(layers, limit)
            rows = [str(x) for x in shown]
            lines += _section("inner tensors, in running order", rows, limit, len(layers) - len(shown))
        return lines

    def _weight_lines(self, limit: int) -> list[str]:
        if limit > len(self.weights):
            return _section("weights", [str(w) for w in self.weights], limit)
        kinds: dict[str, list[WeightPair]] = {}
        for pair in self.weights:
            kinds.setdefault(pair.kind, []).append(pair)
        rows = [f"{len(pairs)} x {kind}{worst_text(pairs)}" for kind, pairs in kinds.items()]
        return _section("weights", rows, limit)

    def data(self) -> dict[str, Any]:
        """The same for machines."""
        numbers = self.numbers
        found = first_beyond(self.layers, numbers.tolerance) if numbers is not None else None
        return {
            "verdict": self.verdict,
            "equal": self.is_equal,
            "same_network": self.is_same_network,
            "vocabularies": [_language(self.a), _language(self.b)],
            "precisions": list(self._precisions()),
            "nodes": list(self.crossing.counts),
            "became": [
                {"a": [_node(n) for n in g.a], "b": [_node(n) for n in g.b], "value": g.value.name}
                for g in self.crossing.groups
            ],
            "only_in_a": [_node(n) for n in self.crossing.only_a],
            "only_in_b": [_node(n) for n in self.crossing.only_b],
            "constant_bytes": [
                {kind: size for kind, (_, size) in bytes_by_type(g).items()} for g in (self.a, self.b)
            ],
            "weights": [w.data() for w in self.weights],
            "outputs": None if numbers is None else [
                {"name": o.name, "largest": o.largest, "relative": o.relative} for o in numbers.outputs
            ],
            "pairing": [] if numbers is None else numbers.notes,
            "layers": [x.data() for x in self.layers],
            "first_divergence": None if found is None else found.data(),
            "note": self.note,
        }  # fmt: skip

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def __str__(self) -> str:
        return "\n".join(map(one_line, self.lines()))


def compare_models(a: Graph, b: Graph) -> ConversionDiff:
    """Differences of two models of which one at least is no TensorFlow graph, without running them."""
    with paused_gc():
        crossing = cross(a, b)
        weights = [w for group in crossing.groups for w in pair_weights(group)]
    return ConversionDiff(a, b, crossing, weights)


def _worst(layers: Sequence[Layer], count: int) -> list[Layer]:
    """Those that differ most, in running order."""
    chosen = sorted(layers, key=lambda x: -x.difference.relative)[:count]
    # By identity: layers hold numbers that may be NaN, which equals nothing.
    kept = {id(x) for x in chosen}
    return [x for x in layers if id(x) in kept]


def _precision(graph: Graph) -> str:
    return precision(graph) if graph.vocabulary else ""


def _language(graph: Graph) -> str:
    vocabulary = vocabulary_named(graph.vocabulary)
    return "TensorFlow" if vocabulary is None else vocabulary.label


def _nodes(graph: Graph, count: int) -> str:
    word = "operator" if graph.vocabulary else "node"
    return word if count == 1 else f"{word}s"


def _node(node: Node) -> dict[str, str]:
    return {"name": node.name, "op": short_op(node.op)}


def _names(nodes: Sequence[Node]) -> str:
    if not nodes:
        return "nothing"
    return f"{nodes[-1].name} ({ops_text(nodes)})"


def _size(graph: Graph) -> str:
    return _bytes(sum(size for _, size in bytes_by_type(graph).values()))


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        # What would be rounded to 1000 in three digits belongs to the next unit.
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def _section(title: str, rows: Sequence[str], limit: int, hidden: int = 0) -> list[str]:
    if not rows:
        return []
    more = max(len(rows) - limit, 0) + hidden
    tail = [f"  and {more} more (--all)"] if more else []
    return [f"{title} ({len(rows) + hidden}):", *(f"  {row}" for row in rows[:limit]), *tail]
