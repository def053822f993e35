"""The loop that measures: who runs when, and what is written down of each run."""

from __future__ import annotations

import gc
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from thinflow.analysis.stats import describe
from thinflow.bench.machine import Bystanders, Usage, usage
from thinflow.bench.targets import Runner
from thinflow.errors import ParameterError
from thinflow.progress import watched
from thinflow.typing import Progress

Clock = Callable[[], int]
_Stamps = tuple[int, int, int]
"""Nanoseconds by the clock: before feeding, before running, and after."""

PRECISION = 0.02
"""Half the width of the median's interval, relative to it, at which a row has been measured long enough."""
_FEWEST_ROUNDS = 15
_MOST_ROUNDS = 10_000
_SHORTEST_SECONDS = 1.0  # a machine that is calm for a moment proves nothing
_CHECKS = 2  # who looks often enough sees a narrow interval sometimes, by chance
# In longer runs refilling the caches is a small part.
_COLD_BELOW_NS = 20_000_000
# Longer than an engine's idle threads spin; see `_by_setting`.
_REST_SECONDS = 0.03
# Long enough for the rests between stretches to be a small part of the time.
_STRETCH_NS = 200_000_000
_LOOK_NS = 50_000_000
_LONGEST_STRETCH = 50
_SEED = 0


@dataclass(eq=False)
class Case:
    """A model ready to be measured, and what its runs took so far.

    Attributes:
        times, feed_times: ns of each run, and of copying its inputs.
        ends: when each run was over, by the clock, in ns.
        cpu_seconds: of all threads of this process, in all runs.
        disturbed: run -> how often the system took the CPU away in it, and how many pages came from a disk.
    """

    subject: str
    engine: str
    threads: int | None
    runner: Runner
    times: list[int] = field(default_factory=list)
    feed_times: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    cpu_seconds: float = 0.0
    disturbed: dict[int, tuple[int, int]] = field(default_factory=dict)

    def forget(self) -> None:
        """Start anew."""
        self.times.clear()
        self.feed_times.clear()
        self.ends.clear()
        self.disturbed.clear()
        self.cpu_seconds = 0.0


@dataclass(frozen=True)
class Limits:
    """Limits of a measurement.

    Attributes:
        runs: exactly so many rounds, unless time runs out; None: as many as the precision needs.
        seconds: no new turn starts after that.
        warmup: rounds before that count for nothing.
    """

    runs: int | None = None
    seconds: float = 10.0
    warmup: int = 3

    def __post_init__(self) -> None:
        if self.runs is not None and self.runs < 1:
            raise ParameterError(f"{self.runs} runs measure nothing", hint="give 1 or more")
        if not self.seconds > 0:
            raise ParameterError(
                f"{self.seconds} seconds are not enough", hint="give a positive number of seconds"
            )
        if self.warmup < 0:
            raise ParameterError(f"{self.warmup} warm-up runs are not possible", hint="give 0 or more")


@dataclass(frozen=True)
class Outcome:
    """The end of a measurement.

    Attributes:
        rounds: whole ones; a case may have run once more.
        interrupted: somebody pressed Ctrl-C; what had been measured is there.
    """

    rounds: int
    interrupted: bool = False


def measure(
    cases: Sequence[Case],
    limits: Limits,
    *,
    clock: Clock = time.perf_counter_ns,
    rest: Callable[[float], None] = time.sleep,
    progress: Progress | None = None,
    seed: int = _SEED,
    bystanders: Bystanders | None = None,
) -> Outcome:
    """Fill the cases' times, interleaved. At least one round runs whatever the limit.

    Args:
        clock: nanoseconds.
        rest: waits for so many seconds.
        seed: of the order within the rounds.
        bystanders: watches what else the machine does meanwhile.

    Raises:
        KeyboardInterrupt: before the first run was measured; later it ends the measurement.
    """
    loop = _Loop(_by_setting(cases), limits, clock, rest, progress, random.Random(seed), bystanders)
    # Nobody is told of nodes meanwhile: that would be measured, too.
    with no_garbage_collection(), watched(None):
        loop.warm_up()
        try:
            loop.run()
        except KeyboardInterrupt:
            if not any(case.times for case in cases):
                raise
            return Outcome(loop.rounds, interrupted=True)
    tell(progress, 1, 1, "measuring")
    return Outcome(loop.rounds)


