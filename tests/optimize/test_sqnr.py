"""Where the logits of a program are, float or in fewer bits, and the noise in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.transforms.golden import parse_graph
from thinflow import zoo
from thinflow.api import quantize_to_file
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import LiteRTMaker
from thinflow.optimize.onnx import OnnxMaker
from thinflow.optimize.quality import Quality
from thinflow.optimize.samples import rebind, samples_for
from thinflow.optimize.sqnr import before_squashing, logits_meter
from thinflow.quantize.macs import main_block
from thinflow.quantize.recipe import Recipe
from thinflow.zoo import digits

INTEGERS = Recipe(input_type="int8", output_type="int8")
UNSIGNED = Recipe(input_type="uint8", output_type="uint8")
INSIDE = Recipe(float_parts=frozenset())


def pair(maker: Any, recipe: Recipe) -> tuple[Any, Any, Quality]:
    """The float model, the smaller one and how near that comes."""
    graph = digits.build(0)
    samples = samples_for(graph, zoo.calibration("digits", 16, 0))
    plain = float_graph(graph, samples=samples, verify=False, runtime=maker.order).graph
    moved = rebind(samples, graph, plain)
    model = maker.open_or_fixed(plain, moved)
    made = maker.pair(model, graph, moved, moved, recipe)
    return model, made.quantized, made.qualities[maker.names[1]]


@pytest.mark.parametrize("recipe", [Recipe(), INTEGERS, UNSIGNED, INSIDE, Recipe(scheme="float16")])
def test_logits_of_litert_models(recipe: Recipe) -> None:
    """They stand before a softmax in float, in integers, and behind a change of type."""
    _, made, quality = pair(LiteRTMaker("none"), recipe)
    (logits,) = main_block(before_squashing(made.quantized.program)).outputs
    assert logits not in main_block(made.quantized.program).outputs
    assert quality.logits is not None
    assert quality.logits.tops == quality.samples == 16
    if recipe.scheme == "int8":
        # Of answers that are sure, a softmax hides what happens to the logits; in integers it rounds besides.
        assert 30 < quality.logits.sqnr_db < 45
        assert abs(quality.logits.sqnr_db - quality.sqnr_db) > 1


@pytest.mark.parametrize("recipe", [Recipe(), Recipe(scheme="float16")])
def test_logits_of_onnx_models(recipe: Recipe) -> None:
    model, _, quality = pair(OnnxMaker(effort="none"), recipe)
    assert quality.logits is not None
    assert quality.logits.agreement == 1
    assert before_squashing(model.program).operators[-1].code == "Gemm"


def test_outputs_that_nothing_squashes_are_the_logits() -> None:
    model, _, _ = pair(LiteRTMaker("none"), Recipe(scheme="float16"))
    shorter = before_squashing(model.program)
    assert logits_meter(shorter, shorter) is None


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_each_place_of_a_map_has_a_top_answer(tmp_path: Path, suffix: str) -> None:
    """Classes are at axis 1 in ONNX where a softmax goes along it."""
    graph = parse_graph("""
        x = Placeholder() {dtype=float, shape=shape[1,6,4,3]}
        w = Const() {value=float[1,1,3,5]{normal 7}}
        c = Conv2D(x, w) {T=float, data_format="NHWC", padding="SAME", strides=[1,1,1,1]}
        y = Softmax(c) {T=float}
        inputs: x
        outputs: y
    """)
    x = np.random.default_rng(0).normal(size=(12, 6, 4, 3)).astype(np.float32)
    made = quantize_to_file(graph, tmp_path / f"m.{suffix}", {"x": x}, effort="none")
    assert made["logits"]["of"] == 12 * 6 * 4
    assert 0.9 < made["logits"]["same_answer"] / made["logits"]["of"] <= 1
    assert "of 288 places" in made["judged"][-1]
