"""The objects of TensorFlow 2: which of them a node of the graph is, and where the checkpoint keeps it.

By the captures of the functions the graph calls, which are the last arguments of a call: the model says
which object each capture is, and the checkpoint numbers its objects alike. Names play no part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from thinflow.formats.checkpoint import Checkpoint
from thinflow.formats.metagraph import MetaGraph
from thinflow.ir.graph import Graph, Node


class Objects:
    """The objects of a model and of its checkpoint. Knows nothing of a model without objects.

    Args:
        graph: the model's main graph.
        meta: what was written beside it.
        checkpoint: where the values are.
    """

    def __init__(self, graph: Graph, meta: MetaGraph, checkpoint: Checkpoint) -> None:
        self._stored = checkpoint.object_graph() if meta.has_objects else None
        self._captured = {} if self._stored is None else dict(_captures(graph, meta.message.object_graph_def))

    def key(self, node: Node, attribute: str) -> str:
        """The checkpoint's key of a part of the object that a node is; "" if there is none."""
        number = self._captured.get(node, -1)
        if self._stored is None or not 0 <= number < len(self._stored.nodes):
            return ""
        attributes = self._stored.nodes[number].attributes
        return next((a.checkpoint_key for a in attributes if a.name == attribute), "")


def _captures(graph: Graph, objects: Any) -> Iterator[tuple[Node, int]]:
    """Nodes that calls capture, each with the number of the object it is."""
    for node in graph:
        function = getattr(node.attrs.get("f"), "name", None)
        if function is None or function not in objects.concrete_functions:
            continue
        captures = list(objects.concrete_functions[function].bound_inputs)
        if captures:
            for value, number in zip(node.inputs[-len(captures) :], captures, strict=False):
                yield value.node, number
