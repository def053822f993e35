"""Comparisons as documents: of two graphs, and of a model and its conversion."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from thinflow.compare.diff.changes import Changes, WeightChange
from thinflow.compare.diff.crossing import Crossing, bytes_by_type, short_op
from thinflow.compare.diff.explain import KINDS, Explanation
from thinflow.compare.diff.weights import WeightPair
from thinflow.compare.differences import Layer as ComparedLayer
from thinflow.compare.verification import Verification
from thinflow.ir.graph import Graph, Node
from thinflow.pages.report import (
    Bar,
    Bars,
    Block,
    Cell,
    Column,
    Command,
    Commands,
    Fact,
    Facts,
    Layer,
    Layers,
    ReportDocument,
    Table,
    Text,
    Tone,
    notes,
    section,
    title_of,
)

_OPS, _WEIGHTS = 14, 14


class Compared(Protocol):
    """What a document is made of."""

    a: Graph
    b: Graph
    changes: Changes
    explanation: Explanation
    numbers: Verification | None
    note: str

    @property
    def verdict(self) -> str: ...

    @property
    def is_equal(self) -> bool: ...

    @property
    def is_same_network(self) -> bool: ...

    @property
    def only_in_a(self) -> list[Node]: ...

    @property
    def only_in_b(self) -> list[Node]: ...

    def data(self) -> dict[str, Any]: ...


def diff_document(
    found: Compared, titles: Mapping[str, str], next_steps: Sequence[str] = ()
) -> ReportDocument:
    """The document of a comparison.

    Args:
        titles: kind of change -> its heading.
        next_steps: commands to try.
    """
    changes, names = found.changes, names_of(found.a, found.b)
    kinds = [_changed(title, changes, kind) for kind, title in titles.items()]
    sections = [
        section("Result", Facts(list(_facts(found))), Text(found.note)),
        section("Outputs", *outputs_table(found.numbers)),
        section("Ops", _ops(found, names)),
        section("Accounted for", *_explained(found)),
        section("Not accounted for", *_alone(found, names)),
        section("Changed nodes", *kinds),
        section("Weights", *_weights(changes.weights)),
        section("Functions", notes(changes.functions)),
        section("Try next", Commands([Command(text) for text in next_steps])),
    ]
    tone: Tone = "good" if found.is_equal or found.is_same_network else "bad"
    return ReportDocument(f"{names[0]} and {names[1]}", found.verdict, sections, found.data(), tone)


def _facts(found: Compared) -> Iterator[Fact]:
    a, b, changes = len(found.a), len(found.b), found.changes
    yield Fact("nodes", f"{a} → {b}", f"{len(changes.match.pairs)} of them in both")
    explained = len(found.explanation.removed) + len(found.explanation.added)
    if explained:
        yield Fact("accounted for", str(explained), "nodes that known rewrites took out or put in")
    alone = len(found.only_in_a) + len(found.only_in_b)
    # No praise where the nodes of both are there but are not alike.
    tone: Tone = "bad" if alone else "good" if found.is_equal or found.is_same_network else ""
    yield Fact("in one graph only", str(alone), "nodes that nothing accounts for", tone)
    if found.numbers is not None:
        about = "relative difference of outputs, at most"
        yield Fact("outputs", f"{found.numbers.worst:.3g}", about, "good" if found.numbers.ok else "bad")


def names_of(a: Graph, b: Graph) -> list[str]:
    """How both are called: by their files, with the folders where the names are the same."""
    names = [title_of(graph.path, f"graph {n}") for n, graph in enumerate((a, b), 1)]
    if names[0] != names[1]:
        return names
    return [a.path, b.path] if a.path != b.path else [f"{names[0]} (first)", f"{names[0]} (second)"]


def outputs_table(numbers: Verification | None) -> Iterator[Block]:
    if numbers is None:
        return  # they were not run
    rows: list[list[Cell]] = [[o.name, f"{o.largest:.3g}", f"{o.relative:.3g}"] for o in numbers.outputs]
    columns = [
        Column("output", code=True),
        Column("largest difference"),
        Column("relative to the largest value"),
    ]
    yield Table(columns, rows)


def _ops(found: Compared, names: Sequence[str]) -> Bars:
    """The ops of both graphs, those whose number changed most first; constants are no ops."""
    counts = [Counter(n.op for n in graph if n.tensor is None) for graph in (found.a, found.b)]
    ops = sorted({*counts[0], *counts[1]}, key=lambda op: (-abs(counts[0][op] - counts[1][op]), op))
    shown = [op for op in ops if counts[0][op] != counts[1][op]][:_OPS]
    rows = [Bar(op, [float(count[op]) for count in counts]) for op in shown]
    rest = len(ops) - len(shown)
    note = f"{rest} more ops occur equally often." if rest else ""
    return Bars("Ops that occur more or less often", "", names, rows, note)


def _explained(found: Compared) -> Iterator[Block]:
    kinds = Counter(found.explanation.removed.values()) + Counter(found.explanation.added.values())
    rows = [Bar(KINDS[kind], [float(count)]) for kind, count in kinds.most_common()]
    yield Bars("Nodes by the rewrite that accounts for them", "", ["nodes"], rows)
    cells: list[list[Cell]] = [[n.name, n.op, KINDS[kind]] for n, kind in found.explanation.removed.items()]
    columns = [Column("node", code=True), Column("op", code=True), Column("what became of it")]
    yield Table(columns, cells, "Nodes that went", folded=True)


def _alone(found: Compared, names: Sequence[str]) -> Iterator[Block]:
    for nodes, name in ((found.only_in_a, names[0]), (found.only_in_b, names[1])):
        rows: list[list[Cell]] = [[n.name, n.op] for n in nodes]
        columns = [Column("node", code=True), Column("op", code=True)]
        yield Table(columns, rows, f"Only in {name}", folded=len(rows) > _OPS)


def _changed(title: str, changes: Changes, kind: str) -> Table:
    rows: list[list[Cell]] = [[c.a, "" if c.a == c.b else c.b, c.text] for c in changes.of(kind)]
    # Most keep their names: no column for what is the same.
    columns = [Column("node", code=True), Column("in the second", code=True), Column("change")]
    if not any(row[1] for row in rows):
        columns, rows = [columns[0], columns[2]], [[row[0], row[2]] for row in rows]
    return Table(columns, rows, title[:1].upper() + title[1:], folded=len(rows) > _OPS)


def _weights(weights: Sequence[WeightChange]) -> Iterator[Block]:
    """Constants of other content, what differs most first."""
    order = sorted(weights, key=lambda w: -(w.relative if w.relative is not None else 1e300))
    known = [w for w in order if w.relative is not None][:_WEIGHTS]
    rows = [Bar(w.a, [100 * (w.relative or 0.0)]) for w in known]
    note = "Of the largest weight of each constant."
    yield Bars("Largest difference", "%", ["difference"], rows, note)
    cells: list[list[Cell]] = [
        [
            w.a,
            w.before,
            w.after if w.after != w.before else "",
            w.largest,
            w.mean,
            "folded" if w.folded else "",
        ]
        for w in order
    ]
    titles = ("constant", "before", "after", "largest", "mean", "")
    yield Table([Column(t, code=t == "constant") for t in titles], cells, "All of them", folded=True)


_APART_DB = 20.0
"""A hundredth of the power is noise: what is below has other answers before long."""
_LOUDEST_DB = 150.0
"""No noise at all, as far as float32 can tell."""
_SHOWN = 20


class Crossed(Protocol):
    """What a document is made of."""

    a: Graph
    b: Graph
    crossing: Crossing
    weights: list[WeightPair]
    numbers: Verification | None
    note: str

    @property
    def verdict(self) -> str: ...

    @property
    def is_same_network(self) -> bool: ...

    @property
    def layers(self) -> list[ComparedLayer]: ...

    def data(self) -> dict[str, Any]: ...


def conversion_document(found: Crossed, next_steps: Sequence[str] = ()) -> ReportDocument:
    """The document of a comparison of two forms of a model; with commands to try."""
    names = names_of(found.a, found.b)
    said = [] if found.numbers is None else found.numbers.notes
    sections = [
        section("Result", Facts(list(_crossed_facts(found))), Text(found.note), notes(said)),
        section("Outputs", *outputs_table(found.numbers)),
        section("Layers", *_layers(found)),
        section("What became of the nodes", *_became(found.crossing, names)),
        section("Weights", *_crossed_weights(found, names)),
        section("Try next", Commands([Command(text) for text in next_steps])),
    ]
    tone: Tone = "good" if found.is_same_network else "warn"
    return ReportDocument(f"{names[0]} and {names[1]}", found.verdict, sections, found.data(), tone)


def _crossed_facts(found: Crossed) -> Iterator[Fact]:
    a, b = found.crossing.counts
    yield Fact("nodes that compute", f"{a} → {b}", f"{len(found.crossing.groups)} values are in both")
    sizes = [sum(size for _, size in bytes_by_type(g).values()) for g in (found.a, found.b)]
    yield Fact("weights", f"{sizes[0] / 1000:,.1f} → {sizes[1] / 1000:,.1f} kB", _times(sizes))
    if found.numbers is not None:
        about = "relative difference of outputs, at most"
        yield Fact("outputs", f"{found.numbers.worst:.3g}", about, "good" if found.numbers.ok else "warn")


def _times(sizes: Sequence[int]) -> str:
    if not sizes[0] or not sizes[1]:
        return ""
    ratio = sizes[0] / sizes[1]
    return f"{ratio:.1f}× smaller" if ratio >= 1 else f"{1 / ratio:.1f}× larger"


def _layers(found: Crossed) -> Iterator[Block]:
    """Inner tensors in running order: how much of each is noise."""
    rows = [Layer(x.name, x.op, None, round(_decibels(x.noise), 2)) for x in found.layers]
    below = [n for n, row in enumerate(rows) if row.after < _APART_DB]
    where, first = "No inner tensor falls below the dashed line.", None
    if below and found.numbers is not None and found.numbers.ok:
        # Such as random numbers of a dropout that is switched off.
        where = "Some inner tensors fall below the dashed line, and make no difference to the outputs."
    elif below:
        first = below[0]
        where = f"They part ways at {rows[first].label}."
    note = f"{where} {len(rows)} inner tensors that both models have were compared."
    yield Layers("Signal to noise layer by layer", "dB", _APART_DB, rows, first, note)


def _decibels(noise: float) -> float:
    """Of noise as a part of the signal's amplitude."""
    if not math.isfinite(noise):
        return 0.0
    return min(-20 * math.log10(noise), _LOUDEST_DB) if noise > 0 else _LOUDEST_DB


