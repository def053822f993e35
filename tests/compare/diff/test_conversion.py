"""What became of a model that was converted: nodes, weights, outputs, and the tensors in between."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.compare.diff.conversion import ConversionDiff
from thinflow.compare.diff.crossing import cross
from thinflow.compare.diff.report import Diff
from thinflow.ir.types import FLOAT, INT8
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

pytest.importorskip("ai_edge_litert")

TEXT = """
image = Placeholder() {dtype=float, shape=shape[1,6,6,2]}
w = Const() {dtype=float, value=float[3,3,2,4]{%s}}
b = Const() {dtype=float, value=float[4]{0.5,-0.25,1,2}}
conv = Conv2D(image, w) {T=float, strides=[1,1,1,1], padding="SAME"}
biased = BiasAdd(conv, b) {T=float}
active = Relu(biased) {T=float}
v = Const() {dtype=float, value=float[144,3]{%s}}
s = Const() {dtype=int32, value=int32[2]{1,144}}
flat = Reshape(active, s) {T=float, Tshape=int32}
scores = MatMul(flat, v) {T=float}
answer = Softmax(scores) {T=float}
inputs: image
outputs: answer
"""
RNG = np.random.default_rng(5)


def listed(numbers: np.ndarray) -> str:
    return ",".join(f"{n:.4f}" for n in numbers.ravel())


W, V = RNG.uniform(-1, 1, (3, 3, 2, 4)), RNG.uniform(-0.2, 0.2, (144, 3))


def saved(path: Path, w: np.ndarray = W, v: np.ndarray = V) -> Path:
    thinflow.save(parse_graph(TEXT % (listed(w), listed(v))), path)
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return saved(tmp_path / "a.pb")


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_a_faithful_conversion(source: Path, tmp_path: Path, suffix: str) -> None:
    if suffix == "onnx":
        pytest.importorskip("onnxruntime")
    found = thinflow.diff(source, saved(tmp_path / f"b.{suffix}"))
    assert isinstance(found, ConversionDiff)
    assert found.is_equal
    assert found.is_same_network
    assert found.verdict.startswith("6 TensorFlow nodes became ")
    assert "outputs agree to" in found.verdict
    assert not found.crossing.only_a
    assert not found.crossing.only_b
    assert {layer.name for layer in found.layers} >= {"active", "answer"}
    assert all(layer.difference.relative < 1e-5 for layer in found.layers)


def test_what_was_fused_is_told(source: Path, tmp_path: Path) -> None:
    found = thinflow.diff(source, saved(tmp_path / "b.tflite"))
    kinds = dict(found.crossing.kinds)
    assert kinds["Conv2D + BiasAdd + Relu", "CONV_2D"] == 1
    assert kinds["Softmax", "SOFTMAX"] == 1
    text = str(found)
    assert "  1 x Conv2D + BiasAdd + Relu -> CONV_2D" in text
    assert "b.tflite: LiteRT, float32; constants: " in text
    everything = "\n".join(found.lines(everything=True))
    assert "active (Conv2D + BiasAdd + Relu) -> active (CONV_2D)" in everything


def test_weights_in_another_layout_are_the_same(source: Path, tmp_path: Path) -> None:
    found = thinflow.diff(source, saved(tmp_path / "b.tflite"))
    (w,) = (pair for pair in found.weights if pair.a == "w")
    assert (w.before, w.after) == ("float[3,3,2,4]", "float[4,3,3,2]")
    assert w.layout == "transposed 1,2,3,0"
    assert w.largest == 0
    (b,) = (pair for pair in found.weights if pair.a == "b")
    assert (b.layout, b.largest) == ("", 0)


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_the_first_tensor_that_differs_is_named(source: Path, tmp_path: Path, suffix: str) -> None:
    """The second layer's weights differ: all before is alike, in whatever layout."""
    if suffix == "onnx":
        pytest.importorskip("onnxruntime")
    found = thinflow.diff(source, saved(tmp_path / f"b.{suffix}", v=V * 1.1))
    assert not found.is_equal
    assert "outputs DIFFER by" in found.verdict
    data = found.data()
    assert data["first_divergence"]["a"] == "scores"
    before = [x["relative"] for x in data["layers"] if x["a"] in {"conv", "biased", "active"}]
    assert before
    assert max(before) < 1e-5
    assert "the first beyond 0.0001: scores" in str(found)


