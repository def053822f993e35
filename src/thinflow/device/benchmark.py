"""Latency of models on devices, in one table.

On a device all models run in turns, as they do on this machine. Devices are measured in turns, too, in
stretches of a second or two: what happens to all of them, such as a room that warms up, meets each alike.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from thinflow.analysis.stats import describe, ratio_of_medians
from thinflow.bench.devices import MeasuredDevice, Soak
from thinflow.bench.fed import fed_on_device
from thinflow.bench.machine import this_machine
from thinflow.bench.memory import Memory
from thinflow.bench.report import BenchmarkReport
from thinflow.bench.rows import Row, Skipped
from thinflow.bench.timing_loop import PRECISION, Limits, tell
from thinflow.bench.workload import Workload, workload
from thinflow.device.base import Connection, Device, DeviceLost, Job, State, Timing
from thinflow.device.shipping import Shipped, shipped
from thinflow.errors import EngineUnavailable, ParameterError, ThinflowError
from thinflow.typing import Progress

_FEWEST_ROUNDS = 15
_SHORTEST_SECONDS = 1.0
_STRETCH_SECONDS = 2.0
_SHARE = 5
"""Stretches that each group has at least."""
_SOAK_STRETCH = 5.0
_SOAK_KEPT = 1000
"""Runs of a stretch that a long measurement keeps: all would fill the memory."""
_SOAK_PART = 60.0


@dataclass(eq=False)
class _Place:
    """A device that is being measured.

    Attributes:
        jobs: that it has opened, with the models they run.
        timings: what their runs took.
        states: seconds since the beginning, and what it was doing.
    """

    device: Device
    connection: Connection
    jobs: dict[Job, Shipped] = field(default_factory=dict)
    timings: dict[Job, Timing] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)
    failure: str = ""

    @property
    def engine(self) -> str:
        """What runs models there."""
        return f"litert {self.device.settings.delegate}".rstrip()

    def groups(self) -> list[list[Job]]:
        """Jobs with as many threads, which run in turns: idle threads of another number would disturb."""
        counts = dict.fromkeys(job.threads for job in self.jobs)
        return [[job for job in self.jobs if job.threads == count] for count in counts]


def benchmark_on(
    devices: Sequence[Device],
    sources: Any,
    *,
    threads: Sequence[int] = (1,),
    runs: int | None = None,
    seconds: float = 10.0,
    warmup: int = 3,
    soak: float | None = None,
    memory: bool = True,
    progress: Progress | None = None,
    **options: Any,
) -> BenchmarkReport:
    """The work of `thinflow.benchmark` on devices, whose arguments these are.

    Args:
        soak: seconds to run for, to compare the end with the beginning; None: as long as the precision needs.
        options: feeds, and how to open the models.

    Raises:
        EngineUnavailable: no model could be run on any device.
        ParameterError: senseless limits.
    """
    limits = Limits(runs, seconds if soak is None else soak, warmup)
    if min(threads, default=0) < 1:
        raise ParameterError(f"{min(threads, default=0)} threads cannot run anything", hint="give 1 or more")
    if soak is not None and runs is not None:
        raise ParameterError("--soak says how long to run, and --runs how often", hint="give one of them")
    skipped: list[Skipped] = []
    failures: list[ThinflowError] = []
    with shipped(sources, **options) as models, ExitStack() as stack:
        places = list(_connected(devices, models, stack, progress, skipped, failures))
        if not all(place.connection.takes_turns for place in places):
            # All in the table run the same.
            models = [replace(model, samples=model.samples[:1]) for model in models]
        for place in places:
            _open(place, models, threads, skipped, failures, progress)
        if not any(place.jobs for place in places):
            raise failures[0]
        begin = time.monotonic()
        is_interrupted = _measure(places, limits, soak, progress, failures)
        took = time.monotonic() - begin
        works = {m.name: work for m in models if (work := workload(m.subject)) is not None}
        rows = [row for place in places for row in _rows(place, works)]
        if not rows:
            raise failures[0]
        # Behind what is timed, which it would disturb.
        used = [] if is_interrupted or not memory else list(_memory(places, progress))
        measured = tuple(_measured(place, soak) for place in places)
        return BenchmarkReport(
            tuple(rows),
            measured[0].facts.machine if measured else this_machine(),
            max(len(row.samples_ns) for row in rows),
            took,
            tuple(dict.fromkeys(skipped)),
            tuple(used),
            {m.name: size for m in models if (size := m.subject.size_bytes) is not None},
            {m.subject.path: m.name for m in models if m.subject.path},
            interrupted=is_interrupted,
            runs_asked=runs,
            assumed={m.name: dict(m.subject.assumed) for m in models if m.subject.assumed},
            inputs={m.name: fed_on_device(m.subject, m.samples) for m in models},
            devices=measured,
        )


def _connected(
    devices: Sequence[Device],
    models: Sequence[Shipped],
    stack: ExitStack,
    progress: Progress | None,
    skipped: list[Skipped],
    failures: list[ThinflowError],
) -> Iterator[_Place]:
    """The devices that answer; the others are told of."""
    # One that is switched off costs its own rows, and those of no other.
    for device in devices:
        try:
            connection = stack.enter_context(device.connect(progress))
        except EngineUnavailable as error:
            failures.append(error)
            skipped += [Skipped(m.name, "litert", _why(error), device.name) for m in models]
            continue
        yield _Place(device, connection)


def _open(
    place: _Place,
    models: Sequence[Shipped],
    threads: Sequence[int],
    skipped: list[Skipped],
    failures: list[ThinflowError],
    progress: Progress | None,
) -> None:
    """Send models and run each once; what does not run there is told of."""
    # With one number of threads it is refused for what holds with every other.
    refused: set[str] = set()
    for count in dict.fromkeys(place.device.settings.threads or threads):
        for model in models:
            if model.name in refused:
                continue
            tell(progress, 0, 1, f"{place.device.name}: preparing {model.name}")
            first, *others = model.samples
            job = Job(model.name, model.path, count, first, tuple(others))
            try:
                place.connection.open(job)
            except EngineUnavailable as error:
                failures.append(error)
                refused.add(model.name)
                skipped.append(Skipped(model.name, place.engine, _why(error), place.device.name))
                continue
            place.jobs[job] = model


def _why(error: ThinflowError) -> str:
    """A problem with its next step, in a line."""
    return f"{error.problem} ({error.hint})" if error.hint else error.problem


def _measure(
    places: Sequence[_Place],
    limits: Limits,
    soak: float | None,
    progress: Progress | None,
    failures: list[ThinflowError],
) -> bool:
    """Measure in stretches, device after device, until all is known or the time is over.

    Returns:
        True if somebody pressed Ctrl-C; what was measured is there.
    """
    begin = time.monotonic()
    groups = [(place, group) for place in places for group in place.groups()]
    stretch = min(_STRETCH_SECONDS, limits.seconds / (_SHARE * max(1, len(groups))))
    if soak is not None:
        stretch = min(_SOAK_STRETCH, soak / _SHARE)
    is_first, seed = True, 0
    try:
        # In front of the first run: what it does when it is cool.
        for place in places:
            _look(place, failures)
        while True:
            for place, group in groups:
                if place.failure:
                    continue
                elapsed = time.monotonic() - begin
                tell(
                    progress, min(999, int(1000 * elapsed / limits.seconds)), 1000, f"on {place.device.name}"
                )
                _stretch(place, group, limits, stretch, seed, is_first, soak is not None, failures)
                seed += 1
            # Warm from now on: pauses are as long as the others take.
            is_first = False
            elapsed = time.monotonic() - begin
            if elapsed >= limits.seconds or all(
                place.failure or _is_done(place, group, limits, elapsed, soak) for place, group in groups
            ):
                break
        for place in places:
            _look(place, failures)
    except KeyboardInterrupt:
        # Ctrl-C ends it, and what there is, is told; where there is nothing, nobody is waited for.
        if not any(timing.times_ns for place in places for timing in place.timings.values()):
            raise
        return True
    tell(progress, 1, 1, "measuring")
    return False


def _stretch(
    place: _Place,
    group: Sequence[Job],
    limits: Limits,
    seconds: float,
    seed: int,
    is_first: bool,
    is_soak: bool,
    failures: list[ThinflowError],
) -> None:
    """Some rounds of a group. A device that is lost in them keeps what it had told before."""
    done = len(place.timings[group[0]].times_ns) if group[0] in place.timings else 0
    wanted = None if limits.runs is None else limits.runs - done
    if wanted is not None and wanted <= 0:
        return
    try:
        found = place.connection.time(
            group, runs=wanted, seconds=seconds, warmup=limits.warmup if is_first else 0, seed=seed
        )
        if is_soak:
            place.states.append(place.connection.state())
    except EngineUnavailable as error:
        _fail(place, error, failures)
        return
    for job, timing in found.items():
        place.timings.setdefault(job, Timing()).extend(_thinned(timing) if is_soak else timing)


def _fail(place: _Place, error: EngineUnavailable, failures: list[ThinflowError]) -> None:
    failures.append(error)
    place.failure = f"{error.message} ({error.hint})" if error.hint else error.message


def _look(place: _Place, failures: list[ThinflowError]) -> None:
    """Write down what a device is doing."""
    if place.failure:
        return
    try:
        place.states.append(place.connection.state())
    except DeviceLost as error:
        _fail(place, error, failures)


def _thinned(timing: Timing) -> Timing:
    """Some of the runs, in even distances."""
    step = -(-len(timing.times_ns) // _SOAK_KEPT)
    share = None if timing.cpu_seconds is None else timing.cpu_seconds / max(1, step)
    return Timing(timing.times_ns[::step], timing.ends[::step], share, timing.note) if step > 1 else timing


def _is_done(place: _Place, group: Sequence[Job], limits: Limits, elapsed: float, soak: float | None) -> bool:
    """True if the median of each job is known well enough, or it ran as often as was asked for."""
    if soak is not None:
        return False
    counts = [len(place.timings[job].times_ns) for job in group]
    if limits.runs is not None:
        return min(counts) >= limits.runs
    if elapsed < _SHORTEST_SECONDS or min(counts) < _FEWEST_ROUNDS:
        return False
    return all(describe(place.timings[job].times_ns).uncertainty <= PRECISION for job in group)


def _rows(place: _Place, works: dict[str, Workload]) -> Iterator[Row]:
    for job, model in place.jobs.items():
        timing = place.timings.get(job)
        if timing is None or not timing.times_ns:
            continue
        # Quartiles and the median's interval, as for what runs here.
        latency = describe([t / 1e6 for t in timing.times_ns])
        work = works.get(model.name)
        cpu = timing.cpu_seconds
        yield Row(
            model.name,
            place.engine,
            job.threads,
            latency,
            None,
            tuple(timing.times_ns),
            latency.uncertainty <= PRECISION,
            work is not None and work.has_eight_bit,
            timing.note,
            cpu_ms=None if cpu is None else 1e3 * cpu / len(timing.times_ns),
            work=work,
            device=place.device.name,
        )


def _memory(places: Sequence[_Place], progress: Progress | None) -> Iterator[Memory]:
    """Peak memory of each model on each device, with the first number of threads."""
    for place in places:
        for job, model in _first_of_each(place.jobs).items():
            if place.failure:
                break
            tell(progress, 0, 1, f"{place.device.name}: memory of {model.name}")
            there = place.device.name
            try:
                peak = place.connection.memory(job)
            except EngineUnavailable as error:
                yield Memory(model.name, place.engine, error=error.problem, device=there)
                if isinstance(error, DeviceLost):
                    break
                continue
            if peak is not None:
                yield Memory(model.name, place.engine, peak, device=there)


def _first_of_each(jobs: dict[Job, Shipped]) -> dict[Job, Shipped]:
    found: dict[Job, Shipped] = {}
    for job, model in jobs.items():
        if model not in found.values():
            found[job] = model
    return found


def _measured(place: _Place, soak: float | None) -> MeasuredDevice:
    states = place.states or [State()]
    found = MeasuredDevice(
        place.device.name, place.connection.facts, states[0], states[-1], (), place.failure
    )
    if soak is None:
        return found
    soaks = (_soak(job, place, soak) for job in place.jobs if job in place.timings)
    return MeasuredDevice(
        found.name,
        found.facts,
        found.before,
        found.after,
        tuple(s for s in soaks if s is not None),
        found.failure,
    )


def _soak(job: Job, place: _Place, seconds: float) -> Soak | None:
    """The first minute of a job beside its last; a fifth of the time where that is less."""
    timing = place.timings[job]
    part = min(_SOAK_PART, seconds / _SHARE)
    begin, end = timing.ends[0], timing.ends[-1]
    pairs = list(zip(timing.ends, timing.times_ns, strict=True))
    first = [t for at, t in pairs if at <= begin + part]
    last = [t for at, t in pairs if at >= end - part]
    # It was lost or stopped early: the two would be partly the same.
    if end - begin < 2 * part:
        return None
    threads = f", {job.threads} thread{'s' if job.threads != 1 else ''}"
    return Soak(
        f"{job.name} on {place.device.name}{threads}",
        end - begin,
        part,
        describe(first).median / 1e6,
        describe(last).median / 1e6,
        ratio_of_medians(last, first, paired=False).widened(PRECISION),
    )
