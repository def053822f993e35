"""The first batch norm of a graph, which remembers what it saw in training: its input then and now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from thinflow.errors import ThinflowError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import execution_order
from thinflow.ir.tensor import Tensor
from thinflow.ops.traits import Trait, has
from thinflow.typing import Array

# Pixels of 0..255 in place of -1..1 are spread 127.5 times as wide, in place of 0..1 255 times. On a scale
# of factors 8 lies between those and 1, where a set of other pictures should be.
FAR = 8.0
"""Times as large or small as in training: what other pictures do not do, and a wrong range does."""


class Gap(NamedTuple):
    """What a batch norm sees, beside what it saw in training.

    Attributes:
        times: its spread now over that in training.
        nats: divergence (Kullback and Leibler) of the normal distribution with its mean and variance of now
            from that of training. Both are of the middle channel.
    """

    times: float
    nats: float

    @property
    def is_far(self) -> bool:
        """True if numbers are so much larger or smaller than in training that it is no chance."""
        return not 1 / FAR < self.times < FAR


@dataclass(frozen=True)
class FirstNorm:
    """A batch norm in inference mode that reads an input with no other in between.

    Attributes:
        graph: as it came, its batch norms not folded yet.
        mean, variance: float64 [channels] of its input in training.
    """

    graph: Graph
    node: Node
    mean: Array
    variance: Array

    def gap(self, feeds: Iterable[Mapping[Value, Array]]) -> Gap | None:
        """How samples differ from those of training; None if they do not run, or no channel is alive."""
        x = self.node.inputs[0]
        try:
            plan = Plan(self.graph, [x], self.graph.inputs)
            rows = [plan.run(dict(feed))[0] for feed in feeds]
        except ThinflowError:
            return None
        # The graph came as it is: attributes read from a file are bytes, those set here text.
        axis = 1 if self.node.get("data_format") in (b"NCHW", "NCHW") else -1
        columns = [np.moveaxis(row, axis, -1).reshape(-1, self.mean.size) for row in rows]
        if not columns:
            return None
        seen = np.concatenate(columns).astype(np.float64)
        mean, variance = seen.mean(axis=0), seen.var(axis=0)
        # Dead channels have a variance of 0, and say nothing.
        known = (self.variance > 0) & (variance > 0)
        if not known.any():
            return None
        ratio = variance[known] / self.variance[known]
        shift = np.square(mean[known] - self.mean[known]) / self.variance[known]
        nats = (ratio + shift - 1 - np.log(ratio)) / 2
        # The median: a few channels may well see what training did not show them.
        return Gap(float(np.sqrt(np.median(ratio))), float(np.median(nats)))


def first_norm(graph: Graph) -> FirstNorm | None:
    """The first batch norm of a graph; None if there is none, or its statistics are not there."""
    node = _first(graph)
    if node is None:
        return None
    # Inputs 3 and 4 of (x, scale, offset, mean, variance), or 1 and 2 of (x, mean, variance, beta, gamma).
    places = (3, 4) if has(node.op, Trait.FUSED_BATCH_NORM) else (1, 2)
    mean, variance = (constant(node.inputs[place]) for place in places)
    if mean is None or variance is None:
        return None
    found = [tensor.numpy().astype(np.float64).reshape(-1) for tensor in (mean, variance)]
    return FirstNorm(graph, node, *found) if found[0].size and found[0].size == found[1].size else None


def constant(value: Value) -> Tensor | None:
    """The constant behind a value, which frozen graphs read through an Identity; None if it is computed."""
    node = value.node
    while node.op == "Identity" and node.inputs:
        node = node.inputs[0].node
    return node.tensor


def _first(graph: Graph) -> Node | None:
    """The batch norm that comes first in the graph's order and reads an input with no other in between."""
    behind: set[Node] = {v.node for v in graph.inputs}
    for node in execution_order(graph):
        if not has(node.op, Trait.BATCH_NORM):
            behind.update({node} if any(v.node in behind for v in node.inputs) else ())
        elif node.inputs[0].node in behind:
            # A norm in training mode has no statistics; FusedBatchNorm trains unless it says otherwise.
            return None if node.get("is_training", has(node.op, Trait.FUSED_BATCH_NORM)) else node
    return None
