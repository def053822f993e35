"""A graph as a page has it, and what of it can be seen."""

from __future__ import annotations

from thinflow.explorer.building import Built, build
from thinflow.explorer.document import NodeKind, Texts
from thinflow.ir.graph import Graph
from thinflow.load.graphs import declare_interface


class Shown:
    """A built graph with its texts in words."""

    def __init__(self, graph: Graph, *, weights: bool = False) -> None:
        declare_interface(graph)
        self.texts = Texts()
        self.built: Built = build(graph, "g", self.texts, weights=weights)
        self.view = self.built.view
        self.strings = self.texts.strings

    def scope_names(self, parent: int = 0) -> list[str]:
        scopes = self.view.scopes
        return [self.strings[n] for n, p in zip(scopes.name, scopes.parent, strict=True) if p == parent]

    def seen_in(self, scope: int) -> int:
        """Boxes that are seen when a scope is open; constants stand inside their readers."""
        nodes = self.view.nodes
        boxes = sum(
            s == scope and box not in self.built.fixed
            for s, box in zip(nodes.scope, self.built.boxes, strict=True)
        )
        return boxes + self.view.scopes.parent.count(scope)

    def edges(self) -> set[tuple[str, str]]:
        names = [self.strings[n] for n in self.view.nodes.name]
        edges = self.view.edges
        return {(names[a], names[b]) for a, b in zip(edges.source, edges.target, strict=True)}

    def names(self, kind: NodeKind) -> list[str]:
        nodes = self.view.nodes
        return [self.strings[n] for n, k in zip(nodes.name, nodes.kind, strict=True) if k is kind]
