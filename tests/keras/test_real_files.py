"""Keras files that people use give the answers that Keras gave for them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import thinflow

SHARED = Path(os.environ.get("THINFLOW_SHARED", Path(__file__).parents[3] / "shared"))
FOUND = (SHARED / "zoo" / "keras").glob("*")
FILES = sorted(p for p in FOUND if p.suffix != ".npz")
TOLERANCE = 2e-5
"""Of the largest value: the same sums in another order."""


def answers(path: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Inputs and outputs as stored, in order."""
    stored = np.load(path.with_suffix(".npz"))
    return [stored[k] for k in stored if k.startswith("in:")], [
        stored[k] for k in stored if k.startswith("out:")
    ]


def compare(session: thinflow.Session, path: Path) -> None:
    given, wanted = answers(path)
    feeds = dict(zip(session.inputs, given, strict=True))
    got = session.run(list(session.outputs), feeds)
    assert len(got) == len(wanted)
    for result, expected in zip(got, wanted, strict=True):
        assert np.abs(result - expected).max() <= TOLERANCE * max(np.abs(expected).max(), 1e-3)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_stored_answers(path: Path) -> None:
    compare(thinflow.Session(thinflow.load(path), engine="reference"), path)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_stored_answers_of_converted_files(path: Path, suffix: str, tmp_path: Path) -> None:
    target = tmp_path / f"model{suffix}"
    thinflow.convert(path, target)
    compare(thinflow.Session(target), path)
