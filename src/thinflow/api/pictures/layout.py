"""Places of boxes and arrows: rows by the longest way from a source, and within a row near their neighbours.

The method is Sugiyama's: turn back edges round, give each box a row, put a bend into each row an arrow
crosses, order the rows by the means of their neighbours, place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise

from thinflow.api.pictures.picture import Arrow, Box, Picture

# About 0.6 of the 11 pixels that letters are high in `svg`.
CHARACTER_WIDTH = 6.6
LINE_HEIGHT = 14.0
LONGEST_LINE = 34
_PADDING = 8.0
_GAP_X, _GAP_Y = 24.0, 36.0
_BEND_WIDTH = 6.0
_SWEEPS = 6
_ALONE_PER_ROW = 8  # boxes without arrows
_MOST_BENDS = 20_000
"""With more, long arrows are drawn straight: sorting their bends would take minutes."""

Point = tuple[float, float]

Slot = tuple[str, str, int] | str
"""A box by its key, or the bend of an edge: (source, target, row)."""


@dataclass(frozen=True)
class Placed:
    """A box with its centre and size in pixels, and its lines cut to fit."""

    box: Box
    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]


@dataclass
class Layout:
    """A picture with places.

    Attributes:
        width, height: of everything, pixels.
        boxes: placed.
        arrows: each with the points it goes through, from its source's lower to its target's upper edge.
    """

    width: float
    height: float
    boxes: list[Placed] = field(default_factory=list)
    arrows: list[tuple[Arrow, list[Point]]] = field(default_factory=list)


def shortened(text: str) -> str:
    """The text with its middle left out if it is long."""
    if len(text) <= LONGEST_LINE:
        return text
    half = (LONGEST_LINE - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def layout(picture: Picture) -> Layout:
    """Place a picture. About O(arrows x rows crossed)."""
    if not picture.boxes:
        return Layout(2 * _GAP_X, 2 * _GAP_Y)
    linked = {key for arrow in picture.arrows for key in (arrow.source, arrow.target)}
    order = [box.key for box in picture.boxes if box.key in linked]
    edges = _without_cycles(order, picture.arrows)
    fed = {box.key for box in picture.boxes if box.kind == "input"}
    chains, grid = _with_bends(_rows(order, edges, fed), edges)
    _sort_rows(grid, chains)
    alone: list[Slot] = [box.key for box in picture.boxes if box.key not in linked]
    grid += [alone[i : i + _ALONE_PER_ROW] for i in range(0, len(alone), _ALONE_PER_ROW)]
    sizes = {box.key: _size(box) for box in picture.boxes}
    return _place(picture, grid, chains, sizes)


def _size(box: Box) -> tuple[float, float]:
    longest = max(len(shortened(line)) for line in box.lines)
    return longest * CHARACTER_WIDTH + 2 * _PADDING, len(box.lines) * LINE_HEIGHT + _PADDING


# --- rows ---------------------------------------------------------------------------------------------------


def _without_cycles(order: Sequence[str], arrows: Iterable[Arrow]) -> list[tuple[str, str]]:
    """The arrows as pairs, those that close a cycle turned round, so that all lead downwards."""
    after: dict[str, list[str]] = {key: [] for key in order}
    for arrow in arrows:
        after[arrow.source].append(arrow.target)
    # Depth first with a stack of its own: graphs are deeper than Python recurses.
    finished: dict[str, int] = {}
    open_now: set[str] = set()
    back: set[tuple[str, str]] = set()
    for root in order:
        stack = [(root, iter(after[root]))] if root not in finished else []
        open_now.update(key for key, _ in stack)
        while stack:
            key, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                stack.pop()
                open_now.discard(key)
                finished[key] = len(finished)
            elif following in open_now:
                back.add((key, following))
            elif following not in finished:
                open_now.add(following)
                stack.append((following, iter(after[following])))
    pairs = ((a.source, a.target) for a in arrows)
    return [(t, s) if (s, t) in back else (s, t) for s, t in pairs]


def _rows(order: Sequence[str], edges: Iterable[tuple[str, str]], fed: Set[str]) -> dict[str, int]:
    """Box -> row: the longest way from a source; what no input leads to stands just above its readers."""
    before: dict[str, list[str]] = {key: [] for key in order}
    after: dict[str, list[str]] = {key: [] for key in order}
    for source, target in edges:
        before[target].append(source)
        after[source].append(target)
    waiting = {key: len(before[key]) for key in order}
    ready = [key for key in order if not waiting[key]]
    rows = dict.fromkeys(order, 0)
    held = set(fed)
    for key in ready:  # grows while it is walked
        for target in after[key]:
            rows[target] = max(rows[target], rows[key] + 1)
            if key in held:
                held.add(target)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    for key in reversed(ready):
        if key not in held and after[key]:
            rows[key] = min(rows[target] for target in after[key]) - 1
    return rows


def _with_bends(
    rows: Mapping[str, int], edges: Sequence[tuple[str, str]]
) -> tuple[dict[tuple[str, str], list[Slot]], list[list[Slot]]]:
    """The way of each edge from slot to slot, and the slots of each row."""
    grid: list[list[Slot]] = [[] for _ in range(max(rows.values(), default=-1) + 1)]
    for key, row in rows.items():
        grid[row].append(key)
    bends = sum(rows[target] - rows[source] - 1 for source, target in edges)
    chains: dict[tuple[str, str], list[Slot]] = {}
    for source, target in edges:
        between = range(rows[source] + 1, rows[target]) if bends <= _MOST_BENDS else ()
        way: list[Slot] = [(source, target, row) for row in between]
        if (source, target) not in chains:
            for row, bend in zip(between, way, strict=True):
                grid[row].append(bend)
            chains[source, target] = [source, *way, target]
    return chains, grid


def _sort_rows(grid: list[list[Slot]], chains: Mapping[tuple[str, str], list[Slot]]) -> None:
    """Order each row by the mean place of its neighbours above, then below, a few times over."""
    above: dict[Slot, list[Slot]] = {}
    below: dict[Slot, list[Slot]] = {}
    for chain in chains.values():
        for upper, lower in pairwise(chain):
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    places = {slot: float(i) for row in grid for i, slot in enumerate(row)}
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        near = above if downwards else below
        for row in grid if downwards else reversed(grid):
            # All means before any place changes, and a stable sort:
            # equal ones keep their order, so that it settles.
            means = {slot: _mean(near.get(slot, ()), places, places[slot]) for slot in row}
            row.sort(key=means.__getitem__)
            places.update((slot, float(i)) for i, slot in enumerate(row))


def _mean(neighbours: Sequence[Slot], places: Mapping[Slot, float], otherwise: float) -> float:
    return sum(places[n] for n in neighbours) / len(neighbours) if neighbours else otherwise


# --- places -------------------------------------------------------------------------------------------------


def _place(
    picture: Picture,
    grid: Sequence[Sequence[Slot]],
    chains: Mapping[tuple[str, str], list[Slot]],
    sizes: Mapping[str, tuple[float, float]],
) -> Layout:
    centres = _columns(grid, chains, sizes)
    tops: list[float] = []
    y = _GAP_Y
    heights = [max((_extent(slot, sizes)[1] for slot in row), default=0.0) for row in grid]
    for height in heights:
        tops.append(y + height / 2)
        y += height + _GAP_Y
    middle = {slot: tops[i] for i, row in enumerate(grid) for slot in row}
    right = max(centres[s] + _extent(s, sizes)[0] / 2 for row in grid for s in row)
    result = Layout(right + _GAP_X, y)
    for box in picture.boxes:
        width, height = sizes[box.key]
        lines = tuple(shortened(line) for line in box.lines)
        result.boxes.append(Placed(box, centres[box.key], middle[box.key], width, height, lines))
    for arrow in picture.arrows:
        # An arrow that closed a cycle was laid out the other way round, and is drawn back.
        forwards = (arrow.source, arrow.target) in chains
        chain = chains[(arrow.source, arrow.target) if forwards else (arrow.target, arrow.source)]
        points = _points(chain, centres, middle, sizes)
        result.arrows.append((arrow, points if forwards else points[::-1]))
    return result


def _extent(slot: Slot, sizes: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    return sizes[slot] if isinstance(slot, str) else (_BEND_WIDTH, 0.0)


def _columns(
    grid: Sequence[Sequence[Slot]],
    chains: Mapping[tuple[str, str], list[Slot]],
    sizes: Mapping[str, tuple[float, float]],
) -> dict[Slot, float]:
    """Centre of each slot: where its neighbours are, as far as those before it in its row leave room."""
    near: dict[Slot, list[Slot]] = {}
    for chain in chains.values():
        for upper, lower in pairwise(chain):
            near.setdefault(lower, []).append(upper)
            near.setdefault(upper, []).append(lower)
    centres: dict[Slot, float] = {}
    for row in grid:
        x = 0.0
        for slot in row:
            width = _extent(slot, sizes)[0]
            centres[slot] = x + width / 2
            x += width + _GAP_X
    for sweep in range(_SWEEPS):
        for row in grid if sweep % 2 == 0 else reversed(grid):
            _settle(row, {s: _mean(near.get(s, ()), centres, centres[s]) for s in row}, centres, sizes)
    left = min(centres[s] - _extent(s, sizes)[0] / 2 for row in grid for s in row)
    return {slot: x - left + _GAP_X for slot, x in centres.items()}


def _settle(
    row: Sequence[Slot],
    wished: Mapping[Slot, float],
    centres: dict[Slot, float],
    sizes: Mapping[str, tuple[float, float]],
) -> None:
    """Give each slot of a row its wished centre, moved right, and then all left, until none overlap."""
    # To the right only would shift the row with each sweep: the mean of all moves is taken off again.
    edge = -float("inf")
    for slot in row:
        half = _extent(slot, sizes)[0] / 2
        centres[slot] = max(wished[slot], edge + half)
        edge = centres[slot] + half + _GAP_X
    if row:
        shift = sum(wished[s] - centres[s] for s in row) / len(row)
        for slot in row:
            centres[slot] += shift


def _points(
    chain: Sequence[Slot],
    centres: Mapping[Slot, float],
    middle: Mapping[Slot, float],
    sizes: Mapping[str, tuple[float, float]],
) -> list[Point]:
    first, *bends, last = chain
    top = middle[first] + _extent(first, sizes)[1] / 2, middle[last] - _extent(last, sizes)[1] / 2
    return [(centres[first], top[0]), *((centres[b], middle[b]) for b in bends), (centres[last], top[1])]
