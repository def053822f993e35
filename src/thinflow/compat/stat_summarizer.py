"""Time and memory node by node, inside an app: TensorFlow's StatSummarizer in its four steps.

summarizer = thinflow.StatSummarizer("model.pb", options)      # 1 create, 2 options; and engine="litert"
summarizer.run(["softmax"], {"input": image})                  # 3 run, as often as wanted
print(summarizer.output_string())                              # 4 print
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from thinflow.analysis.node_stats import STYLES, NodeStats, RunSteps
from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import ParameterError
from thinflow.formats.step_stats import from_bytes
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Value
from thinflow.load.sources import open_model

if TYPE_CHECKING:
    from thinflow.typing import Array, Feed

Step = tuple[str, str, int, int]
"""Node name, op, microseconds, bytes of its outputs."""


@runtime_checkable
class StepStatsMessage(Protocol):
    """TensorFlow's StepStats message, of which only the bytes are wanted."""

    def SerializeToString(self) -> bytes: ...


@dataclass(frozen=True)
class StatSummarizerOptions:
    """Choice of the tables in `output_string`, and of their rows; 0: all.

    Attributes:
        style: layout of the tables, "tf2" or "tf1".
    """

    show_run_order: bool = True
    run_order_limit: int = 0
    show_time: bool = True
    time_limit: int = 10
    show_memory: bool = True
    memory_limit: int = 10
    show_type: bool = True
    show_summary: bool = True
    style: str = "tf2"

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            raise ParameterError(
                f"there is no table style '{self.style}'", hint=f"choose {' or '.join(STYLES)}"
            )


class StatSummarizer:
    """Runs a model with a clock at every node, and gathers what it took.

    Args:
        model: a Graph, or the path of a model.
        options: which tables to print.
        engine: what runs it. The interpreter has its own clock at every node. The others have a profiler,
            which starts anew for each run: after computing the values that takes two runs more, and the time
            to make the model ready.
        threads: for the engine.

    Attributes:
        stats: the figures behind the tables.
        graph: what is run.

    Runs measured elsewhere can be added by `process_step_stats`.

    Raises:
        EngineUnavailable: the engine is missing, or does not run such a model.
    """

    def __init__(
        self,
        model: Graph | str | os.PathLike[str],
        options: StatSummarizerOptions | None = None,
        *,
        engine: str = "reference",
        threads: int = 1,
    ) -> None:
        from thinflow.engines.session import Session

        self._model = model
        self._session = Session(model, engine, threads)
        graph = self._session.graph  # of a file that an engine runs as it is, what it says of itself
        if graph is None:
            graph = model if isinstance(model, Graph) else open_model(model)
        self.graph = graph
        infer_shapes(self.graph)
        self.options = options or StatSummarizerOptions()
        self.stats = NodeStats()
        self._plans: dict[tuple[tuple[Value, ...], tuple[Value, ...]], Plan] = {}

    def __repr__(self) -> str:
        return f"StatSummarizer({self.graph!r})"

    def run(self, fetches: Sequence[str] | str, feeds: Feed | None = None) -> list[Array]:
        """Compute values and note what each node took.

        Args:
            fetches: names of values, with or without `:0`.
            feeds: name -> array.

        Raises:
            GraphError: no such value.
            FeedError: an input is missing.
            EngineUnavailable: the engine's profiler cannot be had for this model.
        """
        names = [fetches] if isinstance(fetches, str) else list(fetches)
        if self._session.engine != "reference":
            return self._profiled(names, feeds or {})
        return self._clocked(names, feeds or {})

    def _profiled(self, names: Sequence[str], feeds: Feed) -> list[Array]:
        """Values, and what the nodes take by the engine's profiler."""
        from thinflow.bench.profile import profile

        session = self._session
        # A profiler gives times and no values.
        results = session.run(names, feeds)
        found = profile(
            self._model if session.graph is None else session.graph,
            engine=session.engine,
            threads=session.threads,
            runs=1,
            warmup=1,
            feeds=feeds,
            inputs=list(feeds) if session.graph is not None else None,
            outputs=names if session.graph is not None else None,
        )
        self.process_step_stats(found.stats.last_run())
        return results

    def _clocked(self, names: Sequence[str], feeds: Feed) -> list[Array]:
        """Values, and what the nodes of the interpreter take by the clock."""
        from thinflow.analysis.shapes import declared_spec
        from thinflow.engines._threads import blas
        from thinflow.engines.base import Feed

        wanted = tuple(self.graph.value(name) for name in names)
        given = {self.graph.value(name): array for name, array in feeds.items()}
        fed = {v: Feed(v.name, declared_spec(v)).array(array) for v, array in given.items()}
        # A plan is for fixed fetches and feeds; making one anew would count for the first node.
        key = (wanted, tuple(fed))
        if key not in self._plans:
            self._plans[key] = Plan(self.graph, list(wanted), list(fed))
        plan = self._plans[key]
        steps = RunSteps()
        with blas().limited(self._session.threads):
            results = plan.run(fed, steps.observe)
        self.process_step_stats(steps.taken)
        return list(results)

    def process_step_stats(self, steps: Iterable[Step] | bytes | StepStatsMessage) -> None:
        """Add a run measured elsewhere.

        Args:
            steps: (node name, op, microseconds, bytes) in running order; or what TensorFlow recorded,
                `run_metadata.step_stats`, as the message or its bytes.

        Raises:
            FormatError: the bytes are no StepStats message.
        """
        if isinstance(steps, bytes):
            self.stats.add_run(from_bytes(steps))
        elif isinstance(steps, StepStatsMessage):
            self.stats.add_run(from_bytes(steps.SerializeToString()))
        else:
            self.stats.add_run(steps)

    def output_string(self) -> str:
        """The tables the options ask for, and the summary."""
        options, stats = self.options, self.stats
        parts = []
        if options.show_run_order:
            parts.append(stats.by_order(limit=options.run_order_limit or None, style=options.style))
        if options.show_time:
            parts.append(stats.by_time(limit=options.time_limit or None, style=options.style))
        if options.show_memory:
            parts.append(stats.by_memory(limit=options.memory_limit or None, style=options.style))
        if options.show_type:
            parts.append(stats.by_type(options.style))
        if options.show_summary:
            parts.append(stats.short_summary(len(self.graph)) + "\n")
        return "".join(parts)

    def short_summary(self) -> str:
        """Three lines about whole runs."""
        return self.stats.short_summary(len(self.graph))

    def print_step_stats(self) -> None:
        """Print `output_string`."""
        print(self.output_string())
