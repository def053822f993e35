"""The files that models become are the same in every process, and a comparison tells which are not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import artefacts

ROOT = Path(artefacts.__file__).resolve().parents[1]
KINDS = ("_eight_bit.pb", "_float.pb", "_int16x8.tflite", "_int8.onnx", "_int8.tflite", ".onnx", ".tflite")


def hashes(seed: str, *arguments: str) -> list[str]:
    """What a new process prints, whose sets have an order of their own."""
    done = subprocess.run(
        [sys.executable, "scripts/artefacts.py", "--only", "zoo/digits", *arguments],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_files_are_the_same_in_every_process(tmp_path: Path) -> None:
    first = hashes("1", "--out", str(tmp_path / "out"))
    assert [line.split("  ")[0] for line in first] == sorted(f"zoo/digits{kind}" for kind in KINDS)
    assert all(len(line.split("  ")[1]) == 64 for line in first)
    assert len(list((tmp_path / "out" / "zoo").iterdir())) == len(KINDS)
    before = tmp_path / "before.txt"
    before.write_text("\n".join([*first, "zoo/another.tflite  0"]) + "\n")
    assert hashes("2", "--compare", str(before)) == ["all 7 artefacts are as they were"]


def test_a_difference_is_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artefacts, "all_lines", lambda *given: ["zoo/digits.onnx  2"])
    (tmp_path / "before.txt").write_text("zoo/digits.onnx  1\n")
    assert artefacts.main(["--compare", str(tmp_path / "before.txt"), "--only", "zoo/digits"]) == 1
    assert capsys.readouterr().out == "- zoo/digits.onnx  1\n+ zoo/digits.onnx  2\n"


def test_what_changed() -> None:
    old, new = ["a.pb  1", "b.pb  2", "c.tflite  UnsupportedOp: no"], ["a.pb  1", "c.tflite  3", "d.pb  4"]
    assert artefacts.differences(old, new, None) == [
        *("- b.pb  2", "- c.tflite  UnsupportedOp: no", "+ c.tflite  3", "+ d.pb  4")
    ]
    assert artefacts.differences(old, old[2:], ["c"]) == []
    assert artefacts.differences(["c.tflite  1", "c_int8.tflite  1"], [], ["c"]) == [
        *("- c.tflite  1", "- c_int8.tflite  1")
    ]


def test_models_are_a_fixed_choice(tmp_path: Path) -> None:
    for name in ("models/b.pb", "models/reference.npz", "zoo/keras/a.h5", "zoo/nmp/saved_model.pb"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "conformance").mkdir()
    for number in range(250):
        (tmp_path / f"conformance/{number:03}.pb").touch()
    found = artefacts.sources(tmp_path)
    assert list(found) == sorted(found)
    assert {"files/keras/a.h5", "files/nmp", "models/b", "zoo/digits"} <= set(found)
    assert "files/nmp/saved_model" not in found
    assert found["files/nmp"] == str(tmp_path / "zoo/nmp")
    chosen = [name for name in found if name.startswith("conformance/")]
    assert len(chosen) == artefacts.CONFORMANCE
    assert chosen[:3] == ["conformance/000", "conformance/002", "conformance/005"]


def test_a_refusal_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is a mistake of ours, which must not end the run of all others."""
    (tmp_path / "broken.pb").write_bytes(b"\x0a\xff")
    monkeypatch.setattr(artefacts, "_hash_of", lambda path: 1 / 0)
    lines = artefacts.lines_of("zoo/broken", str(tmp_path / "broken.pb"), tmp_path / "out")
    assert len(lines) == len(KINDS)
    assert all(line.startswith("zoo/broken") for line in lines)
    assert "  FormatError: " in lines[0]


def test_an_unknown_model(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        artefacts.main(["--only", "zoo/nothing"])
    assert "there is no such model: zoo/nothing" in capsys.readouterr().err
