"""First divergence of two graphs that should compute the same.

Values are paired by structure, so the graphs may use different names. A value that differs and is made good
again further down (half of a fold: other weights, and no norm behind them) is not to blame: the search goes
up from the outputs that differ, and stops where the graphs agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.compare.differences import Difference, difference
from thinflow.compare.match import Match
from thinflow.compare.match_nodes import match_nodes
from thinflow.errors import FeedError, UnsupportedOp
from thinflow.interpreter import Plan
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Value
from thinflow.ops.random import repeatable_randomness
from thinflow.typing import Array

Feeds = Mapping[Value, Array]


@brief_repr
@dataclass(frozen=True)
class Divergence:
    """The first value, in running order, that differs and reaches an output that differs.

    Attributes:
        name, op: of the value in the first graph.
        twin, twin_op: of its twin in the second.
        index: where in the tensor the largest difference is.
        before, after: the two numbers there.
        relative: the largest difference over the largest value.
        step: between neighbouring codes, where the value is quantized in one of them; else 0.
    """

    name: str
    op: str
    twin: str
    twin_op: str
    index: tuple[int, ...] = ()
    before: Any = None
    after: Any = None
    relative: float = 0.0
    step: float = 0.0

    def __str__(self) -> str:
        if self.name == self.twin:
            return self.name
        return f"{self.name} in the first, {self.twin} in the second"

    @property
    def detail(self) -> str:
        """The values, for people."""
        ops = self.op if self.op == self.twin_op else f"{self.op} and {self.twin_op}"
        codes = ""
        if self.step:
            apart = abs(float(self.before) - float(self.after))
            codes = f", {apart / self.step:.3g} codes of {self.step:.3g}"
        gap = f"{self.relative:.3g} relative{codes}"
        return f"  {ops}, at {list(self.index)}: {self.before} and {self.after} ({gap})"


def find_divergence(
    a: Graph,
    b: Graph,
    feeds: tuple[Feeds, Feeds],
    outputs: Match[Value],
    tolerance: float,
) -> Divergence | None:
    """Run both on the reference interpreter and look inside.

    Keeps every value of the first graph that has a twin until the second has run.

    Args:
        a, b: the graphs.
        feeds: what each gets.
        outputs: what is to agree.
        tolerance: relative difference up to which two values agree.

    Returns:
        None if nothing differs, or no look inside is possible as an op has no kernel.
    """
    nodes = match_nodes(a, b)
    # Outputs are paired as the caller says; inner values as the structure has it.
    wanted = {v: w for v in _values(a) if (w := outputs.pairs.get(v) or nodes.value(v)) is not None}
    states = _compare_inside((a, b), feeds, outputs, wanted)
    blamed = _above_bad_outputs(states, list(outputs.pairs), tolerance)
    for value, found in states.items():  # in running order
        if value in blamed and found.relative > tolerance:
            return _divergence(value, wanted[value], found)
    return None


def _values(graph: Graph) -> list[Value]:
    return [v for node in graph for v in (node.outputs or (node.output(),))]


def _compare_inside(
    graphs: tuple[Graph, Graph],
    feeds: tuple[Feeds, Feeds],
    outputs: Match[Value],
    wanted: Mapping[Value, Value],
) -> dict[Value, Difference]:
    """The difference of every value of the first graph that has a twin and was computed, in running order."""
    seen: dict[Value, Array] = {}
    gaps: dict[Value, Difference] = {}
    # A value of the second graph may stand for several of the first: duplicates that were merged.
    ours: dict[Value, list[Value]] = {}
    for value, twin in wanted.items():
        ours.setdefault(twin, []).append(value)

    def remember(value: Value, array: Any) -> None:
        if value in wanted and isinstance(array, np.ndarray):
            # The second graph's values are compared as they come and not kept.
            seen[value] = array

    def check(twin: Value, array: Any) -> None:
        for value in ours.get(twin, ()):
            if value in seen and isinstance(array, np.ndarray):
                gaps[value] = difference(seen[value], array)

    _observe(graphs[0], feeds[0], list(outputs.pairs), remember)
    _observe(graphs[1], feeds[1], list(outputs.pairs.values()), check)
    return {value: gaps[value] for value in seen if value in gaps}


def _above_bad_outputs(
    states: Mapping[Value, Difference], outputs: Sequence[Value], tolerance: float
) -> set[Value]:
    """All that leads to a differing output without passing a value that agrees."""
    above: set[Value] = set()
    stack = [v for v in outputs if v in states and states[v].relative > tolerance]
    while stack:
        value = stack.pop()
        # A value without a twin says nothing and is passed through.
        if value in above or (value in states and states[value].relative <= tolerance):
            continue
        above.add(value)
        stack.extend(value.node.inputs)
    return above


def _divergence(value: Value, twin: Value, found: Difference) -> Divergence:
    ends = value.name, value.node.op, twin.name, twin.node.op
    return Divergence(*ends, found.index, found.before, found.after, found.relative)


def _observe(
    graph: Graph, feeds: Feeds, outputs: Sequence[Value], watch: Callable[[Value, Any], None]
) -> None:
    try:
        # Else two graphs with random numbers would differ for no other reason.
        with repeatable_randomness():
            Plan(graph, list(dict.fromkeys(outputs)), list(feeds)).run(feeds, watch)
    except (UnsupportedOp, FeedError):
        return  # the outputs were compared on another engine; without kernels there is no inside view
