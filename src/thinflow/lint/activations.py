"""The values between nodes, as runs on samples show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Value
from thinflow.typing import Array

MOST, FEWEST = 32, 2
"""Samples that are run."""


@dataclass
class Seen:
    """What runs showed of a value.

    Attributes:
        low, high: of each channel, its last axis; NaN where one came up.
        count: of its elements in all runs.
        has_nan: whether one was no number or infinite.
    """

    low: Array
    high: Array
    count: int = 0
    has_nan: bool = False

    def add(self, low: Array, high: Array, count: int) -> None:
        """Take in another run."""
        self.low, self.high = np.minimum(self.low, low), np.maximum(self.high, high)
        self.count += count

    @property
    def spread(self) -> float:
        """The largest number less the smallest."""
        return float(self.high.max() - self.low.min())

    @property
    def largest(self) -> float:
        """The largest absolute number."""
        return float(max(np.abs(self.low).max(), np.abs(self.high).max()))


@dataclass
class Activations:
    """What runs showed of the float values of a graph.

    Attributes:
        values: by value; only those of a few elements or more.
        runs: how many there were.
        made_up: whether the inputs were.
    """

    values: dict[Value, Seen] = field(default_factory=dict)
    runs: int = 0
    made_up: bool = False

    @property
    def origin(self) -> str:
        """Where the numbers are from, in words."""
        made = "made-up input" if self.made_up else "sample"
        return f"{self.runs} {made}{'' if self.runs == 1 else 's'}"


def observed(graph: Graph, feeds: Iterable[Mapping[Value, Array]], *, made_up: bool) -> Activations:
    """Run a graph on samples and look at every float value. No array is kept."""
    plan = Plan(graph, graph.outputs, graph.inputs)
    found = Activations(made_up=made_up)

    def look(value: Value, array: Any) -> None:
        if isinstance(array, np.ndarray) and array.dtype.kind == "f" and array.size > 1:
            _add(found.values, value, array)

    for feed in feeds:
        plan.run(dict(feed), look)
        found.runs += 1
    return found


def _add(values: dict[Value, Seen], value: Value, array: Array) -> None:
    rows = array.reshape(-1, array.shape[-1])
    with np.errstate(invalid="ignore"):
        low, high = rows.min(axis=0), rows.max(axis=0)
    seen = values.get(value)
    if seen is None or seen.low.shape != low.shape:
        # Of other channels in another run: what is known of the first says nothing any more.
        values[value] = seen = Seen(low, high)
    seen.has_nan |= not bool(np.isfinite(low).all() and np.isfinite(high).all())
    seen.add(low, high, array.size)
