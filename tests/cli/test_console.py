"""Tables, numbers and the progress bar."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

import thinflow
from tests.checkpoints import tensors, write_checkpoint
from thinflow import zoo
from thinflow.cli import _console, main
from thinflow.progress import counted


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (1_234_567, "1.23 MB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (9_995_000, "10.0 MB"),
        (99_950_000, "100 MB"),
        (-2048, "-2.05 kB"),
        (5e15, "5000 TB"),
    ],
)
def test_human_bytes(size: float, text: str) -> None:
    assert _console.human_bytes(size) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(7, "7"), (0.123456, "0.123"), (999.9, "1.00 k"), (25_600_000, "25.6 M"), (4e9, "4.00 G")],
)
def test_human_count(count: float, text: str) -> None:
    assert _console.human_count(count) == text


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    _console.print_table([["conv1", 12, None], ["a", "1.50 kB", "x"]], ["node", "size", "note"])
    assert capsys.readouterr().out == (
        "node      size  note\n"
        "conv1       12  -\n"
        "a      1.50 kB  x\n"
    )  # fmt: skip


def test_table_without_rows_or_headers(capsys: pytest.CaptureFixture[str]) -> None:
    _console.print_table([])
    assert capsys.readouterr().out == ""
    _console.print_table([], ["a", "b"])
    assert capsys.readouterr().out == "a  b\n"
    _console.print_table([["a", 1], ["bcd"]])
    assert capsys.readouterr().out == "a    1\nbcd\n"


class Screen(io.StringIO):
    """What was drawn on a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return Screen()


# pytest puts its own stderr back between a fixture and its test, so the tests install the screen themselves.


def test_the_width_is_a_terminals_only(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert _console.terminal_width() is None
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "72")
    assert _console.terminal_width() == 72
    monkeypatch.setenv("COLUMNS", "")
    assert _console.terminal_width() is None  # it has no size


def test_no_progress_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert _console.progress() is None


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_progress_without_control_sequences(
    name: str, value: str, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", screen)
    assert _console.progress() is _console._bar
    monkeypatch.setenv(name, value)
    monkeypatch.setattr("thinflow.api.progress._SHOWN_AFTER", 0.0)
    draw = _console.progress()
    assert draw is not None
    draw(0, 10, "tune \x1b[2J")
    draw(10, 10, "tune")
    assert screen.getvalue() == "tune \\x1b[2J  ....................  0/10\n"
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert _console.progress() is None


def test_colour_may_be_forced(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert _console.progress() is _console._bar
    monkeypatch.setenv("NO_COLOR", "1")  # whoever says both wants none
    assert _console.progress() is None


def test_progress_draws_and_goes(
    screen: Screen, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", screen)
    draw = _console.progress()
    assert draw is not None
    draw(0, 10, "calibrate [layer/1]")
    assert "calibrate [layer/1]" in screen.getvalue()
    print("a result")
    draw(10, 10, "calibrate [layer/1]")
    assert _console._bar.live is None
    assert screen.getvalue().count("\x1b[?25l") == screen.getvalue().count("\x1b[?25h") == 1  # cursor is back
    assert capsys.readouterr().out == "a result\n"


def test_progress_can_start_again_and_be_cleared(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen)
    draw = _console.progress()
    assert draw is not None
    for label in ("first", "second"):
        draw(1, 3, label)
        _console.clear_progress()
        assert label in screen.getvalue()
    _console.clear_progress()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command is slow enough for a bar at once."""
    monkeypatch.setattr(_console, "_SHOWN_AFTER", 0.0)


def test_what_a_command_uses_is_told_where_it_tells_nothing(
    slow: None, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(_console, "_REDRAW_SECONDS", 0.0)
    with _console.telling():
        own = _console.progress()
        assert own is not None
        for _ in counted(range(3), 3, "reading nodes"):
            pass
        own(1, 4, "tuning")
        for _ in counted(range(3), 3, "running nodes"):
            pass
        assert _console._bar.live is not None  # the command's own step is still shown
        own(4, 4, "tuning")
        assert _console._bar.live is None
    drawn = screen.getvalue()
    assert "reading nodes" in drawn
    assert all(f"{n}/3" in drawn for n in range(3))
    assert "tuning" in drawn
    assert "running nodes" not in drawn


def test_what_is_quick_is_not_told(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen)
    with _console.telling():
        for _ in counted(range(3), 3, "reading nodes"):
            pass
    assert screen.getvalue() == ""


def test_nobody_watches_a_pipe(slow: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    items = [1, 2]
    with _console.telling():
        assert counted(items, 2, "reading nodes") is items
    assert pipe.getvalue() == ""


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("inspect net.pb", ["reading nodes", "inferring shapes"]),
        ("freeze net.pb -o frozen.pb", ["writing nodes"]),
        ("run net.pb --engine reference", ["running nodes"]),
        ("inspect saved/variables --stats", ["checking variables"]),
        ("convert net.tflite net.pb", ["translating nodes"]),
    ],
)
def test_commands_tell_what_they_use(
    command: str,
    told: list[str],
    slow: None,
    screen: Screen,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of models this small all is done at once: what is drawn is asked for at every step."""
    monkeypatch.chdir(tmp_path)
    digits = zoo.build("digits", 0)
    thinflow.save(digits, "net.pb")
    if ".tflite" in command:
        thinflow.save(digits, "net.tflite")
    if "saved" in command:
        Path("saved").mkdir()
        write_checkpoint(Path("saved/variables"), tensors())
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(_console, "_REDRAW_SECONDS", 0.0)
    assert main(command.split()) == 0
    assert not [label for label in told if label not in screen.getvalue()]
    assert _console._bar.live is None
    # The results are what they are without a terminal.
    assert not [label for label in told if label in capsys.readouterr().out]
