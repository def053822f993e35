"""The examples run, and print what they promise."""

from __future__ import annotations

import importlib.util
import os
import re
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


def test_keyword_spotter_hears_more_than_chance(tmp_path: Path) -> None:
    from thinflow import evaluate

    assert "wrote keywords.pb" in run("make_keywords.py", tmp_path)
    labels = (tmp_path / "labels.txt").read_text().split()
    heard = evaluate(tmp_path / "keywords.pb", tmp_path / "test_clips", labels=labels)
    assert 80 < heard.accuracy < 100, "neither untrained nor too easy to lose anything"


def test_detector_finds_squares(tmp_path: Path) -> None:
    assert "wrote detector.pb" in run("make_detector.py", tmp_path)
    printed = run("score_detector.py", tmp_path / "detector.pb")
    right, there, others = map(int, re.findall(r"(\d+) of (\d+) squares found, (\d+) other", printed)[0])
    assert right > 0.9 * there > 50
    assert others < 0.1 * there


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
    """Each file of examples/ is named in a test above, so that a new one cannot rot unseen."""
    here = Path(__file__).read_text("utf-8")
    assert [p.name for p in sorted(EXAMPLES.glob("*.py")) if f'"{p.name}"' not in here] == []
