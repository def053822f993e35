"""Profiles: the times of a model's operators, and how they are collected."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from thinflow.analysis.node_stats import NodeStats
from thinflow.errors import EngineUnavailable
from thinflow.interpreter import Plan
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Value
from thinflow.ir.types import TensorSpec
from thinflow.typing import Array

Step = tuple[str, str, int, int]
"""Node name, op, microseconds, bytes of its outputs."""


@dataclass(frozen=True)
class Part:
    """A part of a graph, which runs somewhere as a whole.

    Attributes:
        name: number and engine: "2 reference".
        engine: that runs it.
        nodes: of the graph, how many.
        micros: of its nodes in a run, the sum of their medians.
    """

    name: str
    engine: str
    nodes: int
    micros: float

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {"name": self.name, "engine": self.engine, "nodes": self.nodes, "ms": self.micros / 1000}


@brief_repr
@dataclass
class Profile:
    """The times of a model's operators over several runs.

    Attributes:
        stats: microseconds and bytes by node; tables as TensorFlow's tools print them.
        engine, threads: what ran it.
        method: how the times were come by, in a sentence.
        kernels: node name -> the engine's name for the code that ran; missing where it has none.
        whole_micros: each run from start to end, with what lies between the operators.
        outputs: node name -> types and sizes of what it computed, where the engine tells.
        parts: of a graph that runs in parts, in their order; empty where one engine runs all of it.
        part_of: node name -> name of its part.
        fed: what the model was run with, in words.
    """

    stats: NodeStats
    engine: str
    threads: int
    method: str
    kernels: dict[str, str] = field(default_factory=dict)
    whole_micros: list[int] = field(default_factory=list)
    outputs: dict[str, list[TensorSpec]] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    part_of: dict[str, str] = field(default_factory=dict)
    fed: str = ""


def collect(runs: Iterable[Sequence[Step]]) -> NodeStats:
    """The statistics of several runs."""
    stats = NodeStats()
    for steps in runs:
        stats.add_run(steps)
    return stats


def observed(plan: Plan, feeds: Mapping[Value, Array]) -> tuple[list[Step], int]:
    """One run of the interpreter: its nodes, and the microseconds of all of it."""
    steps: list[Step] = []
    begin = last = time.perf_counter_ns()

    def observe(value: Value, array: Array) -> None:
        nonlocal last
        now = time.perf_counter_ns()
        steps.append((value.node.name, value.node.op, (now - last) // 1000, getattr(array, "nbytes", 0)))
        # Read again at the end, so that taking notes counts for no node.
        last = time.perf_counter_ns()

    plan.run(feeds, observe)
    return _merged(steps), (time.perf_counter_ns() - begin) // 1000


def _merged(steps: Sequence[Step]) -> list[Step]:
    """The outputs of one node in one step; what is computed again in a loop stays apart."""
    merged: list[Step] = []
    for step in steps:
        # The observer is told of one output after the other, so those of one node stand together.
        if merged and merged[-1][0] == step[0] and merged[-1][1] == step[1]:
            name, op, micros, size = merged.pop()
            step = (name, op, micros + step[2], size + step[3])
        merged.append(step)
    return merged


def require_fixed(arrays: Sequence[Array]) -> None:
    """Refuse what cannot be handed over as a block of memory.

    Raises:
        EngineUnavailable: an input holds strings.
    """
    if any(a.dtype.hasobject or a.dtype.kind in "SU" for a in arrays):
        raise EngineUnavailable(
            "a model that is fed strings cannot be profiled here", hint="use engine='reference'"
        )
