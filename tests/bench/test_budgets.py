"""What the table of budgets says, and how processes are measured."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks.__main__ import document, names, table
from benchmarks.bench import Bench
from benchmarks.lines import Line, NeedsOracle, NotThereYet, figure, guarded, interval_line, ratio_line
from benchmarks.processes import ProcessFailed, in_turns, run
from thinflow.analysis.stats import Interval


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        (Interval(0.9, 0.8, 0.95), "pass"),
        (Interval(0.99, 0.9, 1.1), "pass"),
        (Interval(1.02, 0.98, 1.06), "within error"),
        (Interval(1.2, 1.1, 1.3), "MISS"),
        (Interval(0.9, 0.0, math.inf), "pass"),
        (Interval(1.2, 0.0, math.inf), "MISS"),  # too few runs for an interval are no excuse
    ],
)
def test_verdicts(interval: Interval, verdict: str) -> None:
    assert interval_line("it", interval, 1.0, "detail").verdict == verdict
    upside_down = interval_line("it", interval.inverse(), 1.0, "detail", at_least=True)
    assert upside_down.verdict == verdict


def test_ratio_line() -> None:
    found = ratio_line("ours : theirs", [1.0, 1.1, 1.0, 1.05, 1.0, 1.02], [10.0] * 6, 1 / 4, "s")
    assert (found.budget, found.verdict) == ("≤ 0.25×", "pass")
    assert found.measured.endswith("× (1.01 : 10 s)")


@pytest.mark.parametrize(
    ("error", "verdict", "words"),
    [
        (NeedsOracle(), "needs the oracle", "make oracle-venv"),
        (NotThereYet("thinflow quantize"), "not there yet", "thinflow quantize"),
        (KeyError("x"), "error", "KeyError: 'x'"),
    ],
)
def test_what_goes_wrong_becomes_a_line(
    error: Exception, verdict: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(bench: Bench) -> Iterator[Line]:
        yield figure("first", "1 s")
        raise error

    first, second = guarded("it", measure, Bench(True, Path()))
    assert first == figure("first", "1 s")
    assert (second.what, second.verdict) == ("it", verdict)
    assert words in second.measured


def test_table_is_markdown() -> None:
    lines = table([Line("a|b", "≤ 1 s", "0.5 s", "pass"), figure("c", "2 MB")]).splitlines()
    assert lines[0].split() == ["|", "what", "|", "budget", "|", "measured", "|", "verdict", "|"]
    assert lines[2].startswith("| a/b ")
    assert len({len(line) for line in lines}) == 1


def test_the_document_names_machine_and_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_software", lambda: "Python 3")
    text = document(table([figure("c", "2 MB")]), ["the machine was busy", "the machine was busy"], 12.3)
    assert text.startswith("# Benchmarks\n")
    assert "in 12 s." in text
    assert "- software: Python 3\n" in text
    assert text.count("the machine was busy") == 1


def test_every_budget_is_found() -> None:
    assert {"startup", "inspect", "recipe", "convert", "float_latency", "int8_latency"} <= set(names())


def test_a_process_is_measured() -> None:
    hungry = [sys.executable, "-I", "-S", "-c", "x = b'x' * 60_000_000; print(len(x))"]
    frugal = [sys.executable, "-I", "-S", "-c", "print(1)"]
    found = in_turns({"hungry": hungry, "frugal": frugal}, 1, warmup=0)
    assert found["hungry"][0].output == "60000000\n"
    growth = found["hungry"][0].peak_bytes - found["frugal"][0].peak_bytes
    assert 50_000_000 < growth < 80_000_000


def test_a_failing_process_is_named() -> None:
    with pytest.raises(ProcessFailed, match="ended with code 1: ValueError: no"):
        run([sys.executable, "-I", "-S", "-c", "raise ValueError('no')"])
