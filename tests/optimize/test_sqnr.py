"""Where the logits of a program are, float or in fewer bits, and the noise in them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.quantize import onnx_programs
from tests.transforms.golden import parse_graph
from thinflow import zoo
from thinflow.api import quantize_to_file
from thinflow.engines import litert, onnxruntime
from thinflow.onnx.writer import to_bytes as onnx_to_bytes
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import LiteRTMaker
from thinflow.optimize.onnx import OnnxMaker
from thinflow.optimize.quality import Quality
from thinflow.optimize.samples import rebind, samples_for
from thinflow.optimize.sqnr import before_squashing, beside_logits, class_axes, logits_meter, units_of
from thinflow.quantize.macs import main_block
from thinflow.quantize.recipe import Recipe
from thinflow.tflite.writer import to_bytes as tflite_to_bytes
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


def test_an_output_that_holds_logits_is_not_handed_out_twice() -> None:
    net = onnx_programs.Net(1, 4, 6, 6)
    logits = net.conv(net.x, 8)
    squashed = net.op("Softmax", logits, shape=(1, 8, 6, 6), axis=1)
    other = net.op("Sigmoid", net.conv(net.x, 3), shape=(1, 3, 6, 6))
    net.program.outputs = [squashed, logits, other, squashed]
    both, numbers = beside_logits(net.program)
    assert both.outputs[:4] == net.program.outputs
    assert [t.name for t in both.outputs[4:]] == [before_squashing(net.program).outputs[2].name]
    assert numbers == [1, 1, 4, 1]
    assert both.operators == net.program.operators


@pytest.mark.parametrize("maker", [LiteRTMaker("none"), OnnxMaker(effort="none")])
def test_one_run_of_each_model_judges_outputs_and_logits(maker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = digits.build(0)
    samples = samples_for(graph, zoo.calibration("digits", 5, 0))
    plain = float_graph(graph, samples=samples, verify=False, runtime=maker.order).graph
    moved = rebind(samples, graph, plain)
    model = maker.open_or_fixed(plain, moved)
    made = maker.quantize(model, moved, Recipe())
    kind = litert.Model if maker.order == "litert" else onnxruntime.Model
    runs: Counter[Any] = Counter()
    run = kind.run

    def counted(self: Any, inputs: Any) -> Any:
        runs[self] += 1
        return run(self, inputs)

    monkeypatch.setattr(kind, "run", counted)
    found = maker.judged(model, made, graph, moved)
    assert sorted(runs.values()) == [5, 5]
    measured = found.qualities[maker.names[1]].logits
    assert measured.tops == 5
    # What a program that ends at the logits gives is the same, run by run.
    models = [kind(to_bytes(before_squashing(one))) for one, to_bytes in _written(maker, model, made)]
    arrays = [[a for (a,) in (m.run(model.core.before(feed)) for feed in moved)] for m in models]
    assert measured.sqnr_db == pytest.approx(_decibels(*arrays), abs=1e-6)


def _written(maker: Any, model: Any, made: Any) -> list[tuple[Any, Any]]:
    to_bytes = tflite_to_bytes if maker.order == "litert" else onnx_to_bytes
    return [(model.program, to_bytes), (made.quantized.program, to_bytes)]


def _decibels(wanted: list[Any], found: list[Any]) -> float:
    exact, other = (np.concatenate(side).astype(np.float64) for side in (wanted, found))
    return float(10 * np.log10((exact**2).sum() / ((exact - other) ** 2).sum()))


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


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
@pytest.mark.parametrize("end", ["t", "r", "s"])
def test_classes_of_maps_are_channels(end: str, suffix: str) -> None:
    """Where nothing says so, too: behind a clamp, and in front of a sigmoid."""
    graph = parse_graph(f"""
        x = Placeholder() {{dtype=float, shape=shape[1,6,4,3]}}
        w = Const() {{value=float[1,1,3,5]{{normal 7}}}}
        c = Conv2D(x, w) {{T=float, data_format="NHWC", padding="SAME", strides=[1,1,1,1]}}
        r = Relu(c) {{T=float}}
        t = Tanh(c) {{T=float}}
        s = Sigmoid(c) {{T=float}}
        inputs: x
        outputs: {end}
    """)
    maker = OnnxMaker(effort="none") if suffix == "onnx" else LiteRTMaker("none")
    program = maker.lower(float_graph(graph, verify=False, runtime=maker.order).graph).program
    (axis,) = class_axes(program)
    (logits,) = main_block(before_squashing(program)).outputs
    assert logits.shape[axis] == 5


def test_unknown_channels_are_the_last_axis() -> None:
    net = onnx_programs.Net(1, 4, 6, 6)
    flat = net.op("Reshape", net.conv(net.x, 8), np.array([1, 8, 6, 6]), shape=(1, 8, 6, 6))
    turned = net.op("Transpose", net.conv(net.x, 8), shape=(1, 6, 6, 8), perm=(0, 2, 3, 1))
    net.program.outputs = [flat, turned, net.op("Relu", net.x)]
    assert class_axes(net.program) == [-1, 3, -1]


def test_small_outputs_are_heard_beside_large_ones() -> None:
    rng = np.random.default_rng(0)

    def units(*sizes: object) -> list[float | None]:
        answers = [[rng.normal(1, 0.1, (1, 4)) * s for _ in range(8)] for s in sizes]
        found = units_of(answers, [-1] * len(sizes))
        return [None if u is None else float(u.max() / u.min()) for u in found]

    assert units(1.0, [1, 2, 3, 0.5]) == [None, None]
    assert units(1.0, 300.0) == [1.0, 1.0]
    (ratio, other) = units([1, 1000, 30, 5], 1.0)
    assert ratio == pytest.approx(1000, rel=0.2)
    assert other is None
    # Pixels at the border of a picture are small, and of no kind of their own.
    assert units_of([[np.ones((1, 100)) * np.repeat([1e-3, 1], 50)]], [-1]) == [None]
