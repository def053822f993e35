"""`thinflow optimize` under a budget, as somebody types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from thinflow import zoo
from thinflow.cli import main


@pytest.fixture
def command(model: str) -> list[str]:
    """The command up to its budget; plain schemes alone, and nothing timed."""
    np.savez("c.npz", **zoo.calibration("digits", 16, 0))
    np.savez("t.npz", **{k: v[:40] for k, v in zoo.test_set("digits").items()})
    data = ["--calibration", "c.npz", "--test", "t.npz"]
    return ["optimize", model, "out", *data, "--effort", "none", "--no-benchmark"]


def test_a_budget_that_is_kept(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--max-drop", "5%", "--max-size", "60KB"]) == 0
    first, *middle, last = capsys.readouterr().out.splitlines()
    assert first.startswith("within drop <= 5 points, size <= 60.0 kB: ")
    head = next(line for line in middle if line.startswith("LiteRT candidates, within drop <= 5 points, "))
    table = middle[middle.index(head) + 1 :]
    assert table[0].split() == ["candidate", "size", "RAM", "loss", "dB"]
    assert sum(line.startswith("> ") for line in table[:8]) == 1
    assert any("kB!" in line for line in table)  # float is too large
    assert max(map(len, table[:8])) <= 80
    assert last.startswith("next: thinflow benchmark ")
    assert Path("out/ladder_litert.svg").is_file()


def test_a_budget_out_of_reach_is_seen_by_scripts(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--scheme", "float16", "--max-size", "1KB", "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert printed["within_budget"] is False
    assert printed["verdict"].startswith("OUT OF REACH is drop <= 1.5 points, size <= 1.00 kB: float16, the")
    missed = printed["ladder"]["litert"]["missed"]
    assert missed.startswith("float16, the smallest of all, has a size of 91.5 kB, not 1.00 kB")
    assert Path(printed["files"]["int8"]).is_file()


@pytest.mark.parametrize(
    ("words", "problem", "hint"),
    [
        (["--max-size", "100XB"], "'100XB' is no size", "write 100KB, 1.5MB or 64KiB"),
        (["--max-drop", "lots"], "'lots' is no drop", "write 0.5%"),
        (["--max-latency", "20ms"], "a bound on latency needs measuring, which is switched off", "leave out"),
        (["--max-ram", "0"], "memory of at most 0 bytes makes no sense", "give more than 0"),
        (["--max-drop", "1", "--scheme", "autos"], "there is no quantization scheme 'autos'", "there are: "),
    ],
)
def test_budgets_that_cannot_be(
    command: list[str], words: list[str], problem: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, *words]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error: {problem}\nhint: {hint}")
    assert not Path("out").exists()


def test_a_budget_without_samples(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", model, "out", "--max-size", "60KB"]) == 1
    error = capsys.readouterr().err
    assert "a budget needs samples" in error
    assert "hint: give some: --calibration SAMPLES" in error


def test_a_run_that_was_killed_goes_on_where_it_was(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*command, "--max-drop", "5%"]
    child = _started(words)
    try:
        _wait_for_results(child, 2)
    finally:
        child.kill()  # SIGKILL: nothing can be tidied up
        child.communicate()
    kept = sorted(Path("out/ladder/litert").glob("*.json"))
    assert len(kept) >= 2
    assert not Path("out/report.json").exists()
    before = {path: path.read_bytes() for path in kept}
    # As if it had been killed in the middle of writing: what is not whole is none.
    kept[0].write_bytes(before[kept[0]][:100])
    assert main([*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    notes = printed["ladder"]["litert"]["notes"]
    count = len(printed["ladder"]["litert"]["candidates"]) - 1
    assert f"{len(kept) - 1} of {count} results are of an earlier run" in notes
    assert any(note.startswith("1 result is of another model") for note in notes)
    assert all(path.read_bytes() == before[path] for path in kept[1:])
    assert not list(Path("out/ladder/litert").glob("*.tflite"))
    assert not list(Path("out/ladder/litert").glob(".*"))


def test_ctrl_c_says_how_to_go_on(command: list[str]) -> None:
    child = _started([*command, "--max-drop", "5%"])
    _wait_for_results(child, 1)
    child.send_signal(signal.SIGINT)
    _, error = child.communicate(timeout=60)
    assert child.returncode == 130
    assert (
        "candidates are measured and kept in out/ladder/litert; the same command goes on from there" in error
    )
    assert "Traceback" not in error


def _started(words: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "thinflow", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=pipe, text=True, env=dict(os.environ))


def _wait_for_results(child: subprocess.Popen[str], count: int) -> None:
    ends = time.monotonic() + 60
    while len(list(Path("out/ladder/litert").glob("*.json"))) < count:
        assert child.poll() is None, "it ended before it could be stopped"
        assert time.monotonic() < ends
        time.sleep(0.005)
