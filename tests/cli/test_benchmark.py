"""`thinflow benchmark` on a tiny model."""

from __future__ import annotations

import csv
import io
import json

import pytest

import thinflow
from thinflow.cli import main
from thinflow.zoo import digits

QUICK = ["--runs", "2", "--seconds", "60", "--no-memory"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("benchmark")
    graph = digits.build(0)
    paths = folder / "digits.pb", folder / "digits_fp32.tflite"
    for path in paths:
        thinflow.save(graph, path)
    return str(paths[0]), str(paths[1])


def test_verdict_first_next_command_last(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", *files, *QUICK]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "digits_fp32" in lines[0]
    assert "on 1 thread" in lines[0]
    assert lines[-1].startswith("next: thinflow benchmark ")
    assert any(line.split()[:3] == ["model", "engine", "threads"] for line in lines)


def test_one_model_alone(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", files[0], *QUICK]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("digits takes ")
    assert lines[-1] == f"next: thinflow optimize {files[0]} out"


def test_json(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["benchmark", files[0], "--engines", "litert,reference", "--threads", "1,2", "--json", *QUICK])
        == 0
    )
    data = json.loads(capsys.readouterr().out)
    assert [(r["engine"], r["threads"]) for r in data["rows"]] == [
        ("litert", 1),
        ("litert", 2),
        ("reference", None),
    ]
    assert all(r["latency_ms"]["count"] == 2 for r in data["rows"])


def test_csv_and_markdown(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", files[0], "--csv", *QUICK]) == 0
    header, row = csv.reader(io.StringIO(capsys.readouterr().out))
    assert dict(zip(header, row, strict=True))["runs"] == "2"
    assert main(["benchmark", files[0], "--markdown", *QUICK]) == 0
    assert "| digits | litert | 1 |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--threads", "many"], "not a list of whole numbers"),
        (["--engines", "warp"], "there is no engine 'warp'"),
        (["--shape", "nothing=1,2"], "no model has an input 'nothing'"),
    ],
)
def test_wrong_flags(
    files: tuple[str, str], flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", files[0], *flags, *QUICK]) == 1
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""
