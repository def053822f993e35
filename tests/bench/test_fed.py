"""Samples that runs take in turns, and what is said of inputs that nobody gave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from tests.turning import FED, FIXED, TURNS
from thinflow.analysis.stats import describe
from thinflow.bench.fed import Fed, by_sample, made_up_text, value_dependent
from thinflow.bench.inputs import FeedSeries
from thinflow.bench.machine import this_machine
from thinflow.bench.open_targets import open_subjects
from thinflow.bench.profile import profile
from thinflow.bench.profile_model import observed
from thinflow.bench.profile_text import RowProfile
from thinflow.bench.report import BenchmarkReport
from thinflow.bench.rows import Row
from thinflow.bench.timing_loop import Case, Limits, measure
from thinflow.ir.graph import Graph
from thinflow.optimize.fed_samples import SampleFeeds

MS = 1_000_000
DOUBLE = "x = Placeholder() {dtype=float, shape=shape[?,4]}\ny = Add(x, x) {T=float}\ninputs: x\noutputs: y"
BOXES = """
    boxes = Placeholder() {dtype=float, shape=shape[6,4]}
    scores = Placeholder() {dtype=float, shape=shape[6]}
    most = Const() {value=int32[]{3}}
    overlap = Const() {value=float[]{0.5}}
    chosen = NonMaxSuppressionV3(boxes, scores, most, overlap, overlap) {T=float, T_threshold=float}
    inputs: boxes, scores
    outputs: chosen
"""
SOUND = """
    sound = Placeholder() {dtype=float, shape=shape[800,1]}
    spectrum = AudioSpectrogram(sound) {window_size=160, stride=80, magnitude_squared=true}
    inputs: sound
    outputs: spectrum
"""


TEXT = """
    text = Placeholder() {dtype=string, shape=shape[]}
    x = DecodeRaw(text) {out_type=float, little_endian=true}
    sizes = Const() {value=int32[4]{1,16,16,8}}
    picture = Reshape(x, sizes) {T=float, Tshape=int32}
    w = Const() {dtype=float, value=float[3,3,8,8]{normal 1}}
    c = Conv2D(picture, w) {T=float, strides=[1,1,1,1], padding="SAME"}
    y = Relu(c) {T=float}
    inputs: text
    outputs: y
