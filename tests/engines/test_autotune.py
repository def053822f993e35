"""engine="auto" that measures, and the file of choices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.transforms.golden import parse_graph
from thinflow.engines import _autotune
from thinflow.engines.session import Session
from thinflow.errors import FormatError, NodeError, ParameterError

TEXT = """
x = Placeholder() {dtype=float, shape=shape[?,4]}
y = Relu(x) {T=float}
inputs: x
outputs: y
"""
X = np.array([[-1, 0, 1, 2]], np.float32)


class Clock:
    """Time that engines take by name, in place of the real one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float]) -> None:
        self.runs: list[str] = []

        def measured(compiled: Any, arrays: Sequence[np.ndarray]) -> float:
            (name,) = set(compiled.placement.values())
            self.runs.append(name)
            if seconds[name] < 0:
                raise NodeError("it cannot")
            return seconds[name]

        monkeypatch.setattr(_autotune, "_seconds", measured)
        monkeypatch.setattr(_autotune, "usable_engines", lambda names=None: names or list(seconds))


@pytest.mark.parametrize("best", ["litert", "reference"])
def test_the_fastest_is_kept(monkeypatch: pytest.MonkeyPatch, best: str) -> None:
    clock = Clock(monkeypatch, {"litert": 2e-3, "reference": 1e-3 if best == "reference" else 3e-3})
    session = Session(parse_graph(TEXT), measure=True)
    for _ in range(2):
        assert session.run(["y"], {"x": X})[0].tolist() == [[0, 0, 1, 2]]
    assert session.engine == best
    assert set(session.placement.values()) == {best}
    assert len(clock.runs) == 2 * (1 + _autotune.RUNS)  # the second run of the session measured nothing


def test_a_hopeless_engine_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, {"litert": 1e-3, "reference": 9.0})
    Session(parse_graph(TEXT), measure=True).run(["y"], {"x": X})
    assert clock.runs.count("reference") == 1


def test_an_engine_that_fails_is_out(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, {"litert": -1, "reference": 1.0})
    session = Session(parse_graph(TEXT), measure=True)
    session.run(["y"], {"x": X})
    assert session.engine == "reference"


def test_if_all_fail_the_reference_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, {"litert": -1, "reference": -1})
    with pytest.raises(NodeError, match="it cannot"):
        Session(parse_graph(TEXT), measure=True).run(["y"], {"x": X})


def test_the_choice_is_remembered_only_when_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = Clock(monkeypatch, {"litert": 2.0, "reference": 1.0})
    cache = tmp_path / "engines.json"
    Session(parse_graph(TEXT), measure=True).run(["y"], {"x": X})
    assert not cache.exists()
    Session(parse_graph(TEXT), cache=cache).run(["y"], {"x": X})
    assert list(json.loads(cache.read_text())["engines"].values()) == ["reference"]
    clock.runs.clear()
    again = Session(parse_graph(TEXT), cache=cache)
    again.run(["y"], {"x": X})
    assert (again.engine, clock.runs) == ("reference", [])
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
    assert found in {"litert", "reference", "onnxruntime", "openvino"}


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
    assert session.engine in {"litert", "reference", "onnxruntime", "openvino"}


def test_a_chosen_engine_leaves_nothing_to_measure() -> None:
    with pytest.raises(ParameterError, match="nothing to measure with engine='litert'\nhint: leave"):
        Session(parse_graph(TEXT), "litert", measure=True)
