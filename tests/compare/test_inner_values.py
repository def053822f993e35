"""Models beside each other of which at least one is a file: the first tensor that differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.analysis.shapes import infer_shapes
from thinflow.compare import inner_values
from thinflow.compare.inner_values import first_divergence, inner_differences
from thinflow.compare.verify import verify
from thinflow.engines import _narrow_sums
from thinflow.engines import onnxruntime as engine
from thinflow.ir.types import FLOAT, INT8
from thinflow.tflite.model import Operator, Program, Quantization, Signature, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

TEXT = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
w = Const() {dtype=float, value=float[4,4]{1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}}
v = Const() {dtype=float, value=float[4,2]{%s}}
a = MatMul(x, w) {T=float}
b = Tanh(a) {T=float}
c = MatMul(b, v) {T=float}
y = Softmax(c) {T=float}
inputs: x
outputs: y
"""
GOOD, OTHER = TEXT % "1,2,3,4,5,6,7,8", TEXT % "1,2,3,4,5,6,7,9"


def saved(text: str, path: Path) -> Path:
    thinflow.save(parse_graph(text), path)
    return path


@pytest.mark.parametrize("first", ["a.pb", "a.tflite", "a.onnx"])
@pytest.mark.parametrize("second", ["b.tflite", "b.onnx"])
def test_the_first_tensor_that_differs(tmp_path: Path, first: str, second: str) -> None:
    if "onnx" in first + second:
        pytest.importorskip("onnxruntime")
    a, b = saved(GOOD, tmp_path / first), saved(OTHER, tmp_path / second)
    found = thinflow.verify(a, b)
    assert not found.ok
    assert found.first_divergence == "c"
    assert "first value that differs: c" in str(found)
    assert thinflow.verify(a, saved(GOOD, tmp_path / second)).ok


