"""`thinflow diff`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import thinflow
from tests.page_scripts import BUILT
from thinflow.cli import main
from thinflow.pages.shell import data_of


def test_verdict_first_next_command_last(
    model: str, capsys: pytest.CaptureFixture[str], paste: Callable[[str], int]
) -> None:
    thinflow.save(thinflow.transform(model, "quantize_weights(minimum_size=64)"), "small.pb")
    assert main(["diff", model, "small.pb", "--tolerance", "1"]) == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("same network; ")
    assert "stored in fewer bits" in first
    assert last == "next: thinflow verify 'my digits.pb' small.pb"
    assert paste(last) in {0, 1}


def test_equal_and_json(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", model, model, "--json", "--all", "--no-numerics"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"] == "the same graph"
    assert data["equal"]


def test_missing_file(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", model, "none.pb"]) == 1
    assert "none.pb" in capsys.readouterr().err


@BUILT
@pytest.mark.parametrize("other", ["small.pb", "small.tflite"])
def test_a_page(other: str, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    thinflow.save(thinflow.transform(model, "fold_constants"), other)
    assert main(["diff", model, other, "--json", "--html", "diff.html"]) in {0, 1}
    found = data_of(Path("diff.html").read_bytes())
    printed = json.loads(capsys.readouterr().out)
    assert found["data"] == printed
    assert found["verdict"] == printed["verdict"]
    assert main(["diff", model, other, "--html", "diff.html"]) in {0, 1}
    *_, written, last = capsys.readouterr().out.splitlines()
    assert (written, last) == ("page: diff.html", f"next: thinflow verify 'my digits.pb' {other}")


def test_a_page_that_cannot_be_written_costs_no_result(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if not BUILT.args[0]:
        assert main(["diff", model, model, "--html", "none/diff.html"]) == 1
        told = capsys.readouterr()
        assert told.out.startswith("the same graph")
        assert "none" in told.err
