"""The measuring loop and its report, with models that only move a clock that stands still otherwise."""

from __future__ import annotations

import gc
import itertools
import json
import random
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from thinflow.analysis.stats import describe
from thinflow.bench import latency, machine, memory
from thinflow.bench.latency import benchmark
from thinflow.bench.open_targets import open_subjects
from thinflow.bench.report import BenchmarkReport
from thinflow.bench.rows import Row, Skipped
from thinflow.bench.timing_loop import PRECISION, Case, Limits, Outcome, measure
from thinflow.errors import EngineUnavailable, FeedError, FormatError, ParameterError
from thinflow.zoo import digits

MS = 1_000_000


@dataclass
class Clock:
    """Time that passes only when somebody says so."""

    now: int = 0

    def __call__(self) -> int:
        return self.now

    def rest(self, seconds: float) -> None:
        self.now += int(seconds * 1e9)


@dataclass
class FakeRunner:
    """Takes `ms` a run, give or take `noise`, and writes down that it ran."""

    clock: Clock
    ms: float
    name: str = ""
    log: list[str] = field(default_factory=list)
    noise: float = 0.0
    note: str = ""
    eight_bit: bool = False
    feeds_apart: bool = True
    samples: int = 1
    random: random.Random = field(default_factory=lambda: random.Random(0))

    def feed(self, turn: int = 0) -> None:
        self.clock.now += MS // 10
        self.log.append(f"feed {self.name}")

    def invoke(self) -> None:
        assert not gc.isenabled()
        self.clock.now += int(self.ms * MS * self.random.uniform(1 - self.noise, 1 + self.noise))
        self.log.append(f"run {self.name}")


def make_cases(
    clock: Clock, *names_ms: tuple[str, float], noise: float = 0.0
) -> tuple[list[Case], list[str]]:
    log: list[str] = []
    cases = [Case(n, "fake", 1, FakeRunner(clock, ms, n, log, noise)) for n, ms in names_ms]
    return cases, log


