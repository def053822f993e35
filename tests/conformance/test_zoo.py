"""Real .tflite and .onnx files in the interpreter, beside the answers of their own runtimes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import thinflow

ROOT = Path(os.environ.get("THINFLOW_SHARED") or Path(__file__).resolve().parents[3] / "shared")
FILES = sorted((ROOT / "zoo").glob("tflite/*.tflite")) + sorted((ROOT / "zoo").glob("onnx/*.onnx"))
TOLERANCE = 1e-4
"""Relative to the largest number of the answer."""
STEPS = 3
"""Codes that an answer may be off: every op of eight bits rounds in its own way."""


def distance(found: np.ndarray, expected: np.ndarray) -> float:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    gap = np.abs(found.astype(np.float64) - expected).max()
    return float(
        gap / STEPS if found.dtype.kind in "iu" else gap / TOLERANCE / max(np.abs(expected).max(), 1e-9)
    )


@pytest.mark.skipif(not FILES, reason="no ../shared with real models (or set THINFLOW_SHARED)")
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_the_interpreter_gives_the_answers_of_the_runtime(file: Path) -> None:
    with np.load(file.with_suffix(".npz")) as stored:
        answers = {key: stored[key] for key in stored.files}
    feeds = {key[3:]: x for key, x in answers.items() if key.startswith("in:")}
    names = [key[4:] for key in answers if key.startswith("out:")]
    session = thinflow.Session(file, "reference")
    for name, found in zip(names, session.run(names, feeds), strict=True):
        expected = [answers[k] for k in (f"out:{name}", f"ref-out:{name}") if k in answers]
        assert min(distance(found, e) for e in expected) <= 1
    for name, found in zip(names, session.run(names, feeds), strict=True):  # of a model that keeps its state
        if f"next-out:{name}" in answers:
            assert distance(found, answers[f"next-out:{name}"]) <= 1
