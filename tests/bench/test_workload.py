"""What a run computes, how much of it in integers, and why eight bits may be slower."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.analysis.shapes import infer_shapes
from thinflow.bench.opened import open_subjects
from thinflow.bench.workload import Workload, why_slower, workload, workload_of
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT
from thinflow.zoo import digits

PRODUCT = """
    x = Placeholder() {dtype=float, shape=shape[?,6]}
    w = Const() {value=float[6,5]{range}}
    y = MatMul(x, w) {T=float}
    unused = MatMul(x, w) {T=float}
    inputs: x
    outputs: y
"""


def eight_bit(path: Path) -> Path:
    batches = [{"image": np.full((1, 8, 8, 1), n / 8, np.float32)} for n in range(8)]
    made = thinflow.quantize(digits.build(0), batches, scheme="int8", format=path.suffix[1:])
    made.save(path)
    return path


def test_only_what_the_outputs_need_is_counted(tmp_path: Path) -> None:
    thinflow.save(parse_graph(PRODUCT), tmp_path / "m.pb")
    (subject,) = open_subjects(tmp_path / "m.pb", shapes={"x": (3, 6)}, outputs=["y"])
    found = workload(subject)
    assert found is not None
    assert (found.operations, found.products, found.float_products) == (2 * 3 * 6 * 5, 1, ("y",))
    assert found.is_whole
    assert not found.has_eight_bit


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_a_file_counts_like_the_graph_with_the_sizes_it_is_run_with(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("onnxruntime" if suffix == ".onnx" else "ai_edge_litert")
    thinflow.save(parse_graph(PRODUCT), tmp_path / f"m{suffix}")
    (subject,) = open_subjects(tmp_path / f"m{suffix}", shapes={"x": (4, 6)})
    found = workload(subject)
    assert found is not None
    assert found.operations == 2 * 4 * 6 * 5


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_products_of_an_eight_bit_file(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("onnxruntime" if suffix == ".onnx" else "ai_edge_litert")
    (subject,) = open_subjects(eight_bit(tmp_path / f"m{suffix}"))
    found = workload(subject)
    assert found is not None
    assert found.is_eight_bit
    assert found.integer_operations == found.operations > 400_000
    assert found.products == 6
    assert found.float_products == ()


def test_products_of_a_classic_eight_bit_graph() -> None:
    graph = thinflow.transform(
        parse_graph(PRODUCT), "quantize_weights(minimum_size=0) quantize_nodes", outputs=["y"]
    )
    infer_shapes(graph, {graph.value("x"): thinflow.TensorSpec(FLOAT, (2, 6))})
    found = workload_of(graph)
    assert found.integer_operations == found.operations == 2 * 2 * 6 * 5
    assert found.conversions >= 2


def test_loops_are_not_counted_silently() -> None:
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((2,))}).output()
    y = graph.add("Enter", [x], "loop", attrs={"T": FLOAT, "frame_name": "f"}).output()
    graph.inputs, graph.outputs = [x], [graph.add("Exit", [y], "y", attrs={"T": FLOAT}).output()]
    infer_shapes(graph)
    assert "loop" in workload_of(graph).uncounted
    assert not workload_of(graph).is_whole


def test_a_graph_that_cannot_be_read_has_no_workload(tmp_path: Path) -> None:
    thinflow.save(parse_graph(PRODUCT), tmp_path / "m.tflite")
    (subject,) = open_subjects(tmp_path / "m.tflite")
    (tmp_path / "m.tflite").write_bytes(b"\x1c\0\0\0TFL3" + bytes(100))
    assert workload(subject) is None


BIG = Workload(10**9, 10**9, 30)


@pytest.mark.parametrize(
    ("work", "note", "dots", "words"),
    [
        (
            BIG,
            "includes copying; 9 of 10 nodes ran in the interpreter, such as 'x'",
            True,
            "9 of 10 nodes ran",
        ),
        (BIG, "", False, "this CPU has no eight-bit dot products"),
        (None, "", True, "stayed float"),
        (
            Workload(10**9, 6 * 10**8, 30, ("a", "b")),
            "",
            True,
            "2 of 30 products stayed float, 40 % of the operations, first 'a'",
        ),
        (
            Workload(10**9, 10**9, 10, (), 9),
            "",
            True,
            "it converts between float and eight bits 9 times for 10 products",
        ),
        (Workload(10**6, 10**6, 10), "", True, "with 1 million operations a run, what lies around"),
        (BIG, "", None, "their kernels are slower here; --profile shows which"),
    ],
)
def test_why_eight_bits_are_slower(work: Workload | None, note: str, dots: bool | None, words: str) -> None:
    assert words in why_slower(work, note, has_dot_products=dots)
