"""The runner, on this machine: what it answers, and what becomes of it when something goes wrong."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.device.models import dense, dense_file, job
from thinflow.device import runner
from thinflow.device.base import Connection, DeviceLost, Job
from thinflow.device.finding import find_device
from thinflow.device.kinds.local import BOOT, TOO_OLD, shipped
from thinflow.device.remote import RunnerConnection, Talk, source
from thinflow.errors import EngineUnavailable

pytest.importorskip("ai_edge_litert")


@pytest.fixture
def here() -> Iterator[Connection]:
    with find_device("local").connect() as connection:
        yield connection


def test_it_tells_what_it_runs_on(here: Connection) -> None:
    assert here.facts.machine == thinflow.benchmark(dense(), runs=1, memory=False, peaks=False).machine
    assert here.facts.runtime.startswith("LiteRT ")
    assert here.facts.memory_bytes is not None
    assert here.facts.memory_bytes > 1e8


def test_answers_are_those_of_the_interpreter(here: Connection, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    feeds = [rng.standard_normal((1, 16)).astype(np.float32) for _ in range(150)]
    found = list(here.answers(job(dense_file(tmp_path)), ([feed] for feed in feeds)))
    session = thinflow.Session(dense(), engine="reference")
    assert len(found) == len(feeds)
    for feed, (answer,) in zip(feeds, found, strict=True):
        np.testing.assert_allclose(answer, session.run(["y"], {"x": feed})[0], rtol=1e-5, atol=1e-5)


def test_models_run_in_turns(here: Connection, tmp_path: Path) -> None:
    jobs = [job(dense_file(tmp_path, f"{n}.tflite", n), n) for n in (16, 300)]
    for one in jobs:
        here.open(one)
    found = here.time(jobs, runs=12, seconds=60, warmup=1)
    assert [len(found[one].times_ns) for one in jobs] == [12, 12]
    assert all(t > 0 for one in jobs for t in found[one].times_ns)
    # Whatever the order in a round, no model is a whole round ahead.
    both = sorted((end, n) for n, one in enumerate(jobs) for end in found[one].ends)
    assert all({n for _, n in both[i : i + 2]} == {0, 1} for i in range(0, 24, 2))


def test_time_is_limited(here: Connection, tmp_path: Path) -> None:
    one = job(dense_file(tmp_path))
    here.open(one)
    begin = time.monotonic()
    assert len(here.time([one], runs=None, seconds=0.05, warmup=0)[one].times_ns) >= 1
    assert time.monotonic() - begin < 20


def test_memory_and_profile(here: Connection, tmp_path: Path) -> None:
    small, large = (job(dense_file(tmp_path, f"{n}.tflite", n), n) for n in (16, 2000))
    peaks = here.memory(small), here.memory(large)
    assert peaks[0] is not None
    assert peaks[1] is not None
    assert peaks[1] - peaks[0] > 8e6  # 16 MB of weights, which the kernels pack anew
    found = here.profile(large, runs=3, warmup=1)
    assert [row.op for row in found.stats.rows.values()] == ["FULLY_CONNECTED"]
    assert found.stats.micros.count == 3


def test_what_is_no_model_costs_one_answer(here: Connection, tmp_path: Path) -> None:
    (tmp_path / "bad.tflite").write_bytes(b"\0\0\0\0TFL3" + bytes(50))
    with pytest.raises(EngineUnavailable) as caught:
        here.open(job(tmp_path / "bad.tflite"))
    assert not isinstance(caught.value, DeviceLost)
    assert caught.value.where == "local"
    here.open(job(dense_file(tmp_path)))


def test_feeds_that_do_not_fit_are_said_to(here: Connection, tmp_path: Path) -> None:
    one = job(dense_file(tmp_path))
    with pytest.raises(EngineUnavailable, match="2 arrays are fed to 1 inputs"):
        here.open(Job(one.name, one.path, 1, one.feeds * 2))


def talk(*command: str) -> Talk:
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    return Talk(process, "board", 20)


CRASHING = """
import os
def events(*args):
    os.abort()
class RecorderError(Exception):
    pass
