"""What a survey found, as a table, as data, and as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from thinflow.errors.plain_text import one_line
from thinflow.ir.brief import brief_sentence
from thinflow.lint.words import count
from thinflow.pages.report import ReportDocument
from thinflow.pages.shell import Paged, Tabular
from thinflow.program.amounts import bytes_text
from thinflow.survey.entry import Entry, Kind
from thinflow.survey.page import survey_document
from thinflow.survey.ship import Shipped
from thinflow.survey.words import amount_text, by_cause, short_kind

_SHOWN = 40
_SHOWN_CAUSES = 8
_COUNTED: dict[Kind, tuple[str, str]] = {
    "model": ("model", ""),
    "weights": ("checkpoint without its graph", "checkpoints without their graph"),
    "unread": ("trained network of a kind that is not read", "trained networks of kinds that are not read"),
    "broken": ("broken file", ""),
    "failed": ("that the look failed on", "that the look failed on"),
}


@dataclass(repr=False)
class SurveyReport(Paged, Tabular):
    """What is in a collection.

    Attributes:
        sources: folders, files and URLs, as they were given.
        entries: everything found, models and others, in the order of their names; what is in an archive
            behind all else.
        seconds: that it took.
        shipped: what the main job made of each model; None if it was not asked for.
    """

    sources: Sequence[str]
    entries: Sequence[Entry]
    seconds: float = 0.0
    shipped: Sequence[Shipped] | None = None
    _document: ReportDocument | None = field(default=None, init=False)

    @property
    def models(self) -> list[Entry]:
        """Trained networks and parts of them, sound or not."""
        return [entry for entry in self.entries if entry.is_model]

    @property
    def verdict(self) -> str:
        """One sentence: `58 models in 108 things: 49 become .tflite, 3 are copies; 1 broken file`."""
        kinds = Counter(entry.kind for entry in self.entries)
        opened = [entry for entry in self.entries if entry.kind == "model"]
        tried = [name for name in (opened[0].converts if opened else {}) if any(e.converts for e in opened)]
        parts = [
            f"{sum(e.converts[name].works for e in opened if name in e.converts)} become .{name}"
            for name in tried
        ]
        if copies := sum(bool(e.same_as) for e in opened):
            parts.append(f"{copies} {'is a copy' if copies == 1 else 'are copies'}")
        told = f"{count(len(opened), 'model')} in {count(len(self.entries), 'thing')}"
        others = [
            count(kinds[kind], *words) for kind, words in _COUNTED.items() if kind != "model" and kinds[kind]
        ]
        return "; ".join([": ".join(filter(None, [told, ", ".join(parts)])), *others])

    def __repr__(self) -> str:
        return brief_sentence(self, self.verdict)

    def _repr_html_(self) -> str:
        from thinflow.ir.notebook import table_html

        rows = [_row(entry) for entry in self.models]
        return table_html(self.verdict, rows, _HEADERS)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "sources": list(self.sources),
            "verdict": self.verdict,
            "seconds": round(self.seconds, 2),
            "entries": [entry.data() for entry in self.entries],
            "shipped": None if self.shipped is None else [one.data() for one in self.shipped],
        }

    def document(self) -> ReportDocument:
        """What the page shows, block by block."""
        return survey_document(self.sources, self.entries, self.shipped, self.verdict, self.data())

    def rows(self) -> list[dict[str, Any]]:
        """A flat row for each unit."""
        targets = sorted({name for entry in self.entries for name in entry.converts})
        return [_flat(entry, targets) for entry in self.entries]

    def lines(self, *, everything: bool = False) -> list[str]:
        """The verdict, the models as a table, what is alike, what is broken, and what the linter finds most.

        Args:
            everything: whether all are named, not only the first.
        """
        return [*map(one_line, self._lines(everything))]

    @property
    def sound(self) -> list[Entry]:
        """The models that open, and variables without a graph."""
        return [entry for entry in self.entries if entry.kind in ("model", "weights")]

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Headers and rows of the models that open."""
        return _HEADERS, [_row(entry) for entry in self.entries if entry.kind == "model"]

    def _lines(self, everything: bool) -> Iterator[str]:
        most = len(self.entries) if everything else _SHOWN_CAUSES
        yield from _told("alike", _alike(self.entries), most)
        bad = [entry for entry in self.models if entry.kind != "model"]
        yield from _told("not models that open", [f"{e.name}: {e.problem}" for e in bad], most)
        for target in sorted({name for entry in self.entries for name in entry.converts}):
            refused = [e.converts[target].reason for e in self.entries if target in e.converts]
            yield from _told(f"why not .{target}", by_cause(filter(None, refused)), most)
        runs = [e.runs.reason for e in self.entries if e.runs is not None and not e.runs.works]
        yield from _told("why not run on made-up inputs", by_cause(runs), most)
        found = Counter(code for entry in self.entries for code in entry.warnings)
        if found:
            listed = ", ".join(f"{code} in {number}" for code, number in found.most_common(most))
            yield f"lint: {listed}"
        others = Counter(entry.what for entry in self.entries if not entry.is_model)
        if others:
            listed = ", ".join(f"{number} × {what}" for what, number in others.most_common(most))
            yield f"not models: {listed}"
        if self.shipped is not None:
            yield from _shipped_lines(self.shipped, most)


