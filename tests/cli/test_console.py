"""Tables, numbers and the progress bar."""

from __future__ import annotations

import io
import sys

import pytest

from thinflow.cli import _console


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
    monkeypatch.delenv("NO_COLOR", raising=False)
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
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert _console.progress() is None


def test_no_progress_with_no_color(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen)
    assert _console.progress() is not None
    monkeypatch.setenv("NO_COLOR", "1")
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