def test_only_the_invoke_is_timed() -> None:
    clock = Clock()
    cases, _ = make_cases(clock, ("a", 50.0))
    assert measure(cases, Limits(runs=7), clock=clock, rest=clock.rest) == Outcome(7)
    assert cases[0].times == [50 * MS] * 7
    assert cases[0].feed_times == [MS // 10] * 7


def test_runs_are_interleaved_in_changing_order() -> None:
    clock = Clock()
    cases, log = make_cases(clock, ("a", 50.0), ("b", 50.0), ("c", 50.0))
    measure(cases, Limits(runs=20, warmup=0, seconds=100), clock=clock, rest=clock.rest)
    assert all(len(c.times) == 20 for c in cases)
    ran = [entry.split()[1] for entry in log if entry.startswith("run")][
        3:
    ]  # one extra run each in the first round
    rounds = [tuple(ran[i : i + 3]) for i in range(3, len(ran), 3)]
    assert all(sorted(r) == ["a", "b", "c"] for r in rounds)
    assert len(set(rounds)) > 3


def test_every_run_is_fed() -> None:
    clock = Clock()
    cases, log = make_cases(clock, ("a", 1.0), ("b", 1.0))
    measure(cases, Limits(runs=3), clock=clock, rest=clock.rest)
    assert log[0::2] == [entry.replace("run", "feed") for entry in log[1::2]]


def test_warm_up_does_not_count() -> None:
    clock = Clock()
    cases, log = make_cases(clock, ("a", 50.0))
    measure(cases, Limits(runs=2, warmup=4), clock=clock, rest=clock.rest)
    assert log.count("run a") == 6
    assert len(cases[0].times) == 2


def test_steady_models_are_done_early() -> None:
    clock = Clock()
    cases, _ = make_cases(clock, ("a", 50.0), noise=0.01)
    rounds = measure(cases, Limits(seconds=1000), clock=clock, rest=clock.rest).rounds
    assert 15 <= rounds < 30  # and not before a second is over
    assert describe(cases[0].times).uncertainty <= PRECISION


def test_restless_models_run_until_time_is_up() -> None:
    clock = Clock()
    cases, _ = make_cases(clock, ("a", 50.0), noise=0.9)
    rounds = measure(cases, Limits(seconds=2, warmup=0), clock=clock, rest=clock.rest).rounds
    assert rounds == pytest.approx(2000 / 50.1, rel=0.3)
    assert clock.now >= 2e9


def test_one_round_runs_whatever_the_limit() -> None:
    clock = Clock()
    cases, _ = make_cases(clock, ("a", 60_000.0))
    assert measure(cases, Limits(seconds=0.1, warmup=0), clock=clock, rest=clock.rest) == Outcome(1)


def test_thread_counts_take_turns_in_stretches() -> None:
    clock = Clock()
    log: list[str] = []
    cases = [Case("m", "fake", n, FakeRunner(clock, 10.0, str(n), log)) for n in (1, 2)]
    measure(cases, Limits(runs=41, warmup=0), clock=clock, rest=clock.rest)
    ran = [entry.split()[1] for entry in log if entry.startswith("run")]
    changes = sum(a != b for a, b in itertools.pairwise(ran))
    assert changes <= 8  # not 41
    assert [len(c.times) for c in cases] == [41, 41]


def interrupted_cases(after: int) -> list[Case]:
    """Two engines, of which one is interrupted in a run."""
    clock = Clock()

    @dataclass
    class Interrupted(FakeRunner):
        def invoke(self) -> None:
            super().invoke()
            if len(self.log) == 2 * after:
                raise KeyboardInterrupt

    log: list[str] = []
    return [Case("m", name, 1, Interrupted(clock, 50.0, name, log)) for name in ("a", "b")]


def test_what_was_measured_before_an_interruption_is_kept() -> None:
    cases = interrupted_cases(8)
    clock = cases[0].runner.clock  # type: ignore[attr-defined]
    found = measure(cases, Limits(runs=100, warmup=0, seconds=1000), clock=clock, rest=clock.rest)
    assert found.interrupted
    assert 1 <= found.rounds < 100
    assert all(c.times for c in cases)
    assert gc.isenabled()


def test_an_interruption_before_the_first_run_ends_it_all() -> None:
    cases = interrupted_cases(1)
    clock = cases[0].runner.clock  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        measure(cases, Limits(runs=100), clock=clock, rest=clock.rest)
    assert gc.isenabled()


def test_a_report_of_what_was_measured_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(cases: list[Case], limits: Limits, **_: object) -> Outcome:
        for name in ("times", "feed_times", "ends"):
            getattr(cases[0], name).extend([MS] * 7)
        return Outcome(7, interrupted=True)

    monkeypatch.setattr(latency, "measure", stopped)
    report = benchmark({"m": digits.build(0)}, engines=["litert", "reference"])
    assert [(r.engine, r.latency.count) for r in report.rows] == [("litert", 7)]
    assert [(s.engine, s.why) for s in report.skipped] == [("reference", "it was interrupted before")]
    assert report.interrupted
    assert report.memory == ()
    assert report.caveats()[0] == "the measurement was interrupted; these are the runs up to then"


def test_garbage_collection_is_switched_on_again() -> None:
    clock = Clock()
    cases, _ = make_cases(clock, ("a", 1.0))
    assert gc.isenabled()
    measure(cases, Limits(runs=1), clock=clock, rest=clock.rest)
    assert gc.isenabled()


def test_progress_ends_at_the_end() -> None:
    clock = Clock()
    told: list[tuple[int, int]] = []
    cases, _ = make_cases(clock, ("a", 50.0))
    measure(
        cases,
        Limits(runs=4),
        clock=clock,
        rest=clock.rest,
        progress=lambda done, total, _: told.append((done, total)),
    )
    assert told == [(0, 1000), (250, 1000), (500, 1000), (750, 1000), (1, 1)]


@pytest.mark.parametrize("limits", [{"runs": 0}, {"seconds": 0.0}, {"seconds": float("nan")}, {"warmup": -1}])
def test_senseless_limits(limits: dict[str, float]) -> None:
    with pytest.raises(ParameterError) as caught:
        Limits(**limits)  # type: ignore[arg-type]
    assert caught.value.hint


# The report


def make_row(
    name: str, ms: float, *, threads: int | None = 1, engine: str = "litert", eight_bit: bool = False
) -> Row:
    noise = random.Random(len(name))
    samples = [int(ms * MS * noise.uniform(0.98, 1.02)) for _ in range(100)]
    times = describe([s / MS for s in samples])
    return Row(name, engine, threads, times, times.scaled(0.01), tuple(samples), True, eight_bit)


def make_report(*rows: Row, flags: tuple[str, ...] = ("avx2",), **more: object) -> BenchmarkReport:
    where = machine.Machine("Test CPU", 2, flags, "Linux x86_64", "3.12")
    return BenchmarkReport(rows, where, 100, 5.0, **more)  # type: ignore[arg-type]


def test_ratio_says_how_much_faster() -> None:
    report = make_report(make_row("float", 31.0), make_row("int8", 10.0))
    found = report.ratio("float", "int8")
    assert found.value == pytest.approx(3.1, rel=0.02)
    assert found.certain
    assert str(found).startswith("int8 ran 3.1")
    assert str(found).endswith("times faster than float on 1 thread")
    assert str(report.ratio("int8", "float")).startswith("float ran 3.1")
    assert "slower than int8" in str(report.ratio("int8", "float"))


def test_a_small_difference_is_not_called_one() -> None:
    report = make_report(make_row("a", 10.0), make_row("b", 10.05))
    found = report.ratio("a", "b")
    assert not found.certain
    assert str(found).startswith("no difference between b and a could be measured on 1 thread")


def test_a_few_runs_are_not_compared() -> None:
    rows = [
        replace(make_row(name, ms), samples_ns=(int(ms * MS),) * 3) for name, ms in (("a", 10.0), ("b", 4.0))
    ]
    found = make_report(*rows).ratio("a", "b")
    assert str(found) == "too few runs to compare b with a on 1 thread (ratio 2.5 ± ?)"


def test_sentences_compare_models_threads_and_engines() -> None:
    report = make_report(
        make_row("float", 30.0),
        make_row("int8", 10.0),
        make_row("float", 16.0, threads=2),
        make_row("int8", 6.0, threads=2),
        make_row("float", 900.0, threads=None, engine="reference"),
    )
    text = "\n".join(report.sentences())
    assert "faster than float with litert on 1 thread" in text  # there is another engine to mean
    assert "faster than float with litert on 2 threads" in text
    assert "float on 2 threads ran 1.8" in text
    assert "float on reference ran 30" in text
    assert report.thread_counts == [1, 2]


def test_what_is_counted_of_slow_eight_bits_is_no_reason() -> None:
    rows = make_row("float", 10.0), make_row("int8", 15.0, eight_bit=True)
    report = make_report(*rows, flags=("avx2",))
    assert report.sentences() == [str(report.ratio(*rows))]
    (fact,) = [line for line in report.caveats() if "no eight-bit dot products" in line]
    assert fact.startswith("int8 is eight-bit and slower; counted, not timed: ")
    assert not [line for line in make_report(*rows, flags=("vnni",)).caveats() if "eight-bit" in line]


def test_rows_are_found_by_name_and_by_path() -> None:
    report = make_report(make_row("float", 10.0), paths={"out/float.tflite": "float"})
    assert report.row(Path("out/float.tflite")) is report.row("float")
    assert report.timing("float", threads=4) is None
    with pytest.raises(ParameterError, match="did you mean 'float'"):
        report.row("flat")


def test_report_as_data_and_markdown() -> None:
    report = make_report(
        make_row("float|x", 10.0),
        make_row("int8", 4.0),
        skipped=(Skipped("int8", "reference", "no kernels"),),
        memory=(
            memory.Memory("int8", "litert", 60_000_000, 50_000_000),
            memory.Memory("float|x", "litert", error="crashed"),
        ),
    )
    data = json.loads(json.dumps(report.data()))
    assert [r["subject"] for r in data["rows"]] == ["float|x", "int8"]
    assert data["ratios"][0]["value"] == pytest.approx(2.5, rel=0.05)
    assert data["machine"]["cpu"] == "Test CPU"
    text = report.markdown()
    assert "| float\\|x | litert | 1 |" in text
    assert "int8 was not measured on reference: no kernels" in text
    assert "memory not measured: crashed" in text
    assert report.peak_bytes("int8") == 60_000_000
    assert report.peak_bytes("float|x") is None


def test_doubtful_rows_are_named() -> None:
    times = describe([1.0, 2.0] * 20 + [90.0])
    report = make_report(Row("m", "litert", 1, times, None, (MS,) * 41, converged=False))
    first, second = report.caveats()
    assert first.startswith("m, litert, 1 thread: the median is known to ±25 % only")
    assert second == "m, litert, 1 thread: 1 of 41 runs lies far off, run 41 took 90 ms"


# Real models, run without looking at the clock


def test_benchmark_of_a_graph_and_its_file(tmp_path: Path) -> None:
    import thinflow

    graph = digits.build(0)
    path = tmp_path / "digits.tflite"
    thinflow.save(graph, path)
    report = benchmark(
        [graph, path], engines=["litert", "reference"], threads=[1, 2], runs=2, memory=False, seconds=60
    )
    keys = {(r.subject, r.engine, r.threads) for r in report.rows}
    assert {("graph1", "litert", 1), ("graph1", "litert", 2), ("graph1", "reference", 1)} <= keys
    assert {("digits", "litert", 1), ("digits", "reference", 1)} <= keys
    assert report.rounds == 2
    assert not report.skipped
    assert report.row("digits").feed is not None
    assert report.row("graph1", "reference").feed is None
    assert report.row(path).subject == "digits"


def test_memory_comes_from_a_process_of_its_own() -> None:
    graph = digits.build(0)
    (subject,) = open_subjects({"digits": graph})
    found = memory.measure_memory(subject, "reference", 1)
    assert found.error == ""
    assert found.peak_bytes is not None
    assert found.before_bytes is not None
    assert found.peak_bytes >= found.before_bytes > 1_000_000


def test_a_crash_of_the_child_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    (subject,) = open_subjects({"digits": digits.build(0)})
    monkeypatch.setattr(memory.sys, "executable", "/nonexistent/python")
    assert "nonexistent" in memory.measure_memory(subject, "reference", 1).error


def test_the_child_answers_with_the_problem() -> None:
    found = memory.answer({"path": "missing.pb", "engine": "reference", "threads": 1})
    assert "missing.pb" in found["error"]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"shapes": {"nothing": (1, 2)}}, FeedError, "no model has an input 'nothing'"),
        ({"feeds": {"a": np.zeros(1), "b": np.zeros(1)}}, FeedError, "nothing is fed to 'image'"),
        ({"threads": [0]}, ParameterError, "0 threads"),
        ({"engines": []}, ParameterError, "no engines"),
        ({"engines": ["warp"]}, EngineUnavailable, "there is no engine 'warp'"),
    ],
)
def test_wrong_options(options: dict[str, object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        benchmark(digits.build(0), runs=1, memory=False, **options)  # type: ignore[arg-type]


def test_wrong_files(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there is no such file"):
        benchmark(tmp_path / "missing.pb")
    onnx = tmp_path / "model.onnx"
    onnx.write_bytes(b"\x08\x07")
    with pytest.raises(EngineUnavailable, match=r"model.onnx: .*(refuses the model|onnxruntime is missing)"):
        benchmark(onnx)
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"\x1c\0\0\0TFL3" + bytes(100))
    with pytest.raises(EngineUnavailable, match="LiteRT refuses"):
        benchmark(broken)


def test_names_are_made_different(tmp_path: Path) -> None:
    graph = digits.build(0)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        import thinflow

        thinflow.save(graph, tmp_path / folder / "m.pb")
    thinflow.save(graph, tmp_path / "a" / "m.pbtxt")
    a, b, text = tmp_path / "a" / "m.pb", tmp_path / "b" / "m.pb", tmp_path / "a" / "m.pbtxt"
    assert [s.name for s in open_subjects([a, text])] == ["m.pb", "m.pbtxt"]
    assert [s.name for s in open_subjects([a, b])] == [str(a), str(b)]
    assert [s.name for s in open_subjects([a, a])] == [f"{a} (1)", f"{a} (2)"]


def test_cpuinfo_of_arm_and_x86() -> None:
    x86 = (
        "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu avx2 avx512f avx512_vnni\n\nprocessor\t: 1\n"
    )
    arm = "processor\t: 0\nFeatures\t: fp asimd asimddp\nModel\t\t: Raspberry Pi 5\n"
    name, flags = machine.parse_cpuinfo(x86)
    assert (name, machine.relevant(flags)) == ("Some CPU", ("avx2", "avx512", "vnni"))
    name, flags = machine.parse_cpuinfo(arm)
    assert (name, machine.relevant(flags)) == ("Raspberry Pi 5", ("neon", "dotprod"))
    assert machine.this_machine().cores >= 1
