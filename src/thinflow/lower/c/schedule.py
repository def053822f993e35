"""Which layers run in bands: the cheapest schedule in so much memory, or the least that there is.

A schedule is a way from the first operator to the last, by steps of one operator that runs whole or of a
chain that runs in bands. A step is open if what is alive during it fits; of the open ways the cheapest is
taken, by the instructions that it adds, about.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from thinflow.lower.c.banded import banded
from thinflow.lower.c.layer import Call, Layer, Scratch
from thinflow.lower.c.options import Bands
from thinflow.lower.c.plan import Plan, alive_bytes, shared
from thinflow.lower.c.reach import height_of, reaches
from thinflow.tflite.model import Operator, Subgraph, Tensor

Form = Callable[[Operator], Layer]
"""Makes the layer of an operator."""
Maker = Callable[[Sequence[Bands]], int]
"""Makes a network with bands; the bytes of its arena."""

_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
"""Rows of a turn that are tried."""
_MOST_BEFORE, _MOST_BEHIND = 12, 32
"""Operators of a chain before and behind the first that does not fit whole: longer chains keep more rows than
they save."""
_CALL, _BYTE, _LAYER = 100.0, 0.5, 30.0
"""Instructions of a call and of a byte that is read or moved; and what a layer more of code is worth."""
_TRIES = 8
"""Times that less is asked for; gaps are small, and each time less is alive by `_STEP` at least."""
_STEP = 64
"""Bytes by which less is asked for where places do not come out even."""


@dataclass(frozen=True)
class Cost:
    """What a chain in bands takes.

    Attributes:
        peak: bytes of the arena that are alive at once, at most.
        instructions: that calls, copies and rows read anew take, about.
    """

    peak: int
    instructions: float


class Scheduler:
    """Finds schedules of one network.

    Args:
        block: its operators.
        layers: of them.
        planned: all whole.
        form: makes layers of operators on some rows.
        make: makes the network, to see what memory it takes in the end.
    """

    def __init__(
        self, block: Subgraph, layers: Sequence[Layer], planned: Plan, form: Form, make: Maker
    ) -> None:
        self.block, self.layers, self.form, self.make = block, layers, form, make
        self.plain_bytes = planned.arena_bytes
        self._goes_by_rows = [reaches(o) is not None for o in block.operators]
        self._costs: dict[Bands, Cost] = {}
        self._known: dict[object, Layer] = {}
        self._spans = block.lifetimes()
        outside = {*block.inputs, *block.outputs}
        self._inside = {t: span for t, span in self._spans.items() if t not in outside}
        self.peaks = self._whole_peaks()

    def within(self, limit: int) -> tuple[Bands, ...] | None:
        """The cheapest schedule whose arena has no more bytes; None if there is none."""
        if self.plain_bytes <= limit:
            return ()
        asked = limit
        for _ in range(_TRIES):
            found = self._cheapest(asked)
            if found is None:
                return None
            over = self.make(found) - limit
            if over <= 0:
                return found
            # What is alive together fits, but its places leave gaps.
            asked -= max(over, _STEP)
        return None

    def least(self) -> tuple[tuple[Bands, ...], int]:
        """The schedule of the smallest arena that is found, and its bytes."""
        best: tuple[int, tuple[Bands, ...]] = (self.plain_bytes, ())
        low, high = 0, max(self.peaks, default=0)
        while high - low > _STEP:
            middle = (low + high) // 2
            found = self._cheapest(middle)
            if found is None:
                low = middle
                continue
            high = middle
            best = min(best, (self.make(found), found), key=lambda one: one[0])
        return best[1], best[0]

    def _cheapest(self, limit: int) -> tuple[Bands, ...] | None:
        """The cheapest way of which nothing takes more bytes at once; None if there is none."""
        count = len(self.layers)
        best: dict[int, float] = {0: 0.0}
        heap: list[tuple[float, int, tuple[Bands, ...]]] = [(0.0, 0, ())]
        while heap:
            cost, at, way = heapq.heappop(heap)
            if at == count:
                return way
            # Dijkstra's way: since this one was noted, a cheaper one has come here.
            if cost > best.get(at, cost):
                continue
            steps: list[tuple[float, int, tuple[Bands, ...]]] = []
            if self.peaks[at] <= limit:
                steps.append((cost + self._whole_cost(at), at + 1, way))
            for bands, extra in self._chains(at, limit):
                steps.append((cost + extra, bands.end, (*way, bands)))
            for step in steps:
                if step[0] < best.get(step[1], float("inf")):
                    best[step[1]] = step[0]
                    heapq.heappush(heap, step)
        return None

    def _chains(self, start: int, limit: int) -> Iterator[tuple[Bands, float]]:
        """Chains from an operator on that fit, each in the cheapest bands."""
        count = len(self.layers)
        # A chain that holds nothing that is too large costs, and gains nothing.
        needed = next((n for n in range(start, count) if self.peaks[n] > limit), count)
        if needed == count or needed - start > _MOST_BEFORE:
            return
        for end in range(start + 1, min(count, needed + _MOST_BEHIND) + 1):
            if not self._goes_by_rows[end - 1]:
                return
            if (
                end - start < 2
                or end <= needed
                or self._height(end) < 2
                or self._least_of(start, end) > limit
            ):
                continue
            found = [c for is_eager in (False, True) if (c := self._widest(start, end, is_eager, limit))]
            if found:
                yield min(found, key=lambda one: one[1])

    def _widest(self, start: int, end: int, is_eager: bool, limit: int) -> tuple[Bands, float] | None:
        """As many rows in a turn as fit: the more, the fewer calls and copies."""
        height = self._height(end)
        choices = [Bands(start, end, rows, is_eager) for rows in _ROWS if rows == 1 or 2 * rows <= height]
        # Most chains that fit at all have few rows: from there on, by halves.
        if self.cost(choices[0]).peak > limit:
            return None
        low, high = 1, len(choices)
        while low < high:
            middle = (low + high) // 2
            if self.cost(choices[middle]).peak <= limit:
                low = middle + 1
            else:
                high = middle
        return choices[low - 1], self.cost(choices[low - 1]).instructions

    def _height(self, end: int) -> int:
        """Rows of what a chain makes in the end."""
        return height_of(self.block.operators[end - 1].outputs[0])

    def _least_of(self, start: int, end: int) -> int:
        """Bytes that are alive during a chain whatever its bands: what it reads and makes whole, and what
        others read later."""
        return sum(
            _bytes(tensor)
            for tensor, span in self._inside.items()
            if span.start < start <= span.end or start <= span.start < end <= span.end
        )

    def _whole_peaks(self) -> list[int]:
        """Bytes that are alive while each operator runs whole, if those before it leave no gaps."""
        found = []
        for number, layer in enumerate(self.layers):
            alive = {t for t, span in self._inside.items() if span.start <= number <= span.end}
            twice = layer.same if layer.same is not None else layer.in_place
            if twice is not None and layer.operator.outputs:
                x, y = layer.operator.inputs[twice], layer.operator.outputs[0]
                assert x is not None
                if x in alive and y in alive and self._spans[x].end == number and _bytes(y) <= _bytes(x):
                    alive.discard(y)
            found.append(sum(map(_bytes, alive)) + sum(s.size_bytes for s in layer.scratches()))
        return found

    def cost(self, bands: Bands) -> Cost:
        """What a chain in bands takes."""
        if bands not in self._costs:
            self._costs[bands] = self._cost(bands)
        return self._costs[bands]

    def _cost(self, bands: Bands) -> Cost:
        operators = self.block.operators[bands.start : bands.end]
        # The chain alone: what it reads and makes whole is there all the time, as if it were the caller's.
        made = {t for o in operators for t in o.outputs}
        given = dict.fromkeys(t for o in operators for t in o.reads() if t not in made and not t.is_constant)
        kept = [t for t in made if self._spans[t].end >= bands.end]
        alone = Subgraph(list(given), kept, operators)
        parts = banded(alone, [replace(bands, start=0, end=len(operators))])
        layers = [self._outline(o) for o in parts.block.operators]
        alive = alive_bytes(shared(parts.block, layers, parts.views), layers)
        instructions = sum(_LAYER + parts.counts.get(o, 1) * _work(o) for o in parts.block.operators)
        return Cost(self._least_of(bands.start, bands.end) + max(alive), instructions)

    def _whole_cost(self, number: int) -> float:
        return _LAYER + _work(self.block.operators[number])

    def _outline(self, operator: Operator) -> Layer:
        """The layer of an operator as far as memory goes, made once for those of the same sizes."""
        key = (
            operator.code,
            tuple((t.shape, id(t.data) if t.is_constant else 0) for t in operator.touched()),
            tuple(sorted((name, repr(value)) for name, value in operator.options.items())),
        )
        if key not in self._known:
            made = self.form(operator)
            scratches = [Scratch(s.size_bytes) for s in made.scratches()]
            self._known[key] = replace(made, calls=[Call("", {}, [*scratches])])
        known = self._known[key]
        # Memory of its own: layers of the same sizes run at different times.
        own = [Call("", {}, [Scratch(s.size_bytes) for s in known.scratches()])]
        return replace(known, operator=operator, calls=own)


def _work(operator: Operator) -> float:
    """What a call takes beside its products: entering it, and reading its inputs."""
    read = sum(_bytes(t) for t in operator.reads() if not t.is_constant)
    return _CALL + _BYTE * read if operator.inputs and operator.outputs else 0.0


def _bytes(tensor: Tensor) -> int:
    return tensor.size_bytes or 0
