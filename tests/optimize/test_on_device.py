"""The main job with its models timed on a device; this machine is the device."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.bench import rows as bench_rows
from tests.device.models import dense
from tests.device.odd_devices import OddDevice
from thinflow import zoo
from thinflow.cli import main
from thinflow.device.base import DeviceLost
from thinflow.errors import EngineUnavailable, ParameterError
from thinflow.optimize.on_device import worse_elsewhere

pytest.importorskip("ai_edge_litert")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A graph and samples for it."""
    folder = tmp_path_factory.mktemp("job")
    zoo.write("digits", folder / "digits.pb")
    samples = zoo.test_set("digits")
    np.savez(folder / "test.npz", image=samples["image"][:60], labels=samples["labels"][:60])
    return str(folder / "digits.pb"), str(folder / "test.npz")


def test_the_report_names_the_device(
    model: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, samples = model
    out = tmp_path / "out"
    words = ["--calibration", samples, "--effort", "none", "--seconds", "0.2", "--threads", "1"]
    assert main(["optimize", graph, str(out), *words, "--device", "local", "--onnx"]) == 0
    shown = capsys.readouterr().out
    assert "on local" in shown.splitlines()[0]
    assert "\ndevice     local: " in shown
    assert "device     on local the files answer as here: fp32 to 0, int8 to 0" in shown
    data = json.loads((out / "report.json").read_text("utf-8"))
    # Devices run LiteRT: the .onnx files are made, and not timed.
    assert [(r["device"], r["engine"]) for r in data["latency"]["rows"]] == [("local", "litert")] * 2
    assert data["latency"]["devices"][0]["name"] == "local"
    assert "int8" in data["alike"]
    assert (out / "digits_int8.onnx").exists()
    page = (out / "report.md").read_text("utf-8")
    assert "on local the files answer as here" in page
    assert shown.endswith("--threads 1,2 --device local\n")
    assert "- local: " in page


SAMPLES = {"x": np.random.default_rng(3).standard_normal((30, 16)).astype(np.float32)}


def test_a_device_that_answers_otherwise_is_told_of(tmp_path: Path) -> None:
    options: dict[str, Any] = {"effort": "none", "seconds": 0.1, "threads": [1]}
    board = OddDevice(lambda y: y * np.float32(1.1))
    report = thinflow.optimize(dense(), tmp_path / "out", calibration=SAMPLES, device=board, **options)
    assert sum("answers otherwise on board than here, by 0.1" in w for w in report.warnings) == 2
    assert report.latency is not None
    assert {row.device for row in report.latency.rows} == {"board"}


def test_all_devices_are_in_one_table_and_the_first_decides(tmp_path: Path) -> None:
    options: dict[str, Any] = {"effort": "none", "seconds": 0.1, "threads": [1]}
    places: list[Any] = ["local", OddDevice(lambda y: y * np.float32(1.1))]
    report = thinflow.optimize(dense(), tmp_path / "out", calibration=SAMPLES, device=places, **options)
    assert isinstance(report, thinflow.OptimizeReport)
    assert report.latency is not None
    assert {row.device for row in report.latency.rows} == {"local", "board"}
    page = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert re.search(r"quality +\| local, 1 thread +\| board, 1 thread ", page)
    assert report.alike.startswith("on local the files answer as here")
    assert sum("answers otherwise on board than here" in w for w in report.warnings) == 2


def test_a_choice_that_is_wrong_for_another_device_is_told_of() -> None:
    rows = [
        replace(bench_rows.row(name, ms), device=place)
        for place, float_ms, int8_ms in (("new", 2.0, 1.0), ("old", 20.0, 30.0))
        for name, ms in (("fp32", float_ms), ("int8", int8_ms))
    ]
    latency = bench_rows.report(*rows)
    others: Any = [OddDevice()]
    others[0].name = "old"
    plain, smaller = Path("fp32"), Path("int8")
    slower, late = worse_elsewhere(latency, plain, smaller, others, 25.0)
    assert re.search(r"on old int8 is slower than fp32, 30\S* ms beside 20\S* ms a run", slower)
    assert re.search(r"on old a run of int8 takes 30\S* ms, over the bound of 25 ms", late)
    assert worse_elsewhere(latency, plain, plain, others, 25.0) == []
    assert worse_elsewhere(latency, plain, smaller, [], 0.1) == []
    others[0].name = "lost"
    assert worse_elsewhere(latency, plain, smaller, others, 0.1) == []


class Vanishing(OddDevice):
    """A device that is there so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    @contextmanager
    def connect(self, progress: Any = None) -> Any:
        self.times -= 1
        if self.times < 0:
            raise EngineUnavailable("it cannot be reached", "board", "see that it is switched on")
        with super().connect(progress) as connection:
            yield connection


def test_a_budget_is_kept_there_and_goes_on_when_a_lost_device_is_back(tmp_path: Path) -> None:
    graph, samples = dense(), SAMPLES
    out = tmp_path / "out"
    options: dict[str, Any] = {"effort": "none", "seconds": 0.1, "threads": [1], "max_latency": "50ms"}
    with pytest.raises(DeviceLost, match="it cannot be reached") as caught:
        thinflow.optimize(graph, out, calibration=samples, device=Vanishing(3), **options)
    kept = re.search(r"(\d) of 6 candidates are measured and kept in", caught.value.hint)
    assert kept is not None
    board = Vanishing(100)
    report = thinflow.optimize(graph, out, calibration=samples, device=board, **options)
    assert isinstance(report, thinflow.OptimizeReport)
    assert report.verdict.startswith("within drop <= 1.5 points, latency <= 50 ms on board: ")
    assert report.ladder is not None
    assert any(f"{kept[1]} of 6 results are of an earlier run" in note for note in report.ladder.notes)
    assert all(m.latency is not None for m in report.ladder.measured if m.is_own)
    # To see that it is there; for candidates but for two, the table, its operators, and the answers.
    timed = sum(m.is_own and not m.is_float for m in report.ladder.measured)
    assert 100 - board.times == 1 + (timed - 2) + 3
    # Times of this machine are others.
    here = thinflow.optimize(graph, out, calibration=samples, **options)
    assert isinstance(here, thinflow.OptimizeReport)
    assert here.ladder is not None
    assert not any("earlier run" in note for note in here.ladder.notes)


def test_what_is_refused_before_any_work(model: tuple[str, str], tmp_path: Path) -> None:
    graph, samples = model
    with pytest.raises(EngineUnavailable, match="it cannot be reached"):
        thinflow.optimize(graph, tmp_path / "out", calibration=samples, device=Vanishing(0))
    assert not (tmp_path / "out").exists()
    with pytest.raises(ParameterError, match="a device is for measuring"):
        thinflow.optimize(graph, tmp_path / "out", calibration=samples, device="local", measure=False)
    with pytest.raises(ParameterError, match="devices run LiteRT, and the bound"):
        thinflow.optimize(
            graph, tmp_path / "out", calibration=samples, device="local", onnx=True, max_latency="1ms"
        )
