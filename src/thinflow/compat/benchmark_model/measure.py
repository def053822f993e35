"""The protocol of TensorFlow's benchmark_model: warm-up, a phase that counts, one that looks at nodes."""

from __future__ import annotations

import math
import os
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from thinflow.analysis.node_stats import NodeStats, Series
from thinflow.bench.timing_loop import no_garbage_collection
from thinflow.engines.session import Session
from thinflow.errors import EngineUnavailable, ParameterError
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph
from thinflow.ir.types import TensorSpec
from thinflow.typing import Array

if TYPE_CHECKING:
    from thinflow.bench.profile_model import Profile

Log = Callable[[str], None]
# TensorFlow's own default of --max_num_runs.
_MAX_OBSERVED = 1000
"""Runs with a look at the nodes are no more than this, if not so many were asked for."""


@dataclass(frozen=True)
class Phases:
    """Numbers of runs, and pauses between them.

    Attributes:
        max_runs: runs of a timed phase; 0 or less: until the time is up.
        max_seconds: summed time of the runs after which a phase ends; 0 or less: no limit.
        warmup_runs: runs before, which count for nothing.
        delay: seconds to sleep between runs.
        phase_delay: seconds to sleep before each timed phase.
        min_seconds: if given, the rule is LiteRT's: a phase goes on until there were `max_runs` runs and so
            many seconds, but no longer than `max_seconds`, both by the clock, sleeps included.
        warmup_seconds: the least time of the runs before.
        frequency: runs a second that are started; wins over `delay`; 0 or less: as fast as can be.
    """

    max_runs: int = 1000
    max_seconds: float = 10.0
    warmup_runs: int = 1
    delay: float = -1.0
    phase_delay: float = -1.0
    min_seconds: float | None = None
    warmup_seconds: float = 0.0
    frequency: float = -1.0

    def __post_init__(self) -> None:
        if self.max_runs <= 0 and self.max_seconds <= 0:
            raise ParameterError(
                "neither the number of runs nor the time is limited", hint="give --max_num_runs or --max_time"
            )


