"""Values: the edges of a graph, each of which knows every place that reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from thinflow.ir.types import UNKNOWN, DType, Shape, TensorSpec

if TYPE_CHECKING:
    from thinflow.ir.node import Node


class Use(NamedTuple):
    """One place that reads a value: input number `index` of `node`."""

    node: Node
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here


# `tuple.__new__` in C, where the generated `__new__` would be a Python function.
make_use = cast("Callable[[tuple[Node, int]], Use]", partial(tuple.__new__, Use))
"""A Use from (node, index), without the NamedTuple's own constructor: edges are made by the million."""


class Value:
    """One output port of a node: an edge with its readers.

    Attributes:
        node: the producer.
        port: output number on it.
        spec: type and shape as far as shape inference found them; see `analysis.shapes`.
    """

    __slots__ = ("_uses", "node", "port", "spec")

    def __init__(self, node: Node, port: int) -> None:
        self.node = node
        self.port = port
        self.spec: TensorSpec = UNKNOWN
        # Most values have one reader, and a dict takes more room than all the rest of a value.
        self._uses: Use | dict[Use, None] | None = None

    @property
    def name(self) -> str:
        """`node`, or `node:port` for a port above 0."""
        return f"{self.node.name}:{self.port}" if self.port else self.node.name

    @property
    def dtype(self) -> DType | None:
        return self.spec.dtype

    @property
    def shape(self) -> Shape:
        return self.spec.shape

    @property
    def uses(self) -> tuple[Use, ...]:
        """Every data input that reads this value, in the order the edges were made."""
        uses = self._uses
        return (uses,) if isinstance(uses, Use) else tuple(uses or ())

    @property
    def is_used(self) -> bool:
        """Whether any data input reads this value."""
        return bool(self._uses)

    @property
    def readers(self) -> tuple[Node, ...]:
        """The nodes that read this value, each once."""
        uses = self._uses
        if isinstance(uses, Use):
            return (uses.node,)
        return tuple(dict.fromkeys(use.node for use in uses or ()))

    @property
    def is_graph_output(self) -> bool:
        """Whether somebody asked for this value. O(1)."""
        graph = self.node.graph
        return graph is not None and self in graph._output_set

    @property
    def is_graph_input(self) -> bool:
        """Whether this value is fed from outside. O(1)."""
        graph = self.node.graph
        return graph is not None and self in graph._input_set

    def replace_uses(self, other: Value, *, keep: Iterable[Node] = ()) -> int:
        """Let every reader but those in `keep` read `other` instead; the number of inputs changed.
        O(readers).

        Graph outputs are not changed: whoever asked for them asked by name.
        """
        kept = set(keep)
        uses = [use for use in self.uses if use.node not in kept]
        for use in uses:
            use.node.set_input(use.index, other)
        return len(uses)

    def _add_use(self, use: Use) -> None:
        uses = self._uses
        # None, or a dict that readers have left.
        if not uses:
            self._uses = use
        elif isinstance(uses, Use):
            # A dict keeps the order in which edges were made and drops a use without a search.
            self._uses = {uses: None, use: None}
        else:
            uses[use] = None

    def _drop_use(self, use: Use) -> None:
        uses = self._uses
        if isinstance(uses, Use):
            self._uses = None if uses == use else uses
        elif uses:
            uses.pop(use, None)

    def __repr__(self) -> str:
        return f"Value({self.name})"
