"""Problems of a graph: its broken rules."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Problem:
    """One broken rule of a graph. Two are equal if they are of one kind at one node, however the text puts
    it.

    Attributes:
        kind: "missing input", "duplicate name", "illegal name", "port", "cycle", "order" or "interface".
        node: name of the node at fault.
        text: the problem in words.
    """

    kind: str
    node: str
    text: str = field(compare=False)

    def __str__(self) -> str:
        return f"node '{self.node}': {self.text}" if self.node else self.text
