"""Real .tflite and .onnx files in the interpreter, beside the answers of their own runtimes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.conformance.zoo import distance

ROOT = Path(os.environ.get("THINFLOW_SHARED") or Path(__file__).resolve().parents[3] / "shared")
FILES = sorted((ROOT / "zoo").glob("tflite/*.tflite")) + sorted((ROOT / "zoo").glob("onnx/*.onnx"))


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
