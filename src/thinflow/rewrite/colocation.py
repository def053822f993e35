"""`_class` annotations, which name the nodes to stay together with."""

from __future__ import annotations

from collections.abc import Mapping, Set

from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node

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