def _became(crossing: Crossing, names: Sequence[str]) -> Iterator[Block]:
    rows: list[list[Cell]] = [[x, y, float(count)] for (x, y), count in crossing.kinds]
    columns = [Column(names[0], code=True), Column(names[1], code=True), Column("how often")]
    yield Table(columns, rows, folded=len(rows) > _SHOWN)
    cells: list[list[Cell]] = [[_listed(g.a), _listed(g.b), g.value.name] for g in crossing.groups]
    heads = [Column(names[0], code=True), Column(names[1], code=True), Column("value", code=True)]
    yield Table(heads, cells, "Value by value", folded=True)
    for nodes, name in ((crossing.only_a, names[0]), (crossing.only_b, names[1])):
        alone: list[list[Cell]] = [[n.name, short_op(n.op)] for n in nodes]
        titles = [Column("node", code=True), Column("op", code=True)]
        yield Table(titles, alone, f"Only in {name}", folded=len(alone) > _SHOWN)


def _listed(nodes: Sequence[Node]) -> str:
    return ", ".join(f"{n.name} ({short_op(n.op)})" for n in nodes) or "nothing"


def _crossed_weights(found: Crossed, names: Sequence[str]) -> Iterator[Block]:
    types: list[Mapping[str, int]] = [
        {kind: size for kind, (_, size) in bytes_by_type(g).items()} for g in (found.a, found.b)
    ]
    kinds = list(dict.fromkeys(kind for sizes in types for kind in sizes))
    rows = [Bar(kind, [float(t[kind]) if kind in t else None for t in types]) for kind in kinds]
    yield Bars("Bytes of constants by type", "bytes", names, rows)
    order = sorted(found.weights, key=lambda w: -(w.relative if w.relative is not None else 1e300))
    cells: list[list[Cell]] = [[w.a, w.kind, w.before, w.after, w.largest, w.codes] for w in order]
    titles = ("constant", "what became of it", "before", "after", "largest difference", "in steps")
    yield Table([Column(t, code=t == "constant") for t in titles], cells, "All of them", folded=True)