_HEADERS = ("model", "what", "size", "params", "MFLOP", "runs", "to", "lint")


def _row(entry: Entry) -> tuple[str, ...]:
    works = [name for name, outcome in entry.converts.items() if outcome.works]
    return (
        entry.name,
        short_kind(entry),
        bytes_text(entry.size_bytes),
        amount_text(entry.parameters),
        "?" if entry.flops is None else f"{entry.flops / 1e6:,.1f}",
        "" if entry.runs is None else "yes" if entry.runs.works else "no",
        ",".join(works) if works else "-",
        str(len(entry.warnings) or ""),
    )


def _told(title: str, lines: Sequence[str], most: int) -> Iterator[str]:
    if lines:
        yield f"{title}:"
        yield from (f"  {line}" for line in lines[:most])
    if len(lines) > most:
        yield f"  ... and {len(lines) - most} more (--all)"


def _alike(entries: Sequence[Entry]) -> list[str]:
    lines = [f"{e.name}: the same bytes as {e.same_as}" for e in entries if e.same_as]
    told: set[frozenset[str]] = set()
    for entry in entries:
        for other in entry.same_weights:
            if frozenset((entry.name, other)) not in told:
                told.add(frozenset((entry.name, other)))
                lines.append(f"{entry.name}: the same weights as {other}")
        for other, share in entry.like.items():
            if frozenset((entry.name, other)) not in told:
                told.add(frozenset((entry.name, other)))
                lines.append(f"{entry.name}: shares {share:.0%} of the weights with {other}")
    return lines


def _flat(entry: Entry, targets: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": entry.name,
        "kind": entry.kind,
        "what": entry.what,
        "format": entry.format,
        "maker": entry.maker,
        "size_bytes": entry.size_bytes,
        "inputs": "; ".join(f"{name}: {spec}" for name, spec in entry.inputs.items()),
        "outputs": "; ".join(f"{name}: {spec}" for name, spec in entry.outputs.items()),
        "nodes": entry.nodes,
        "parameters": entry.parameters,
        "flops": entry.flops,
        "macs": entry.macs,
        "runs": None if entry.runs is None else entry.runs.works,
        "why_not_run": "" if entry.runs is None else entry.runs.reason,
    }
    for target in targets:
        outcome = entry.converts.get(target)
        row[target] = None if outcome is None else outcome.works
        row[f"{target}_bytes"] = None if outcome is None else outcome.size_bytes
        row[f"why_not_{target}"] = "" if outcome is None else outcome.reason
    row["findings"] = " ".join(code for code in entry.findings or () if code)
    row["same_as"] = entry.same_as
    row["same_weights"] = "; ".join(entry.same_weights)
    row["reason"] = entry.reason
    return row


def _shipped_lines(shipped: Sequence[Shipped], most: int) -> Iterator[str]:
    whole = [one for one in shipped if one.after_bytes is not None and not one.reason]
    before, after = (sum(getattr(one, name) for one in whole) for name in ("before_bytes", "after_bytes"))
    sizes = f"{bytes_text(before)} became {bytes_text(after)}"
    yield f"shipped: {len(whole)} of {count(len(shipped), 'model')}, {sizes}"
    yield from _told("not shipped whole", by_cause(one.cause for one in shipped if one.reason), most)
