"""The cheapest cut of a network between its source and its sink: Dinic's algorithm."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from itertools import pairwise
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


def sink_side(edges: Iterable[tuple[T, T, int]], source: T, sink: T) -> set[T]:
    """The items on the sink's side of the cheapest cut; of several such cuts, the one with the fewest there.

    Args:
        edges: from, to, and what it costs to have `from` on the source's side and `to` on the sink's, >= 0.
    """
    flow = _Flow(edges)
    while flow.level(source, sink):
        flow.saturate(source, sink)
    return flow.before(sink)


class _Flow(Generic[T]):
    """Capacities that are left."""

    def __init__(self, edges: Iterable[tuple[T, T, int]]) -> None:
        self.left: dict[T, dict[T, int]] = {}
        for start, end, cost in edges:
            there = self.left.setdefault(start, {})
            there[end] = there.get(end, 0) + cost
            self.left.setdefault(end, {}).setdefault(start, 0)
        self.levels: dict[T, int] = {}

    def level(self, source: T, sink: T) -> bool:
        """Number the items by their distance from the source; False if the sink cannot be reached."""
        self.levels = {source: 0}
        waiting = deque([source])
        while waiting:
            item = waiting.popleft()
            for other, left in self.left.get(item, {}).items():
                if left and other not in self.levels:
                    self.levels[other] = self.levels[item] + 1
                    waiting.append(other)
        return sink in self.levels

    def saturate(self, source: T, sink: T) -> None:
        """Send all that the shortest paths let through."""
        waiting = {item: list(ends) for item, ends in self.left.items()}
        path = [source]
        while path:
            item = path[-1]
            if item == sink:
                steps = list(pairwise(path))
                sent = min(self.left[a][b] for a, b in steps)
                for a, b in steps:
                    self.left[a][b] -= sent
                    self.left[b][a] += sent
                # What lies before the first edge that is full can be used again.
                full = next(n for n, (a, b) in enumerate(steps) if not self.left[a][b])
                del path[full + 1 :]
                continue
            ends = waiting[item]
            while ends and not self._leads_on(item, ends[-1]):
                ends.pop()
            if ends:
                path.append(ends[-1])
            else:
                path.pop()
                if path:
                    waiting[path[-1]].pop()

    def _leads_on(self, item: T, other: T) -> bool:
        return bool(self.left[item][other]) and self.levels.get(other) == self.levels[item] + 1

    def before(self, sink: T) -> set[T]:
        """The items from which the sink can still be reached, itself included."""
        found, waiting = {sink}, [sink]
        while waiting:
            item = waiting.pop()
            for other in self.left.get(item, ()):
                if other not in found and self.left[other][item]:
                    found.add(other)
                    waiting.append(other)
        return found
