"""Nodes in file order: a linked list that may be edited while it is walked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from thinflow.ir.node import Node


class NodeList:
    """The order of a graph's nodes, kept in the nodes themselves. Every edit is O(1)."""

    __slots__ = ("_count", "_first", "_last")

    def __init__(self) -> None:
        self._first: Node | None = None
        self._last: Node | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def now(self) -> list[Node]:
        """The nodes of this moment. O(nodes)."""
        nodes = []
        node = self._first
        while node is not None:
            nodes.append(node)
            node = node._next
        return nodes

    def insert(self, node: Node, before: Node | None) -> None:
        """Put a node that is not in the list in front of one that is, None for the end."""
        # The links are fields of the nodes: a list would have to be searched for each insertion and removal.
        previous = self._last if before is None else before._previous
        node._previous, node._next = previous, before
        if previous is None:
            self._first = node
        else:
            previous._next = node
        if before is None:
            self._last = node
        else:
            before._previous = node
        self._count += 1

    def remove(self, node: Node) -> None:
        """Take out a node that is in the list."""
        if node._previous is None:
            self._first = node._next
        else:
            node._previous._next = node._next
        if node._next is None:
            self._last = node._previous
        else:
            node._next._previous = node._previous
        node._previous = node._next = None
        self._count -= 1
