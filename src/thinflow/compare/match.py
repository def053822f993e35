"""Matches of two models: which node, value, input or output of one is which of the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Node, Value

T = TypeVar("T")


@brief_repr
@dataclass
class Match(Generic[T]):
    """Corresponding parts of two models, as `match_nodes`, `match_tensors` and `match_io` find them.

    Attributes:
        pairs: part of the first model -> part of the second.
        reverse: the same the other way round.
        equal: parts of the first that compute exactly what their match computes, where that is known.
        guessed: those of `pairs` that only their order speaks for: another of the same form is there.
        notes: how parts of different names were matched, for people.
    """

    pairs: dict[T, T] = field(default_factory=dict)
    reverse: dict[T, T] = field(default_factory=dict)
    equal: set[T] = field(default_factory=set)
    guessed: list[T] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, x: T, y: T) -> None:
        self.pairs[x] = y
        self.reverse[y] = x

    def is_open(self, x: T, y: T) -> bool:
        """True if neither has a match yet."""
        return x not in self.pairs and y not in self.reverse

    def value(self: Match[Node], value: Value) -> Value | None:
        """The match of an output of a node of the first graph; None if there is none."""
        node = self.pairs.get(value.node)
        return None if node is None else node.output(value.port)
