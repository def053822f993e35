"""engine="auto" that measures, and the file of choices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.engines import _autotune, _measured
from thinflow.engines.session import Session
from thinflow.errors import FormatError, NodeError, ParameterError

TEXT = """
x = Placeholder() {dtype=float, shape=shape[?,4]}
y = Relu(x) {T=float}
inputs: x
outputs: y
"""
X = np.array([[-1, 0, 1, 2]], np.float32)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_measured, "SECONDS", 0.01)


class Clock:
    """Time that engines take by name, in place of the real one; none for an engine that fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float]) -> None:
        self.turns: list[str] = []

        def measured(candidate: Any, repeats: int) -> float:
            self.turns.append(candidate.name)
            if seconds[candidate.name] < 0:
                raise NodeError("it cannot")
            return seconds[candidate.name]

        monkeypatch.setattr(_measured, "_seconds", measured)
        monkeypatch.setattr(_autotune, "usable_engines", lambda names=None: names or list(seconds))


@pytest.mark.parametrize("best", ["litert", "reference"])
def test_the_fastest_is_kept(monkeypatch: pytest.MonkeyPatch, best: str) -> None:
    clock = Clock(monkeypatch, {"litert": 2e-3, "reference": 1e-3 if best == "reference" else 3e-3})
    session = Session(parse_graph(TEXT), measure=True)
    assert session.choice is None
    session.run(["y"], {"x": X})
    asked = len(clock.turns)
    assert session.run(["y"], {"x": X})[0].tolist() == [[0, 0, 1, 2]]
    assert len(clock.turns) == asked  # the second run of the session measured nothing
    assert session.engine == session.choice.engine == best
    assert set(session.placement.values()) == {best}
    # In turns: neither runs more often than the other, nor several times behind each other.
    assert clock.turns.count("litert") == clock.turns.count("reference") > _measured.ROUNDS


def test_it_tells_which_and_by_how_much(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Clock(monkeypatch, {"litert": 2e-3, "openvino": -1, "reference": 5e-3})
    session = Session(parse_graph(TEXT), measure=True)
    with caplog.at_level("INFO"):
        session.run(["y"], {"x": X})
    assert session.choice is not None
    sentence = (
        "litert takes 2 ms; reference takes 5 ms, 2.50 times as long; openvino does not run it: it cannot"
    )
    assert session.choice.sentence == sentence
    assert sentence in caplog.text
    first, second, last = session.choice.trials
    assert (first.engine, first.median_ms, first.difference, first.left_out) == ("litert", 2.0, 0.0, "")
    assert (second.engine, second.low_ms, second.high_ms) == ("reference", 5.0, 5.0)
    assert (last.engine, last.median_ms) == ("openvino", None)


def test_a_hopeless_engine_gets_no_further_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, {"litert": 1e-3, "onnxruntime": 2e-3, "reference": 9.0})
    Session(parse_graph(TEXT), measure=True).run(["y"], {"x": X})
    # One that is run to see whether it runs, and those before anybody is judged, if there is time for them.
    assert clock.turns.count("reference") <= 1 + _measured.ROUNDS
    assert clock.turns.count("litert") > clock.turns.count("reference")


def test_an_engine_that_answers_otherwise_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, {"litert": 1e-3, "reference": 5e-3})
    real = _autotune.find("litert").compile

    class Wrong:
        placement: ClassVar = {"y": "litert"}
        reasons: ClassVar = {}

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def run(self, arrays: Any) -> Any:
            return [y + np.float32(0.01) for y in self.inner.run(arrays)]

    monkeypatch.setattr(
        _autotune.find("litert"), "compile", lambda *given, **options: Wrong(real(*given, **options))
    )
    session = Session(parse_graph(TEXT), measure=True)
    assert session.run(["y"], {"x": X})[0].tolist() == [[0, 0, 1, 2]]
    assert session.engine == "reference"
    assert session.choice is not None
    assert session.choice.trials[-1].left_out == "answers otherwise: 0.005 of the largest value off"


def test_an_engine_that_fails_is_out(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, {"litert": -1, "reference": 1.0})
    session = Session(parse_graph(TEXT), measure=True)
    session.run(["y"], {"x": X})
    assert session.engine == "reference"


def test_if_all_fail_the_reference_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, {"litert": -1, "reference": -1})
    with pytest.raises(NodeError, match="it cannot"):
        Session(parse_graph(TEXT), measure=True).run(["y"], {"x": X})


def test_a_process_measures_a_model_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = Clock(monkeypatch, {"litert": 2e-3, "reference": 1e-3})
    graph, path = parse_graph(TEXT), tmp_path / "net.pb"
    thinflow.save(graph, path)
    for model in (graph, path):
        Session(model, measure=True).run(["y"], {"x": X})
        asked = len(clock.turns)
        again = Session(model, measure=True)
        again.run(["y"], {"x": X})
        assert (again.engine, len(clock.turns)) == ("reference", asked)
        assert again.choice is not None
        Session(model, measure=True).run(["y"], {"x": np.ones((8, 4), np.float32)})  # of other sizes
        assert len(clock.turns) > asked
    asked = len(clock.turns)
    thinflow.save(parse_graph(TEXT.replace("Relu", "Relu6")), path)
    Session(path, measure=True).run(["y"], {"x": X})
    assert len(clock.turns) > asked


