"""Pictures as SVG."""

from __future__ import annotations

import html
import zlib

from thinflow.api.pictures.layout import LINE_HEIGHT, Layout, Placed, Point, layout
from thinflow.api.pictures.picture import Arrow, Picture

_BORDERS = {
    "input": "#2e7d32",
    "output": "#e65100",
    "constant": "#9e9e9e",
    "group": "#6a1b9a",
    "op": "#5c6b7a",
}
_TITLE_HEIGHT = 28.0
_STYLE = (
    "text{font:11px Helvetica,Arial,sans-serif;text-anchor:middle;fill:#222}"
    "text.op{font-weight:bold}text.title{font-size:14px;text-anchor:start}"
    "text.edge{font-size:8px;fill:#777}path{fill:none;stroke:#8a94a0}path.control{stroke-dasharray:4 3}"
)


def svg(picture: Picture) -> str:
    """The picture and below it its functions, as a file of its own."""
    parts: list[str] = []
    width, y = 0.0, 0.0
    for drawn in (picture, *picture.functions):
        placed = layout(drawn)
        title = drawn.title if drawn is picture else f"function {drawn.title}"
        parts.append(f'<g transform="translate(0 {y + _TITLE_HEIGHT:.0f})">{_drawing(placed)}</g>')
        parts.append(f'<text class="title" x="12" y="{y + 20:.0f}">{_text(title)}</text>')
        width, y = max(width, placed.width), y + placed.height + _TITLE_HEIGHT
    size = f'width="{width:.0f}" height="{y:.0f}" viewBox="0 0 {width:.0f} {y:.0f}"'
    head = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
        'orient="auto"><path d="M0 0L8 4L0 8z" style="fill:#8a94a0;stroke:none"/></marker></defs>'
    )
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{_STYLE}</style>{head}\n{body}\n</svg>\n'


def _text(text: str) -> str:
    return html.escape("".join(c if c.isprintable() or c == "\n" else " " for c in text))


def _drawing(placed: Layout) -> str:
    arrows = "\n".join(_arrow(arrow, points) for arrow, points in placed.arrows)
    return arrows + "\n" + "\n".join(map(_box, placed.boxes))


def _box(placed: Placed) -> str:
    box = placed.box
    x, y = placed.x - placed.width / 2, placed.y - placed.height / 2
    first = y + LINE_HEIGHT
    lines = "".join(
        f'<text class="{"detail" if i else "op"}" x="{placed.x:.1f}" y="{first + i * LINE_HEIGHT:.1f}">'
        f"{_text(line)}</text>"
        for i, line in enumerate(placed.lines)
    )
    # By the outer two scopes, which is a block of most networks; a checksum gives the same hue in every run.
    fill = "#f4f4f4" if box.kind == "constant" else _colour("/".join(box.scope[:2]))
    heavy = 2 if box.kind in {"input", "output"} else 1
    return (
        f'<g class="node" data-name="{_text(box.key)}"><title>{_text(box.about)}</title>'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{placed.width:.1f}" height="{placed.height:.1f}" rx="6" '
        f'fill="{fill}" stroke="{_BORDERS[box.kind]}" stroke-width="{heavy}"/>{lines}</g>'
    )


def _colour(scope: str) -> str:
    """A light colour, the same for all boxes of a scope."""
    return f"hsl({zlib.crc32(scope.encode()) % 360} 55% 92%)" if scope else "#ffffff"


def _arrow(arrow: Arrow, points: list[Point]) -> str:
    kind = ' class="control"' if arrow.is_control else ""
    path = f'<path{kind} d="{_curve(points)}" marker-end="url(#tip)"/>'
    if not arrow.label:
        return path
    (x0, y0), (x1, y1) = points[-2:]
    return (
        path
        + f'<text class="edge" x="{(x0 + x1) / 2:.1f}" y="{(y0 + y1) / 2:.1f}">{_text(arrow.label)}</text>'
    )


def _curve(points: list[Point]) -> str:
    """A smooth way through the points that leaves and arrives vertically."""
    (x, y), *rest = points
    way = [f"M{x:.1f} {y:.1f}"]
    for x1, y1 in rest:
        # Control points straight below the one end and above the other make the curve vertical at both.
        half = (y + y1) / 2
        way.append(f"C{x:.1f} {half:.1f} {x1:.1f} {half:.1f} {x1:.1f} {y1:.1f}")
        x, y = x1, y1
    return "".join(way)
