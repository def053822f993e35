"""The noise in each layer's output, and where float and fewer bits part ways."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.quantize.programs import Builder, samples
from thinflow import zoo
from thinflow.api import quantize_to_file
from thinflow.optimize.climb import Goal, smaller_program
from thinflow.optimize.layer_errors import LayerError, LayerErrors, chart
from thinflow.optimize.layer_noise import layer_errors
from thinflow.quantize.recipe import Quantized, Recipe
from thinflow.zoo import digits

LAYERS = ["conv1/Conv2D", "conv2_depthwise/depthwise", "conv2_pointwise/Conv2D", "conv3/Conv2D"]


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_each_layer_of_a_trained_network(tmp_path: Path, suffix: str) -> None:
    recipe = Recipe(skip_nodes=("logits/*",))
    made = quantize_to_file(
        digits.build(0),
        tmp_path / f"m.{suffix}",
        zoo.calibration("digits", 32, 0),
        recipe=recipe,
        effort="none",
    )
    found = made["noise_by_layer"]
    assert found["samples"] == 8
    layers = {layer["name"]: layer for layer in found["layers"]}
    assert [name for name in layers if name in LAYERS] == LAYERS
    assert all(25 < layers[name]["sqnr_db"] < 60 for name in LAYERS)
    assert layers["logits/MatMul"]["is_float"]
    assert not layers["conv3/Conv2D"]["is_float"]
    # What is behind a layer has its noise, too.
    assert layers["conv2_depthwise/depthwise"]["before_db"] == layers["conv1/Conv2D"]["sqnr_db"]
    assert found["first_apart"] is None
    assert found["sentence"].startswith("no layer falls below 20 dB; most noise comes in at ")
    json.dumps(found)


def test_the_layer_where_float_and_int8_part_ways(tmp_path: Path) -> None:
    """Weights of four bits at nearest: what is wrecked is named."""
    made = quantize_to_file(
        digits.build(0),
        tmp_path / "m.tflite",
        zoo.calibration("digits", 32, 0),
        recipe=Recipe(scheme="int4_weights"),
        effort="none",
    )
    assert made["noise_by_layer"]["first_apart"] == "conv3/Conv2D"
    assert "part ways at CONV_2D conv3/Conv2D" in made["noise_by_layer"]["sentence"]


def test_the_report_has_a_chart(tmp_path: Path) -> None:
    report = thinflow.optimize(
        digits.build(0),
        tmp_path / "out",
        calibration=zoo.calibration("digits", 32, 0),
        effort="none",
        measure=False,
        onnx=True,
    )
    page = (tmp_path / "out" / "report.md").read_text()
    assert "Computed: int8 100.0% of 232.06k multiplications" in page
    assert "| `conv3/Conv2D` | CONV_2D |" in page
    assert "█" in page
    data = json.loads((tmp_path / "out" / "report.json").read_text())
    assert data["int8"]["arithmetic"]["computed"] == {"int8": 232064}
    assert data["onnx_int8"]["arithmetic"]["computed"] == {"int8": 232064}
    assert data["onnx_int8"]["noise_by_layer"]["sentence"] in page
    assert data["int8"]["noise_by_layer"]["sentence"] in page
    assert any(line.startswith("layers     no layer falls below 20 dB") for line in report.lines())
    assert any(line.startswith("int8       same top answer: 32 of 32") for line in report.lines())


def test_sentences() -> None:
    first = LayerError("a", "CONV_2D", 50.0)
    assert LayerErrors([first, LayerError("b", "FULLY_CONNECTED", 15.0, 50.0)]).sentence == (
        "float and fewer bits part ways at FULLY_CONNECTED b (50.0 to 15.0 dB)"
    )
    # A layer in float that makes noise louder is not what brings it in.
    found = LayerErrors(
        [first, LayerError("b", "CONV_2D", 40.0, 50.0), LayerError("c", "SOFTMAX", 22.0, 40.0, True)]
    )
    assert found.sentence == "no layer falls below 20 dB; most noise comes in at CONV_2D b (50.0 to 40.0 dB)"
    assert LayerErrors().sentence == ""
    assert chart(LayerErrors()) == []


def test_a_chart_of_many_layers_has_the_worst() -> None:
    found = LayerErrors([LayerError(f"l{n}", "CONV_2D", float(n)) for n in range(100)])
    rows = chart(found, 10)[2:]
    assert [row.split("`")[1] for row in rows] == [f"l{n}" for n in range(10)]


def test_nothing_is_told_of_programs_that_nobody_knows() -> None:
    assert layer_errors(Quantized(program=None), [{"x": np.zeros(1)}]).layers == []


def test_what_a_sigmoid_takes_is_judged_behind_it() -> None:
    """Its input is cut off where it makes no difference any more, which is no noise."""
    b = Builder(0)
    x = b.input(1, 16)
    wide = b.op("FULLY_CONNECTED", x, b.normal(12, 16, scale=10.0), b.normal(12))
    program = b.program(b.op("FULLY_CONNECTED", b.op("LOGISTIC", wide), b.normal(8, 12), b.normal(8)))
    feeds = samples(program, 8)
    made = smaller_program(Goal(program, {}), feeds, Recipe(float_parts=frozenset()), "none")
    found = layer_errors(made.quantized, feeds)
    assert [layer.code for layer in found.layers] == ["FULLY_CONNECTED", "FULLY_CONNECTED"]
    assert found.first_apart is None
    assert found.layers[0].sqnr_db > 30
