"""`-`: models from standard input and to standard output."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.cli.terminals import in_terminal
from thinflow.cli import main
from thinflow.zoo import digits


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    thinflow.save(digits.build(0), folder / "model.pb")
    assert main(["convert", str(folder / "model.pb"), str(folder / "model.tflite")]) == 0
    return folder


Piped = Callable[..., tuple[int, bytes, str]]


@pytest.fixture
def piped(place: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Piped:
    """Runs a command with bytes on stdin; its exit code, stdout and stderr."""
    monkeypatch.chdir(place)

    def run(words: list[str], given: bytes = b"") -> tuple[int, bytes, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
        code = main(words)
        out, err = capsysbinary.readouterr()
        return code, out, err.decode()

    return run


def test_a_model_from_standard_input(piped: Piped, place: Path) -> None:
    model = (place / "model.pb").read_bytes()
    code, out, err = piped(["inspect", "-"], model)
    assert (code, err) == (0, "")
    lines = out.decode().splitlines()
    assert lines[0].startswith("stdin is a frozen GraphDef: 89 nodes")
    assert lines[-1] == "next: thinflow optimize MODEL stdin_out"
    assert "thinflow-" not in out.decode()  # the temporary file is nobody's business


def test_json_is_what_it_was(piped: Piped, place: Path) -> None:
    code, out, _ = piped(["inspect", "-", "--json"], (place / "model.pb").read_bytes())
    told, known = json.loads(out), piped(["inspect", "model.pb", "--json"])[1]
    assert code == 0
    assert told.pop("path") == "standard input"
    expected = json.loads(known)
    expected.pop("path")
    assert told == expected


@pytest.mark.parametrize("file", ["model.pb", "model.tflite"])
def test_the_format_is_found_in_the_content(file: str, piped: Piped, place: Path) -> None:
    given = (place / file).read_bytes()
    assert piped(["run", "-"], given)[0] == 0
    assert piped(["verify", "model.pb", "-"], given)[0] == 0


def test_a_model_to_standard_output(piped: Piped, place: Path) -> None:
    code, out, err = piped(["convert", "model.pb", "-"])
    assert code == 0
    assert out == (place / "model.tflite").read_bytes()
    assert err.startswith("wrote standard output: ")
    assert err.endswith("next: thinflow benchmark OUT.tflite\n")


def test_the_suffix_says_the_format(piped: Piped, place: Path) -> None:
    code, out, _ = piped(["transform", "model.pb", "-o", "-.pbtxt", "-t", "fold_constants"])
    assert code == 0
    assert out.startswith(b"node {")
    code, out, err = piped(["convert", "model.pb", "-.onnx"])
    assert code == 0
    assert "wrote standard output" in err
    (place / "piped.onnx").write_bytes(out)
    assert piped(["verify", "model.pb", "piped.onnx"])[0] == 0


def test_what_lint_mends_to_standard_output(piped: Piped, place: Path) -> None:
    given = (place / "model.pb").read_bytes()
    code, out, err = piped(["lint", "-", "--select", "TF104", "--fix", "-"], given)
    assert code == 0
    assert b"probabilities" in out
    assert len(out) < len(given)
    assert err.startswith("standard output: 1 mended, nothing found by 1 rule\n")
    assert not (place / "-").exists()


def test_a_page_to_standard_output(piped: Piped, place: Path) -> None:
    code, out, err = piped(["diff", "model.pb", "model.pb", "--html", "-"])
    assert code == 0
    assert out.startswith(b"<!doctype html>")
    assert "page: standard output" in err


def test_two_files_are_no_stream(piped: Piped, place: Path) -> None:
    code, out, err = piped(["quantize", "model.pb", "-", "--html", "-"])
    assert (code, out) == (1, b"")
    assert err == "error: two files cannot go to standard output\nhint: name one of them\n"


def test_commands_in_a_row(piped: Piped, place: Path) -> None:
    """sample | transform | convert | run, no file in between."""
    first = piped(["sample", "digits", "-"])
    second = piped(["transform", "-", "-", "-t", "fold_constants"], first[1])
    third = piped(["convert", "-", "-"], second[1])
    last = piped(["run", "-", "-o", "-", "--seed", "1"], third[1])
    assert [code for code, _, _ in (first, second, third, last)] == [0] * 4
    outputs = np.load(io.BytesIO(last[1]))
    assert [array.shape for array in outputs.values()] == [(1, 10)]
    assert "changes: 89 -> " in second[2]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the commands need a Unix shell")
def test_a_pipeline_of_a_shell(place: Path) -> None:
    program = f"{shlex.quote(sys.executable)} -m thinflow"
    line = f"{program} sample digits - 2>/dev/null | {program} convert - - 2>/dev/null | {program} inspect -"
    source = str(Path(thinflow.__file__).parents[1])
    done = subprocess.run(
        line,
        shell=True,
        capture_output=True,
        cwd=place,
        env={**os.environ, "PYTHONPATH": source},
        timeout=120,
    )
    assert done.returncode == 0
    assert done.stdout.startswith(b"stdin is a LiteRT model")


def test_json_and_a_model_do_not_mix(piped: Piped, place: Path) -> None:
    code, out, err = piped(["convert", "model.pb", "-", "--json"])
    assert code == 0
    assert out == (place / "model.tflite").read_bytes()
    assert json.loads(err)["path"] == "standard output"


@pytest.mark.parametrize("verb", ["inspect", "lint", "view"])
def test_nothing_comes_in(verb: str, piped: Piped) -> None:
    assert piped([verb, "-"]) == (
        1,
        b"",
        "error: standard input: it is empty: no model came in\n"
        f"hint: send one: cat MODEL | thinflow {verb} -\n",
    )


def test_what_comes_in_is_no_model(piped: Piped, place: Path) -> None:
    code, out, err = piped(["inspect", "-"], b"\x00\x01garbage" * 99)
    assert (code, out) == (1, b"")
    assert err.startswith("error: standard input, byte 0: ")


def test_nothing_is_sent_on_after_an_error(piped: Piped, place: Path) -> None:
    code, out, err = piped(["convert", "-", "-"], b"\x08\x01garbage" * 99)
    assert (code, out) == (1, b"")
    assert err.startswith("error: ")


def test_a_folder_is_no_stream(piped: Piped, place: Path) -> None:
    assert piped(["optimize", "model.pb", "-"]) == (
        1,
        b"",
        "error: a folder cannot go to standard output\nhint: name it: thinflow optimize model.pb OUT\n",
    )


def test_standard_input_is_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", type("Keys", (), {"isatty": lambda self: True})())
    assert main(["inspect", "-"]) == 1
    assert capsys.readouterr().err == (
        "error: no model comes from standard input: it is a terminal\n"
        "hint: send one: cat MODEL | thinflow inspect -\n"
    )
    monkeypatch.setattr("sys.stdin", None)
    assert main(["inspect", "-"]) == 1
    assert "it is closed" in capsys.readouterr().err


@pytest.mark.slow
def test_no_binary_to_a_terminal(place: Path) -> None:
    code, out = in_terminal(["convert", "model.pb", "-"], place)
    assert (code, out) == (1, "")
    code, out = in_terminal(["transform", "model.pb", "-.pbtxt", "-t", "fold_constants"], place)
    assert code == 0
    assert out.startswith("node {")


def test_why_a_terminal_gets_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["convert", "model.pb", "-"]) == 1
    assert capsys.readouterr().err == (
        "error: standard output is a terminal, which cannot show a .tflite file\n"
        "hint: name a file, or send it on: > FILE\n"
    )


def test_files_beside_it_are_named(piped: Piped, place: Path) -> None:
    code, out, err = piped(["quantize", "model.pb", "-", "--scheme", "float16", "--effort", "none"])
    assert code == 0
    assert out[4:8] == b"TFL3"
    code, _, err = piped(["convert", "model.pb", "-.onnx", "--external-data"])
    assert code == 1
    assert "error: its weights are in a second file, which standard output cannot hold" in err
    assert piped(["inspect", "./-"])[0] == 1  # a file of that name is still a file
