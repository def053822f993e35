"""`thinflow deploy`, as users type it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import thinflow
from thinflow.cli import main


def test_make_and_test(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy", model, "app", "--target", "python", "--mean", "0", "--std", "16", "--test"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "made app: a Python package with functions, a command and a self-test, on LiteRT"
    assert lines[-2] == "self-test passed: the sample's answer is the expected one"
    assert lines[-1] == "next: thinflow inspect app/src/my_digits/assets/model.tflite"


def test_test_a_folder(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    thinflow.deploy(model, "app", "python")
    stored = Path("app/src/my_digits/assets/selftest/output_0.bin")
    stored.write_bytes(bytes(len(stored.read_bytes())))
    assert main(["deploy", "app", "--test"]) == 1
    told = capsys.readouterr().err
    assert "output probabilities: it is " in told
    assert "hint: see all: cd " in told


def test_next_is_the_self_test(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy", model, "app", "--target", "python"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "next: thinflow deploy app --test"


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy", "--list"]) == 0
    assert "python       A Python package" in capsys.readouterr().out
    assert main(["deploy", "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["python"].startswith("A Python package")


def test_json(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy", model, "app", "--target", "python", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["contract"]["task"] == "classification"
    assert "src/my_digits/assets/model.tflite" in told["files"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "it is not said which model"),
        (["{model}"], "it is not said where to"),
        (["{model}", "app"], "it is not said what for"),
        (["{model}", "app", "--target", "phone"], "there is no target 'phone'"),
        (["{model}", "app", "--target", "python", "--std", "0"], "std is 0"),
        (["{model}", "app", "--target", "python", "--labels", "none.txt"], "the labels cannot be read"),
        (["{model}", "no/app", "--target", "python"], "its folder does not exist"),
        (["{model}", "--test"], "this is no folder of an app"),
    ],
)
def test_wrong_words(words: list[str], problem: str, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy", *(model if word == "{model}" else word for word in words)]) == 1
    told = capsys.readouterr().err
    assert problem in told
    assert "hint: " in told or "std is 0" in told
    assert not Path("app").exists()
