"""The protocol of TensorFlow's benchmark_model: warm-up, a phase that counts, one that looks at nodes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from thinflow.analysis.node_stats import NodeStats, Series
from thinflow.engines.session import Session
from thinflow.errors import EngineUnavailable, FeedError, ParameterError
from thinflow.ir.graph import Graph

if TYPE_CHECKING:
    from thinflow.bench.profile import Profile

Array = np.ndarray[Any, Any]
Log = Callable[[str], None]


@dataclass(frozen=True)
class Phases:
    """How often to run and how long to wait.

    Attributes:
        max_runs: runs of a timed phase; 0 or less: until the time is up.
        max_seconds: summed time of the runs after which a phase ends; 0 or less: no limit.
        warmup_runs: runs before, which count for nothing.
        delay: seconds to sleep between runs.
        phase_delay: seconds to sleep before each timed phase.
    """

    max_runs: int = 1000
    max_seconds: float = 10.0
    warmup_runs: int = 1
    delay: float = -1.0
    phase_delay: float = -1.0

    def __post_init__(self) -> None:
        if self.max_runs <= 0 and self.max_seconds <= 0:
            raise ParameterError(
                "neither the number of runs nor the time is limited", hint="give --max_num_runs or --max_time"
            )


@dataclass
class Measured:
    """What the phases took, in microseconds.

    Attributes:
        init: of opening the model and preparing it.
        warmup, plain: runs before, and runs without looking at the nodes.
        stats: the nodes; its own `micros` are sums over them.
        method: how the times of nodes were come by.
        outputs: the values of the last plain run, by name.
        observed_whole: runs while the nodes were looked at.
    """

    init: int = 0
    warmup: Series = field(default_factory=Series)
    plain: Series = field(default_factory=Series)
    stats: NodeStats = field(default_factory=NodeStats)
    method: str = ""
    outputs: dict[str, Array] = field(default_factory=dict)
    observed_whole: Series = field(default_factory=Series)


def run_phases(
    model: Graph | str | os.PathLike[str],
    feeds: Mapping[str, Array],
    fetches: Sequence[str],
    *,
    engine: str = "auto",
    threads: int = 1,
    phases: Phases | None = None,
    log: Log = lambda line: None,
    with_stats: bool = True,
    inter_op_threads: int = 1,
) -> Measured:
    """Measure a model.

    Args:
        model: a Graph, or the path of a .tflite or .onnx file.
        feeds: input name -> array, the same in every run.
        fetches: what to compute.
        engine, threads: what runs it.
        phases: how often.
        log: told what is being done.
        with_stats: whether to look at the nodes, too.
        inter_op_threads: as for `Session`; the nodes are looked at one by one.

    Raises:
        ThinflowError: a run failed.
    """
    phases = phases or Phases()
    measured = Measured()
    begin = time.perf_counter()
    session = Session(model, engine, threads, inter_op_threads=inter_op_threads)
    measured.init = round((time.perf_counter() - begin) * 1e6)
    log(f"Initialized session in {measured.init / 1e6:.6g}s")

    def once() -> int:
        start = time.perf_counter_ns()
        results = session.run(list(fetches), feeds)
        took = (time.perf_counter_ns() - start) // 1000
        measured.outputs = dict(zip(fetches, results, strict=True))
        return took

    if phases.warmup_runs > 0:
        warm = Phases(phases.warmup_runs, -1.0, 0, phases.delay)
        _phase(once, warm, measured.warmup, log, "without")
    _sleep(phases.phase_delay)
    _phase(once, phases, measured.plain, log, "without")
    if with_stats:
        _sleep(phases.phase_delay)
        _observe(model, feeds, fetches, session, phases, measured, log)
    return measured


def _sleep(seconds: float) -> None:
    if seconds > 0:
        time.sleep(seconds)


def _phase(once: Callable[[], int], phases: Phases, series: Series, log: Log, detail: str) -> None:
    log(_announcement(phases, detail))
    while True:
        series.add(once())
        if 0 < phases.max_runs <= series.count:
            break
        if phases.max_seconds > 0 and series.total > phases.max_seconds * 1e6:
            break
        _sleep(phases.delay)
    log(str(series))


def _announcement(phases: Phases, detail: str) -> str:
    return (
        f"Running benchmark for max {phases.max_runs} iterations, max {phases.max_seconds:g} seconds "
        f"{detail} detailed stat logging, with {phases.delay:g}s sleep between inferences"
    )


def _observe(
    model: Graph | str | os.PathLike[str],
    feeds: Mapping[str, Array],
    fetches: Sequence[str],
    session: Session,
    phases: Phases,
    measured: Measured,
    log: Log,
) -> None:
    """Run again with the engine's own profiler; as often as fits into the time."""
    log(_announcement(phases, "with"))
    found = _profiled(model, feeds, fetches, session, _affordable(phases, measured.plain))
    measured.stats, measured.method = found.stats, found.method
    for micros in found.whole_micros:
        measured.observed_whole.add(micros)
    log(str(measured.observed_whole))


def _affordable(phases: Phases, plain: Series) -> int:
    """How many runs fit into the time of a phase."""
    runs = phases.max_runs if phases.max_runs > 0 else plain.count
    if phases.max_seconds > 0:
        runs = min(runs, max(1, int(phases.max_seconds * 1e6 / max(plain.mean, 1.0))))
    return max(1, runs)


def _profiled(
    model: Graph | str | os.PathLike[str],
    feeds: Mapping[str, Array],
    fetches: Sequence[str],
    session: Session,
    runs: int,
) -> Profile:
    """The operators' times on the session's engine, or the interpreter if that does not run all of it."""
    from thinflow.bench.profile import profile

    engine = session.engine
    options: dict[str, Any] = {"threads": session.threads, "runs": runs, "feeds": dict(feeds), "warmup": 1}
    if isinstance(model, Graph):
        options |= {"inputs": list(feeds), "outputs": list(fetches)}
        if set(session.placement.values()) == {"reference"}:
            engine = "reference"
    try:
        return profile(model, engine=engine, **options)
    except EngineUnavailable as error:
        if not isinstance(model, Graph):
            raise
        found = profile(model, engine="reference", **options)
        found.method += f"; {engine} does not run all of the graph ({error.problem})"
        return found


# --- inputs -------------------------------------------------------------------------------------------------


def filled_input(name: str, type_name: str, shape: Sequence[int], values: Sequence[float]) -> Array:
    """An input of zeros, the first of its elements set.

    Args:
        name: of the input, for messages.
        type_name: TensorFlow's name of the type.
        shape: sizes.
        values: the first elements of the flat tensor.

    Raises:
        FeedError: no such type, or more values than elements.
    """
    from thinflow.ir.types import STRING, dtype

    try:
        element = dtype(type_name)
    except ParameterError as error:
        raise FeedError(f"input '{name}': {error.problem}", hint=error.hint) from error
    if element is STRING:
        if values:
            raise FeedError(f"input '{name}': values of text cannot be given", hint="leave them out")
        empty = np.empty(tuple(shape), object)
        empty[...] = b""
        return empty
    if not element.numpy_name:
        raise FeedError(f"input '{name}': a {element} cannot be fed", hint="choose another input")
    array = np.zeros(tuple(shape), element.numpy())
    if len(values) > array.size:
        raise FeedError(
            f"input '{name}': {len(values)} values for {array.size} elements", hint="give fewer values"
        )
    array.reshape(-1)[: len(values)] = np.asarray(values).astype(array.dtype)
    return array
