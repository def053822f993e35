"""The ledger of a transform: what it did, what it left alone, and why ("why did nothing happen")."""

from __future__ import annotations

from dataclasses import dataclass, field

from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Node
from thinflow.ir.ledger import Entry, reasons

__all__ = ["Entry", "Trace"]


@brief_repr
@dataclass
class Trace:
    """Filled by a transform while it works.

    Attributes:
        changes: what was done, one entry per changed node.
        left: nodes that nearly qualified, with the reason they did not.
        warnings: sentences for the user.
        notes: facts worth telling that are neither change nor refusal.
    """

    changes: list[Entry] = field(default_factory=list)
    left: list[Entry] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _left_seen: set[tuple[str, str]] = field(default_factory=set, repr=False)

    def changed(self, node: Node, what: str) -> None:
        """Record a change. Call it while the node still has its old name and op."""
        self.changes.append(Entry(node.name, node.op, what))

    def leave(self, node: Node, why: str) -> None:
        """Record a refusal; saying the same twice counts once."""
        key = (node.name, why)
        if key not in self._left_seen:
            self._left_seen.add(key)
            self.left.append(Entry(node.name, node.op, why))

    def forget_left(self, told: int = 0) -> None:
        """Drop the refusals but for the first `told`: a new pass over the graph will find the ones that still
        hold.
        """
        del self.left[told:]
        self._left_seen = {(entry.node, entry.text) for entry in self.left}

    def reasons(self) -> list[tuple[str, int, str]]:
        """(reason, how often, an example node), most frequent first."""
        return reasons(self.left)
