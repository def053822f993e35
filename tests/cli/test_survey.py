"""`thinflow survey`, as users type it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.page_scripts import BUILT
from thinflow import zoo
from thinflow.cli import main
from thinflow.pages.shell import data_of

QUICK = ["--no-run", "--no-lint", "--no-convert"]
pytestmark = pytest.mark.slow


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my models").mkdir()
    zoo.write("digits", tmp_path / "my models" / "digits.pb")
    (tmp_path / "my models" / "broken.tflite").write_bytes(bytes(4) + b"TFL3" + bytes(100))
    (tmp_path / "my models" / "labels.txt").write_text("zero\none\n")
    return "my models"


def test_a_table(models: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["survey", models]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1 model in 3 things: ")
    assert lines[0].endswith("1 become .onnx, 1 become .tflite; 1 broken file")
    assert lines[2].split() == ["model", "what", "size", "params", "MFLOP", "runs", "to", "lint"]
    assert lines[3].split()[:2] == ["digits.pb", "GraphDef"]
    assert "not models that open:" in lines
    assert "not models: 1 × a text (a list of labels?)" in lines
    assert lines[-1] == "next: thinflow survey 'my models' --html survey.html"


def test_files_and_data(models: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [*QUICK, "--csv", "s.csv", *(["--html", "s.html"] if BUILT else [])]
    assert main(["survey", models, *flags, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [entry["kind"] for entry in told["entries"]] == ["broken", "model", "other"]
    assert Path("s.csv").read_text().splitlines()[0].startswith("name,kind,what")
    if BUILT:
        shown = data_of(Path("s.html").read_bytes())
        assert shown["verdict"] == told["verdict"]
        assert shown["data"]["entries"][1]["name"] == "digits.pb"


def test_wrong_input(models: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["survey", "nowhere"]) == 1
    assert "nowhere: no such file or folder" in capsys.readouterr().err
    Path("broken.pb").write_text("one\ntwo\n")
    assert main(["survey", "broken.pb", *QUICK]) == 1
    assert capsys.readouterr().err.startswith("error: broken.pb: this is a text")
    assert main(["survey", f"{models}/labels.txt", *QUICK]) == 1
    assert "no model is in my models/labels.txt" in capsys.readouterr().err
    assert main(["survey", models, "--timeout", "0"]) == 1
    assert "timeout=0 is not possible" in capsys.readouterr().err
    assert main(["survey", models, *QUICK, "--csv", "no/such/folder/s.csv"]) == 1
    assert "no/such/folder" in capsys.readouterr().err
