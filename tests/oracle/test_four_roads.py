"""A trained network in eight bits is the same whichever file it came from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from benchmarks.budgets.channels_first import operators
from benchmarks.ptq import data
from tests.oracle._int8 import sqnr

tf = pytest.importorskip("tensorflow")
pytest.importorskip("torch")
pytest.importorskip("onnxscript")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROADS = ("saved", "frozen.pb", "model.h5", "torch.onnx", "model.tflite")
MODELS = Path(__file__).parents[2] / "benchmarks" / "ptq" / "models"
# Keras reads the same file over torch, whose exporter then writes the net as that of any torch user.
EXPORT = """
import sys, keras, torch
model = keras.models.load_model(sys.argv[1], compile=False).eval()
x = torch.zeros((1, *model.inputs[0].shape[1:]))
torch.onnx.export(model, (x,), sys.argv[2], dynamo=True, external_data=False, verbose=False)
"""


def write_roads(name: str, folder: Path) -> None:
    """One trained network as every exporter writes it."""
    source = MODELS / f"{name}.keras"
    model = tf.keras.models.load_model(source, compile=False)
    model.export(str(folder / "saved"), verbose=False)
    model.save(folder / "model.h5")
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder / "saved"))
    (folder / "model.tflite").write_bytes(converter.convert())
    thinflow.convert(folder / "saved", folder / "frozen.pb", verify=False)
    subprocess.run(
        [sys.executable, "-c", EXPORT, str(source), str(folder / "torch.onnx")],
        env={**os.environ, "KERAS_BACKEND": "torch"},
        check=True,
        capture_output=True,
    )


def answers(path: Path, samples: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    session = thinflow.Session(path)
    (name,) = session.inputs
    return [np.asarray(session.run(None, {name: x[np.newaxis]})[0]) for x in samples]


def test_eight_bits_do_not_depend_on_the_road(tmp_path: Path) -> None:
    name = "inverted"
    write_roads(name, tmp_path)
    calibration = data.drawn_for(name, 100, seed=1).x.astype(np.float32)
    samples = data.drawn_for(name, 128, seed=2).x.astype(np.float32)
    expected = answers(tmp_path / "model.tflite", samples)
    levels, counts = {}, {}
    for road in ROADS:
        (fed,) = thinflow.Session(tmp_path / road).inputs
        graph = thinflow.load(tmp_path / road, shapes={fed: (1, *calibration.shape[1:])})
        made = tmp_path / f"{Path(road).stem}_int8.tflite"
        thinflow.quantize(graph, {fed: calibration}, effort="default").save(made)
        levels[road] = sqnr(expected, answers(made, samples))
        counts[road] = operators(made)
    assert len({tuple(sorted(c.items())) for c in counts.values()}) == 1, counts
    assert max(levels.values()) - min(levels.values()) <= 0.1, levels
    assert min(levels.values()) > 30
