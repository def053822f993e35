"""What a run computes, how much of it in integers, and why eight bits may be slower."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.analysis.shapes import infer_shapes
from thinflow.analysis.stats import describe
from thinflow.bench.latency import benchmark
from thinflow.bench.machine import this_machine
from thinflow.bench.open_targets import open_subjects
from thinflow.bench.profile_model import Profile, collect
from thinflow.bench.profile_text import RowProfile, measured_reasons, reason
from thinflow.bench.report import BenchmarkReport
from thinflow.bench.rows import Row
from thinflow.bench.workload import Workload, counted, workload, workload_of
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT, UINT8
from thinflow.program.model import Quantization
from thinflow.tflite import model as tflite
from thinflow.tflite.writer import to_bytes
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
    made = thinflow.quantize(digits.build(0), batches, scheme="int8", format=path.suffix[1:], effort="none")
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
    ("work", "dots", "facts"),
    [
        (BIG, True, []),
        (BIG, None, []),
        (None, False, ["this CPU has no eight-bit dot products (VNNI, dotprod)"]),
        (
            Workload(10**9, 6 * 10**8, 30, ("a", "b")),
            True,
            ["2 of 30 products stayed float, 40 % of the operations, first 'a'"],
        ),
        (
            Workload(10**9, 10**9, 10, (), 9),
            True,
            ["it converts between float and eight bits 9 times for 10 products"],
        ),
        (Workload(10**6, 10**6, 10), True, []),
    ],
)
def test_what_is_counted_of_slow_eight_bits(
    work: Workload | None, dots: bool | None, facts: list[str]
) -> None:
    assert counted(work, has_dot_products=dots) == facts


def profiled(**micros: int) -> Profile:
    """Ten runs of operators that take so long."""
    steps = [(op.lower(), op, time, 4) for op, time in micros.items()]
    return Profile(collect([steps] * 10), "litert", 1, "")


@pytest.mark.parametrize(
    ("slow", "why"),
    [
        ({"CONV_2D": 900}, ""),
        ({"CONV_2D": 3000}, "it takes 2 ms more; CONV_2D takes 3 ms, in float 1 ms"),
        (
            {"CONV_2D": 900, "QUANTIZE": 500, "DEQUANTIZE": 400},
            "it takes 0.8 ms more; converting between float and eight bits takes 0.9 ms",
        ),
        ({"CONV_2D": 1100, "ADD": 100, "MUL": 100, "MEAN": 100}, ""),
    ],
)
def test_reasons_are_what_operators_took(slow: dict[str, int], why: str) -> None:
    assert reason(profiled(**slow), profiled(CONV_2D=1000)) == why


def row(name: str, ms: float, *, eight_bit: bool) -> Row:
    times = tuple(int(ms * 1e6) + i for i in range(20))
    known = describe([t / 1e6 for t in times])
    return Row(name, "litert", 1, known, None, times, True, eight_bit, work=Workload(9, 9, 1, (), 4))


@pytest.mark.parametrize(
    ("scheme", "is_eight_bit"), [("int8_weights", False), ("dynamic", True), ("float16", False)]
)
def test_weights_that_are_only_stored_are_no_eight_bit_products(
    tmp_path: Path, scheme: str, is_eight_bit: bool
) -> None:
    pytest.importorskip("ai_edge_litert")
    thinflow.quantize(digits.build(0), scheme=scheme, format="tflite").save(tmp_path / "m.tflite")
    (found,) = benchmark(tmp_path / "m.tflite", runs=1, warmup=0, memory=False, peaks=False).rows
    assert found.eight_bit is is_eight_bit


def test_uint8_is_eight_bits(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    quantization = Quantization(np.float32([0.1]), np.int64([128]))
    x, y = (tflite.Tensor(n, (1, 8), UINT8, None, quantization) for n in "xy")
    w = tflite.Tensor("w", (8, 8), UINT8, np.eye(8, dtype=np.uint8), quantization)
    layer = tflite.Operator("FULLY_CONNECTED", [x, w], [y])
    program = tflite.Program([tflite.Subgraph([x], [y], [layer])])
    (tmp_path / "m.tflite").write_bytes(to_bytes(program))
    (found,) = benchmark(tmp_path / "m.tflite", runs=1, warmup=0, memory=False, peaks=False).rows
    assert found.eight_bit
    (subject,) = open_subjects(tmp_path / "m.tflite")
    assert subject.prepare("litert", 1).eight_bit


def test_only_measured_reasons_are_given() -> None:
    rows = (row("m", 1.0, eight_bit=False), row("m8", 2.0, eight_bit=True))
    report = BenchmarkReport(rows, this_machine(), 20, 1.0)
    assert list(report.slower_eight_bits()) == [(rows[1], rows[0])]
    assert not any("because" in line or "eight-bit" in line for line in report.sentences())
    told = "m8 is eight-bit and slower; counted, not timed: "
    assert any(line.startswith(told) and "converts" in line for line in report.caveats())
    profiles = [RowProfile(rows[0], profiled(CONV_2D=1000)), RowProfile(rows[1], profiled(CONV_2D=2000))]
    assert measured_reasons(report, profiles) == [
        "m8 is eight-bit and slower on 1 thread: it takes 1 ms more; CONV_2D takes 2 ms, in float 1 ms"
    ]
    assert measured_reasons(report, profiles[:1]) == []
    faster = BenchmarkReport((rows[1], rows[0]), this_machine(), 20, 1.0)
    assert list(faster.slower_eight_bits()) == [(rows[1], rows[0])]
    even = BenchmarkReport((rows[0], row("n8", 1.0, eight_bit=True)), this_machine(), 20, 1.0)
    assert list(even.slower_eight_bits()) == []