"""


def test_a_crash_costs_one_answer(tmp_path: Path) -> None:
    line = talk(sys.executable, "-u", "-c", BOOT)
    line.write(shipped(source()))
    here = RunnerConnection(line, patience=5, progress=None)
    one = job(dense_file(tmp_path))
    try:
        request = {"do": "profile", "path": one.path, "threads": 1, "runs": 1, "warmup": 0}
        with pytest.raises(EngineUnavailable, match="crashed there with signal 6, SIGABRT") as caught:
            line.ask({**request, "recorder": CRASHING}, one.feeds)
        assert "fewer threads" in caught.value.hint
        here.open(one)
    finally:
        line.close()
    assert line.process.returncode == 0


def test_models_are_kept_under_their_hash_and_put_away(tmp_path: Path) -> None:
    home = tmp_path / "there"
    for keep in (False, True):
        line = talk(sys.executable, "-u", "-c", BOOT)
        line.write(shipped(source()))
        there = RunnerConnection(line, str(home), keep=keep, patience=5, progress=None)
        there.open(job(dense_file(tmp_path)))
        running = [f.name for f in home.iterdir()]
        assert any(name.startswith("run-") for name in running)
        line.close()
        left = sorted(f.relative_to(home).as_posix() for f in home.rglob("*") if f.is_file())
        assert [name for name in left if name != "lock"] == ([] if not keep else left[1:])
        assert not [f for f in home.iterdir() if f.name.startswith("run-")]
    (kept,) = (home / "models").iterdir()
    assert kept.read_bytes() == (tmp_path / "dense.tflite").read_bytes()
    assert (home.stat().st_mode | kept.stat().st_mode) & 0o077 == 0


def test_a_file_that_arrives_changed_is_refused(tmp_path: Path) -> None:
    line = talk(sys.executable, "-u", "-c", BOOT)
    line.write(shipped(source()))
    RunnerConnection(line, str(tmp_path / "there"), patience=5, progress=None)
    with pytest.raises(EngineUnavailable, match="it arrived changed") as caught:
        line.ask({"do": "put", "digest": "0" * 64}, content=b"something else")
    assert "run it again" in caught.value.hint
    assert not list((tmp_path / "there").rglob("*.part"))
    assert line.ask({"do": "find", "digest": "0" * 64})[0]["path"] is None
    line.close()


def test_it_ends_when_nobody_asks_any_more(tmp_path: Path) -> None:
    """Even in the middle of a long measurement, and it puts its things away."""
    line = talk(sys.executable, "-u", "-c", BOOT)
    line.write(shipped(source()))
    home = tmp_path / "there"
    there = RunnerConnection(line, str(home), patience=5, progress=None)
    one = job(dense_file(tmp_path))
    there.open(one)
    line.write(b'{"do": "time", "ids": ["0"], "runs": null, "seconds": 600, "warmup": 0, "seed": 0}\n')
    time.sleep(0.2)
    line.close()
    assert line.process.returncode == 0
    assert [f.name for f in home.iterdir() if f.name.startswith("run-")] == []


def test_what_a_killed_run_left_is_swept(tmp_path: Path) -> None:
    home = tmp_path / "there"
    line = talk(sys.executable, "-u", "-c", BOOT)
    line.write(shipped(source()))
    there = RunnerConnection(line, str(home), patience=5, progress=None)
    there.open(job(dense_file(tmp_path)))
    os.kill(line.process.pid, signal.SIGKILL)
    with pytest.raises(DeviceLost):
        there.state()
    line.close()
    assert [f for f in home.iterdir() if f.name.startswith("run-")]
    again = talk(sys.executable, "-u", "-c", BOOT)
    again.write(shipped(source()))
    RunnerConnection(again, str(home), patience=5, progress=None)
    assert len([f for f in home.iterdir() if f.name.startswith("run-")]) == 1
    again.close()
    assert not [f for f in home.iterdir() if f.name.startswith("run-")]


def test_two_runs_do_not_disturb_each_other(tmp_path: Path) -> None:
    lines = [talk(sys.executable, "-u", "-c", BOOT) for _ in range(2)]
    for line in lines:
        line.write(shipped(source()))
    home = str(tmp_path / "there")
    RunnerConnection(lines[0], home, patience=5, progress=None)
    told: list[str] = []
    with pytest.raises(EngineUnavailable, match="another run is using it") as caught:
        RunnerConnection(lines[1], home, patience=0.3, progress=lambda done, total, label: told.append(label))
    assert "wait for that run" in caught.value.hint
    assert told == ["board: another run is using it, waiting"]
    lines[0].close()
    RunnerConnection(lines[1], home, patience=5, progress=None)
    lines[1].close()


def test_answers_that_are_none(tmp_path: Path) -> None:
    line = talk(sys.executable, "-c", "print('hello'); input()")
    with pytest.raises(DeviceLost, match="what it answers is no answer"):
        line.ask({"do": "state"})
    line.close()
    silent = talk(sys.executable, "-c", "input(); input()")
    silent.patience = 0
    with pytest.raises(DeviceLost, match="did not answer in time"):
        silent.line(0.2)
    silent.close()


def test_an_old_python_says_so() -> None:
    code = BOOT.replace("sys.version_info<", "(3,8)<")
    done = subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == TOO_OLD


@pytest.mark.parametrize("file", [("thinflow.device", "runner.py"), ("thinflow.bench", "litert_recorder.py")])
def test_what_is_sent_needs_nothing_of_this_project(file: tuple[str, str]) -> None:
    tree = ast.parse(source(*file), feature_version=(3, 9))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        )
    }
    assert imported <= {*sys.stdlib_module_names, "numpy", "ai_edge_litert"}


def _names(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]


def test_what_a_raspberry_pi_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "vcgencmd"
    tool.write_text("#!/bin/sh\necho throttled=0x50005\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert runner.state()["throttled"] == ["under-voltage now", "throttled now"]
    tool.write_text("#!/bin/sh\necho throttled=0x20000\n")
    assert runner.state()["throttled"] == ["frequency capped since it was started"]
    tool.write_text("#!/bin/sh\necho VCHI initialization failed; exit 1\n")
    assert runner.state()["throttled"] == []


def test_what_linux_tells_of_heat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "cpu/cpu0/cpufreq/scaling_governor": "ondemand\n",
        "cpu/cpu0/cpufreq/scaling_cur_freq": "1500000\n",
        "cpu/cpu1/cpufreq/scaling_cur_freq": "2400000\n",
        "cpu/cpu0/thermal_throttle/core_throttle_count": "7\n",
        "thermal/thermal_zone0/temp": "61234\n",
        "thermal/thermal_zone1/temp": "-274000\n",
        "thermal/cooling_device0/cur_state": "2\n",
        "thermal/cooling_device0/type": "cpufreq-cpu0\n",
        "thermal/cooling_device1/cur_state": "1\n",
        "thermal/cooling_device1/type": "pwm-fan\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(runner, "_CPU", str(tmp_path / "cpu"))
    monkeypatch.setattr(runner, "_THERMAL", str(tmp_path / "thermal"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert runner.state() == {
        "governor": "ondemand",
        "mhz": 2400.0,
        "celsius": 61.234,
        "throttle_count": 7,
        "throttled": ["cpufreq-cpu0 slows the CPU down by 2 steps"],
    }
