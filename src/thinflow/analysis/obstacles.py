"""Obstacles to running a graph, as far as they show without running it and without reading its weights."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from thinflow.errors import ThinflowError
from thinflow.ir.attrs import Attr, FunctionAttr
from thinflow.ir.graph import Graph, Node, Value, library_of
from thinflow.ir.order import ancestors
from thinflow.ir.tensor import RawStorage, Tensor


def find_obstacles(graph: Graph, outputs: Sequence[Value], shape_failures: Mapping[str, str]) -> list[str]:
    """One sentence for each node that fails whatever is fed, in file order. O(nodes + edges).

    Args:
        graph: whose specs are set.
        outputs: what is wanted; nodes that they do not need are not looked at, if there are any outputs.
        shape_failures: node -> why its shape rule failed.
    """
    needed: Collection[Node] = ancestors([v.node for v in outputs]) if outputs else set(graph)
    sentences = []
    for node in graph:
        if node in needed:
            reason = shape_failures.get(node.name) or _lost_function(node) or _damaged_constant(node)
            sentences += [reason] if reason else []
    return sentences


def _lost_function(node: Node) -> str:
    """Sentence on a function that it calls and the library does not hold; "" if there is none."""
    named = [a for a in node.attrs_view.values() if isinstance(a, FunctionAttr | tuple)]
    if not named:  # nearly all nodes
        return ""
    library = library_of(node)
    lost = next((name for a in named for name in _called(a) if name not in library), None)
    return f"{node.where}: there is no function '{lost}'" if lost is not None else ""


def _called(attr: Attr) -> Iterator[str]:
    if isinstance(attr, FunctionAttr) and attr.name:  # an empty name stands for no function at all
        yield attr.name
    elif isinstance(attr, tuple):
        for item in attr:
            yield from _called(item)


def _damaged_constant(node: Node) -> str:
    """Sentence on bytes that do not make up its shape; "" if they do. Mapped bytes are counted, not read."""
    tensor = node.tensor
    if not isinstance(tensor, Tensor) or not isinstance(tensor.storage, RawStorage):
        return ""
    try:
        tensor.numpy()
    except ThinflowError as error:
        return error.at(node.where).message
    return ""
