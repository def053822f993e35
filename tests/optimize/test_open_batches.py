"""A batch that the graph leaves open stays open in files that answer so; else it is fixed and told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.api.converting import convert_verified
from thinflow.cli import main
from thinflow.engines._threads import blas
from thinflow.engines.litert import Model
from thinflow.errors import EngineCrashed
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph
from thinflow.optimize import numeric_check

litert = pytest.importorskip("ai_edge_litert.interpreter")
Array = np.ndarray[Any, Any]

FLAT = """
x = Placeholder() {dtype=float, shape=shape[?,2,3]}
all = Const() {dtype=int32, value=int32[2]{-1,6}}
flat = Reshape(x, all) {T=float, Tshape=int32}
w = Const() {dtype=float, value=float[6,2]{1,2,3,4,5,6,7,8,9,1,2,3}}
y = MatMul(flat, w) {T=float}
inputs: x
outputs: y
"""
STATES = """
x = Placeholder() {dtype=float, shape=shape[?,3]}
sizes = Shape(x) {T=float, out_type=int32}
zero = Const() {dtype=int32, value=int32[1]{0}}
one = Const() {dtype=int32, value=int32[1]{1}}
batch = StridedSlice(sizes, zero, one, one) {T=int32, Index=int32, shrink_axis_mask=1}
units = Const() {dtype=int32, value=int32[]{2}}
both = Pack(batch, units) {T=int32, N=2, axis=0}
number = Const() {dtype=float, value=float[]{2.5}}
state = Fill(both, number) {T=float, index_type=int32}
axis = Const() {dtype=int32, value=int32[]{1}}
y = ConcatV2(state, x, axis) {T=float, Tidx=int32, N=2}
inputs: x
outputs: y
"""
ONE_ONLY = """
x = Placeholder() {dtype=float, shape=shape[?,2,3]}
one = Const() {dtype=int32, value=int32[2]{1,6}}
flat = Reshape(x, one) {T=float, Tshape=int32}
w = Const() {dtype=float, value=float[6,2]{1,2,3,4,5,6,7,8,9,1,2,3}}
y = MatMul(flat, w) {T=float}
inputs: x
outputs: y
"""
"""A graph that says it takes any batch, and does not: as many were frozen."""


def sample(graph: Graph, batch: int) -> Array:
    shape = graph.inputs[0].node.get("shape")
    assert isinstance(shape, tuple)
    return np.random.default_rng(batch).normal(size=(batch, *shape[1:])).astype(np.float32)


def answers(graph: Graph, x: Array) -> Array:
    (y,) = Plan(graph, graph.outputs, graph.inputs).run({graph.inputs[0]: x})
    return y


def resized(path: Path | bytes, x: Array) -> Array:
    """What LiteRT itself answers after a resize that the file's signature allows."""
    source = {"model_content": path} if isinstance(path, bytes) else {"model_path": str(path)}
    interpreter = litert.Interpreter(**source)
    (taken,) = interpreter.get_input_details()
    interpreter.resize_tensor_input(taken["index"], x.shape, strict=True)
    interpreter.allocate_tensors()
    interpreter.set_tensor(taken["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


@pytest.mark.parametrize("text", [FLAT, STATES], ids=["reshape", "states"])
def test_an_open_batch_stays_open(text: str, tmp_path: Path) -> None:
    graph = parse_graph(text)
    made = convert_verified(graph, tmp_path / "m.tflite")
    assert not [n for n in made.notes if "batch" in n]
    for batch in (1, 3):
        x = sample(graph, batch)
        np.testing.assert_allclose(resized(tmp_path / "m.tflite", x), answers(graph, x), rtol=1e-5)


def test_one_child_runs_one_sample_and_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[int]] = []
    run_file = numeric_check.run_file

    def counted(*given: Any, **options: Any) -> Any:
        asked.append([len(x) for (x,) in given[2]])
        return run_file(*given, **options)

    monkeypatch.setattr(numeric_check, "run_file", counted)
    convert_verified(parse_graph(FLAT), tmp_path / "m.tflite")
    assert asked == [[1, 2]]


def test_a_runtime_that_fails_for_two_samples_is_asked_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_file = numeric_check.run_file

    def fails(content: Any, engine: str, feeds: Any, **options: Any) -> Any:
        if any(len(x) > 1 for (x,) in feeds):
            raise EngineCrashed("it crashed")
        return run_file(content, engine, feeds, **options)

    monkeypatch.setattr(numeric_check, "run_file", fails)
    made = convert_verified(parse_graph(FLAT), tmp_path / "m.tflite")
    (note,) = [n for n in made.notes if n.startswith("batch")]
    assert note.startswith("batch  fixed at 1: not right with two samples at once: it crashed")


def test_proofs_keep_to_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not blas().is_controllable:
        pytest.skip("numpy's matrix library heeds no number of threads")
    seen: list[int] = []
    run = Plan.run

    def counted(plan: Plan, *given: Any) -> Any:
        seen.append(blas()._libraries[0].get_num_threads())
        return run(plan, *given)

    monkeypatch.setattr(Plan, "run", counted)
    with blas().limited(2):
        convert_verified(parse_graph(FLAT), tmp_path / "m.tflite")
        assert blas()._libraries[0].get_num_threads() == 2
    assert set(seen) == {1}


@pytest.mark.parametrize("scheme", ["int8", "dynamic", "float16"])
def test_in_fewer_bits_too(scheme: str) -> None:
    graph = parse_graph(FLAT)
    samples = [{"x": x[None]} for batch in (1, 3) for x in sample(graph, batch)]
    made = thinflow.quantize(graph, samples, scheme=scheme)
    assert not [w for w in made.warnings if w.startswith("batch")]
    for batch in (1, 3):
        x = sample(graph, batch)
        expected = answers(graph, x)
        assert np.abs(resized(made.content, x) - expected).max() < 0.05 * np.abs(expected).max()


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_a_batch_that_the_graph_refuses_is_fixed_and_told(suffix: str, tmp_path: Path) -> None:
    if suffix == "onnx":
        pytest.importorskip("onnxruntime")
    made = convert_verified(parse_graph(ONE_ONLY), tmp_path / f"m.{suffix}")
    (note,) = [n for n in made.notes if n.startswith("batch")]
    assert note.startswith("batch  fixed at 1: the graph itself does not run with two samples at once: "), (
        note
    )
    assert "input  x  float[1,2,3]" in made.notes
    assert made.proof.startswith(("LiteRT agrees", "ONNX Runtime agrees"))


def test_the_first_size_of_a_state_is_no_batch_that_was_fixed(tmp_path: Path) -> None:
    """As of Silero's, [layers,batch,units]: its two layers were told as a batch of 1 and 2."""
    graph = parse_graph(ONE_ONLY.replace("inputs: x\noutputs: y\n", HELD))
    made = convert_verified(graph, tmp_path / "m.tflite")
    (note,) = [n for n in made.notes if n.startswith("batch")]
    assert note.startswith("batch  fixed at 1: ")


HELD = """\
state = Placeholder() {dtype=float, shape=shape[2,1,4]}
next = Relu(state) {T=float}
inputs: x, state
outputs: y, next
"""


def test_a_fixed_file_promises_no_other_size(tmp_path: Path) -> None:
    graph = parse_graph(ONE_ONLY)
    convert_verified(graph, tmp_path / "m.tflite")
    (taken,) = litert.Interpreter(str(tmp_path / "m.tflite")).get_input_details()
    assert taken["shape_signature"].tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="unknown dimensions"):
        resized(tmp_path / "m.tflite", sample(graph, 3))


