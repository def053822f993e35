"""`thinflow quantize`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from thinflow import zoo
from thinflow.cli import main


def test_writes_a_smaller_model(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("c.npz", **zoo.calibration("digits", 20, 0))
    assert main(["quantize", model, "my q.tflite", "--calibration", "c.npz"]) == 0
    first, second, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("wrote my q.tflite: ")
    assert "x smaller than float" in first
    assert second == "  samples: 20 samples from c.npz"
    assert last == "next: thinflow benchmark 'my q.tflite'"
    assert Path("my q.tflite").read_bytes()[4:8] == b"TFL3"


def test_json_says_that_inputs_were_made_up(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quantize", model, "q.tflite", "--samples", "2", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["synthetic"] is True
    assert data["size_bytes"] == Path("q.tflite").stat().st_size < data["float_bytes"]
    assert data["samples"].startswith("2 made-up inputs")