def test_inner_values_of_onnx_files_are_of_the_kernels_that_run_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On CPUs on which the fastest eight-bit products overflow, others run."""
    runtime = pytest.importorskip("onnxruntime")
    seen = []
    real = runtime.InferenceSession

    def session(content: object, options: Any, **more: object) -> object:
        try:
            seen.append(options.get_session_config_entry("session.x64quantprecision"))
        except RuntimeError:  # not set
            seen.append("")
        return real(content, options, **more)

    monkeypatch.setattr(runtime, "InferenceSession", session)
    monkeypatch.setattr(engine, "products_may_overflow", lambda: True)
    monkeypatch.setattr(_narrow_sums, "sums_may_overflow", lambda content: True)
    assert not thinflow.verify(saved(GOOD, tmp_path / "a.onnx"), saved(OTHER, tmp_path / "b.onnx")).ok
    assert len(seen) > 2  # both files to verify them, and with more outputs to find where they part
    assert set(seen) == {"1"}


def test_graphs_read_from_files_are_their_files(tmp_path: Path) -> None:
    a, b = saved(GOOD, tmp_path / "a.tflite"), saved(OTHER, tmp_path / "b.tflite")
    for lift in (True, False):
        graphs = [thinflow.load(path, lift=lift) for path in (a, b)]
        assert thinflow.verify(*graphs).first_divergence == "c"


def test_eight_bit_tensors_count_as_real_numbers(tmp_path: Path) -> None:
    def model(scale: float) -> bytes:
        q = Quantization(np.float32([scale]), np.int64([3]))
        x, y = Tensor("x", (1, 4), FLOAT), Tensor("y", (1, 4), FLOAT)
        inner = Tensor("inner", (1, 4), INT8, quantization=q)
        steps = [Operator("QUANTIZE", [x], [inner]), Operator("DEQUANTIZE", [inner], [y])]
        return to_bytes(Program([Subgraph([x], [y], steps)]))

    (tmp_path / "a.tflite").write_bytes(model(0.1))
    (tmp_path / "b.tflite").write_bytes(model(0.02))
    feed = {"x": np.float32([[1, 2, 3, 4]])}
    layers = inner_differences(tmp_path / "a.tflite", tmp_path / "b.tflite", feed, feed, tolerance=0.1)
    found = first_divergence(layers, 0.1)
    assert found is not None
    assert found.step == pytest.approx(0.1)
    assert "codes of 0.1)" in found.detail
    assert found.name == "inner"
    assert found.before == pytest.approx(4, abs=0.1)
    assert found.after == pytest.approx(0.02 * 124, abs=0.1)


def test_a_tensor_too_large_to_hold_hides_none_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = parse_graph(GOOD)
    infer_shapes(graph)
    feed = {"x": np.ones((1, 4), np.float32)}
    assert [x.name for x in inner_differences(graph, graph, feed, feed, tolerance=0.0)] == [
        "a",
        "b",
        "c",
        "y",
    ]
    # Two tensors of 16 bytes, and then two of 8.
    monkeypatch.setattr(inner_values, "_MAX_BYTES", 15)
    assert [x.name for x in inner_differences(graph, graph, feed, feed, tolerance=0.0)] == ["c"]


def test_outputs_are_paired_by_their_names_in_the_signature(tmp_path: Path) -> None:
    def model(names: list[str], order: list[int]) -> bytes:
        x = Tensor(names[0], (1, 4), FLOAT)
        outputs = [Tensor(names[1], (1, 4), FLOAT), Tensor(names[2], (1, 4), FLOAT)]
        steps = [Operator("TANH", [x], [outputs[0]]), Operator("LOGISTIC", [x], [outputs[1]])]
        signature = Signature({"x": x}, {"t": outputs[0], "s": outputs[1]})
        graph = Subgraph([x], [outputs[i] for i in order], steps)
        return to_bytes(Program([graph], signatures={"serving_default": signature}))

    (tmp_path / "a.tflite").write_bytes(model(["in", "p", "q"], [0, 1]))
    (tmp_path / "b.tflite").write_bytes(model(["other", "u", "v"], [1, 0]))
    found = thinflow.verify(tmp_path / "a.tflite", tmp_path / "b.tflite")
    assert found.ok
    assert found.notes == [] or "by position" not in " ".join(found.notes)


def test_benchmark_and_run_take_graphs_of_files(tmp_path: Path) -> None:
    graph = thinflow.load(saved(GOOD, tmp_path / "a.tflite"))
    x = np.ones((1, 4), np.float32)
    assert thinflow.run(graph, {"x": x})["y"].shape == (1, 2)
    report = thinflow.benchmark(graph, engines=["litert"], threads=[1], runs=2)
    assert report


def flattened(path: Path, rows: int | None = None, error: float = 0.0) -> Path:
    """A convolution, its pixels in a row, and a layer of them; its weights turned, or a bias wrong."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    w, dense = rng.normal(size=(6, 3, 3, 3)), rng.normal(size=(6 * 4 * 4, 5))
    bias = rng.normal(size=6)
    bias[0] += error
    constants = {"w": w, "dense": dense if rows is None else np.roll(dense, rows, 0), "bias": bias}
    nodes = [
        helper.make_node("Conv", ["x", "w", "bias"], ["conv"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("MaxPool", ["relu"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["pool"], ["flat"]),
        helper.make_node("Sigmoid", ["flat"], ["bent"]),
        helper.make_node("MatMul", ["bent", "dense"], ["y"]),
    ]
    sides = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape)]
        for n, shape in (("x", [1, 3, 8, 8]), ("y", [1, 5]))
    ]
    initializers = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "g", *sides, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def test_elements_that_were_moved_with_the_weights_behind_them_are_no_difference(tmp_path: Path) -> None:
    source, made = flattened(tmp_path / "a.onnx"), tmp_path / "a.tflite"
    thinflow.convert(source, made)
    found = verify(source, made, layers=True)
    assert found.ok
    assert all(x.difference.relative < 1e-5 for x in found.layers)
    moved = [x for x in found.layers if x.reordered]
    assert [x.name for x in moved] == ["flat", "bent"]
    assert str(moved[0]).endswith("its elements in another order")
    assert moved[0].data()["reordered"] is True


def test_elements_in_another_order_that_nothing_follows_are_a_difference(tmp_path: Path) -> None:
    made = tmp_path / "a.tflite"
    thinflow.convert(flattened(tmp_path / "a.onnx"), made)
    # The rows do not go with the elements any more, so nothing tells that their order was meant.
    assert thinflow.verify(flattened(tmp_path / "b.onnx", rows=7), made).first_divergence == "flat"
    assert thinflow.verify(flattened(tmp_path / "c.onnx", error=1.0), made).first_divergence == "relu"


def test_elements_of_eight_bits_in_another_order_are_no_noise(tmp_path: Path) -> None:
    source, made = flattened(tmp_path / "a.onnx"), tmp_path / "a.tflite"
    rng = np.random.default_rng(1)
    feeds = [{"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)} for _ in range(8)]
    thinflow.quantize(source, feeds).save(made)
    found = verify(source, made, feeds[:1], layers=True)
    assert max(x.noise for x in found.layers) < 0.5
    assert "flat" in [x.name for x in found.layers if x.reordered]
