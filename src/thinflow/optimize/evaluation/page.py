"""An evaluation as a page: intervals, tables, and what was answered wrongly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from thinflow.optimize.evaluation.measured import Measured
from thinflow.optimize.evaluation.metric import figure_text
from thinflow.optimize.quality_page import quality_blocks, samples_blocks
from thinflow.pages.report import (
    Block,
    Cell,
    Column,
    Command,
    Commands,
    Fact,
    Facts,
    Intervals,
    ReportDocument,
    Span,
    Table,
    Text,
    notes,
    section,
)

# A page is looked at: the whole table is in its data, and in --json.
_MOST_PAIRS = 40
_MOST_CLASSES = 200


def document_of(
    title: str,
    verdict: str,
    models: Sequence[Measured],
    data: Any,
    next_steps: Sequence[str],
    names: Sequence[str] = (),
) -> ReportDocument:
    """The page of one model, or of several with their names."""
    names = names or [title]
    sections = [
        section("Result", *_result(models, names)),
        section("Classes", *_classes(models, names)),
        *(
            section("Samples" if len(models) == 1 else f"Samples of {name}", *_samples(one, name, names[0]))
            for name, one in zip(names, models, strict=True)
        ),
        section("Try next", Commands([Command(text) for text in next_steps])),
    ]
    return ReportDocument(title, verdict, sections, data)


def _result(models: Sequence[Measured], names: Sequence[str]) -> Iterator[Block]:
    first = models[0]
    if len(models) == 1:
        yield Facts(list(_facts(first)))
        intervals, *_ = quality_blocks({names[0]: first})
        yield intervals
    else:
        spans = [
            Span(name, n > 0, one.accuracy, *one.intervals["accuracy"])
            for n, (name, one) in enumerate(zip(names, models, strict=True))
            if one.accuracy is not None
        ]
        yield Intervals("Right answers", "%", [], spans, None, "With the 95 % interval of each.")
        yield from list(quality_blocks(dict(zip(names[1:], models[1:], strict=True)), names[0]))[1:]
    figures = [f.name for f in first.figures if any(_value(one, f.name) is not None for one in models)]
    if figures:
        rows: list[list[Cell]] = [
            [name, *(_value(one, f) for f in figures)] for name, one in zip(names, models, strict=True)
        ]
        yield Table([Column("model", code=True), *map(Column, figures)], rows, "Measured")
    yield Text(first.taken)
    on = list(dict.fromkeys(one.device for one in models if one.device))
    yield Text(f"Run on {'; on '.join(on)}." if on else "")
    yield notes(first.left_out.lines(), "warn")


def _value(one: Measured, name: str) -> float | None:
    return one.figure(name)


def _facts(one: Measured) -> Iterator[Fact]:
    if one.accuracy is not None:
        wrong = one.samples - (one.correct or 0)
        shown = sum(judged.is_wrong for judged in one.judged)
        yield Fact("right answers", f"{one.accuracy:.2f} %", f"{one.correct} of {one.samples} samples")
        yield Fact("wrong answers", str(wrong), f"{shown} of them are shown below")
    for figure in one.figures:
        if figure.value is not None:
            value, _, interval = figure_text(figure).removeprefix(f"{figure.name} ").partition(" (")
            yield Fact(figure.name, value, interval.removesuffix(")"))


def _classes(models: Sequence[Measured], names: Sequence[str]) -> Iterator[Block]:
    for name, one in zip(names, models, strict=True):
        rows: list[list[Cell]] = [
            [c.name or str(c.number), c.samples, c.recall, *c.recall_interval, c.precision]
            for c in one.per_class[:_MOST_CLASSES]
        ]
        columns = [Column("class"), Column("samples"), Column("found", "%"), Column("from", "%")]
        columns += [Column("to", "%"), Column("right of what is answered", "%")]
        yield Table(columns, rows, f"{name}: each class", folded=len(models) > 1)
        pairs = sorted(((n, *p) for p, n in one.confusion.items() if p[0] != p[1]), key=lambda x: -x[0])
        mixed: list[list[Cell]] = [
            [_word(one, label), _word(one, answer), n] for n, label, answer in pairs[:_MOST_PAIRS]
        ]
        columns = [Column("labelled"), Column("answered"), Column("samples")]
        yield Table(columns, mixed, f"{name}: most often taken for another", folded=True)


def _word(one: Measured, number: int) -> str:
    return one.classes[number] if 0 <= number < len(one.classes) else str(number)


def _samples(one: Measured, name: str, first: str) -> Iterator[Block]:
    called = ["answer"] if name == first else [first, name]
    yield from samples_blocks(one, one.show(one), called)
