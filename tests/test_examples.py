"""The examples run, and print what they promise."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"

# Example -> what its output contains.
PRINTS = {
    "inspect_and_transform.py": [
        "output probabilities: ",
        "fold_old_batch_norms: 4 changes",
        "within 5 %: True",
    ],
    "optimize_digits.py": ["digits_int8.tflite: ", "remove_dropout: 1 changes"],
    "own_calibration.py": ["x smaller; accuracy ", " in steps of "],
}
pytestmark = pytest.mark.slow


def run(example: str, *arguments: str | Path) -> str:
    """What an example prints."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("example", sorted(PRINTS))
def test_example(example: str, tmp_path: Path) -> None:
    printed = run(example, tmp_path / "new folder")
    assert [text for text in PRINTS[example] if text not in printed] == []


def test_run_tflite(tmp_path: Path) -> None:
    import thinflow
    from thinflow.cli import main

    model, samples = tmp_path / "digits.pb", tmp_path / "test.npz"
    assert main(["sample", "digits", str(model), "--test", str(samples)]) == 0
    thinflow.convert(model, tmp_path / "digits.tflite")
    printed = run("run_tflite.py", tmp_path / "digits.tflite", samples)
    assert "image [1, 8, 8, 1] -> probabilities [1, 10]" in " ".join(printed.split())
    right, total = printed.split("right: ")[1].split(" of ")
    assert int(right) / int(total) > 0.95


@pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="scikit-learn is not installed")
def test_train_digits(tmp_path: Path) -> None:
    run("train_digits.py", tmp_path)
    assert (tmp_path / "digits.pb").is_file()


def test_every_example_is_run() -> None:
    assert {p.name for p in EXAMPLES.glob("*.py")} == {*PRINTS, "run_tflite.py", "train_digits.py"}