"""


class Taking:
    """A model whose run takes as long as its sample says, by a clock of its own."""

    note, eight_bit, feeds_apart = "", False, True

    def __init__(self, clock: list[int], ms: list[float], log: list[tuple[str, int]], name: str) -> None:
        self.clock, self.ms, self.log, self.name = clock, ms, log, name
        self.samples, self.turn = len(ms), 0

    def feed(self, turn: int = 0) -> None:
        self.turn = turn

    def invoke(self) -> None:
        self.clock[0] += round(self.ms[self.turn % self.samples] * MS)
        self.log.append((self.name, self.turn))


def test_all_models_get_the_same_sample_in_the_same_run() -> None:
    clock, log = [0], list[tuple[str, int]]()
    times = [10.0, 30.0, 20.0]
    cases = [Case(name, "fake", 1, Taking(clock, times, log, name)) for name in "ab"]
    measure(cases, Limits(runs=7, warmup=1, seconds=100), clock=lambda: clock[0], rest=lambda s: None)
    for case in cases:
        assert case.times == [round(times[i % 3] * MS) for i in range(7)]
    # Also in the runs that only fill the caches, in front of those that count.
    timed = [turn for name, turn in log if name == "a"][1:]
    assert sorted(set(timed)) == list(range(7))


def test_each_sample_has_its_turn_before_a_measurement_ends() -> None:
    clock = [0]
    case = Case("a", "fake", 1, Taking(clock, [100.0] * 40, [], "a"))
    rounds = measure([case], Limits(seconds=60), clock=lambda: clock[0], rest=lambda s: None).rounds
    assert rounds >= 40


def test_runs_take_samples_in_turns_on_every_engine(tmp_path: Path) -> None:
    graph = parse_graph(DOUBLE)
    np.savez(tmp_path / "some.npz", x=np.arange(12, dtype=np.float32).reshape(3, 4))
    series = SampleFeeds(tmp_path / "some.npz")
    thinflow.save(graph, tmp_path / "m.tflite")
    for source, engine in ((graph, "reference"), (graph, "litert"), (tmp_path / "m.tflite", "litert")):
        (subject,) = open_subjects(source, feeds=series)
        runner: Any = subject.prepare(engine, 1)
        assert runner.samples == 3
        for turn in range(5):
            runner.feed(turn)
            assert fed_now(runner, engine).tolist() == [4 * (turn % 3) + i for i in range(4)]


def fed_now(runner: Any, engine: str) -> np.ndarray:
    if engine == "litert":
        place, _ = runner._inputs[0][0]
        return runner._interpreter.get_tensor(place)[0]
    return runner._arrays[0][0]


def test_models_that_hold_fewer_samples_set_the_number_for_all() -> None:
    graph, feeds = parse_graph(DOUBLE), [{"x": np.full((1, 4), i, np.float32)} for i in range(5)]

    def given(path: str, inputs: object) -> FeedSeries:
        return FeedSeries(tuple(feeds[:5] if path == "a" else feeds[:2]), "clips", 5)

    subjects = open_subjects({"a": graph, "b": graph}, feeds=given)
    assert [len(s.feeds.feeds) for s in subjects if isinstance(s.feeds, FeedSeries)] == [2, 2]
    assert {str(s.feeds) for s in subjects} == {"2 of 5 samples of clips"}


def test_samples_of_other_sizes_are_left_out_and_told() -> None:
    graph = parse_graph(DOUBLE.replace("[?,4]", "[1,?]"))
    samples = [{"x": np.zeros((1, n), np.float32)} for n in (4, 6, 4, 4)]
    report = thinflow.benchmark(graph, calibration=samples, runs=3, memory=False, peaks=False)
    assert report.fed == "3 of 4 samples"
    assert "graph: 1 sample is of other sizes than the first, and left out" in report.caveats()


def test_what_was_made_up_is_described() -> None:
    arrays = [
        np.linspace(-0.998, 0.98, 6, dtype=np.float32).reshape(2, 3),
        np.int32(8000),
        np.array([b"a"], object),
    ]
    assert made_up_text(arrays) == "made up: float32 [2,3] from -1 to 1, int32 8000, text [1]"
    assert made_up_text([np.zeros(1)] * 5).endswith("0, 2 more")
    assert made_up_text([]) == "nothing: it has no inputs"


@pytest.mark.parametrize("suffix", ["", ".tflite", ".onnx"])
def test_where_values_matter_made_up_ones_are_warned_of(suffix: str, tmp_path: Path) -> None:
    if suffix == ".onnx":
        pytest.importorskip("onnxruntime")
    source: Any = parse_graph(BOXES)
    if suffix:
        thinflow.save(source, tmp_path / f"boxes{suffix}")
        source = tmp_path / f"boxes{suffix}"
    report = thinflow.benchmark(source, runs=1, memory=False, peaks=False)
    (fed,) = report.inputs.values()
    assert fed.is_made_up
    assert fed.text.startswith("made up: float32 [6,4] from -")
    assert any("the choice of boxes by 'chosen" in doubt for doubt in fed.doubts)
    assert any(
        line.endswith("may take another time on real input: --calibration SAMPLES")
        for line in report.caveats()
    )
    # Nothing to warn of where somebody gave them.
    given = {"boxes": np.zeros((6, 4), np.float32), "scores": np.zeros(6, np.float32)}
    report = thinflow.benchmark(source, feeds=given, runs=1, memory=False, peaks=False)
    assert report.fed == "given arrays"
    assert not any("made up" in line for line in report.caveats())


def doubts_of(graph: Graph) -> list[str]:
    (subject,) = open_subjects(graph)
    return value_dependent(subject)


def test_sounds_and_plain_graphs() -> None:
    assert doubts_of(parse_graph(DOUBLE)) == []
    assert doubts_of(parse_graph(SOUND)) == ["the sound's features by 'spectrum' (AudioSpectrogram)"]


def test_loops_are_doubtful_where_what_is_fed_says_how_often_they_turn(tmp_path: Path) -> None:
    assert doubts_of(parse_graph(FIXED)) == []
    (told,) = doubts_of(parse_graph(FED))
    assert told == "the loop 'loop' (StatelessWhile)"
    for text, count in ((FIXED, 0), (FED, 1)):
        thinflow.save(parse_graph(text), tmp_path / "loop.tflite")
        (subject,) = open_subjects(tmp_path / "loop.tflite")
        assert len(value_dependent(subject)) == count


@pytest.mark.parametrize("engine", ["litert", "onnxruntime"])
def test_profiles_take_samples_in_turns(engine: str) -> None:
    if engine == "onnxruntime":
        pytest.importorskip("onnxruntime")
    few, many, both = (
        profile(parse_graph(FED), engine=engine, runs=4, warmup=1, feeds=FeedSeries(tuple(feeds)))
        for feeds in (TURNS[:1], TURNS[1:], TURNS)
    )
    calls = [sum(row.calls for row in found.stats.rows.values()) for found in (few, many, both)]
    assert calls[0] < calls[1]
    assert 2 * calls[2] == calls[0] + calls[1]


def test_profiles_of_the_interpreter_take_them_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[int] = []

    def watched(plan: Any, feeds: Any) -> Any:
        fed.append(next(int(array) for value, array in feeds.items() if value.name == "turns"))
        return observed(plan, feeds)

    monkeypatch.setattr("thinflow.bench.profile.observed", watched)
    profile(parse_graph(FED), engine="reference", runs=5, feeds=FeedSeries(tuple(TURNS)))
    assert fed == [1, 9, 1, 9, 1]


def test_profiles_run_each_sample_once_at_least() -> None:
    series = FeedSeries(tuple(TURNS * 15))
    assert profile(parse_graph(FED), engine="reference", feeds=series).stats.micros.count == 30
    assert profile(parse_graph(FED), engine="reference", feeds=TURNS[0]).stats.micros.count == 20


def test_memory_is_that_of_several_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    from thinflow.bench import memory

    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(memory, "_ask", lambda request, *_: asked.append(request) or memory.answer(request))
    (subject,) = open_subjects(parse_graph(FED), feeds=FeedSeries(tuple(TURNS * 3)))
    found = memory.measure_memory(subject, "reference", 1)
    assert found.error == ""
    assert found.peak_bytes
    assert len(asked[0]["feeds"]) == memory.RUNS


def row_of(engine: str) -> Row:
    return Row("text", engine, 1, describe([1.0]), None, (MS,), True)


@pytest.mark.usefixtures("every_region_pays")
def test_a_graph_in_parts_is_one_table_that_names_them() -> None:
    """LiteRT has no DecodeRaw."""
    samples = [{"text": np.full(16 * 16 * 8, n, np.float32).tobytes()} for n in range(3)]
    report = thinflow.benchmark(parse_graph(TEXT), calibration=samples, runs=3, memory=False, peaks=False)
    assert report.fed == "3 samples"
    found = profile(parse_graph(TEXT), runs=3, feeds=SampleFeeds(samples))
    assert [part.name for part in found.parts] == ["1 reference", "2 litert"]
    assert found.method.endswith(
        "litert by its own profiler, the interpreter by the clock, 3 samples in turns"
    )
    assert found.part_of["x"] == "1 reference"
    assert found.part_of["y"] == "2 litert"
    assert set(found.part_of) == set(found.stats.rows)
    assert sum(part.micros for part in found.parts) == pytest.approx(sum(found.stats.medians().values()))
    told = RowProfile(row_of("litert"), found)
    (parts, cells), _, (nodes, lines) = told.tables(80)
    assert parts == ["part", "nodes", "ms", "%"]
    assert [line[0] for line in cells] == ["1 reference", "2 litert"]
    assert nodes == ["node", "part", "op", "ms", "%", "kernel"]
    assert {line[0]: line[1] for line in lines}["y"] == "2 litert"
    assert "| part | nodes | ms | % |" in told.markdown()
    data = told.data()
    assert {node["part"] for node in data["nodes"]} == {"1 reference", "2 litert"}
    assert [part["engine"] for part in data["parts"]] == ["reference", "litert"]


def test_what_runs_whole_has_no_parts() -> None:
    found = profile(parse_graph(DOUBLE), runs=2, shapes={"x": (1, 4)})
    assert not found.parts
    assert RowProfile(row_of("litert"), found).tables()[-1][0][1] == "op"


def test_apart_times_of_samples_are_told() -> None:
    times = [MS * (10 if i % 4 == 2 else 3) + i % 7 for i in range(80)]
    (quick, least), (slow, most) = by_sample(times, 4)  # type: ignore[misc]
    assert (slow, round(most)) == (2, 10)
    assert quick != 2
    assert round(least) == 3
    assert by_sample([3 * MS] * 80, 4) is None
    # Too few of each, and no samples to tell apart.
    assert by_sample(times[:20], 4) is None
    assert by_sample(times, 1) is None


def test_a_median_between_samples_is_no_matter_of_time() -> None:
    times = tuple(MS * (10 if i % 2 else 3) + i for i in range(80))
    row = Row("loop", "litert", 1, describe([t / MS for t in times]), None, times, False)
    fed = Fed("2 samples", samples=2, places=("a.npy", "b.npy"))
    told = BenchmarkReport((row,), this_machine(), 80, 1.0, inputs={"loop": fed}).caveats()
    assert any(line.endswith("% only; samples take different times") for line in told)
    assert "loop, litert, 1 thread: the time depends on the input: b.npy takes 10 ms, a.npy 3 ms" in told
    alone = BenchmarkReport((row,), this_machine(), 80, 1.0, inputs={"loop": Fed("given arrays")}).caveats()
    assert any(line.endswith("% only; give it more time (--seconds)") for line in alone)
    assert not any("depends on the input" in line for line in alone)
