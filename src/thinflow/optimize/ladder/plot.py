"""The ladder as a picture: size against signal to noise, the front, and the budget."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator

from thinflow.optimize.ladder.budget import bytes_text
from thinflow.optimize.ladder.choice import misfits
from thinflow.optimize.ladder.measured import Measured
from thinflow.optimize.ladder.result import Ladder

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