@brief_repr
@dataclass
class Measured:
    """Times of the phases, in microseconds.

    Attributes:
        init: of opening the model and preparing it.
        warmup, plain: runs before, and runs without looking at the nodes.
        stats: the nodes; its own `micros` are sums over them.
        method: how the times of nodes were come by.
        outputs: the values of the last plain run, by name.
        observed_whole: runs while the nodes were looked at.
        node_outputs: node -> types and sizes of what it computed, where the engine tells.
    """

    init: int = 0
    warmup: Series = field(default_factory=Series)
    plain: Series = field(default_factory=Series)
    stats: NodeStats = field(default_factory=NodeStats)
    method: str = ""
    outputs: dict[str, Array] = field(default_factory=dict)
    observed_whole: Series = field(default_factory=Series)
    node_outputs: dict[str, list[TensorSpec]] = field(default_factory=dict)


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
    opening_seconds: float = 0.0,
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
        opening_seconds: what it took to read the model, which counts for the initialization.

    Raises:
        ThinflowError: a run failed.
    """
    phases = phases or Phases()
    measured = Measured()
    begin = time.perf_counter()
    session = Session(model, engine, threads, inter_op_threads=inter_op_threads)
    if isinstance(model, Graph):  # else the first run would do it
        session.compiled([model.value(name) for name in feeds], [model.value(name) for name in fetches])
    measured.init = round((time.perf_counter() - begin + opening_seconds) * 1e6)
    log(f"Initialized session in {measured.init / 1e6:.6g}s")

    run = partial(session.run, list(fetches), feeds)
    if phases.warmup_runs > 0 or phases.warmup_seconds > 0:
        _phase(run, _warming(phases), measured.warmup, log)
    _sleep(phases.phase_delay)
    results = _phase(run, phases, measured.plain, log)
    measured.outputs = dict(zip(fetches, results, strict=True))
    if with_stats:
        _sleep(phases.phase_delay)
        _observe(model, feeds, fetches, session, phases, measured, log)
    return measured


def _sleep(seconds: float) -> None:
    if seconds > 0:
        time.sleep(seconds)


def _warming(phases: Phases) -> Phases:
    """The runs before: a number of them, or as long as was asked for."""
    if phases.warmup_seconds <= 0:
        # By number alone, whatever limits the timed phases have.
        return replace(phases, max_runs=phases.warmup_runs, max_seconds=-1.0, min_seconds=None)
    return replace(phases, max_runs=max(1, phases.warmup_runs), min_seconds=phases.warmup_seconds)


def _phase(run: Callable[[], list[Array]], phases: Phases, series: Series, log: Log) -> list[Array]:
    """Run until the phase is over; what the last run computed."""
    log(_announcement(phases, "without"))
    # A collection in the middle of a run would count for the model.
    with no_garbage_collection():
        results = timed_runs(run, phases, series)
    log(str(series))
    return results


def timed_runs(run: Callable[[], list[Array]], phases: Phases, series: Series) -> list[Array]:
    """Between two runs there is no more than the rule needs: the model has emptied the caches, and every
    line takes several times as long as it would by itself. So the sums are made later, for many runs."""
    # An array of plain integers grows without making objects.
    clock, times, total = time.perf_counter_ns, array("q"), 0
    is_over, is_paced = _rule(phases), phases.frequency > 0 or phases.delay > 0
    started = clock()
    while True:
        begin = clock()
        results = run()
        end = clock()
        micros = (end - begin) // 1000
        times.append(micros)
        total += micros
        if is_over(len(times), total, end - started):
            break
        if is_paced:
            _pause(phases, len(times), (clock() - started) / 1e9)
    for micros in times:
        series.add(micros)
    return results


def _pause(phases: Phases, done: int, elapsed: float) -> None:
    """Wait until the next run is due; `elapsed` seconds are gone."""
    _sleep(done / phases.frequency - elapsed if phases.frequency > 0 else phases.delay)


def _rule(phases: Phases) -> Callable[[int, int, int], bool]:
    """Condition that a phase has had its runs and its time.

    Of the number of runs, their sum in microseconds, and nanoseconds by the clock.
    """
    most = phases.max_seconds if phases.max_seconds > 0 else math.inf
    if phases.min_seconds is None:
        runs = phases.max_runs if phases.max_runs > 0 else math.inf
        # TensorFlow's rule sums the runs themselves, so that sleeps do not count.
        return lambda count, micros, elapsed: count >= runs or micros > most * 1e6
    runs, least = phases.max_runs, phases.min_seconds * 1e9
    return lambda count, micros, elapsed: (count >= runs and elapsed >= least) or elapsed > most * 1e9


def _announcement(phases: Phases, detail: str) -> str:
    if phases.min_seconds is not None:
        return (
            f"Running benchmark for at least {phases.max_runs} iterations and at least "
            f"{phases.min_seconds:g} seconds but terminate if exceeding {phases.max_seconds:g} seconds."
        )
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
    measured.stats, measured.method, measured.node_outputs = found.stats, found.method, found.outputs
    for micros in found.whole_micros:
        measured.observed_whole.add(micros)
    log(str(measured.observed_whole))


def _affordable(phases: Phases, plain: Series) -> int:
    """Number of runs that fit into the time of a phase."""
    if phases.min_seconds is not None:
        # By LiteRT's rule fast models run very often; looking at nodes that often says no more.
        return min(plain.count, max(phases.max_runs, _MAX_OBSERVED))
    runs = phases.max_runs if phases.max_runs > 0 else plain.count
    if phases.max_seconds > 0:
        # Told in advance, as an engine's profiler wants the number of runs.
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
    from thinflow.bench.profile_model import Profile

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
            return Profile(NodeStats(), engine, session.threads, f"not known: {error.message}")
        found = profile(model, engine="reference", **options)
        found.method += f"; {engine} does not run all of the graph ({error.problem})"
        return found
