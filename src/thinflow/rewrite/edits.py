"""Edits that several transforms share: building at a place, sweeping what became useless."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ops.traits import Trait, has


class Site:
    """A place in a graph where a transform builds: new nodes stand right before it and carry the transform's
    name.

    Attributes:
        made: the nodes built here so far.
    """

    def __init__(self, graph: Graph, before: Node, origin: str) -> None:
        self.graph = graph
        self.before = before
        self.origin = origin
        self.made: set[Node] = set()

    def add(
        self,
        op: str,
        *inputs: Value,
        name: str = "",
        attrs: Mapping[str, Attr] | None = None,
        device: str = "",
    ) -> Value:
        """A new node's first output; inputs are values of the graph."""
        node = self.graph.add(
            op, inputs, name or f"{self.before.name}/{op}", attrs=attrs, device=device, before=self.before
        )
        node.origin = self.origin
        self.made.add(node)
        return node.output()

    def constant(self, content: Tensor | np.ndarray[Any, Any], name: str) -> Value:
        """A new constant."""
        value = self.graph.constant(content, name, before=self.before)
        value.node.origin = self.origin
        self.made.add(value.node)
        return value


def is_protected(graph: Graph, node: Node) -> bool:
    """Whether somebody outside asked for the node by name."""
    return node.graph is graph and node.is_protected


def sweep(graph: Graph, candidates: Iterable[Node]) -> int:
    """Remove the candidates that nothing uses, then whatever only they used. Inputs, outputs and placeholders
    stay.

    O(nodes removed and their edges).
    """
    removed = 0
    stack = [n for n in candidates if n.graph is graph]
    while stack:
        node = stack.pop()
        # Placeholders stay even if nothing reads them: callers feed them by name.
        if node.graph is not graph or node.is_used or node.is_protected or has(node.op, Trait.PLACEHOLDER):
            continue
        sources = [v.node for v in node.inputs] + list(node.control_inputs)
        graph.remove(node)
        removed += 1
        stack.extend(s for s in sources if s.graph is graph)
    return removed
