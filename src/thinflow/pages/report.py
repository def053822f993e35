"""A report as a document: a title, a verdict, and sections of blocks that a page draws without knowing more.

Each part says in a small file of its own what its results look like as a document. `pages/report/schema.ts`
of the sources has the same classes, field by field; a test compares both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import PurePath
from typing import Any, ClassVar, Literal

from thinflow._version import __version__
from thinflow.errors.plain_text import one_line

Tone = Literal["", "good", "warn", "bad"]
Unit = Literal["", "ms", "bytes", "%", "dB", "points", "x"]
Cell = str | float | None


class Block:
    """A thing that is shown; `kind` is its name in the page."""

    kind: ClassVar[str]


@dataclass(frozen=True)
class Text(Block):
    """A paragraph."""

    kind = "text"
    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Note:
    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Notes(Block):
    """Sentences side by side: warnings, findings."""

    kind = "notes"
    items: Sequence[Note]


@dataclass(frozen=True)
class Fact:
    label: str
    value: str
    note: str = ""
    tone: Tone = ""


@dataclass(frozen=True)
class Facts(Block):
    """Figures to be seen first."""

    kind = "facts"
    items: Sequence[Fact]


@dataclass(frozen=True)
class Column:
    """A column; `code` is for names of a model."""

    title: str
    unit: Unit = ""
    code: bool = False


@dataclass(frozen=True)
class Table(Block):
    """A table; a folded one is shown by a click only."""

    kind = "table"
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    folded: bool = False


@dataclass(frozen=True)
class Listed:
    """A row of a `Listing`; `about` is shown below it by a click."""

    cells: Sequence[Cell]
    about: Sequence[str] = ()


@dataclass(frozen=True)
class Listing(Block):
    """A table to be sorted and filtered; `choices` are places of columns with few values to choose from."""

    kind = "listing"
    columns: Sequence[Column]
    choices: Sequence[int]
    rows: Sequence[Listed]


@dataclass(frozen=True)
class Command:
    """What to copy: a command; or a program, whose lines behind the first are `lines`."""

    text: str
    why: str = ""
    lines: Sequence[str] = ()


@dataclass(frozen=True)
class Commands(Block):
    """Commands to copy."""

    kind = "commands"
    items: Sequence[Command]


@dataclass(frozen=True)
class Bar:
    """A row of `Bars`: an amount for each series, None where there is none."""

    label: str
    values: Sequence[float | None]


@dataclass(frozen=True)
class Bars(Block):
    """Amounts side by side: a row for each thing, a bar for each series."""

    kind = "bars"
    title: str
    unit: Unit
    series: Sequence[str]
    rows: Sequence[Bar]
    note: str = ""


@dataclass(frozen=True)
class Runs:
    """A row of `Distribution`: measurements and the interval of their median.

    Attributes:
        series: number of the colour.
        values: quantiles of the measurements, the least and the greatest among them.
        count: of how many measurements.
        low, high: None where too little was measured for an interval.
    """

    label: str
    series: int
    values: Sequence[float]
    count: int
    median: float
    low: float | None
    high: float | None
    p99: float


@dataclass(frozen=True)
class Distribution(Block):
    """Single measurements of several things."""

    kind = "distribution"
    title: str
    unit: Unit
    series: Sequence[str]
    rows: Sequence[Runs]
    note: str = ""


@dataclass(frozen=True)
class Span:
    """A row of `Intervals`: an estimate between two ends."""

    label: str
    series: int
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Intervals(Block):
    """Estimates with their intervals, and a value to compare them with."""

    kind = "intervals"
    title: str
    unit: Unit
    series: Sequence[str]
    rows: Sequence[Span]
    reference: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Axis:
    """An axis of a `Scatter`.

    Attributes:
        bound: not to be exceeded; None without one.
        down: whether less is better, so that the axis is turned for the best to be on top.
    """

    title: str
    unit: Unit
    bound: float | None = None
    down: bool = False


@dataclass(frozen=True)
class Point:
    label: str
    costs: Sequence[float | None]
    gains: Sequence[float | None]
    state: Literal["chosen", "front", "fits", "misfit"]
    about: Sequence[str] = ()


@dataclass(frozen=True)
class Scatter(Block):
    """Things by what they cost and how good they are: a picture for each cost."""

    kind = "scatter"
    title: str
    costs: Sequence[Axis]
    gains: Sequence[Axis]
    points: Sequence[Point]
    note: str = ""


@dataclass(frozen=True)
class Layer:
    label: str
    op: str
    before: float | None
    after: float
    is_float: bool = False


@dataclass(frozen=True)
class Layers(Block):
    """One figure for each layer in running order; `first` is the row where it falls below the threshold."""

    kind = "layers"
    title: str
    unit: Unit
    threshold: float
    rows: Sequence[Layer]
    first: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Reason:
    text: str
    count: int
    example: str = ""


@dataclass(frozen=True)
class Step:
    """What one transform did, before and after it."""

    name: str
    changes: int
    left: int
    nodes: tuple[int, int]
    size_bytes: tuple[int, int]
    difference: float | None = None
    reasons: Sequence[Reason] = ()


@dataclass(frozen=True)
class Ledger(Block):
    """What each transform did."""

    kind = "ledger"
    steps: Sequence[Step]


@dataclass(frozen=True)
class Answer:
    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Frame:
    """A box on a picture: y1, x1, y2, x2 in shares of it, the number of the model, and words."""

    ends: Sequence[float]
    model: int
    text: str


@dataclass(frozen=True)
class Sample:
    """A sample that was judged; `wave` has the least and greatest value of each stretch, from -1 to 1."""

    name: str
    label: str
    answers: Sequence[Answer]
    picture: str = ""
    wave: Sequence[tuple[float, float]] = ()
    boxes: Sequence[Frame] = ()


@dataclass(frozen=True)
class Samples(Block):
    """Samples that were judged, the wrong ones first."""

    kind = "samples"
    models: Sequence[str]
    items: Sequence[Sample]
    note: str = ""


@dataclass(frozen=True)
class Section:
    """Blocks under a title; `id` is its address in the page."""

    id: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class ReportDocument:
    """A report to be shown.

    Attributes:
        unfinished: why it is not finished; "" if it is.
        data: the report for machines.
    """

    title: str
    verdict: str
    sections: Sequence[Section]
    data: Any
    tone: Tone = ""
    unfinished: str = ""
    version: str = field(default=__version__)


def document_data(document: ReportDocument) -> dict[str, Any]:
    """A document as the page reads it: sections without anything in them are left out."""
    kept = []
    for section in document.sections:
        blocks = [b for b in section.blocks if not _is_empty(b)]
        if blocks:
            kept.append({"id": section.id, "title": section.title, "blocks": [_shown(b) for b in blocks]})
    found = {f.name: getattr(document, f.name) for f in fields(document) if f.name != "sections"}
    return {**_shown_dict(found), "sections": kept, "data": plain(document.data)}


def _is_empty(block: Block) -> bool:
    """True if a block has a list, and nothing in it."""
    names = ("items", "rows", "points", "steps", "text")
    return any(not getattr(block, name) for name in names if hasattr(block, name))


def _shown(item: Any) -> Any:
    """A block as plain data, with texts that fit on a screen."""
    if is_dataclass(item) and not isinstance(item, type):
        found = {f.name: _shown(getattr(item, f.name)) for f in fields(item)}
        return {"kind": item.kind, **found} if isinstance(item, Block) else found
    if isinstance(item, Mapping):
        return _shown_dict(item)
    if isinstance(item, Sequence) and not isinstance(item, str | bytes):
        return [_shown(part) for part in item]
    # Control characters turn the order of a line round, and hide what stands in it.
    return one_line(item) if isinstance(item, str) else plain(item)


def _shown_dict(items: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _shown(value) for name, value in items.items() if name != "data"}


def plain(item: Any) -> Any:
    """What JSON holds: paths and the like as text, None for NaN and infinity."""
    if item is None or isinstance(item, str | bool | int):
        return item
    if isinstance(item, float):
        # A subclass, as numpy's float64 is, must not reach JSON's own idea of a number.
        return float(item) if math.isfinite(item) else None
    if isinstance(item, Mapping):
        return {str(key): plain(value) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return [plain(part) for part in item]
    return str(item)


def section(title: str, *blocks: Block | None) -> Section:
    """A section whose address is made of its title; what is None is left out."""
    name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return Section(name, title, [b for b in blocks if b is not None])


def notes(texts: Sequence[str], tone: Tone = "") -> Notes:
    """Sentences of one tone."""
    return Notes([Note(text, tone) for text in texts])


def title_of(path: str, otherwise: str) -> str:
    """A title for what came of a file."""
    return PurePath(path).name or otherwise
