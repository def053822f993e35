"""What a transform must know of a graph besides its edges: who asked for what, and which values are constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.rewrite.pattern import TRANSPARENT

Array = np.ndarray[Any, Any]


class Roles:
    """A snapshot of the inputs and outputs of a graph, for O(1) questions. Make a new one after they changed."""

    def __init__(self, graph: Graph) -> None:
        self.fed = frozenset(graph.inputs)
        self.wanted = frozenset(graph.outputs)
        self.protected = frozenset(v.node for v in (*graph.inputs, *graph.outputs))

    def constant(self, value: Value) -> Node | None:
        """The Const node behind a value, through pass-through ops; None if there is none or the caller feeds the value."""
        while True:
            if value in self.fed or value.port != 0:
                return None
            node = value.node
            if node.tensor is not None:
                return node
            if node.op not in TRANSPARENT or not node.inputs:
                return None
            value = node.inputs[0]

    def tensor(self, value: Value) -> Tensor | None:
        """The constant behind a value."""
        node = self.constant(value)
        return None if node is None else node.tensor

    def is_sole_reader(self, reader: Node, value: Value) -> bool:
        """Whether a constant may be changed in place: only `reader` reads it, once, and nobody asked for it.

        Nodes that merely wait for it do not count.
        """
        while True:
            if len(value.uses) != 1 or value.uses[0].node is not reader or value.node in self.protected:
                return False
            reader = value.node
            if reader.tensor is not None:
                return True
            value = reader.inputs[0]


def awaited_by_constant(value: Value) -> list[Node]:
    """What a constant (and any pass-through op in front of it) waits for: the control edges that a substitute needs."""
    nodes: dict[Node, None] = {}
    while True:
        nodes.update(dict.fromkeys(value.node.control_inputs))
        if value.node.tensor is not None or not value.node.inputs:
            return list(nodes)
        value = value.node.inputs[0]


def become_constant(node: Node, tensor: Tensor, origin: str) -> None:
    """Turn a node into a Const in place: name, position, readers and control edges stay."""
    node.attrs.clear()
    node.attrs.update({"dtype": tensor.dtype, "value": tensor})
    node.op = "Const"
    node.source = None  # nothing of the old record describes the constant
    node.origin = origin
    node.set_inputs(())
