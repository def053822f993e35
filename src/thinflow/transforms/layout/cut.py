"""Yes-or-no choices that together cost least: the smallest cut between two ends of a network."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

YES, NO = "yes", "no"
"""The ends: choices that are settled."""


class Choices:
    """Choices that cost something where one is yes and another is no.

    A cut through the edges from what is yes to what is no costs their capacities; the smallest one is found
    as the largest flow, along shortest paths (Dinic's algorithm).
    """

    def __init__(self) -> None:
        self._ids: dict[Hashable, int] = {YES: 0, NO: 1}
        self._edges: list[list[int]] = [[], []]
        self._to: list[int] = []
        self._left: list[int] = []

    def cost(self, yes: Hashable, no: Hashable, price: int) -> None:
        """Ask a price for the first choice being yes while the second one is no."""
        if price <= 0 or yes == no:
            return
        a, b = self._place(yes), self._place(no)
        # The edge back stands behind each edge: its place differs in the last bit.
        for start, end, capacity in ((a, b, price), (b, a, 0)):
            self._edges[start].append(len(self._to))
            self._to.append(end)
            self._left.append(capacity)

    def cheapest(self) -> set[Hashable]:
        """What is yes at the least cost; of several such sets the smallest."""
        while (levels := self._levels())[1] >= 0:
            at = [0] * len(self._edges)
            while self._push(levels, at):
                pass
        return {key for key, place in self._ids.items() if levels[place] >= 0}

    def _place(self, key: Hashable) -> int:
        if key not in self._ids:
            self._ids[key] = len(self._edges)
            self._edges.append([])
        return self._ids[key]

    def _levels(self) -> list[int]:
        """Steps from what is settled as yes, over edges with capacity left; -1 for what they do not reach."""
        levels = [-1] * len(self._edges)
        levels[0] = 0
        queue = deque([0])
        while queue:
            place = queue.popleft()
            for edge in self._edges[place]:
                if self._left[edge] and levels[self._to[edge]] < 0:
                    levels[self._to[edge]] = levels[place] + 1
                    queue.append(self._to[edge])
        return levels

    def _push(self, levels: list[int], at: list[int]) -> bool:
        """Send as much as fits along one path of rising levels; False if there is none."""
        path: list[int] = []
        place = 0
        while place != 1:
            edges = self._edges[place]
            while at[place] < len(edges) and not self._leads_on(edges[at[place]], place, levels):
                at[place] += 1
            if at[place] < len(edges):
                path.append(edges[at[place]])
                place = self._to[path[-1]]
            elif not path:
                return False
            else:  # a dead end: back, and past the edge that led here
                place = self._to[path.pop() ^ 1]
                at[place] += 1
        most = min(self._left[edge] for edge in path)
        for edge in path:
            self._left[edge] -= most
            self._left[edge ^ 1] += most
        return True

    def _leads_on(self, edge: int, place: int, levels: list[int]) -> bool:
        return bool(self._left[edge]) and levels[self._to[edge]] == levels[place] + 1
