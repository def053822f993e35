"""`_class` annotations, which name the nodes to stay together with."""

from __future__ import annotations

from collections.abc import Mapping

from thinflow.ir.graph import Graph

_PREFIX = b"loc:@"


def rename_classes(graph: Graph, new_names: Mapping[str, str]) -> None:
    """Let every `_class` annotation follow nodes that were renamed. O(nodes)."""
    for node in graph:
        old = node.attrs.get("_class")
        if not isinstance(old, tuple):
            continue
        new = tuple(_renamed(item, new_names) if isinstance(item, bytes) else item for item in old)
        if new != old:
            node.attrs["_class"] = new


def _renamed(item: bytes, new_names: Mapping[str, str]) -> bytes:
    if not item.startswith(_PREFIX):
        return item
    name = item[len(_PREFIX) :].decode("utf-8", "surrogateescape")
    return _PREFIX + new_names[name].encode("utf-8", "surrogateescape") if name in new_names else item
