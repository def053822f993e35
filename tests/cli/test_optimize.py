"""`thinflow optimize`, mostly without measuring."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.page_scripts import PAGE, without_scripts
from thinflow import zoo
from thinflow.cli import main
from thinflow.pages.shell import data_of


def test_verdict_first_next_command_last(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", model, "out", "--no-benchmark", "--samples", "3"]) == 0
    first, *middle, last = capsys.readouterr().out.splitlines()
    assert "int8 is " in first
    assert any("SYNTHETIC INPUT" in line for line in middle)
    assert last.startswith("next: thinflow optimize 'my digits.pb' out --calibration ")
    assert len(list(Path("out").iterdir())) == 6 + len(PAGE)


def test_real_samples_and_the_next_command(
    model: str, capsys: pytest.CaptureFixture[str], paste: Callable[[str], int]
) -> None:
    np.savez("c.npz", **zoo.calibration("digits", 20, 0))
    np.savez("t.npz", **{k: v[:20] for k, v in zoo.test_set("digits").items()})
    argv = ["optimize", model, "my out", "--no-benchmark", "--calibration", "c.npz", "--test", "t.npz"]
    assert main(argv) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert "20 samples" in first
    extra = " --runs 2 --no-memory" if " benchmark " in last else ""
    assert paste(last + extra) == 0


def test_json_is_the_report(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", model, "out", "--no-benchmark", "--samples", "2", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    if PAGE:
        assert data_of(Path("out/report.html").read_bytes())["data"] == printed
    assert printed["verdict"] == json.loads(Path("out/report.json").read_text("utf-8"))["verdict"]
    assert printed["verdict"] in Path("out/report.md").read_text("utf-8")
    assert set(printed["not_fused"]) >= {"litert"}


def test_measured(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", model, "out", "--samples", "2", "--seconds", "0.2", "--threads", "1"]) == 0
    assert "ms" in capsys.readouterr().out


def test_the_report_tells_what_was_not_fused(summing: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["optimize", summing, "out", "--no-benchmark", "--samples", "2", "--outputs", "total,y"]
    assert main(argv) == 0
    text = Path("out/report.md").read_text("utf-8")
    assert "- LiteRT: 1 × 'total' is an output (first `y`)" in text


def test_without_scripts_the_page_is_left_out_and_all_else_is_done(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_scripts(monkeypatch)
    assert main(["optimize", model, "out", "--no-benchmark", "--samples", "2", "--scheme", "float16"]) == 0
    told = capsys.readouterr().out
    assert told.count("report.html was left out: this installation came without the scripts") == 1
    assert not Path("out/report.html").exists()
    assert Path("out/report.md").exists()
    assert "report.html was left out" in Path("out/report.md").read_text("utf-8")
