"""Finds the part of a graph that a LiteRT model can hold, and runs what stands before and after it.

A model for phones starts where the numbers start: decoding a WAV file or a JPEG is the app's business, and so
is what a
detector does with its boxes. The core is the heaviest region LiteRT can run whole; before and after it the
interpreter
runs, so that the whole graph can still be judged on real files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.analysis.cost import graph_cost
from thinflow.analysis.interface import HEAVY
from thinflow.engines.partition import partition
from thinflow.errors import UnsupportedOp
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Node, Value
from thinflow.lower.tflite.convert import unsupported

Array = np.ndarray[Any, Any]


@dataclass
class Core:
    """A graph cut into what runs before, inside and after the LiteRT model.

    Attributes:
        graph: the graph that was cut.
        inputs, outputs: what goes into the LiteRT model and comes out of it.
        nodes: what the model holds.
        outside: node -> why it is not in the model; empty when everything is.
    """

    graph: Graph
    inputs: list[Value]
    outputs: list[Value]
    nodes: list[Node]
    outside: dict[Node, str]

    def __post_init__(self) -> None:
        fed = self.graph.inputs
        ahead = [v for v in self.inputs if v not in fed]
        self._before = Plan(self.graph, ahead, fed) if ahead else None
        self._ahead = ahead
        # What the end needs from elsewhere: results of the core, fed inputs, and values made before the core.
        self._is_whole = all(v in self.outputs for v in self.graph.outputs)
        self._after = None if self._is_whole else Plan(self.graph, self.graph.outputs, [*self.outputs, *fed])

    def before(self, feed: Mapping[Value, Array]) -> list[Array]:
        """The core's inputs for a feed of the whole graph."""
        made = dict(feed)
        if self._before is not None:
            made.update(zip(self._ahead, self._before.run(dict(feed)), strict=True))
        return [made[v] for v in self.inputs]

    def after(self, results: Sequence[Array], feed: Mapping[Value, Array]) -> list[Array]:
        """The whole graph's outputs from the core's."""
        made = dict(zip(self.outputs, results, strict=True))
        if self._after is None:
            return [made[v] for v in self.graph.outputs]
        return self._after.run({**feed, **made})


def find_core(graph: Graph) -> Core:
    """The heaviest region that LiteRT can run as one model. Shape inference must have run.

    Raises:
        UnsupportedOp: it can run nothing that computes; names the first reason.
    """
    plan = Plan(graph, graph.outputs, graph.inputs)
    looped = set(plan.looped)
    refused = unsupported(graph, [n for n in plan.nodes if n.tensor is None and n not in looped], specs={})
    refused |= {n: "it is inside a TF1 while loop, which LiteRT models cannot hold yet" for n in looped}
    regions = [
        r for r in partition(plan.nodes, graph.inputs, graph.outputs, refused) if r.on_engine and r.outputs
    ]
    if not regions:
        node, why = next(iter(refused.items()), (None, "there is nothing to compute"))
        raise UnsupportedOp(
            f"no part of the graph can become a LiteRT model: {why}",
            node.where if node is not None else "",
            hint="`thinflow inspect MODEL` shows its ops; the reference engine still runs it",
        )
    weights = [graph_cost(graph, r.nodes).total.flops + len(r.nodes) for r in regions]
    core = regions[int(np.argmax(weights))]
    if looped and not any(n.op in HEAVY for n in core.nodes if n.op != "MatMul"):
        raise UnsupportedOp(
            "the work of this model is done inside a TF1 while loop, which LiteRT models cannot hold yet",
            next(iter(looped)).where,
            hint="`thinflow transform` and `thinflow run` handle it; the reference engine runs the loop",
        )
    inside = set(core.nodes)
    reason = "it stands before or after a node that LiteRT cannot run"
    outside = {n: refused.get(n, reason) for n in plan.nodes if n.tensor is None and n not in inside}
    inputs, outputs = _ordered(core.inputs, graph.inputs), _ordered(core.outputs, graph.outputs)
    return Core(graph, inputs, outputs, core.nodes, outside)


def _ordered(values: Sequence[Value], wanted: Sequence[Value]) -> list[Value]:
    """Those the graph itself has come first and in its order, since programs count on positions."""
    found = set(values)
    first = [v for v in wanted if v in found]
    return first + [v for v in values if v not in first]
