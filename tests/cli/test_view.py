"""`thinflow view` as a user types it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import thinflow
from thinflow import zoo
from thinflow.cli import main
from thinflow.pages.assets import FOLDER
from thinflow.pages.shell import data_of

Out = pytest.CaptureFixture[str]

pages = pytest.mark.skipif(not FOLDER.is_dir(), reason="the scripts of the pages are not built")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    thinflow.save(zoo.build("digits"), "my digits.pb")
    return "my digits.pb"


@pages
def test_a_page(model: str, capsys: Out, paste: Callable[[str], int]) -> None:
    assert main(["view", model]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("wrote my digits.html: 90 nodes, ")
    assert first.endswith("; open it in a browser")
    assert paste(last) == 0


@pages
def test_two_models_and_json(model: str, capsys: Out) -> None:
    assert main(["view", model, model, "-o", "x.html", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"] == [90, 90]
    assert "comparison" in data_of(Path("x.html").read_bytes())
    assert main(["view", model, model, "--tabs", "-o", "x.html"]) == 0
    assert "comparison" not in data_of(Path("x.html").read_bytes())


@pages
def test_overlays(model: str, capsys: Out) -> None:
    argv = ["view", model, "-o", "x.html", "--placement", "reference", "--profile", "reference"]
    assert main([*argv, "--transforms", "fold_constants", "--no-weights"]) == 0
    graph = data_of(Path("x.html").read_bytes())["graphs"][0]
    assert {"time", "placement", "transforms", "flops"} <= {o["id"] for o in graph["overlays"]}
    assert not any("mean" in constant for constant in graph["constants"])


def test_mistakes(model: str, capsys: Out) -> None:
    assert main(["view", model, "-o", "x.html", "--error"]) == 1
    assert "the noise is measured against a second model" in capsys.readouterr().err
    assert main(["view", "none.pb"]) == 1
    assert "there is no such file" in capsys.readouterr().err
    assert main(["view", model, "--model-explorer", "-o", "x.html"]) == 1
    assert "Model Explorer reads JSON" in capsys.readouterr().err
    assert main(["view", model, model, "--model-explorer"]) == 1
    assert "--model-explorer writes one model" in capsys.readouterr().err
    assert main(["view", model, "new.html"]) == 1
    told = capsys.readouterr().err
    assert "the name of a page or a picture" in told
    assert "hint: write to it by -o new.html" in told


def test_model_explorer(model: str, capsys: Out) -> None:
    assert main(["view", model, "--model-explorer", "-o", "g.json"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "wrote g.json: a graph for Model Explorer; open it with model-explorer"
    assert "  g.flops.json: node data" in out
    assert json.loads(Path("g.json").read_text("utf-8"))["graphs"]
