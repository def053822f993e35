"""Bars of progress: in a notebook, in a terminal, and nowhere."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow.api import progress
from thinflow.api.progress import plain_bar, progress_bar, text_of, time_text
from thinflow.zoo import digits


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """Time that goes by as it is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(progress, "time", found)
    return found


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    found = Screen()
    # Not sys.stderr itself: pytest puts its own back between a fixture and its test.
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=found, modules=sys.modules))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    return found


class Handle:
    def __init__(self, told: list[str]) -> None:
        self.told = told

    def update(self, shown: dict[str, str], raw: bool) -> None:
        assert raw
        self.told.append(shown["text/plain"])


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch, screen: Screen) -> list[str]:
    """What a cell of a notebook shows, one after the other."""
    told: list[str] = []

    def display(shown: dict[str, str], raw: bool, display_id: bool) -> Handle:
        assert raw
        assert display_id
        told.append(shown["text/plain"])
        return Handle(told)

    package, module = ModuleType("IPython"), ModuleType("IPython.display")
    package.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    module.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return told


def drive(bar: Any, clock: Clock) -> None:
    """Ten steps of half a second."""
    for step in range(11):
        bar(step, 10, "calibrate")
        clock.now += 0.5


def test_a_line_of_a_terminal(screen: Screen, clock: Clock) -> None:
    drive(progress_bar(), clock)
    drawn = screen.getvalue().split("\r")
    assert "calibrate  ████░░░░░░░░░░░░░░░░  2/10, 4 s left" in drawn[1]
    assert len([line for line in drawn if "left" in line]) == 8
    assert drawn[-2].strip() == drawn[-1] == ""  # it is gone
    assert "\x1b" not in screen.getvalue()


def test_what_is_done_at_once_has_no_bar(screen: Screen, clock: Clock) -> None:
    bar = progress_bar()
    bar(0, 2, "x")
    clock.now += 0.9
    bar(1, 2, "x")
    bar(2, 2, "x")
    assert screen.getvalue() == ""


def test_a_notebook(notebook: list[str], screen: Screen, clock: Clock) -> None:
    drive(progress_bar(), clock)
    assert notebook[0].startswith("calibrate  ████")
    assert notebook[-1] == ""
    assert len(notebook) == 9
    assert screen.getvalue() == ""


def test_a_cell_of_a_notebook_has_one_line(
    notebook: list[str], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    display = sys.modules["IPython.display"]
    drawn = display.display
    monkeypatch.setattr(display, "display", lambda *a, **k: shown.append("") or drawn(*a, **k))
    shell = SimpleNamespace(kernel=object(), execution_count=1)
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: shell)
    bar = progress_bar()
    drive(bar, clock)
    drive(bar, clock)
    assert len(shown) == 1
    assert notebook[-1] == ""
    shell.execution_count = 2
    drive(bar, clock)
    assert len(shown) == 2


def test_ipython_in_a_terminal_is_a_terminal(
    notebook: list[str], screen: Screen, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: SimpleNamespace())
    drive(progress_bar(), clock)
    assert not notebook
    assert "left" in screen.getvalue()


def test_nobody_looks(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream, modules={}))
    drive(progress_bar(), clock)
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=None, modules={}))
    drive(progress_bar(), clock)
    assert stream.getvalue() == ""


def test_a_dumb_terminal_gets_lines(screen: Screen, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    bar = progress_bar()
    for step in range(21):
        bar(step, 20, "tune")
        clock.now += 1
    assert screen.getvalue() == (
        "tune  #...................  1/20, 19 s left\n"
        "tune  ######..............  6/20, 14 s left\n"
        "tune  ###########.........  11/20, 9 s left\n"
        "tune  ################....  16/20, 4 s left\n"
    )
    assert text_of(1, 2, "a", 3).isascii() is False
    stream = Screen()
    plain_bar(stream).close()
    assert stream.getvalue() == ""


def test_each_count_has_a_time_of_its_own(screen: Screen, clock: Clock) -> None:
    bar = progress_bar()
    for step in range(3):
        bar(step, 3, "slow")
        clock.now += 60
    bar(0, 100, "fast")
    clock.now += 1
    bar(1, 100, "fast")
    assert "fast" in screen.getvalue()
    assert screen.getvalue().rstrip().endswith("1/100, 1 min 39 s left")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (59.4, "59 s"), (60, "1 min"), (125, "2 min 5 s"), (3600, "1 h"), (4800, "1 h 20 min")],
)
def test_time(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


def test_names_in_labels_do_not_drive_the_terminal() -> None:
    assert "\n" not in text_of(0, 2, "a\nb", 1)
    assert re.fullmatch(r"a  ░{20}  0/2", text_of(0, 2, "a", 1))


# --- who tells of it ----------------------------------------------------------------------------------------


def test_functions_that_may_take_long_tell(tmp_path: Path) -> None:
    graph = digits.build(0)
    thinflow.save(graph, tmp_path / "m.pb")
    images = np.zeros((5, 8, 8, 1), np.float32)
    np.savez(tmp_path / "t.npz", image=images, labels=np.arange(5))

    def watched(work: Any) -> list[tuple[int, int, str]]:
        told: list[tuple[int, int, str]] = []
        work(lambda *step: told.append(step))
        done, total, _ = told[-1]
        assert done == total
        assert all(0 <= d <= t and label for d, t, label in told)
        return told

    judged = watched(lambda p: thinflow.evaluate(tmp_path / "m.pb", tmp_path / "t.npz", progress=p))
    assert judged == [(n, 5, "judge samples") for n in range(6)]
    run = watched(lambda p: thinflow.verify(graph, graph, runs=3, progress=p))
    assert run == [(n, 3, "run both") for n in range(4)]
    other = thinflow.transform(graph, "round_weights(num_steps=4)", verify=False)
    changed = watched(lambda p: thinflow.diff(graph, other, progress=p))
    assert [label for _, _, label in changed] == ["open both", "match the nodes", "run both", "done"]
    made = watched(lambda p: thinflow.convert_verified(graph, tmp_path / "m.tflite", progress=p))
    assert [d for d, _, _ in made] == [0, 1, 2, 3]
    judged = watched(lambda p: thinflow.evaluate(tmp_path / "m.tflite", tmp_path / "t.npz", progress=p))
    assert len(judged) == 6
