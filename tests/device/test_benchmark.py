"""Benchmarks on devices, as a user types them; this machine is the device."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.device.models import dense, dense_file, job
from tests.transforms.golden import parse_graph
from tests.turning import FED, TURNS
from thinflow.analysis.stats import Interval
from thinflow.api import profile_rows
from thinflow.bench.devices import Facts, MeasuredDevice, Soak, State
from thinflow.bench.machine import this_machine
from thinflow.cli import main
from thinflow.cli._device import read_duration
from thinflow.device.base import DeviceLost, Settings, Timing
from thinflow.device.finding import find_device
from thinflow.errors import EngineUnavailable, ParameterError

pytest.importorskip("ai_edge_litert")


def test_a_table_with_this_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(dense_file(tmp_path, f"{n}.tflite", n)) for n in (16, 400)]
    assert main(["benchmark", *paths, "--device", "local", "--runs", "9", "--profile"]) == 0
    shown = capsys.readouterr().out
    assert "400 ran " in shown.splitlines()[0]
    assert "times slower than 16 on local, 1 thread" in shown.splitlines()[0]
    assert "model  device  engine  threads" in shown
    assert "400, litert, local, 1 thread, node by node: LiteRT's own profiler" in shown
    assert "FULLY_CONNECTED" in shown
    assert f"device: local: {this_machine()}, LiteRT" in shown
    assert (
        shown.splitlines()[-1] == f"next: thinflow benchmark {' '.join(paths)} --device local --threads 1,2"
    )


def test_a_table_for_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(dense_file(tmp_path))
    assert main(["benchmark", path, "--device", "local", "--runs", "7", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [(r["device"], r["latency_ms"]["count"]) for r in data["rows"]] == [("local", 7)]
    assert data["memory"][0]["device"] == "local"
    assert data["memory"][0]["peak_bytes"] > 1e6
    assert data["devices"][0]["facts"]["runtime"].startswith("LiteRT")
    assert main(["benchmark", path, "--device", "local", "--runs", "7", "--csv", "--no-memory"]) == 0
    headers, cells = (line.split(",") for line in capsys.readouterr().out.splitlines())
    assert dict(zip(headers, cells, strict=True))["device"] == "local"


def test_graphs_become_files(tmp_path: Path) -> None:
    report = thinflow.benchmark(dense(), device="local", runs=6, memory=False)
    assert [(r.subject, r.device) for r in report.rows] == [("graph", "local")]
    pytest.importorskip("onnx")
    thinflow.save(dense(), tmp_path / "m.onnx")
    report = thinflow.benchmark(tmp_path / "m.onnx", device="local", runs=6, memory=False)
    assert [r.engine for r in report.rows] == ["litert"]


def test_what_does_not_go_whole_is_refused(tmp_path: Path) -> None:
    graph = dense()
    y = graph.outputs[0]
    graph.outputs = [graph.add("NobodysOp", [y], "odd").output()]
    with pytest.raises(EngineUnavailable, match="not all of the graph runs in LiteRT") as caught:
        thinflow.benchmark(graph, device="local", runs=2)
    assert "thinflow convert" in caught.value.hint


def test_a_model_that_crashes_its_engine_leaves_the_others(tmp_path: Path) -> None:
    """All models are open in one process there, which one of them may end."""
    jobs = [job(dense_file(tmp_path, f"{n}.tflite", seed=n)) for n in range(2)]
    with find_device("local").connect() as connection:
        for one in jobs:
            connection.open(one)
        told = Path(f"/proc/{connection._talk.process.pid}/task")  # type: ignore[attr-defined]
        if not told.exists():
            pytest.skip("children are found in /proc")
        (child,) = (int(n) for task in told.iterdir() for n in (task / "children").read_text().split())
        os.kill(child, signal.SIGSEGV)
        with pytest.raises(EngineUnavailable, match="crashed there with signal 11, SIGSEGV") as caught:
            connection.time(jobs, runs=2, seconds=1, warmup=0)
        assert not isinstance(caught.value, DeviceLost)
        assert "fewer threads" in caught.value.hint
        found = connection.time(jobs, runs=2, seconds=1, warmup=0)
        assert [len(found[one].times_ns) for one in jobs] == [2, 2]
        connection.restart(jobs[0])
        assert len(list(connection.answers(jobs[1], [jobs[1].feeds]))) == 1


def test_what_devices_cannot_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(dense_file(tmp_path))
    with pytest.raises(ParameterError, match="devices run LiteRT, and no 'onnxruntime'"):
        thinflow.benchmark(path, device="local", engines=["onnxruntime"])
    with pytest.raises(ParameterError, match="--soak says how long to run"):
        thinflow.benchmark(path, soak=2, runs=3)
    with pytest.raises(ParameterError, match="0 threads cannot run anything"):
        thinflow.benchmark(path, device="local", threads=[0])
    assert main(["benchmark", path, "--keep"]) == 1
    assert "--keep is for a device, and none is given" in capsys.readouterr().err
    assert main(["benchmark", path, "--device", "local", "--binary", "b"]) == 1
    assert "none of the devices has a setting 'binary'" in capsys.readouterr().err
    assert main(["benchmark", path, "--soak", "soon"]) == 1
    assert "'soon' is no time" in capsys.readouterr().err


def test_a_soak_of_this_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", str(dense_file(tmp_path)), "--soak", "1.5s", "--no-memory"]) == 0
    shown = capsys.readouterr().out
    assert "dense on local, 1 thread: " in shown.splitlines()[0]
    assert "s in the first 0.3 s" in shown.splitlines()[0]


def test_times() -> None:
    assert [read_duration(t) for t in ("600", "90s", "10m", "1.5h")] == [600, 90, 600, 5400]
    for text in ("", "0m", "m", "3d", "-1s"):
        with pytest.raises(ParameterError):
            read_duration(text)


# --- a device that gets hot, and one that is lost -----------------------------------------------------------


@dataclass
class Oven:
    """A device whose clock is its own, and which slows down with every stretch."""

    settings: Settings = field(default_factory=lambda: Settings(name="oven"))
    lost_after: int = 1000
    name: str = "oven"
    clock: float = 100.0
    stretches: int = 0
    jobs: list[Any] = field(default_factory=list)
    takes_turns: bool = False

    def connect(self, progress: Any = None) -> Any:
        from contextlib import nullcontext

        return nullcontext(self)

    facts = Facts(this_machine(), "LiteRT 0")

    def state(self) -> State:
        hot = min(self.stretches, 9)
        return State(
            "ondemand", 2400 - 100 * hot, 50 + 4 * hot, ("throttled now",) if hot > 5 else (), None, 3 * hot
        )

    def open(self, job: Any) -> None:
        self.jobs.append(job)

    def time(self, jobs: Any, *, runs: Any, seconds: float, warmup: int, seed: int = 0) -> Any:
        self.stretches += 1
        sleep(0.02)
        if self.stretches > self.lost_after:
            raise DeviceLost("the connection to it ended", "oven", hint="look after the device")
        each = int(1e6 * (1 + self.stretches / 10))
        ends = [self.clock + n / 100 for n in range(1, 101)]
        self.clock += 1.0
        return {job: Timing([each + 10 * n for n in range(100)], list(ends), 0.1) for job in jobs}

    def memory(self, job: Any) -> int | None:
        return 10_000_000


def test_devices_take_samples_in_turns(tmp_path: Path) -> None:
    thinflow.save(parse_graph(FED), tmp_path / "loop.tflite")
    samples = [*TURNS, {"x": np.ones(2, np.float32), "turns": np.int32(4000)}]
    report = thinflow.benchmark(
        tmp_path / "loop.tflite", device="local", calibration=samples, runs=30, seconds=5, memory=False
    )
    assert report.fed == "3 samples"
    times = report.rows[0].samples_ns
    # The third turns hundreds of times as often as the others.
    assert min(times[2::3]) > 3 * sorted(times[::3])[5]
    (told,) = (line for line in report.caveats() if "depends on the input" in line)
    assert "sample 2 takes" in told
    (found,) = profile_rows(report, calibration=samples, device="local")
    assert found.profile is not None
    turns = sum(row.calls for row in found.profile.stats.rows.values()) / found.profile.stats.micros.count
    assert turns > 1000
    # A device that runs one sample decides for all of the table.
    report = thinflow.benchmark(
        tmp_path / "loop.tflite", device=[Oven(), "local"], calibration=samples, runs=9, memory=False
    )
    assert report.fed == "1 of 3 samples"
    assert max(report.rows[1].samples_ns) < min(times[2::3])


def test_heat_is_named(tmp_path: Path) -> None:
    report = thinflow.benchmark(dense_file(tmp_path), device=Oven(), soak=0.6, memory=False)
    oven = report.devices[0]
    (soak,) = oven.soak
    assert soak.ratio.value == pytest.approx(soak.last_ms / soak.first_ms)
    assert soak.ratio.value > 1.3
    verdict = report.sentences()[0]
    assert f"dense on oven, 1 thread: {100 * (soak.ratio.value - 1):.0f} % slower at the end" in verdict
    assert "from 50 to 86 °C, from 2400 to 1500 MHz; throttled now" in verdict
    assert "its CPUs were slowed down for heat 27 times" in verdict
    assert "oven: throttled now: it can do better" in report.caveats()


def test_a_lost_device_keeps_what_it_told(tmp_path: Path) -> None:
    report = thinflow.benchmark(
        dense_file(tmp_path), device=[Oven(lost_after=2), "local"], seconds=2, memory=False
    )
    assert [r.device for r in report.rows] == ["oven", "local"]
    assert len(report.rows[0].samples_ns) == 200
    assert "oven: the connection to it ended (look after the device); these are its runs up to then" in (
        report.caveats()
    )


def test_a_device_that_is_lost_at_once(tmp_path: Path) -> None:
    with pytest.raises(DeviceLost, match="the connection to it ended"):
        thinflow.benchmark(dense_file(tmp_path), device=Oven(lost_after=0), memory=False)


def test_a_device_in_sentences() -> None:
    even = Soak("m on b, 1 thread", 600, 60, 2.0, 2.01, Interval(1.005, 0.98, 1.03))
    assert str(even) == (
        "m on b, 1 thread: as fast at the end of 600 s as at the beginning "
        "(2 ms in the first minute, 2.01 ms in the last)"
    )
    facts = Facts(this_machine(), "LiteRT 2", None, "Board 3")
    found = MeasuredDevice("b", facts, State(), State("powersave"), (even,))
    assert found.line() == f"b: Board 3, {this_machine()}, LiteRT 2; governor powersave"
    # Nothing slowed it down, so no cause is told.
    assert list(found.sentences()) == [str(even)]
