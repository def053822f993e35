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


# --- `_class` annotations, which name the nodes to stay together with ------------------------------------

_PREFIX = b"loc:@"


def rename_classes(graph: Graph, new_names: Mapping[str, str]) -> None:
    """Let every `_class` annotation follow nodes that were renamed. O(nodes)."""
    for node in graph:
        old = node.attrs_view.get("_class")
        if old is None:
            continue
        new = renamed_class(old, new_names)
        if new != old:
            node.attrs["_class"] = new


def renamed_class(annotation: Attr, new_names: Mapping[str, str]) -> Attr:
    """One `_class` annotation with other names."""
    if not isinstance(annotation, tuple):
        return annotation
    return tuple(_renamed(item, new_names) if isinstance(item, bytes) else item for item in annotation)


def adapt_moved_class(node: Node, new_names: Mapping[str, str]) -> None:
    """Let the `_class` annotation of a node that came out of a function's body follow its neighbours.

    What it names there and did not come along is dropped: TensorFlow refuses a graph that names it.

    Args:
        new_names: names in the body -> in the graph, arguments included.
    """
    old = node.attrs_view.get("_class")
    if not isinstance(old, tuple):
        return
    gone = {item for item in old if isinstance(item, bytes) and _lost(item, new_names)}
    _set_class(node, renamed_class(tuple(item for item in old if item not in gone), new_names))


def _lost(item: bytes, names: Mapping[str, str]) -> bool:
    # Names of a file need not be UTF-8: in this way any bytes get into text and out of it again.
    name = item[len(_PREFIX) :].decode("utf-8", "surrogateescape")
    return item.startswith(_PREFIX) and name not in names


def _set_class(node: Node, annotation: Attr) -> None:
    node.attrs["_class"] = annotation
    if not annotation:
        del node.attrs["_class"]


def _renamed(item: bytes, new_names: Mapping[str, str]) -> bytes:
    if not item.startswith(_PREFIX):
        return item
    name = item[len(_PREFIX) :].decode("utf-8", "surrogateescape")
    return _PREFIX + new_names[name].encode("utf-8", "surrogateescape") if name in new_names else item


def drop_lost_classes(graph: Graph, names_before: Set[str]) -> None:
    """Remove `_class` annotations that name nodes gone since; TensorFlow would refuse them. O(nodes)."""
    # Only names that were there before: what the file itself names in vain is left as it came.
    lost = {_PREFIX + name.encode("utf-8", "surrogateescape") for name in names_before if name not in graph}
    if not lost:
        return
    for node in graph:
        old = node.attrs_view.get("_class")
        if isinstance(old, tuple) and not lost.isdisjoint(old):
            _set_class(node, tuple(item for item in old if item not in lost))
