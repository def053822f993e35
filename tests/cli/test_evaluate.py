"""`thinflow evaluate` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from thinflow import zoo
from thinflow.api import write_arrays
from thinflow.cli import main


@pytest.fixture
def digits(tmp_path: Path) -> tuple[str, str]:
    zoo.write("digits", tmp_path / "digits.pb")
    data = zoo.test_set("digits")
    write_arrays(tmp_path / "test.npz", {name: array[:60] for name, array in data.items()})
    return str(tmp_path / "digits.pb"), str(tmp_path / "test.npz")


def test_says_how_many_are_right(digits: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", *digits]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("accuracy ")
    assert first.endswith("of 60 samples right")
    assert last.startswith("next: thinflow optimize ")


def test_json_holds_the_same(digits: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", *digits, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["samples"] == 60
    assert found["accuracy"] == pytest.approx(100 * found["correct"] / 60)
    assert found["accuracy"] > 90


def test_samples_without_labels_are_refused(
    digits: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_arrays(tmp_path / "bare.npz", {"image": zoo.test_set("digits")["image"][:4]})
    assert main(["evaluate", digits[0], str(tmp_path / "bare.npz")]) == 1
    assert "the samples have no labels" in capsys.readouterr().err
