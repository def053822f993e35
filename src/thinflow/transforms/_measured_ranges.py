"""Ranges of eight-bit graphs over samples, as `freeze_requantization_ranges` reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from thinflow.errors import ParameterError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Node, Value
from thinflow.transforms.freeze_requantization_ranges import RANGE_OPS, measures_floats, record_line
from thinflow.typing import Array


def log_ranges(graph: Graph, feeds: Iterable[Mapping[Value, Array]]) -> str:
    """A log of the ranges that a graph finds while it runs: a line for each run of each node.

    Args:
        graph: with RequantizationRange, or QuantizeV2 of floats whose range is not constant.
        feeds: one or more runs, each an array for every input of the graph.

    Raises:
        ParameterError: no feeds.
        NodeError: a node cannot be run.
    """
    ends = [_ends(node) for node in graph if node.op in RANGE_OPS or measures_floats(node)]
    wanted = list(dict.fromkeys(v for pair in ends for v in pair))
    lines: list[str] = []
    has_run = False
    for feed in feeds:
        results = Plan(graph, wanted, list(feed)).run(feed)
        found = dict(zip(wanted, (_numbers(r) for r in results), strict=True))
        lines += [record_line(low.node.name, (found[low], found[high])) for low, high in ends]
        has_run = True
    if not has_run:
        raise ParameterError("there are no inputs to measure on", hint="give at least one sample")
    return "".join(lines)


def _ends(node: Node) -> tuple[Value, Value]:
    """The outputs of a node that hold the range."""
    first = 0 if node.op in RANGE_OPS else 1
    return node.output(first), node.output(first + 1)


def _numbers(array: Any) -> tuple[float, ...]:
    return tuple(np.asarray(array, np.float32).reshape(-1).tolist())
