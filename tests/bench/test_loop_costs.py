"""What the loops do between two runs, which is as good as nothing, and what they still find out."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from thinflow.analysis.node_stats import Series
from thinflow.bench import timing_loop as loop
from thinflow.bench.machine import Usage
from thinflow.bench.timing_loop import Case, Limits, measure
from thinflow.compat.benchmark_model import measure as classic
from thinflow.compat.benchmark_model.measure import Phases, timed_runs

MS = 1_000_000


@dataclass
class Runs:
    """A model whose runs take, in ms by a clock of their own, what is listed; then always the last."""

    times_ms: list[float]
    done: int = 0
    now: int = 0
    note: str = ""
    eight_bit: bool = False
    feeds_apart: bool = True
    samples: int = 1
    stops_at: int = 10**9
    asked: list[int] = field(default_factory=list)

    def feed(self, turn: int = 0) -> None: ...

    def invoke(self) -> None:
        if self.done == self.stops_at:
            raise KeyboardInterrupt
        self.now += round(self.times_ms[min(self.done, len(self.times_ms) - 1)] * MS)
        self.done += 1

    def clock(self) -> int:
        return self.now

    def run(self) -> list[np.ndarray]:
        self.invoke()
        return [np.full((), self.done)]


def case_of(runs: Runs) -> Case:
    return Case("model", "fake", 1, runs)


def test_the_system_is_not_asked_between_two_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    runs = Runs([1.0])
    monkeypatch.setattr(loop, "usage", lambda: asked.append(runs.done) or Usage(0.0, 0, 0))
    measure([case_of(runs)], Limits(500, warmup=0), clock=runs.clock)
    assert len(asked) <= 2 * (2 + 500 // 50)
    assert max(np.diff(sorted(set(asked)))) == 50


def test_the_stretches_of_slow_models_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    runs = Runs([30.0])
    monkeypatch.setattr(loop, "usage", lambda: asked.append(runs.done) or Usage(0.0, 0, 0))
    measure([case_of(runs)], Limits(10, warmup=0), clock=runs.clock)
    assert sorted(set(asked)) == list(range(11))


def test_what_disturbs_is_put_down_to_the_longest_run(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs([1.0] * 20 + [7.0] + [1.0])

    def usage() -> Usage:
        return Usage(runs.done / 1000, 3 if runs.done > 20 else 0, 0)

    monkeypatch.setattr(loop, "usage", usage)
    case = case_of(runs)
    measure([case], Limits(40, warmup=0), clock=runs.clock)
    assert case.disturbed == {20: (3, 0)}
    assert case.times[20] == 7 * MS
    assert case.cpu_seconds == pytest.approx(0.04)


def test_ctrl_c_in_a_stretch_leaves_the_runs_before_it() -> None:
    runs = Runs([1.0], stops_at=33)
    case = case_of(runs)
    assert measure([case], Limits(1000, warmup=0), clock=runs.clock).interrupted
    assert len(case.times) == len(case.feed_times) == len(case.ends) == 33
    assert gc.isenabled()


# --- the phases of benchmark_model ------------------------------------------------------------------------


@pytest.fixture
def by_own_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    runs = Runs([3.0])
    monkeypatch.setattr(classic.time, "perf_counter_ns", runs.clock)

    def sleep(seconds: float) -> None:
        runs.now += round(max(0.0, seconds) * 1e9)

    monkeypatch.setattr(classic.time, "sleep", sleep)
    return runs


@pytest.mark.parametrize(
    ("phases", "count"),
    [
        (Phases(5, 10.0), 5),
        (Phases(5, -1.0), 5),
        (Phases(0, 0.010), 4),  # after the run that makes the sum exceed 10 ms
        (Phases(100, 0.009), 4),
        (Phases(5, 10.0, min_seconds=0.030), 10),
        (Phases(50, 0.040, min_seconds=1.0), 14),  # no longer than that, by the clock
        (Phases(50, 0.040, min_seconds=1.0, delay=0.007), 5),  # sleeps included
        (Phases(5, 0.012, delay=1.0), 5),  # the time of the runs alone
    ],
)
def test_when_a_phase_is_over(by_own_clock: Runs, phases: Phases, count: int) -> None:
    series = Series()
    results = timed_runs(by_own_clock.run, phases, series)
    assert series.count == by_own_clock.done == count
    assert (series.first, series.last, series.total) == (3000, 3000, 3000 * count)
    assert results[0] == count


def test_runs_start_as_often_as_asked(by_own_clock: Runs) -> None:
    timed_runs(by_own_clock.run, Phases(4, 10.0, frequency=50.0), Series())
    assert by_own_clock.now == 3 * 20 * MS + 3 * MS