def test_optimize_and_quantize_tell_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thinflow.save(parse_graph(ONE_ONLY), tmp_path / "m.pb")
    report = thinflow.optimize(tmp_path / "m.pb", tmp_path / "out", measure=False)
    assert [w for w in report.warnings if w.startswith("batch  fixed at 1: the graph itself")]
    assert report.model_inputs == [("x", "float[1,2,3]")]
    assert "batch  fixed at 1" in report.markdown()
    capsys.readouterr()
    assert main(["quantize", str(tmp_path / "m.pb"), str(tmp_path / "q.tflite")]) == 0
    assert "batch  fixed at 1: the graph itself" in capsys.readouterr().out


def test_optimize_keeps_it_open(tmp_path: Path) -> None:
    graph = parse_graph(FLAT)
    report = thinflow.optimize(graph, tmp_path / "out", measure=False)
    assert report.model_inputs == [("x", "float[?,2,3]")]
    for role in ("fp32", "int8"):
        assert Model(str(report.files[role])).input_ports[0].spec.shape == (None, 2, 3)
    assert not [w for w in report.warnings if w.startswith("batch")]


def test_a_shape_that_is_given_counts(tmp_path: Path) -> None:
    made = convert_verified(parse_graph(FLAT), tmp_path / "m.tflite", shapes={"x": (4, 2, 3)})
    assert "input  x  float[4,2,3]" in made.notes
    assert not [n for n in made.notes if n.startswith("batch")]


def test_samples_settle_other_sizes_and_leave_the_batch(tmp_path: Path) -> None:
    graph = parse_graph(FLAT.replace("shape[?,2,3]", "shape[?,?,3]"))
    samples = [{"x": np.ones((1, 2, 3), np.float32)}] * 3
    report = thinflow.optimize(graph, tmp_path / "out", calibration=samples, measure=False)
    assert report.model_inputs == [("x", "float[?,2,3]")]
    assert [w for w in report.warnings if "made for float[?,2,3], sizes of the first sample" in w]
