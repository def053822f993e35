"""Latency of models, side by side.

Models are not measured one after the other: a machine that slows down in between (heat, other programs) would
make the second look worse. Every round runs each of them once, in an order shuffled anew, so that all see the
same machine. Engines and numbers of threads alternate too, but in stretches, with a rest between.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from thinflow.analysis.stats import Distribution, describe
from thinflow.bench.fed import fed_to
from thinflow.bench.inputs import FeedsFor, Given, Shapes
from thinflow.bench.machine import Bystanders, cause_of, this_machine, usable_cores
from thinflow.bench.memory import Memory, measure_memory
from thinflow.bench.open_targets import open_subjects
from thinflow.bench.report import BenchmarkReport
from thinflow.bench.roofline import EIGHT_BIT, FLOAT, peak
from thinflow.bench.rows import Row, Skipped
from thinflow.bench.targets import Subject, TFLiteSubject, heeds_threads
from thinflow.bench.timing_loop import PRECISION, Case, Limits, measure, tell
from thinflow.bench.workload import Workload, workload
from thinflow.engines._child import can_fork, checked_timeout, in_child, survives_fork
from thinflow.engines._files import is_file
from thinflow.engines._threads import checked_threads, side_by_side
from thinflow.errors import EngineCrashed, ParameterError, ThinflowError
from thinflow.formats.foreign import part_note
from thinflow.typing import Progress

SAFE = frozenset({"reference"})
"""Engines that are Python: they raise, and do not crash."""


def benchmark(
    sources: Any,
    *,
    threads: int | Sequence[int] = (1,),
    engines: str | Sequence[str] = ("auto",),
    feeds: Given | FeedsFor = None,
    runs: int | None = None,
    seconds: float = 10.0,
    warmup: int = 3,
    progress: Progress | None = None,
    shapes: Shapes | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    memory: bool = True,
    timeout: float | None = None,
    inter_op_threads: int = 1,
    peaks: bool = True,
    **options: Any,
) -> BenchmarkReport:
    """The work of `thinflow.benchmark`, whose arguments these are; options: how to open the models.

    Raises:
        FormatError: a file is not a model.
        EngineUnavailable: no model could be run on any engine.
        ParameterError: senseless limits.
    """
    limits = Limits(runs, seconds, warmup)
    counts, wanted = _distinct(threads, "threads"), _distinct(engines, "engines")
    if min(*counts, inter_op_threads) < 1:
        raise ParameterError(
            f"{min(*counts, inter_op_threads)} threads cannot run anything", hint="give 1 or more"
        )
    checked_threads(max(*counts, inter_op_threads))
    for name in wanted:
        _require_known(name)
    patience = checked_timeout(timeout)
    subjects = open_subjects(sources, feeds=feeds, shapes=shapes, inputs=inputs, outputs=outputs, **options)
    with side_by_side(inter_op_threads):
        cases, skipped = _prepare(subjects, wanted, counts, progress, patience)
    started, bystanders = time.monotonic(), Bystanders()
    outcome = measure(cases, limits, progress=progress, bystanders=bystanders)
    took = time.monotonic() - started
    skipped += [Skipped(c.subject, c.engine, "it was interrupted before") for c in cases if not c.times]
    measured = [case for case in cases if case.times]
    # Counting, peaks and memory come after the measurement, which they would disturb, and not at all for
    # somebody who has pressed Ctrl-C and waits for what there is.
    works = {} if outcome.interrupted else _works(subjects, measured, progress)
    names = {case.subject for case in measured}
    rows = [_row(case, works.get(case.subject), bystanders) for case in measured]
    if peaks and not outcome.interrupted:
        rows = list(_with_peaks(rows, progress))
    used = [] if outcome.interrupted or not memory else _memory(subjects, measured, counts[0], progress)
    return BenchmarkReport(
        tuple(rows),
        this_machine(),
        outcome.rounds,
        took,
        tuple(skipped),
        tuple(used),
        {s.name: s.size_bytes for s in subjects if s.size_bytes is not None},
        {s.path: s.name for s in subjects if s.path},
        interrupted=outcome.interrupted,
        doing=bystanders.overall(),
        runs_asked=runs,
        inter_op_threads=inter_op_threads,
        assumed={s.name: dict(s.assumed) for s in subjects if s.assumed},
        parts={s.name: note for s in subjects if is_file(s.path) and (note := part_note(s.path))},
        inputs={s.name: fed_to(s) for s in subjects if s.name in names},
    )


def _require_known(engine: str) -> None:
    """Refuse the name of no engine at once; one that is missing here is told of in the report.

    Raises:
        EngineUnavailable: there is none of that name.
    """
    from thinflow.engines import find, names

    if engine != "auto" and engine not in names():
        find(engine)


def _works(
    subjects: Sequence[Subject], cases: Sequence[Case], progress: Progress | None
) -> dict[str, Workload]:
    """The workload of a run of each model, where that can be told."""
    tell(progress, 0, 1, "counting operations")
    names = {case.subject for case in cases}
    found = {s.name: work for s in subjects if s.name in names and (work := workload(s)) is not None}
    tell(progress, 1, 1, "counting operations")
    return found


def _with_peaks(rows: Sequence[Row], progress: Progress | None) -> Iterator[Row]:
    """The rows with the peak that each is compared with: of its kind of numbers, on as many threads.

    All engines of the report are tried, and a model's own numbers first: where no engine here multiplies
    eight bits, float is what it is compared with.
    """
    engines = list(dict.fromkeys(row.engine for row in rows))
    for done, row in enumerate(rows):
        if row.work is None or not row.work.is_whole:
            yield row
            continue
        tell(progress, done, len(rows), "measuring the machine's peak")
        kinds = [EIGHT_BIT, FLOAT] if row.work.is_eight_bit else [FLOAT]
        count = row.threads or usable_cores()
        # Lazily: float is measured only where eight bits could not be.
        found = (peak(kind, count, engines, row.rate or 0.0) for kind in kinds)
        yield replace(row, peak=next((p for p in found if p is not None), None))
    tell(progress, 1, 1, "measuring the machine's peak")


def _memory(
    subjects: Sequence[Subject], cases: Sequence[Case], threads: int, progress: Progress | None
) -> list[Memory]:
    """Peak memory of each model on each engine; what there is when somebody presses Ctrl-C."""
    pairs = list(dict.fromkeys((c.subject, c.engine) for c in cases))
    by_name = {s.name: s for s in subjects}
    used: list[Memory] = []
    try:
        for done, (name, engine) in enumerate(pairs):
            tell(progress, done, len(pairs), f"memory of {name}")
            used.append(measure_memory(by_name[name], engine, threads))
    except KeyboardInterrupt:
        used += [Memory(name, engine, error="interrupted") for name, engine in pairs[len(used) :]]
    tell(progress, len(pairs), len(pairs), "memory")
    return used


def _distinct(items: Any, what: str) -> list[Any]:
    found = list(dict.fromkeys([items] if isinstance(items, str | int) else items))
    if not found:
        raise ParameterError(f"no {what} are given", hint="give at least one")
    return found


def _prepare(
    subjects: Sequence[Subject],
    engines: Sequence[str],
    threads: Sequence[int],
    progress: Progress | None,
    timeout_seconds: float,
) -> tuple[list[Case], list[Skipped]]:
    cases: list[Case] = []
    skipped: list[Skipped] = []
    first: ThinflowError | None = None
    wanted = [(e, s) for e in engines for s in subjects]
    # "auto" and the engine's own name may mean the same setting, which is measured once.
    settings = dict.fromkeys((s.own_engine if e == "auto" else e, s.name) for e, s in wanted)
    by_name = {s.name: s for s in subjects}
    for done, (engine, name) in enumerate(settings):
        tell(progress, done, len(settings), f"trying {name}")
        try:
            # In a child, before anything is prepared here: a model that crashes its engine costs one row, not
            # the report. One number of threads stands for all.
            try_first(by_name[name], engine, threads[0], timeout_seconds)
        except ThinflowError as error:
            first = first or error
            skipped.append(Skipped(name, engine, error.message))
    refused = {(s.engine, s.subject) for s in skipped}
    left = [setting for setting in settings if setting not in refused]
    if "auto" in engines:
        # As a session with engine="auto" does: a file that its own engine refuses runs in the interpreter.
        gone = [by_name[s.subject] for s in skipped if by_name[s.subject].own_engine == s.engine]
        left += [("reference", s.name) for s in gone if _runs_in_the_interpreter(s, timeout_seconds)]
        left = list(dict.fromkeys(left))
    for engine in dict.fromkeys(e for e, _ in left):
        heeding = heeds_threads(engine)
        for count in threads if heeding else threads[:1]:
            for name in (n for e, n in left if e == engine):
                tell(progress, len(cases), len(left) * len(threads), f"preparing {name}")
                try:
                    runner = by_name[name].prepare(engine, count)
                except ThinflowError as error:
                    first = first or error
                    skipped.append(Skipped(name, engine, error.message))
                    continue
                cases.append(Case(name, engine, count if heeding else None, runner))
    if not cases:
        assert first is not None
        raise first
    return cases, list(dict.fromkeys(skipped))


def _runs_in_the_interpreter(subject: Subject, timeout_seconds: float) -> bool:
    """True if a file that its own engine refuses can be measured all the same."""
    if not isinstance(subject, TFLiteSubject):
        return False
    try:
        try_first(subject, "reference", 1, timeout_seconds)
    except ThinflowError:
        return False
    return True


def try_first(subject: Subject, engine: str, threads: int, timeout_seconds: float) -> None:
    """Prepare and run a model once in a child process, where nothing can be forked one that measures memory.

    Raises:
        EngineCrashed: the engine crashed or hung.
        ThinflowError: it refused the model.
    """
    if engine in SAFE:
        return

    def work() -> None:
        runner = subject.prepare(engine, threads)
        runner.feed()
        runner.invoke()

    if can_fork() and survives_fork(engine):
        in_child(work, engine, f"running {subject.name}", timeout_seconds=timeout_seconds)
        return
    found = measure_memory(subject, engine, threads, timeout_seconds=timeout_seconds)
    if found.crashed:
        raise EngineCrashed(
            f"the engine '{engine}' failed while running {subject.name}: {found.error}",
            hint="engine='reference' runs the graph without it",
        )
    if found.error:
        # The other process lived to tell: what is refused is refused here, too, with all that the error says.
        work()


def _row(case: Case, work: Workload | None, bystanders: Bystanders) -> Row:
    latency = describe([t / 1e6 for t in case.times])
    feed = describe([t / 1e6 for t in case.feed_times]) if case.runner.feeds_apart else None
    return Row(
        case.subject,
        case.engine,
        case.threads,
        latency,
        feed,
        tuple(case.times),
        latency.uncertainty <= PRECISION,
        _multiplies_eight_bit(case, work),
        case.runner.note,
        cpu_ms=1e3 * case.cpu_seconds / len(case.times),
        cause=_cause(case, latency, bystanders),
        work=work,
    )


def _multiplies_eight_bit(case: Case, work: Workload | None) -> bool:
    """True if some of a model's products are eight-bit; by its tensors where not all products are known."""
    # Weights that are only stored in eight bits are tensors of that type, too, which no product reads.
    if work is not None and (work.has_eight_bit or work.is_whole):
        return work.has_eight_bit
    return case.runner.eight_bit


def _cause(case: Case, latency: Distribution, bystanders: Bystanders) -> str:
    """The load of the machine in the run that lies furthest off, as far as it is known."""
    if not latency.outliers:
        return ""
    # Outliers may be fast runs, too; the longest is the one that wants a cause.
    worst, _ = max(latency.outliers, key=lambda found: found[1])
    return cause_of(bystanders.at(case.ends[worst]), *case.disturbed.get(worst, (0, 0)))