def test_a_file_may_go_to_another_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    thinflow.convert(parse_graph(TEXT), tmp_path / "net.tflite")
    Clock(monkeypatch, {"litert": 2e-3, "reference": 1e-3})
    for _ in range(2):  # measured, and known
        session = Session(tmp_path / "net.tflite", measure=True)
        assert session.run(["y"], {"x": X})[0].tolist() == [[0, 0, 1, 2]]
        assert (session.engine, set(session.placement.values())) == ("reference", {"reference"})
        assert session.run(None, {"x": 2 * X})[0].tolist() == [[0, 0, 2, 4]]


def test_what_leaves_something_behind_is_not_tried(caplog: pytest.LogCaptureFixture) -> None:
    text = TEXT.replace("y = Relu(x) {T=float}", "p = Print(x) {T=float}\ny = Relu(p) {T=float}")
    session = Session(parse_graph(text), measure=True)
    session.run(["y"], {"x": X})
    assert session.choice is None
    assert "nothing was measured: a run leaves something behind (node 'p' (Print))" in caplog.text


def test_dice_that_decide_nothing_do_not_stand_in_the_way() -> None:
    rng = np.random.default_rng(0)
    answers = iter([rng.random(3, np.float32) for _ in range(4)])
    choice, _ = _measured.choose(
        ["litert", "reference"], str, lambda made: [next(answers, np.zeros(3, np.float32))], is_random=True
    )
    assert choice.note == "answers were not compared: the model throws dice"
    choice, _ = _measured.choose(["litert", "reference"], str, lambda made: [np.ones(3)], is_random=True)
    assert choice.note == ""


def test_how_far_answers_are_apart() -> None:
    nan, inf = np.nan, np.inf
    apart = _measured.apart
    assert apart([np.array([1.0, nan, inf])], [np.array([1.0, nan, inf])]) == 0
    assert apart([np.array([1.0, nan])], [np.array([1.0, 2.0])]) == inf
    assert apart([np.array([4.0, 1.0])], [np.array([4.0, 2.0])]) == 0.25
    assert apart([np.array([3])], [np.array([4])]) == inf  # another class
    assert apart([np.array([3], np.uint8)], [np.array([4], np.uint8)]) == 1 / 255
    assert apart([np.array([b"a"], object)], [np.array([b"a"], object)]) == 0
    assert apart([np.zeros(2)], [np.zeros(3)]) == inf


def test_the_choice_is_remembered_only_when_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = Clock(monkeypatch, {"litert": 2.0, "reference": 1.0})
    cache = tmp_path / "engines.json"
    Session(parse_graph(TEXT), measure=True).run(["y"], {"x": X})
    assert not cache.exists()
    Session(parse_graph(TEXT), cache=cache).run(["y"], {"x": X})
    assert list(json.loads(cache.read_text())["engines"].values()) == ["reference"]
    clock.turns.clear()
    again = Session(parse_graph(TEXT), cache=cache)
    again.run(["y"], {"x": X})
    assert (again.engine, clock.turns) == ("reference", [])
    Session(parse_graph(TEXT), cache=cache).run(["y"], {"x": np.ones((8, 4), np.float32)})
    Session(parse_graph(TEXT), cache=cache, threads=2).run(["y"], {"x": X})
    assert len(json.loads(cache.read_text())["engines"]) == 3


@pytest.mark.parametrize("content", ["[]", '{"a": 1}', "{}", "a list of engines", "\0\1\2", "[" * 100_000])
def test_another_file_is_not_overwritten(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    cache = tmp_path / "engines.json"
    cache.write_text(content)
    assert Session(parse_graph(TEXT), cache=cache).run(["y"], {"x": X})[0].tolist() == [[0, 0, 1, 2]]
    assert cache.read_text() == content
    assert "engines.json: this is not a file of engine choices; nothing is remembered" in caplog.text


DAMAGED = ["", "{", '{"engines', '{\n  "engines": {"a": "lite', '{"engines": {"a": 1}}']


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_is_made_anew(tmp_path: Path, content: str) -> None:
    cache = tmp_path / "engines.json"
    cache.write_text(content)
    Session(parse_graph(TEXT), cache=cache).run(["y"], {"x": X})
    (found,) = json.loads(cache.read_text())["engines"].values()
    assert found in {"litert", "reference", "onnxruntime", "openvino", "c"}


def test_a_folder_is_no_file_of_choices(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"directory\nhint: check the path"):
        Session(parse_graph(TEXT), cache=tmp_path).run(["y"], {"x": X})


def test_the_key_tells_apart_what_runs_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(text: str = TEXT, threads: int = 1, array: np.ndarray = X) -> str:
        graph = parse_graph(text)
        return _autotune.key_of(graph, graph.inputs, graph.outputs, [array], threads)

    assert key() == key()
    others = [
        key(TEXT.replace("Relu", "Relu6")),
        key(TEXT.replace("[?,4]", "[1,4]")),
        key(threads=2),
        key(array=np.ones((8, 4), np.float32)),
    ]
    monkeypatch.setattr(_autotune, "_versions", lambda: {"thinflow": "later"})
    assert len({key(), *others}) == 5


def test_a_remembered_engine_that_is_gone_is_measured_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cache = tmp_path / "engines.json"
    graph = parse_graph(TEXT)
    key = _autotune.key_of(graph, graph.inputs, graph.outputs, [X], 1)
    cache.write_text(json.dumps({"engines": {key: "hexagon"}}))
    session = Session(graph, cache=cache)
    session.run(["y"], {"x": X})
    assert session.engine in {"litert", "reference", "onnxruntime", "openvino", "c"}


def test_a_chosen_engine_leaves_nothing_to_measure() -> None:
    with pytest.raises(ParameterError, match="nothing to measure with engine='litert'\nhint: leave"):
        Session(parse_graph(TEXT), "litert", measure=True)
