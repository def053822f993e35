"""Crashes and hangs in a child process become errors here."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.transforms.golden import parse_graph
from thinflow.api import convert_verified, save
from thinflow.engines import _child, litert
from thinflow.engines._child import can_fork, in_child, run_file
from thinflow.errors import EngineCrashed, EngineUnavailable, NodeError, ParameterError

forks = pytest.mark.skipif(not can_fork(), reason="no fork here")
TEXT = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
y = Relu(x) {T=float}
inputs: x
outputs: y
"""
X = np.float32([[-1, 0, 1, 2]])


@forks
def test_results_come_back() -> None:
    big = in_child(lambda: np.arange(1 << 20), "litert", "counting")
    assert big.sum() == (1 << 20) * ((1 << 20) - 1) // 2
    assert in_child(os.getpid, "litert", "asking") != os.getpid()


@forks
def test_errors_come_back() -> None:
    def fail() -> None:
        raise NodeError("it cannot", "node 'n'", "try another")

    with pytest.raises(NodeError, match=r"^node 'n': it cannot\nhint: try another$"):
        in_child(fail, "litert", "trying")
    with pytest.raises(ZeroDivisionError):
        in_child(lambda: 1 // 0, "litert", "trying")
    with pytest.raises(RuntimeError, match="lambda"):
        in_child(lambda: lambda: 0, "litert", "trying")


@forks
@pytest.mark.parametrize(
    ("number", "message"),
    [
        (signal.SIGSEGV, r"'litert' crashed \(signal 11, SIGSEGV\) while running m.tflite\nhint: "),
        (signal.SIGABRT, r"crashed \(signal 6, SIGABRT\)"),
        (signal.SIGKILL, r"was killed \(signal 9, SIGKILL\) while running m.tflite\nhint: .* memory"),
    ],
)
def test_a_crash_is_an_error(number: signal.Signals, message: str) -> None:
    with pytest.raises(EngineCrashed, match=message):
        in_child(lambda: os.kill(os.getpid(), number), "litert", "running m.tflite")


@forks
def test_a_quiet_end_is_an_error() -> None:
    with pytest.raises(EngineCrashed, match=r"crashed \(exit code 3\)") as caught:
        in_child(lambda: os._exit(3), "litert", "running m.tflite")
    assert (caught.value.is_slow, caught.value.how) == (False, "exit code 3")


@forks
def test_a_hang_is_an_error() -> None:
    begin = time.monotonic()
    message = r"no answer in 0.1 s while running m.tflite\nhint: .*--timeout"
    with pytest.raises(EngineCrashed, match=message) as caught:
        in_child(lambda: time.sleep(60), "litert", "running m.tflite", timeout_seconds=0.1)
    assert time.monotonic() - begin < 30
    # What is known of it goes along, to other places and processes.
    placed = pickle.loads(pickle.dumps(caught.value.at("a.tflite")))
    assert (placed.is_slow, placed.how, placed.where) == (True, "", "a.tflite")


def test_threads_forbid_forks() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        assert not can_fork()
    finally:
        end.set()
        thread.join()


@pytest.fixture
def model(tmp_path: Path) -> str:
    pytest.importorskip("ai_edge_litert")
    path = str(tmp_path / "m.tflite")
    save(parse_graph(TEXT), path)
    return path


@pytest.fixture(params=[pytest.param("fork", marks=forks), "spawn"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both kinds of child."""
    if request.param == "spawn":
        monkeypatch.setattr(_child, "can_fork", lambda: False)
    return str(request.param)


@pytest.mark.usefixtures("way")
def test_files_run_in_a_child(model: str) -> None:
    for content in (model, Path(model).read_bytes()):
        runs = run_file(content, "litert", [[X], [-X]], timeout_seconds=60)
        assert [[y.tolist() for y in run] for run in runs] == [[[[0, 0, 1, 2]]], [[[1, 0, 0, 0]]]]


@forks
def test_forks_inherit_what_their_engine_imports(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_ahead.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("imported_ahead", "nobody_has_this"):
        monkeypatch.setattr(_child, "_LIBRARIES", {"litert": name})
        assert len(run_file(model, "litert", [[X]])) == 1
    assert sys.modules.pop("imported_ahead").__file__ == str(tmp_path / "imported_ahead.py")


@pytest.mark.usefixtures("way")
def test_what_the_engine_refuses_is_told(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    bad = tmp_path / "bad.tflite"
    bad.write_bytes(b"\0\0\0\0TFL3" + bytes(100))
    with pytest.raises(EngineUnavailable, match=r"bad.tflite: LiteRT refuses the model"):
        run_file(str(bad), "litert", [[X]])


def test_a_new_process_that_hangs_or_crashes(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_child, "can_fork", lambda: False)
    with pytest.raises(EngineCrashed, match=r"no answer in 0.001 s while running .*m.tflite"):
        run_file(model, "litert", [[X]], timeout_seconds=0.001)
    monkeypatch.setattr(_child.sys, "executable", "false")
    with pytest.raises(EngineCrashed, match=r"crashed \(exit code 1\) while running"):
        run_file(model, "litert", [[X]])


def crash(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


@forks
def test_a_crash_in_the_check_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ai_edge_litert")
    monkeypatch.setattr(litert.Model, "run", crash)
    target = tmp_path / "out.tflite"
    target.write_text("as it was")
    with pytest.raises(EngineCrashed, match=r"crashed \(signal 11, SIGSEGV\) while running "):
        convert_verified(parse_graph(TEXT), target)
    assert target.read_text() == "as it was"
    assert [f.name for f in tmp_path.iterdir()] == ["out.tflite"]


@forks
def test_a_hang_in_the_check_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ai_edge_litert")
    monkeypatch.setattr(litert.Model, "run", lambda *_: time.sleep(60))
    with pytest.raises(EngineCrashed, match=r"no answer in 0.2 s"):
        convert_verified(parse_graph(TEXT), tmp_path / "out.tflite", timeout=0.2)
    assert not list(tmp_path.iterdir())


@forks
def test_onnx_is_checked_in_a_child_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from thinflow.engines import onnxruntime

    monkeypatch.setattr(onnxruntime.Model, "run", crash)
    with pytest.raises(EngineCrashed, match=r"the engine 'onnxruntime' crashed \(signal 11"):
        convert_verified(parse_graph(TEXT), tmp_path / "out.onnx")
    assert not list(tmp_path.iterdir())


def test_a_timeout_is_positive(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="a timeout of 0 seconds is not possible"):
        convert_verified(parse_graph(TEXT), tmp_path / "out.tflite", timeout=0)
