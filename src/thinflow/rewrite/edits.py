"""Edits that several transforms share: building at a place, sweeping what became useless, annotations that
name other nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
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
    """True if somebody outside asked for the node by name."""
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


# --- colocation: the attribute `_class` names nodes to stay together with on one device -------------------

_PREFIX = b"loc:@"


def _place(item: object) -> str | None:
    """The node that an item of `_class` names; None if it names none."""
    if not isinstance(item, bytes) or not item.startswith(_PREFIX):
        return None
    # Names of a file need not be UTF-8: in this way any bytes get into text and out of it again.
    return item[len(_PREFIX) :].decode("utf-8", "surrogateescape")


def _set_colocation(node: Node, annotation: Attr) -> None:
    node.attrs["_class"] = annotation
    if not annotation:
        del node.attrs["_class"]


def renamed_colocation(annotation: Attr, new_names: Mapping[str, str]) -> Attr:
    """One `_class` annotation with other names."""
    if not isinstance(annotation, tuple):
        return annotation
    places = [new_names.get(_place(item) or "") for item in annotation]
    return tuple(
        item if name is None else _PREFIX + name.encode("utf-8", "surrogateescape")
        for item, name in zip(annotation, places, strict=True)
    )


def rename_colocation(graph: Graph, new_names: Mapping[str, str]) -> None:
    """Let every `_class` annotation follow nodes that were renamed. O(nodes)."""
    for node in graph:
        old = node.attrs_view.get("_class")
        if old is not None and (new := renamed_colocation(old, new_names)) != old:
            node.attrs["_class"] = new


def adapt_moved_colocation(node: Node, new_names: Mapping[str, str]) -> None:
    """Let the `_class` annotation of a node that came out of a function's body follow its neighbours.

    What it names there and did not come along is dropped: TensorFlow refuses a graph that names it.

    Args:
        new_names: names in the body -> in the graph, arguments included.
    """
    old = node.attrs_view.get("_class")
    if isinstance(old, tuple):
        came_along = tuple(item for item in old if (name := _place(item)) is None or name in new_names)
        _set_colocation(node, renamed_colocation(came_along, new_names))


def drop_dangling_colocation(graph: Graph, names_before: Set[str]) -> None:
    """Remove `_class` annotations that name nodes gone since; TensorFlow would refuse them. O(nodes)."""
    # Only names that were there before: what the file itself names in vain is left as it came.
    gone = {name for name in names_before if name not in graph}
    for node in graph if gone else ():
        old = node.attrs_view.get("_class")
        if isinstance(old, tuple) and any(_place(item) in gone for item in old):
            _set_colocation(node, tuple(item for item in old if _place(item) not in gone))
