"""Runs a graph with the numpy kernels: slow, exact, and the reference for every other engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from thinflow.errors import FeedError, NodeError, ThinflowError, UnsupportedOp
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors, execution_order
from thinflow.ops import registry

Array = np.ndarray[Any, Any]
Observer = Callable[[Value, Array], None]


class Plan:
    """A graph prepared for running: what to run in which order, and when each value can be dropped.

    Args:
        graph: must not change while the plan is in use.
        outputs: what to compute.
        inputs: values that will be fed; nothing above them runs.
    """

    def __init__(self, graph: Graph, outputs: Sequence[Value], inputs: Sequence[Value] = ()) -> None:
        self.outputs = list(outputs)
        self.inputs = list(inputs)
        # A node is cut away only when every port that is read is fed.
        cut = frozenset(v.node for v in inputs if all(o in self.inputs for o in v.node.outputs if o.uses or o in self.outputs))
        needed = ancestors([v.node for v in outputs], stop=cut)
        self.steps = [n for n in execution_order(graph) if n in needed and n not in cut]
        self.drops = self._last_uses()

    def _last_uses(self) -> list[list[Value]]:
        last: dict[Value, int] = {}
        for index, node in enumerate(self.steps):
            for value in (*node.outputs, *node.inputs):
                last[value] = index
        keep = set(self.outputs)
        drops: list[list[Value]] = [[] for _ in self.steps]
        for value, index in last.items():
            if value not in keep:
                drops[index].append(value)
        return drops

    def run(self, feeds: Mapping[Value, Array], observe: Observer | None = None) -> list[Array]:
        """Compute the outputs.

        Args:
            feeds: an array for every input of the plan.
            observe: called with each computed value, in order.

        Raises:
            FeedError: an input is missing.
            NodeError: a node failed, or its op has no kernel; the error names it.
        """
        values: dict[Value, Array] = dict(feeds)
        for node, drops in zip(self.steps, self.drops, strict=True):
            results = run_node(node, [values[v] for v in node.inputs])
            for port, result in enumerate(results):
                value = node.output(port)
                if value not in feeds:
                    values[value] = result
                    if observe is not None:
                        observe(value, result)
            for value in drops:
                values.pop(value, None)
        try:
            return [values[v] for v in self.outputs]
        except KeyError as error:
            raise FeedError(f"'{error.args[0].name}' is not computed: {error.args[0].node.where} has no such output") from None


def run_node(node: Node, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """Outputs of one node, by its kernel.

    Raises:
        NodeError: placed at the node.
    """
    if node.op in {"Placeholder", "PlaceholderV2"}:
        raise FeedError("nothing was fed", node.where, hint=f"pass a value for '{node.name}'")
    tensor = node.tensor
    if tensor is not None:
        return (tensor.numpy(),)
    definition = registry.find(node.op)
    if definition is None or definition.kernel is None:
        raise UnsupportedOp(
            "the reference engine has no kernel for this op", node.where, hint="add one in src/thinflow/ops/, see CONTRIBUTING.md"
        )
    try:
        return tuple(np.asarray(r) for r in registry.call_kernel(definition, inputs, node.attrs))
    except ThinflowError as error:
        raise error.at(node.where) from error
    except (ValueError, TypeError, IndexError, ArithmeticError, KeyError) as error:
        shapes = ", ".join(f"{x.dtype}{list(x.shape)}" for x in inputs)
        raise NodeError(f"{error} (inputs: {shapes})", node.where) from error
