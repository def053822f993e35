"""`optimize` with several engines: their models are made, timed in turns, and what wins is shipped."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import thinflow
from thinflow.errors import EngineUnavailable, ParameterError
from thinflow.lower.openvino.runtime import missing
from thinflow.optimize import engine_race
from thinflow.optimize import job as job_module
from thinflow.optimize.engine_names import PREFIXES, raced_engines
from thinflow.optimize.engine_race import EngineRace, race
from thinflow.optimize.job_inputs import JobOptions
from thinflow.optimize.report import OptimizeReport
from thinflow.optimize.verdict import shipped
from thinflow.zoo import digits

# Not imported here: that would report to its makers, by a thread that keeps later tests from forks.
if why := missing():
    pytest.skip(why, allow_module_level=True)
pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> OptimizeReport:
    samples = {"image": np.random.default_rng(0).random((60, 8, 8, 1), np.float32)}
    found = thinflow.optimize(
        digits.build(0),
        tmp_path_factory.mktemp("out"),
        calibration=samples,
        effort="none",
        engines=["litert", "onnx", "openvino"],
        threads=[1],
        seconds=0.5,
    )
    assert isinstance(found, OptimizeReport)
    return found


@pytest.mark.slow
def test_every_engine_is_timed_and_the_fastest_shipped(report: OptimizeReport) -> None:
    race = report.race
    assert race is not None
    assert {one.engine for one in race.standings} == {"litert", "onnxruntime", "openvino"}
    medians = [one.median_ms for one in race.standings]
    assert None not in medians
    assert medians == sorted(medians)
    winner = race.winner
    assert winner is not None
    assert winner.file == shipped(report)
    assert winner.why == ""
    assert report.verdict.startswith(f"{winner.engine} is the fastest on 1 thread of this machine, ")
    assert f": ship {winner.file.name}; in LiteRT int8 " in report.verdict
    for other in race.standings[1:]:
        assert f"times as long as {winner.engine}" in other.why


@pytest.mark.slow
def test_what_is_written_opens(report: OptimizeReport) -> None:
    assert {"fp32", "int8", "onnx_fp32", "onnx_int8", "openvino_fp32", "openvino_int8"} <= set(report.files)
    file = report.files["openvino_int8"]
    x = np.random.default_rng(1).random((1, 8, 8, 1), np.float32)
    (found,) = thinflow.Session(file).run(None, {"image": x})
    (wanted,) = thinflow.Session(report.files["openvino_fp32"]).run(None, {"image": x})
    np.testing.assert_allclose(found, wanted, atol=0.1)
    # The weights of an .xml lie beside it, and count.
    assert report.sizes["openvino_fp32"] > file.with_suffix(".bin").stat().st_size


@pytest.mark.slow
def test_the_report_names_each(report: OptimizeReport) -> None:
    data = json.loads(report.json_text())["engines"]
    assert data["threads"] == 1
    assert [one["engine"] for one in data["engines"]] == [s.engine for s in report.race.standings]  # type: ignore[union-attr]
    for one in data["engines"]:
        assert one["latency_ms"]["median"] > 0
    assert data["engines"][0]["passed_over"] is None
    assert "## Engines" in report.markdown()
    for engine in ("litert", "onnxruntime", "openvino"):
        assert any(line.startswith(engine) for line in report.lines())


@pytest.mark.slow
def test_an_engine_whose_models_cannot_be_made_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise EngineUnavailable("OpenVINO refuses the model: no form")

    monkeypatch.setattr(job_module, "openvino_ground", refuse)
    found = thinflow.optimize(
        digits.build(0), tmp_path, effort="none", engines="litert,openvino", threads=[1], seconds=0.2
    )
    assert isinstance(found, OptimizeReport)
    assert found.race is not None
    litert, openvino = found.race.standings
    assert litert.remark == "int8 is no candidate, as samples were made up"
    assert openvino.why.startswith("not made: no OpenVINO models were written: OpenVINO refuses the model")
    assert found.verdict.startswith("litert is the only one of 2 engines that was timed on 1 thread")


class Pair:
    """Models of an engine, of which the smaller one gives the same top answer on so many of 100 samples."""

    scheme, ladder = "int8", None

    def __init__(self, right: int = 100, *, is_part: bool = False) -> None:
        self.plain = SimpleNamespace(coverage=SimpleNamespace(is_part=is_part))
        self.maker, self.qualities = SimpleNamespace(names=("float", "int8")), {"int8": right}


class Latency:
    """Times of files, in milliseconds."""

    paths: ClassVar[dict[str, str]] = {}
    skipped = (SimpleNamespace(subject="onnx_fp32", why="the runtime crashed"),)

    def __init__(self, **times: float) -> None:
        self.times = times

    def timing(self, file: Path, threads: int) -> Any:
        found = self.times.get(file.stem)
        return None if found is None else SimpleNamespace(median_ms=found)

    def ratio(self, one: Any, other: Any) -> Any:
        ratio = one.median_ms / other.median_ms
        return SimpleNamespace(interval=f"{ratio:.1f} ± 0.1", outcome="even" if ratio < 1.1 else "faster")


def race_of(latency: Latency, *, missing: dict[str, str] | None = None, **pairs: Pair) -> EngineRace:
    engines = [*pairs, *(missing or {})]
    files = {f"{PREFIXES[e]}{k}": Path(f"{PREFIXES[e]}{k}.x") for e in engines for k in ("fp32", "int8")}
    found: Any = latency
    made: Any = pairs
    return race(engines, made, files, found, threads=1, max_drop=1.5, synthetic=False, missing=missing or {})


@pytest.fixture
def _judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(scheme: str, right: int, most: float) -> str:
        return f"{scheme} loses {100 - right} points" if 100 - right > most else ""

    monkeypatch.setattr(engine_race, "too_much_lost", lost)


@pytest.mark.usefixtures("_judged")
def test_the_faster_file_that_is_good_enough_runs_for_its_engine() -> None:
    latency = Latency(fp32=4.0, int8=1.0, onnx_fp32=2.0, onnx_int8=3.0, openvino_fp32=2.1, openvino_int8=0.5)
    found = race_of(latency, litert=Pair(99), onnxruntime=Pair(), openvino=Pair(90))
    told = [(s.engine, s.file.name if s.file else "", s.why, s.remark) for s in found.standings]
    assert told == [
        ("litert", "int8.x", "", ""),
        ("onnxruntime", "onnx_fp32.x", "takes 2.0 ± 0.1 times as long as litert", "int8 is no faster there"),
        (
            *("openvino", "openvino_fp32.x", "takes 2.1 ± 0.1 times as long as litert"),
            "int8 is no candidate: int8 loses 10 points",
        ),
    ]
    sentence = "litert is the fastest on 1 thread of this machine, 2.0 ± 0.1 times as fast as onnxruntime"
    assert found.sentence == sentence


@pytest.mark.usefixtures("_judged")
def test_who_does_not_run_is_last_and_says_why() -> None:
    found = race_of(
        Latency(fp32=4.0, int8=4.1, openvino_fp32=1.0),
        litert=Pair(),
        onnxruntime=Pair(),
        openvino=Pair(is_part=True),
        missing={},
    )
    assert [(s.engine, s.why) for s in found.standings] == [
        ("litert", ""),
        ("onnxruntime", "not timed: the runtime crashed"),
        ("openvino", "its files hold only a part of the model"),
    ]
    found = race_of(Latency(fp32=1.0), litert=Pair(), missing={"openvino": "OpenVINO refuses it"})
    assert found.standings[-1].why == "not made: OpenVINO refuses it"
    assert found.sentence == "litert is the only one of 2 engines that was timed on 1 thread of this machine"
    assert race_of(Latency(), litert=Pair()).sentence == "no engine could be timed"


@pytest.mark.usefixtures("_judged")
def test_what_cannot_be_told_apart_is_said_so() -> None:
    found = race_of(Latency(fp32=1.0, onnx_fp32=1.05), litert=Pair(), onnxruntime=Pair())
    why = "takes 1.1 ± 0.1 times as long as litert, within what was measured no difference"
    assert found.standings[1].why == why


def test_names() -> None:
    assert raced_engines("onnx, openvino,onnxruntime") == ("onnxruntime", "openvino")
    assert raced_engines(None) == ()
    with pytest.raises(ParameterError, match="no files are made for an engine 'reference'"):
        raced_engines(["reference"])
    with pytest.raises(ParameterError, match=r"an engine 'openvin'\nhint: did you mean 'openvino'"):
        raced_engines("openvin")
    with pytest.raises(ParameterError, match="no engine is named"):
        raced_engines("")


def test_engines_are_not_compared_without_measuring(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="engines are compared by measuring"):
        thinflow.optimize(digits.build(0), tmp_path, engines="litert", measure=False)
    device: Any = object()
    with pytest.raises(ParameterError, match="a device runs LiteRT"):
        JobOptions(engines="litert", devices=(device,))
