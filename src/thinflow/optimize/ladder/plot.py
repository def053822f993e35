"""The ladder as pictures: a file of size against signal to noise, and the blocks of a page."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from thinflow.optimize.job_inputs import UNFINISHED_PAGE
from thinflow.optimize.ladder.budget import Budget
from thinflow.optimize.ladder.choice import front, misfits
from thinflow.optimize.ladder.climber import LadderInterrupted
from thinflow.optimize.ladder.measured import Measured
from thinflow.optimize.ladder.result import Ladder
from thinflow.optimize.quality import LOUDEST
from thinflow.pages.report import (
    Axis,
    Block,
    Cell,
    Column,
    Point,
    ReportDocument,
    Scatter,
    Table,
    Text,
    notes,
    section,
    title_of,
)
from thinflow.pages.shell import save_document, why_no_pages
from thinflow.program.amounts import bytes_text, ms_text

_WIDTH, _HEIGHT = 720, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 44, 56
_STYLE = (
    "text{font:12px Helvetica,Arial,sans-serif;fill:#222}text.title{font-size:14px}"
    "text.small{font-size:10px;fill:#555}line.axis{stroke:#888}line.grid{stroke:#e4e4e4}"
    "line.bound{stroke:#c62828;stroke-dasharray:5 4}polyline{fill:none;stroke:#2e7d32}"
    "circle{stroke:#5c6b7a;fill:#b8c4d0}circle.front{stroke:#2e7d32;fill:#a5d6a7}"
    "circle.best{stroke:#e65100;fill:#ffb74d;stroke-width:2}circle.misfit{fill:#fff;stroke-dasharray:2 2}"
)
_TICKS = 5
_Scale = Callable[[float], float]
"""From an amount to where it is drawn."""


def svg(ladder: Ladder) -> str:
    """A file of its own: a circle for each candidate, with its figures as a tooltip."""
    own = [m for m in ladder.measured if m.is_own]
    widest = max([m.size_bytes for m in own] + [ladder.budget.size_bytes or 0])
    low, high = _decibels([m.exactness_db for m in own if not m.is_float])

    def x(size: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(size / (1.05 * widest), 1)

    def y(db: float) -> float:
        # The float model has no noise to be drawn by: it stands on the upper edge.
        share = (min(max(db, low), high) - low) / (high - low)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share

    parts = [*_axes(widest, low, high, x, y)]
    if ladder.budget.size_bytes is not None:
        at = x(ladder.budget.size_bytes)
        parts.append(
            f'<line class="bound" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>'
        )
        parts.append(f'<text class="small" x="{at + 4:.1f}" y="{_TOP + 10}">budget</text>')
    path = " ".join(f"{x(m.size_bytes):.1f},{y(m.exactness_db):.1f}" for m in _steps(ladder))
    parts.append(f'<polyline points="{path}"/>')
    parts += [_circle(m, ladder, x(m.size_bytes), y(m.exactness_db)) for m in own]
    title = f"{ladder.runtime}, {ladder.budget.text}: {ladder.choice.best.name}"
    parts.append(f'<text class="title" x="12" y="22">{html.escape(_shortened(title))}</text>')
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{_STYLE}</style>\n{body}\n</svg>\n'


def _steps(ladder: Ladder) -> Iterator[Measured]:
    """Of the front what is more exact than all that is smaller: others are there for being faster."""
    best = -math.inf
    for one in ladder.front:
        if one.exactness_db > best:
            best = one.exactness_db
            yield one


def _decibels(found: list[float]) -> tuple[float, float]:
    """Ends of the axis, in tens of decibels; one ten above the most exact."""
    finite = [min(max(db, -20.0), 150.0) for db in found] or [0.0]
    return 10 * math.floor(min(finite) / 10), 10 * math.ceil(max(finite) / 10) + 10


def _axes(widest: float, low: float, high: float, x: _Scale, y: _Scale) -> Iterator[str]:
    left, bottom = _LEFT, _HEIGHT - _BOTTOM
    for i in range(_TICKS + 1):
        size, db = widest * i / _TICKS, low + (high - low) * i / _TICKS
        yield f'<line class="grid" x1="{left}" x2="{_WIDTH - _RIGHT}" y1="{y(db):.1f}" y2="{y(db):.1f}"/>'
        yield f'<text class="small" x="{left - 6}" y="{y(db) + 4:.1f}" text-anchor="end">{db:.0f}</text>'
        text = bytes_text(size)
        yield f'<text class="small" x="{x(size):.1f}" y="{bottom + 16}" text-anchor="middle">{text}</text>'
    yield f'<line class="axis" x1="{left}" x2="{_WIDTH - _RIGHT}" y1="{bottom}" y2="{bottom}"/>'
    yield f'<line class="axis" x1="{left}" x2="{left}" y1="{_TOP}" y2="{bottom}"/>'
    yield f'<text x="{_WIDTH / 2:.0f}" y="{_HEIGHT - 16}" text-anchor="middle">size of the file</text>'
    yield f'<text x="12" y="{_TOP - 6}">SQNR, dB (float on the upper edge)</text>'


def _circle(one: Measured, ladder: Ladder, x: float, y: float) -> str:
    kinds = ["front"] if one in ladder.front else []
    kinds += ["misfit"] if misfits(one, ladder.budget) else []
    kinds += ["best"] if one is ladder.choice.best else []
    time = "" if one.latency is None else f", {one.latency.ratio:.2f}x the time of float"
    loss = "" if one.quality.drop is None else f", loss {one.quality.drop:.1f} points"
    noise = "" if one.is_float else f", {one.exactness_db:.1f} dB"
    about = html.escape(f"{one.name}: {bytes_text(one.size_bytes)}{time}{loss}{noise}")
    # Names side by side would lie on each other: those of the front alone are written.
    name = f'<text class="small" x="{x + 8:.1f}" y="{y - 6:.1f}">{html.escape(one.name)}</text>'
    shown = name if "front" in kinds or "best" in kinds else ""
    place = f'class="{" ".join(kinds)}" cx="{x:.1f}" cy="{y:.1f}" r="5"'
    return f"<circle {place}><title>{about}</title></circle>{shown}"


def _shortened(text: str) -> str:
    return text if len(text) <= 96 else f"{text[:95]}…"


State = Literal["chosen", "front", "fits", "misfit"]


def ladder_blocks(ladder: Ladder) -> Iterator[Block]:
    """The trade-off of all candidates, what was chosen, and why."""
    yield Text(f"{ladder.sentence}: {ladder.choice.best.name}.", "" if ladder.is_reached else "bad")
    yield from candidate_blocks(ladder.measured, ladder.budget, ladder.choice.best)
    # Of the marks of a table in a terminal nothing is said here.
    yield notes(ladder.remarks()[1:])


def candidate_blocks(
    measured: Sequence[Measured], budget: Budget, best: Measured | None = None
) -> Iterator[Block]:
    """The trade-off of candidates.

    Args:
        best: that is shipped; None if nothing was chosen.
    """
    own = [m for m in measured if m.is_own]
    ahead = front(own)
    counted = any(m.quality.drop is not None for m in own)
    what = (
        "points of accuracy lost" if any(m.quality.accuracy is not None for m in own) else "answers changed"
    )
    costs = [
        Axis("size of the file", "bytes", budget.size_bytes),
        Axis("time of a run", "ms", budget.latency_ms),
        Axis("RAM of activations", "bytes", budget.ram_bytes),
    ]
    gains = [Axis(what, "points", budget.drop, down=True)] if counted else []
    noise = Axis("signal to noise", "dB")
    # Where nobody loses too much, noise tells more.
    by_loss = counted and any((m.quality.drop or 0.0) > budget.drop for m in own)
    gains = [*gains, noise] if by_loss or not counted else [noise, *gains]
    # Memory is drawn where it has a bound: elsewhere it is much the same for all.
    kept = [0, 1] if budget.ram_bytes is None else [0, 1, 2]
    points = [_point(m, _state(m, budget, best, ahead), kept, gains) for m in own]
    note = "Left costs less, higher is better; a dashed line is a bound of the budget."
    yield Scatter("Size, time and quality of all candidates", [costs[k] for k in kept], gains, points, note)
    yield _table(measured, budget, best, ahead)


def interrupted_document(
    path: str, message: str, runtime: str, measured: Sequence[Measured], budget: Budget
) -> ReportDocument:
    """The document of a job that was interrupted while it looked for the best candidate.

    Args:
        path: of the model.
        message: what is kept, and how to go on.
    """
    known, _, further = message.partition(";")
    verdict = f"interrupted: {known}"
    data = {
        "verdict": verdict,
        "interrupted": True,
        "ladder": {runtime.lower(): {"budget": asdict(budget), "candidates": [m.data() for m in measured]}},
    }
    sections = [
        section(f"Candidates for {runtime}", *candidate_blocks(measured, budget)),
        section("How to go on", Text(f"{further.strip().capitalize()}.")),
    ]
    unfinished = "Interrupted: nothing is chosen yet, and no model is written."
    return ReportDocument(title_of(path, "a graph"), verdict, sections, data, "warn", unfinished)


def _state(one: Measured, budget: Budget, best: Measured | None, ahead: Sequence[Measured]) -> State:
    if one is best:
        return "chosen"
    if misfits(one, budget):
        return "misfit"
    return "front" if one in ahead else "fits"


def _point(one: Measured, state: State, kept: Sequence[int], gains: Sequence[Axis]) -> Point:
    found = one.latency
    costs = [float(one.size_bytes), None if found is None else found.ms, float(one.ram_bytes)]
    drop = None if one.quality.drop is None else max(one.quality.drop, 0.0)
    # The float model has no noise to be drawn by.
    noise = None if one.is_float or abs(one.exactness_db) >= LOUDEST else round(one.exactness_db, 2)
    about = [f"{bytes_text(one.size_bytes)}, {bytes_text(one.ram_bytes)} RAM"]
    if found is not None:
        about.append(f"{ms_text(found.ms)}, {found.ratio:.2f}x the time of float")
    about += [one.quality.sentence()] if one.quality.samples else []
    return Point(
        one.name,
        [costs[k] for k in kept],
        [noise if axis.unit == "dB" else drop for axis in gains],
        state,
        about,
    )


def _table(
    measured: Sequence[Measured], budget: Budget, best: Measured | None, ahead: Sequence[Measured]
) -> Table:
    """Every candidate, those that failed and those that are the same file among them."""
    columns = [
        Column("candidate", code=True),
        Column("size", "bytes"),
        Column("RAM", "bytes"),
        Column("time", "ms"),
        Column("beside float", "x"),
        Column("loss", "points"),
        Column("signal to noise", "dB"),
        Column(""),
    ]
    rows: list[list[Cell]] = []
    for one in sorted(measured, key=lambda m: (not m.is_own, m.size_bytes)):
        found, words = one.latency, [f"over its bound on {word}" for word in misfits(one, budget)]
        if one.failure or one.same_as:
            words = [one.failure or f"the same file as {one.same_as}"]
        elif one is best:
            words.insert(0, "shipped")
        elif one in ahead:
            words.insert(0, "on the front")
        rows.append(
            [
                one.name,
                float(one.size_bytes) or None,
                float(one.ram_bytes) or None,
                None if found is None else found.ms,
                None if found is None else round(found.ratio, 3),
                None if one.quality.drop is None else round(one.quality.drop, 2),
                None if one.is_float or one.failure else round(one.exactness_db, 1),
                ", ".join(words),
            ]
        )
    return Table(columns, rows, "All candidates", folded=True)


def save_unfinished(folder: Path, path: str, budget: Budget, stopped: LadderInterrupted) -> None:
    """Write the page of a job that was interrupted into its folder, with what is known by then.

    Args:
        path: of the model.

    Raises:
        WriteError: it cannot be written.
    """
    if stopped.measured and not why_no_pages():
        document = interrupted_document(path, str(stopped), stopped.runtime, stopped.measured, budget)
        save_document(document, folder / UNFINISHED_PAGE)
