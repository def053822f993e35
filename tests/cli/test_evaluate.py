"""`thinflow evaluate` as a user types it."""

from __future__ import annotations

import json
import re
import shlex
import wave
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.page_scripts import BUILT
from tests.transforms.golden import parse_graph
from thinflow import zoo
from thinflow.api import write_arrays
from thinflow.cli import main
from thinflow.pages.shell import data_of

CLASSIFIER = """
    x = Placeholder() {dtype=float, shape=shape[1,4]}
    w = Const() {value=float[4,2]{-1,1,-1,1,-1,1,-1,1}}
    y = MatMul(x, w) {T=float}
    inputs: x
    outputs: y
"""


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
    assert re.search(r": \d+ of 60 samples right \(\d+\.\d% to \d+\.\d%\)$", first)
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


def test_a_labels_file_beside_the_model_is_found(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for model in words:
        assert main(["evaluate", str(model), str(tmp_path / "clips")]) == 1
        assert "labelled with words (no, yes)" in (told := capsys.readouterr().err)
        assert "--labels labels.txt" in told
    (tmp_path / "my_labels.txt").write_text("no\nyes\n")
    for model in words:
        assert main(["evaluate", str(model), str(tmp_path / "clips")]) == 0
        told = capsys.readouterr().out
        assert "100.00%: 2 of 2 samples right" in told
        following = shlex.split(told.splitlines()[-1].removeprefix("next: thinflow "))
        quick = ["--no-memory", "--no-peak", "--runs=1"] if "benchmark" in following else ["--no-benchmark"]
        assert main([*following, *quick]) == 0
        capsys.readouterr()


@pytest.fixture
def words(tmp_path: Path) -> tuple[Path, Path]:
    """A graph and a .tflite file that hear "yes" where the mean of the sound is above 0; and clips."""
    graph = parse_graph(CLASSIFIER)
    thinflow.save(graph, tmp_path / "words.pb")
    thinflow.save(graph, tmp_path / "words.tflite")
    (tmp_path / "clips").mkdir()
    for label, level in (("no", -9000), ("yes", 9000)):
        with wave.open(str(tmp_path / "clips" / f"{label}_1.wav"), "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", ""))
            file.writeframes(level.to_bytes(2, "little", signed=True) * 4)
    return tmp_path / "words.pb", tmp_path / "words.tflite"


def test_an_output_that_has_no_scores_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = CLASSIFIER.replace(
        "outputs: y", "axis = Const() {value=int32[]{1}}\nz = ArgMax(y, axis) {T=float}\noutputs: z"
    )
    thinflow.save(parse_graph(text), tmp_path / "net.pb")
    write_arrays(tmp_path / "t.npz", {"x": np.ones((2, 4), np.float32), "labels": np.array([0, 1])})
    assert main(["evaluate", str(tmp_path / "net.pb"), str(tmp_path / "t.npz"), "--outputs", "z"]) == 1
    err = capsys.readouterr().err
    assert "the first output is no row of scores" in err
    assert "--outputs NAME" in err


@BUILT
@pytest.mark.parametrize("suffix", ["pb", "tflite"])
def test_a_page(
    suffix: str, digits: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, test = digits
    if suffix != "pb":
        model = str(tmp_path / "digits.tflite")
        thinflow.convert(digits[0], model)
    page = tmp_path / "report.html"
    assert main(["evaluate", model, test, "--json", "--html", str(page)]) == 0
    found = data_of(page.read_bytes())
    printed = json.loads(capsys.readouterr().out)
    assert found["data"] == printed
    assert found["verdict"].startswith(f"accuracy {printed['accuracy']:.2f}%")
    cards = next(b for s in found["sections"] for b in s["blocks"] if b["kind"] == "samples")
    assert len(cards["items"]) >= 6
    tones = [item["answers"][0]["tone"] for item in cards["items"]]
    assert tones.count("bad") == min(60 - printed["correct"], 12)
    assert tones == sorted(tones)
    assert all(item["picture"].startswith("data:image/png;base64,") for item in cards["items"])
    assert main(["evaluate", model, test, "--html", str(page)]) == 0
    *_, written, last = capsys.readouterr().out.splitlines()
    assert written == f"page: {page}"
    assert last.startswith("next: ")