def test_two_conversions_of_one_model(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    found = thinflow.diff(saved(tmp_path / "a.tflite"), saved(tmp_path / "b.onnx"))
    assert isinstance(found, ConversionDiff)
    assert found.verdict.startswith("4 LiteRT operators became ")
    assert found.is_equal


def test_float_and_eight_bit(source: Path, tmp_path: Path) -> None:
    samples = [{"image": RNG.uniform(-1, 1, (1, 6, 6, 2)).astype(np.float32)} for _ in range(8)]
    quantized = thinflow.quantize(thinflow.load(source), calibration=samples, effort="none")
    thinflow.save(quantized, tmp_path / "int8.tflite")
    found = thinflow.diff(saved(tmp_path / "a.tflite"), tmp_path / "int8.tflite", samples[0], tolerance=0.05)
    assert isinstance(found, ConversionDiff)
    assert found.is_equal
    layer = next(x for x in found.layers if x.name == "active")
    assert layer.codes is not None
    assert 0 < layer.codes < 8
    (w,) = (pair for pair in found.weights if pair.before == "float[4,3,3,2]")
    assert w.after == "int8[4,3,3,2]"
    assert w.grids == 4
    assert w.codes is not None
    assert w.codes <= 0.51
    assert "codes" in str(found) or found.is_equal
    strict = thinflow.diff(tmp_path / "a.tflite", tmp_path / "int8.tflite", samples[0])
    assert "(float32 and int8)" in strict.verdict
    assert any("codes" in line for line in strict.lines())


def ended(path: Path, kind: str) -> Path:
    """y = relu(x), in real numbers or with codes outside."""
    q = Quantization(np.float32([0.05]), np.int64([10]))
    if kind == "float":
        x, y = Tensor("x", (1, 40), FLOAT), Tensor("y", (1, 40), FLOAT)
    else:
        x, y = (Tensor(n, (1, 40), INT8, quantization=q) for n in "xy")
    path.write_bytes(to_bytes(Program([Subgraph([x], [y], [Operator("RELU", [x], [y])])])))
    return path


@pytest.mark.parametrize("turned", [False, True])
def test_codes_at_the_ends_stand_for_real_numbers(tmp_path: Path, turned: bool) -> None:
    files = [ended(tmp_path / "float.tflite", "float"), ended(tmp_path / "codes.tflite", "int8")]
    found = thinflow.verify(*(files[::-1] if turned else files), tolerance=0.03)
    assert found.ok, str(found)
    assert found.outputs[0].step == pytest.approx(0.05)
    assert found.outputs[0].largest <= 0.026 * 2
    assert found.outputs[0].largest > 0 or turned
    assert "codes of 0.05)" in str(found)


def test_the_interpreter_gives_a_second_opinion(source: Path, tmp_path: Path) -> None:
    found = thinflow.verify(source, saved(tmp_path / "b.tflite", v=V * 1.1))
    assert not found.ok
    assert any("what differs is the model, not the engine" in n and "b.tflite" in n for n in found.notes)


def test_one_vocabulary_and_one_precision_is_compared_node_by_node(tmp_path: Path) -> None:
    a, b = saved(tmp_path / "a.tflite"), saved(tmp_path / "b.tflite", v=V * 1.1)
    found = thinflow.diff(a, b)
    assert isinstance(found, Diff)
    assert "1 weight differs" in found.verdict
    assert "outputs DIFFER" in found.verdict
    assert thinflow.diff(a, a).is_equal


def test_models_without_common_names(source: Path, tmp_path: Path) -> None:
    text = (
        (TEXT % (listed(W), listed(V))).replace("active", "q1").replace("conv", "q2").replace("scores", "q3")
    )
    text = text.replace("answer", "q4").replace("image", "q5").replace("flat", "q6").replace("biased", "q7")
    thinflow.save(parse_graph(text), tmp_path / "b.tflite")
    found = thinflow.diff(source, tmp_path / "b.tflite")
    assert found.is_equal
    assert "inputs are paired by position, as no names are shared: image with q5" in str(found)
    assert [g.value.name for g in found.crossing.groups] == ["answer"]


def test_scopes_in_front_do_not_hide_names(source: Path, tmp_path: Path) -> None:
    text = TEXT % (listed(W), listed(V))
    for name in ("conv", "biased", "active", "scores"):
        text = text.replace(name, f"model/layer_{name}/{name}")
    thinflow.save(parse_graph(text), tmp_path / "scoped.pb")
    bare = text.replace("model/layer", "layer")
    thinflow.save(parse_graph(bare), tmp_path / "b.tflite")
    found = cross(thinflow.load(tmp_path / "scoped.pb"), thinflow.load(tmp_path / "b.tflite", lift=False))
    assert "model/layer_active/active" in [g.value.name for g in found.groups]
    assert not found.only_a


def test_what_cannot_be_run_is_still_compared(source: Path, tmp_path: Path) -> None:
    x, y = Tensor("image", (1, 6, 6, 2), FLOAT), Tensor("answer", (1, 3), FLOAT)
    steps = [Operator("CUSTOM", [x], [y], custom_code="Mine")]
    (tmp_path / "b.tflite").write_bytes(to_bytes(Program([Subgraph([x], [y], steps)])))
    found = thinflow.diff(source, tmp_path / "b.tflite")
    assert not found.is_equal
    assert "the outputs were not compared: " in found.lines()[-1]
    assert dict(found.crossing.kinds) == {("Conv2D + BiasAdd + Relu + Reshape + MatMul + Softmax", "Mine"): 1}


def test_the_command(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = saved(tmp_path / "b.tflite"), saved(tmp_path / "c.tflite", v=V * 1.1)
    np.save(tmp_path / "x.npy", RNG.uniform(-1, 1, (1, 6, 6, 2)).astype(np.float32))
    assert main(["diff", str(source), str(good), "--feed", f"image={tmp_path / 'x.npy'}"]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("6 TensorFlow nodes became 4 LiteRT operators; weights ")
    assert last == f"next: thinflow verify {source} {good}"
    assert main(["diff", str(source), str(bad), "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["vocabularies"] == ["TensorFlow", "LiteRT"]
    assert data["first_divergence"]["b_op"] == "tfl.FULLY_CONNECTED"
    assert data["outputs"][0]["relative"] > 1e-4
    assert main(["diff", str(source), str(bad), "--no-numerics"]) == 1
    assert "outputs not compared" in capsys.readouterr().out


def test_eight_bit_onnx_weights_and_tensors_have_codes(source: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    samples = tmp_path / "samples.npz"
    np.savez(samples, image=RNG.uniform(-1, 1, (8, 6, 6, 2)).astype(np.float32))
    # All eight bits: where sums are kept within 16, a few codes are smaller than the nearest.
    options = ["--calibration", str(samples), "--no-reduce-range"]
    assert main(["quantize", str(source), str(tmp_path / "b.onnx"), *options]) == 0
    found = thinflow.diff(source, tmp_path / "b.onnx", tolerance=0.2)
    assert isinstance(found, ConversionDiff)
    layer = next(x for x in found.layers if x.name == "active")
    assert layer.codes is not None
    (w,) = (pair for pair in found.weights if pair.a == "w")
    assert w.after == "int8[4,2,3,3]"
    assert w.codes is not None
    assert w.codes <= 0.51


def test_a_model_is_fed_where_its_conversion_begins(tmp_path: Path) -> None:
    text = """
file = Placeholder() {dtype=string, shape=shape[]}
picture = DecodePng(file) {dtype=uint8, channels=3}
real = Cast(picture) {SrcT=uint8, DstT=float}
y = Neg(real) {T=float}
inputs: file
outputs: y
"""
    graph = parse_graph(text)
    thinflow.save(graph, tmp_path / "a.pb")
    x, y = Tensor("real", (4, 4, 3), FLOAT), Tensor("y", (4, 4, 3), FLOAT)
    steps = [Operator("NEG", [x], [y])]
    (tmp_path / "b.tflite").write_bytes(to_bytes(Program([Subgraph([x], [y], steps)])))
    found = thinflow.verify(
        tmp_path / "a.pb", tmp_path / "b.tflite", {"real": np.ones((4, 4, 3), np.float32)}
    )
    assert found.ok
    assert "the first is fed inside, at real" in found.notes
