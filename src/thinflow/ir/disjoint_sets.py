"""Disjoint sets that are joined step by step: union-find."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class DisjointSets(Generic[T]):
    """Items, each in a set of its own until sets are joined.

    Items keep the order in which they came, so no result depends on hashes.
    """

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._parent = {item: item for item in items}
        self._joined: set[T] = set()

    def __contains__(self, item: object) -> bool:
        return item in self._parent

    def __iter__(self) -> Iterator[T]:
        return iter(self._parent)

    def find(self, item: T) -> T:
        """The item that stands for the set; a new one gets a set of its own. Almost O(1)."""
        parent = self._parent
        parent.setdefault(item, item)
        # Identity suffices: the parents are the very objects that were entered as items.
        while parent[item] is not item:
            # Halving the path on the way keeps later walks short.
            parent[item] = item = parent[parent[item]]
        return item

    def join(self, items: Sequence[T]) -> None:
        """Make one set of those of some items; that of the first one stands for it."""
        for item in items:
            self._parent[self.find(item)] = self.find(items[0])
        if len(items) > 1:
            self._joined.update(items)

    def is_alone(self, item: T) -> bool:
        """True if an item was never joined with another one."""
        return item not in self._joined

    def sets(self) -> list[list[T]]:
        """All sets, in the order of their first items."""
        members: dict[T, list[T]] = {}
        for item in self._parent:
            members.setdefault(self.find(item), []).append(item)
        return list(members.values())
