"""A survey as a document: every unit in one table to be sorted and filtered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from thinflow.pages.report import (
    Bar,
    Bars,
    Cell,
    Column,
    Fact,
    Facts,
    Listed,
    Listing,
    ReportDocument,
    Section,
    Text,
    Tone,
    notes,
    section,
)
from thinflow.survey.entry import Entry
from thinflow.survey.ship import Shipped
from thinflow.survey.words import amount_text, by_cause, short_kind

_SHOWN_OPS = 8
_MOST_BARS = 12


def survey_document(
    sources: Sequence[str],
    entries: Sequence[Entry],
    shipped: Sequence[Shipped] | None,
    verdict: str,
    data: Mapping[str, Any],
) -> ReportDocument:
    """The document of a survey."""
    models = [entry for entry in entries if entry.is_model]
    targets = sorted({name for entry in models for name in entry.converts})
    sections: list[Section] = [
        section("Result", Facts([*_facts(models, shipped)])),
        section("Models", _listing(models, targets)),
        section("Shipped", *(_shipped(shipped) if shipped is not None else ())),
        section("What stops conversion", *_refusals(models, targets)),
        section("Other files", _others(entries)),
    ]
    tone: Tone = "warn" if any(entry.kind in ("broken", "failed") for entry in models) else "good"
    return ReportDocument(", ".join(sources), verdict, sections, data, tone)


def _facts(models: Sequence[Entry], shipped: Sequence[Shipped] | None) -> Iterator[Fact]:
    opened = [entry for entry in models if entry.kind == "model"]
    yield Fact("models that open", f"{len(opened)}", f"of {len(models)} found")
    runs = [entry.runs for entry in opened if entry.runs is not None]
    if runs:
        yield Fact("run on made-up inputs", f"{sum(run.works for run in runs)}", f"of {len(runs)} tried")
    copies = sum(bool(entry.same_as) for entry in models)
    if copies:
        size = sum(entry.size_bytes for entry in models if entry.same_as)
        yield Fact("copies", f"{copies}", f"{amount_text(size)}B could be saved", "warn")
    if shipped is not None:
        whole = [one for one in shipped if one.after_bytes is not None and not one.reason]
        before, after = (sum(getattr(one, name) for one in whole) for name in ("before_bytes", "after_bytes"))
        yield Fact("shipped", f"{len(whole)}", f"{amount_text(before)}B became {amount_text(after)}B", "good")


def _listing(models: Sequence[Entry], targets: Sequence[str]) -> Listing:
    columns = [
        Column("model", code=True),
        Column("kind"),
        Column("what"),
        Column("size", "bytes"),
        Column("parameters"),
        Column("MFLOP"),
        Column("runs"),
        *(Column(f".{target}") for target in targets),
        Column("lint"),
    ]
    # By the text that stands in the cell: what it is, whether it runs, and each target.
    choices = [1, 6, *range(7, 7 + len(targets))]
    return Listing(columns, choices, [Listed(_cells(entry, targets), [*_about(entry)]) for entry in models])


def _cells(entry: Entry, targets: Sequence[str]) -> list[Cell]:
    converted: list[Cell] = [
        "" if name not in entry.converts else "yes" if entry.converts[name].works else "no"
        for name in targets
    ]
    return [
        entry.name,
        "copy" if entry.same_as else entry.kind,
        short_kind(entry),
        float(entry.size_bytes),
        float(entry.parameters),
        None if entry.flops is None else entry.flops / 1e6,
        "" if entry.runs is None else "yes" if entry.runs.works else "no",
        *converted,
        None if entry.findings is None else float(len(entry.warnings)),
    ]


def _about(entry: Entry) -> Iterator[str]:
    """What stands below a model's row when it is opened."""
    if entry.reason:
        yield f"does not open: {entry.reason}"
    for role in ("inputs", "outputs"):
        if ends := getattr(entry, role):
            yield f"{role}: " + ", ".join(f"{name} {spec}" for name, spec in ends.items())
    if entry.ops:
        shown = [f"{number} {op}" for op, number in [*entry.ops.items()][:_SHOWN_OPS]]
        more = len(entry.ops) - len(shown)
        yield f"{entry.nodes} nodes: " + ", ".join(shown) + (f", and {more} kinds more" if more > 0 else "")
    if entry.runs is not None and not entry.runs.works:
        yield f"does not run on made-up inputs: {entry.runs.reason}"
    yield from (f"not .{name}: {made.reason}" for name, made in entry.converts.items() if not made.works)
    if entry.same_as:
        yield f"the same bytes as {entry.same_as}"
    if entry.same_weights:
        yield f"the same weights as {', '.join(entry.same_weights)}"
    yield from (f"shares {share:.0%} of the weights with {other}" for other, share in entry.like.items())
    yield from (
        f"{code or 'lint'} ({severity}): {text}" for code, (severity, text) in (entry.findings or {}).items()
    )


def _shipped(shipped: Sequence[Shipped]) -> Iterator[Any]:
    columns = [
        Column("model", code=True),
        Column("before", "bytes"),
        Column("after", "bytes"),
        Column("file", code=True),
    ]
    yield Listing(
        [*columns, Column("state")],
        [4],
        [
            Listed(
                [
                    one.name,
                    float(one.before_bytes),
                    None if one.after_bytes is None else float(one.after_bytes),
                    one.file,
                    "failed" if one.after_bytes is None else "in part" if one.reason else "whole",
                ],
                [line for line in (one.verdict, one.reason) if line],
            )
            for one in shipped
        ],
    )
    yield notes(by_cause(one.cause for one in shipped if one.reason), "warn")


def _refusals(models: Sequence[Entry], targets: Sequence[str]) -> Iterator[Any]:
    for target in targets:
        reasons = [
            e.converts[target].reason for e in models if target in e.converts and not e.converts[target].works
        ]
        lines = by_cause(reasons)
        if lines:
            yield Text(f"Not .{target}:")
            yield notes(lines[:_MOST_BARS])


def _others(entries: Sequence[Entry]) -> Bars:
    kinds: dict[str, int] = {}
    for entry in entries:
        if not entry.is_model:
            kinds[entry.what] = kinds.get(entry.what, 0) + 1
    rows = [Bar(what, [float(number)]) for what, number in sorted(kinds.items(), key=lambda k: (-k[1], k[0]))]
    return Bars("What else is there", "", ["files"], rows[:_MOST_BARS])