@dataclass
class _Loop:
    """A measurement under way; `rounds` counts the whole ones."""

    groups: list[list[Case]]
    limits: Limits
    clock: Clock
    rest: Callable[[float], None]
    progress: Progress | None
    shuffle: random.Random
    bystanders: Bystanders | None
    rounds: int = 0

    def warm_up(self) -> None:
        for group in self.groups:
            for _ in range(self.limits.warmup):
                for case in group:
                    # The first runs pay for memory that is touched and code that is loaded for the first
                    # time.
                    self._run(case, 1, warm_first=False)
                    case.forget()

    def run(self) -> None:
        limits = self.limits
        wanted = limits.runs if limits.runs is not None else _MOST_ROUNDS
        # Each sample once at least: what one takes is not what another does.
        most = max((case.runner.samples for group in self.groups for case in group), default=1)
        check_at, known = max(_FEWEST_ROUNDS, most), 0
        started = self.clock()
        while self.rounds < wanted:
            elapsed = (self.clock() - started) / 1e9
            if self.rounds and elapsed >= limits.seconds:
                return
            if limits.runs is None and self.rounds >= check_at:
                # In a row: one look that finds it too wide, and counting starts anew.
                known = known + 1 if elapsed >= _SHORTEST_SECONDS and self._is_known() else 0
                if known == _CHECKS:
                    return
                # A tenth further each time: looking takes longer the more there is, and each look is one more
                # chance to find a narrow interval by luck.
                check_at = self.rounds + self.rounds // 10
            tell(self.progress, *_progress_of(self.rounds, elapsed, limits), "measuring")
            stretch = min(_stretch(self.groups), wanted - self.rounds)
            self._run_stretch(stretch)
            self.rounds += stretch

    def _run_stretch(self, turns: int) -> None:
        """So many rounds, group by group."""
        self.shuffle.shuffle(self.groups)
        many = len(self.groups) > 1
        for group in self.groups:
            if many:
                self.rest(_REST_SECONDS)
            # Nobody to take turns with: the runs follow each other as in an application.
            if len(group) == 1:
                self._run(group[0], turns, warm_first=many)
                continue
            for _ in range(turns):
                # In a fixed order each model would always follow the same other one, and inherit its caches
                # and its heat.
                self.shuffle.shuffle(group)
                for case in group:
                    self._run(case, 1, warm_first=True)

    def _run(self, case: Case, turns: int, *, warm_first: bool) -> None:
        """Run some times in a row, and write down what that took.

        Where models take turns, each finds the caches full of the other's data, which no application that
        runs one model would see. A run that is not timed comes first then, where that matters: in quick
        models.
        """
        runner, first = case.runner, len(case.times)
        if warm_first and (not case.times or case.times[-1] < _COLD_BELOW_NS):
            runner.feed(first)
            runner.invoke()
        stamps: list[_Stamps] = []
        before = usage()
        try:
            _run_bare(runner, self.clock, range(first, first + turns), stamps)
        finally:  # Ctrl-C leaves the runs before it
            self._write_down(case, stamps, before, usage())

    def _write_down(self, case: Case, stamps: Sequence[_Stamps], before: Usage, after: Usage) -> None:
        """Keep the times, and what the system did meanwhile, which is put down to the longest run."""
        if not stamps:
            return
        done, times = len(case.times), [end - fed for _, fed, end in stamps]
        disturbed = after.preempted - before.preempted, after.paged - before.paged
        if any(disturbed):
            # The system counts for the stretch as a whole, and asking before each run would disturb it.
            case.disturbed[done + times.index(max(times))] = disturbed
        case.cpu_seconds += after.cpu_seconds - before.cpu_seconds
        case.feed_times += [fed - begin for begin, fed, _ in stamps]
        case.times += times
        case.ends += [end for _, _, end in stamps]
        if self.bystanders is not None and case.ends[-1] >= self.bystanders.due_ns:
            self.bystanders.look(case.ends[-1])

    def _is_known(self) -> bool:
        """True if every median is known well enough."""
        return all(describe(c.times).uncertainty <= PRECISION for group in self.groups for c in group)


def _run_bare(runner: Runner, clock: Clock, turns: range, stamps: list[_Stamps]) -> None:
    """Feed and run, timing each.

    A model leaves little in the caches, so that every line here takes several times as long as it would by
    itself. There is nothing that could wait until the runs are over.
    """
    feed, invoke, keep = runner.feed, runner.invoke, stamps.append
    for turn in turns:
        begin = clock()
        feed(turn)
        fed = clock()
        invoke()
        keep((begin, fed, clock()))


def _by_setting(cases: Sequence[Case]) -> list[list[Case]]:
    """Cases that may take turns run by run: those of one engine with one number of threads.

    An engine's idle threads keep spinning for some milliseconds and would take cores away from the next one.
    """
    groups: dict[tuple[str, int | None], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.engine, case.threads), []).append(case)
    return list(groups.values())


def _stretch(groups: Sequence[Sequence[Case]]) -> int:
    """Rounds that each group runs before the next one's turn: as many as fit into a fifth of a second.

    One group alone: as many as fit between two looks at the clock, at the system and at what is known so
    far. These take a tenth of a millisecond, since a model leaves nothing of them in the caches.
    """
    if not groups[0][0].times:
        return 1
    slowest = max(sum(c.times[-1] for c in group) for group in groups)
    span = _STRETCH_NS if len(groups) > 1 else _LOOK_NS
    return max(1, min(_LONGEST_STRETCH, span // max(1, slowest)))


def _progress_of(rounds: int, elapsed: float, limits: Limits) -> tuple[int, int]:
    """Done and total, in per mille of whatever will end it first."""
    share = elapsed / limits.seconds
    if limits.runs is not None:
        share = max(share, rounds / limits.runs)
    return min(999, math.floor(1000 * share)), 1000


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Nothing is collected inside a run; what there was is collected before."""
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def tell(progress: Progress | None, done: int, total: int, label: str) -> None:
    """Say how far something is, if anybody listens."""
    if progress is not None:
        progress(done, total, label)
