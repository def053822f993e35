"""Operator times: how events become operators, and real profiles on every engine."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.analysis.node_stats import NodeStats
from thinflow.bench import litert_events, litert_recorder, profile_mapping
from thinflow.bench.litert_recorder import DELEGATED_OPERATOR, OPERATOR, Event, decode
from thinflow.bench.profile import profile
from thinflow.bench.profile_litert import ALONE, RECORDED
from thinflow.bench.profile_mapping import assign
from thinflow.bench.profile_model import Profile
from thinflow.bench.profile_onnx import METHOD, source_name, split_runs
from thinflow.bench.profile_parts import add_part
from thinflow.bench.profile_text import node_rows
from thinflow.engines import _narrow_sums
from thinflow.engines import onnxruntime as onnx_engine
from thinflow.errors import EngineUnavailable, FeedError, ParameterError
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT, STRING
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor


def chain(*codes: str) -> Program:
    """Operators that read one another."""
    tensors = [Tensor(f"t{i}", (1, 4), FLOAT) for i in range(len(codes) + 1)]
    operators = [Operator(code, [tensors[i]], [tensors[i + 1]]) for i, code in enumerate(codes)]
    return Program([Subgraph(tensors[:1], tensors[-1:], operators)])


def kernels(*tags: str, start: int = 0) -> list[Event]:
    return [
        Event(tag, DELEGATED_OPERATOR, start + 10 * n, 10, node, 0)
        for n, (node, tag) in enumerate(enumerate(tags))
    ]


def shown(program: Program, events: list[Event]) -> list[tuple[str, int, str]]:
    return [(o.code, micros, kernel) for o, micros, kernel in assign(program, events)]


def test_kernels_are_dealt_out_in_order() -> None:
    program = chain("PAD", "CONV_2D", "ADD", "MUL", "RESHAPE", "SOFTMAX")
    events = kernels(
        "Convolution (NHWC, F32) IGEMM", "Add (ND)", "Clamp (NC)", "Multiply (ND)", "Softmax (NC, F32)"
    )
    assert shown(program, events) == [
        ("PAD", 0, ""),
        ("CONV_2D", 10, "Convolution (NHWC, F32) IGEMM"),
        ("ADD", 20, "Add (ND) + Clamp (NC)"),
        ("MUL", 10, "Multiply (ND)"),
        ("RESHAPE", 0, ""),
        ("SOFTMAX", 10, "Softmax (NC, F32)"),
    ]


def test_kernels_that_the_delegate_chose_for_special_cases() -> None:
    """A swish in eight bits is one table, looked up; a product of a value with itself is a square."""
    program = chain("CONV_2D", "LOGISTIC", "MUL", "MUL", "RSQRT", "MUL", "SQRT", "MEAN")
    events = kernels(
        "Convolution (NHWC, QC8) IGEMM",
        "Invalid Unary Op",
        "Multiply (ND)",
        "Reciprocal Square Root (NC)",
        "Square (NC)",
        "Square Root (NC)",
        "Mean (ND) Reduce",
    )
    assert shown(program, events) == [
        ("CONV_2D", 10, "Convolution (NHWC, QC8) IGEMM"),
        ("LOGISTIC", 10, "Invalid Unary Op"),
        ("MUL", 0, ""),
        ("MUL", 10, "Multiply (ND)"),
        ("RSQRT", 10, "Reciprocal Square Root (NC)"),
        ("MUL", 10, "Square (NC)"),
        ("SQRT", 10, "Square Root (NC)"),
        ("MEAN", 10, "Mean (ND) Reduce"),
    ]


def test_runs_with_the_same_kernels_are_aligned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    program, known, asked = chain("CONV_2D", "SOFTMAX"), {}, []
    own = profile_mapping._aligned
    monkeypatch.setattr(profile_mapping, "_aligned", lambda *key: asked.append(key) or own(*key))
    events = kernels("Convolution (NHWC, F32) IGEMM", "Softmax (NC, F32)")
    first = assign(program, events, known)
    assert assign(program, events, known) == first
    assert len(asked) == len(known) == 1
    assign(program, kernels("Fully Connected (NC, F32)", "Softmax (NC, F32)"), known)
    assert len(asked) == 2


def test_every_kernel_counts_even_one_of_an_unknown_name() -> None:
    program = chain("CONV_2D", "TANH")
    events = kernels(
        "Convolution", "Something (new)", "Tanh", "Another", "And another", "And one more", "More"
    )
    assert sum(micros for _, micros, _ in shown(program, events)) == 70


def test_what_litert_runs_itself_is_known_by_number() -> None:
    """The pool lies aside: what does not need its result goes into the first part of the delegate too."""
    x, a, b, c, d = (Tensor(n, (1, 4), FLOAT) for n in "xabcd")
    operators = [
        Operator("CONV_2D", [x], [a]),
        Operator("MAX_POOL_2D", [a], [b]),
        Operator("MUL", [a], [c]),
        Operator("ADD", [b, c], [d]),
    ]
    program = Program([Subgraph([x], [d], operators)])
    events = [
        *kernels("Fully Connected (NC, F32) GEMM", "Multiply (ND)"),
        Event("MAX_POOL_2D", OPERATOR, 100, 50, 1, 0),
        *kernels("Add (ND)", start=200),
    ]
    assert [(c, m) for c, m, _ in shown(program, events)] == [
        ("CONV_2D", 10),
        ("MUL", 10),
        ("MAX_POOL_2D", 50),
        ("ADD", 10),
    ]


def test_a_loop_does_not_count_what_runs_inside_twice() -> None:
    main, body = chain("WHILE", "TANH").subgraphs[0], chain("NEG").subgraphs[0]
    events = [
        Event("WHILE", OPERATOR, 0, 100, 0, 0),
        Event("NEG", OPERATOR, 10, 20, 0, 1),
        Event("NEG", OPERATOR, 40, 20, 0, 1),
        Event("TANH", OPERATOR, 100, 5, 1, 0),
    ]
    assert [(c, m) for c, m, _ in shown(Program([main, body]), events)] == [
        ("WHILE", 60),
        ("NEG", 20),
        ("NEG", 20),
        ("TANH", 5),
    ]


@pytest.mark.parametrize("memory_words", [4, 6, 8])
def test_events_are_read_whatever_their_size(memory_words: int) -> None:
    tags = [ctypes.create_string_buffer(b"Add (ND)"), ctypes.create_string_buffer(b"Mul")]
    written = b"".join(
        struct.pack(
            f"=Qi4xQQ{memory_words}qQQi",
            ctypes.addressof(tag),
            DELEGATED_OPERATOR,
            7,
            11 + n,
            *range(memory_words),
            n,
            0,
            2,
        )
        + (b"\xa5" * 4 if n == 1 else bytes(4))
        for n, tag in enumerate(tags)
    )
    assert decode(written + b"\xa5" * 300, 2) == [
        Event("Add (ND)", DELEGATED_OPERATOR, 7, 11, 0, 0),
        Event("Mul", DELEGATED_OPERATOR, 7, 12, 1, 0),
    ]
    assert decode(b"\xa5" * 10, 0) == []


@pytest.fixture
def graph() -> thinflow.Graph:
    rng = np.random.default_rng(0)
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 8, 8, 3))}).output()
    w = graph.constant(rng.normal(size=(3, 3, 3, 16)).astype(np.float32), "w")
    conv = graph.add(
        "Conv2D", [x, w], "layer/conv", attrs={"strides": [1, 1, 1, 1], "padding": "SAME"}
    ).output()
    relu = graph.add("Relu", [conv], "layer/relu").output()
    y = graph.add("Mean", [relu, graph.constant(np.int32([1, 2]), "axes")], "pool").output()
    graph.inputs, graph.outputs = [x], [y]
    return graph


def names(found: Profile) -> list[str]:
    return [r.name for r in sorted(found.stats.rows.values(), key=lambda r: r.order)]


def check(found: Profile, runs: int) -> None:
    assert found.stats.micros.count == len(found.whole_micros) == runs
    assert 0 <= found.stats.micros.mean <= 1.2 * max(found.whole_micros)


def test_litert_by_the_names_of_the_graph(graph: thinflow.Graph) -> None:
    found = profile(graph, runs=3)
    assert found.method == RECORDED
    assert names(found) == ["layer/relu", "pool"]
    assert "Convolution" in found.kernels["layer/relu"]
    assert found.stats.rows["layer/relu"].memory == 4 * 8 * 8 * 16
    check(found, 3)


def test_litert_of_a_file_and_on_two_threads(graph: thinflow.Graph, tmp_path: Path) -> None:
    thinflow.save(graph, tmp_path / "m.tflite")
    found = profile(
        str(tmp_path / "m.tflite"), runs=2, threads=2, feeds={"x": np.ones((1, 8, 8, 3), np.float32)}
    )
    assert (names(found), found.threads) == (["layer/relu", "pool"], 2)


def test_litert_without_a_profiler(graph: thinflow.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise EngineUnavailable("this ai-edge-litert comes without libLiteRt")

    monkeypatch.setattr(litert_events, "record", refuse)
    found = profile(graph, runs=3)
    assert found.method == ALONE
    assert names(found) == ["layer/relu", "pool"]
    assert found.stats.rows["layer/relu"].micros.count == 3


def test_a_library_that_is_missing_is_no_crash(
    graph: thinflow.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litert_recorder, "LIBRARIES", ("libNothing.so",))
    with pytest.raises(litert_recorder.RecorderError, match="comes without libLiteRt"):
        litert_recorder._Library()


def test_a_damaged_file_is_reported_by_the_child(tmp_path: Path) -> None:
    (tmp_path / "bad.tflite").write_bytes(b"\0\0\0\0TFL3" + bytes(50))
    np.savez(tmp_path / "feeds.npz", **{"0": np.zeros(1, np.float32)})
    with pytest.raises(EngineUnavailable, match=r"LiteRt\w+ failed with status|ended with code"):
        litert_events.record(
            str(tmp_path / "bad.tflite"), str(tmp_path / "feeds.npz"), threads=1, runs=1, warmup=0
        )


def test_reference(graph: thinflow.Graph) -> None:
    found = profile(graph, engine="reference", runs=4)
    assert [n for n in names(found) if n not in ("w", "axes")] == ["layer/conv", "layer/relu", "pool"]
    assert found.stats.rows["layer/conv"].op == "Conv2D"
    check(found, 4)


def test_onnxruntime(graph: thinflow.Graph) -> None:
    pytest.importorskip("onnxruntime")
    found = profile(graph, engine="onnxruntime", runs=3)
    assert found.stats.micros.count == 3
    assert any(n.startswith("layer/") for n in names(found))


BITS = """
x = Placeholder() {dtype=int32, shape=shape[64]}
one = Const() {dtype=int32, value=int32[]{1}}
y = BitwiseXor(x, one) {T=int32}
"""


def test_onnxruntime_profiles_the_program_that_it_runs() -> None:
    """Bitwise ops came to ONNX later than the op set that files are written in by default."""
    pytest.importorskip("onnxruntime")
    graph = parse_graph(f"{BITS}inputs: x\noutputs: y\n")
    found = profile(graph, engine="onnxruntime", runs=2)
    assert (names(found), found.method) == (["y"], METHOD)


@pytest.mark.usefixtures("every_region_pays")
def test_parts_are_profiled_as_they_run() -> None:
    pytest.importorskip("onnxruntime")
    tail = "f = Cast(y) {SrcT=int32, DstT=float}\nz = BesselI0e(f) {T=float}\n"
    graph = parse_graph(f"{BITS}{tail}inputs: x\noutputs: z\n")
    found = profile(graph, engine="onnxruntime", runs=2)
    assert found.method.startswith("in 2 parts, onnxruntime (2 nodes), reference (1 node)")
    assert {"y", "z"} <= set(names(found))


def test_onnxruntime_is_fed_complex_numbers_as_pairs() -> None:
    pytest.importorskip("onnxruntime")
    graph = parse_graph(
        "x = Placeholder() {dtype=complex64, shape=shape[8]}\n"
        "y = Mul(x, x) {T=complex64}\ninputs: x\noutputs: y\n"
    )
    assert "y" in names(profile(graph, engine="onnxruntime", runs=2))


def test_profiles_are_of_the_kernels_that_run_otherwise(
    graph: thinflow.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On CPUs on which the fastest eight-bit products overflow, others run."""
    runtime = pytest.importorskip("onnxruntime")
    seen = []
    real = runtime.InferenceSession

    def session(content: object, options: Any, **more: object) -> object:
        seen.append(options.get_session_config_entry("session.x64quantprecision"))
        return real(content, options, **more)

    monkeypatch.setattr(runtime, "InferenceSession", session)
    monkeypatch.setattr(onnx_engine, "products_may_overflow", lambda: True)
    monkeypatch.setattr(_narrow_sums, "sums_may_overflow", lambda content: True)
    profile(graph, engine="onnxruntime", runs=1)
    assert seen == ["1"]


def test_an_onnx_file(graph: thinflow.Graph, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    thinflow.save(graph, tmp_path / "m.onnx")
    found = profile(tmp_path / "m.onnx", engine="onnxruntime", runs=2)
    assert len(found.whole_micros) == 2


def test_kernels_of_onnxruntime_by_the_names_of_the_graph() -> None:
    known = {"a": "a", "a/conv": "a/conv", "a/conv/Relu": "a/conv/Relu", "a/conv_1": "a/conv"}
    assert source_name("a/conv/Relu:0_nchwc", known) == "a/conv/Relu"
    assert source_name("a/conv", known) == "a/conv"
    assert source_name("ReorderInput", known) == "ReorderInput"
    assert source_name("about", known) == "about"
    assert source_name("fused a/conv", known) == "a/conv"
    assert source_name("a/conv_1_token_3", known) == "a/conv"


def test_runs_of_onnxruntime_are_told_apart() -> None:
    def event(cat: str, name: str, ts: int, dur: int) -> dict[str, object]:
        return {"cat": cat, "name": name, "ts": ts, "dur": dur}

    events = [
        event("Node", "early_kernel_time", 1, 1),
        event("Node", "a_kernel_time", 11, 5),
        event("Session", "model_run", 10, 9),
        event("Node", "a_kernel_time", 31, 6),
        event("Node", "a_fence_before", 31, 6),
        event("Session", "model_run", 30, 9),
    ]
    assert [([n["dur"] for n in nodes], whole) for nodes, whole in split_runs(events)] == [([5], 9), ([6], 9)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"runs": 0}, "runs is 0"),
        ({"warmup": -1}, "warmup is -1"),
        ({"threads": 0}, "threads is 0"),
        ({"engine": "fast"}, "no profile of 'fast'"),
    ],
)
def test_senseless_wishes(graph: thinflow.Graph, arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        profile(graph, **arguments)  # type: ignore[arg-type]


def test_a_file_on_an_engine_that_does_not_run_it(graph: thinflow.Graph, tmp_path: Path) -> None:
    thinflow.save(graph, tmp_path / "m.tflite")
    with pytest.raises(EngineUnavailable):
        profile(tmp_path / "m.tflite", engine="onnxruntime")
    found = profile(tmp_path / "m.tflite", engine="reference", runs=2)
    assert "layer/relu" in found.stats.rows


def test_a_graph_that_is_not_all_litert() -> None:
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((4,))}).output()
    graph.inputs, graph.outputs = [x], [graph.add("BesselI0", [x], "odd").output()]
    found = profile(graph, runs=2)
    assert found.method.startswith("in 1 part, reference (1 node)")
    assert found.stats.rows["odd"].op == "BesselI0"


def test_strings_cannot_be_handed_over() -> None:
    pytest.importorskip("onnxruntime")
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": STRING, "shape": ShapeAttr((2,))}).output()
    graph.inputs, graph.outputs = [x], [graph.add("Identity", [x], "same").output()]
    with pytest.raises((FeedError, EngineUnavailable)):
        profile(graph, feeds={"x": np.array([b"a", b"b"], object)})


def test_a_join_is_many_copies() -> None:
    program = chain("CONV_2D", "CONCATENATION", "CONV_2D")
    events = kernels("Convolution", *["Copy (NC, X32)"] * 4, "Fully Connected (NC, F32) GEMM")
    assert [(c, m) for c, m, _ in shown(program, events)] == [
        ("CONV_2D", 10),
        ("CONCATENATION", 40),
        ("CONV_2D", 10),
    ]


def test_a_node_of_several_operators_has_one_row() -> None:
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 9, 9, 4))}).output()
    ones, zeros = (graph.constant(np.full(4, n, np.float32), f"c{n}") for n in (1, 0))
    attrs = {"is_training": True, "epsilon": 1e-3}
    y = graph.add("FusedBatchNormV3", [x, ones, zeros, ones, zeros], "norm", attrs=attrs).output()
    graph.inputs, graph.outputs = [x], [y]
    found = profile(graph, runs=2)
    assert names(found) == ["norm"]
    assert found.stats.rows["norm"].calls > 2
    assert " + " in found.kernels["norm"]


PARTS = """
x = Placeholder() {dtype=float, shape=shape[1,16,16,8]}
w = Const() {dtype=float, value=float[3,3,8,8]{normal 1}}
c1 = Conv2D(x, w) {T=float, strides=[1,1,1,1], padding="SAME"}
r1 = Relu(c1) {T=float}
middle = BesselI0e(r1) {T=float}
c2 = Conv2D(middle, w) {T=float, strides=[1,1,1,1], padding="SAME"}
a/long/name/that/would/not/fit/into/forty/one/columns/Relu = Relu(c2) {T=float}
inputs: x
outputs: a/long/name/that/would/not/fit/into/forty/one/columns/Relu
"""
LAST = "a/long/name/that/would/not/fit/into/forty/one/columns/Relu"


@pytest.mark.usefixtures("every_region_pays")
@pytest.mark.parametrize("engine", ["litert", "onnxruntime"])
def test_a_graph_that_runs_in_parts_has_one_table(engine: str) -> None:
    if engine == "onnxruntime":
        pytest.importorskip("onnxruntime")
    found = profile(parse_graph(PARTS), engine=engine, runs=3)
    assert found.method.startswith(f"in 3 parts, {engine} (2 nodes), reference (1 node), {engine} (2 nodes)")
    assert {"r1", "middle", LAST} <= set(names(found))
    order = names(found)
    assert order.index("r1") < order.index("middle") < order.index(LAST)
    assert found.kernels["middle"] == "reference"
    assert found.stats.rows["middle"].op == "BesselI0e"
    assert found.stats.micros.count == len(found.whole_micros) == 3
    rows = found.stats.rows.values()
    assert found.stats.micros.total == sum(r.micros.total for r in rows)
    assert [r[0] for r in node_rows(found)].count(LAST) == 1


@pytest.mark.usefixtures("every_region_pays")
def test_names_are_cut_for_a_terminal_only() -> None:
    found = profile(parse_graph(PARTS), runs=1)
    assert LAST in {row[0] for row in node_rows(found)}
    for width in (60, 80, 100):
        rows = node_rows(found, width=width)
        columns = [max(map(len, column)) for column in zip(*rows, strict=True)]
        assert sum(columns) + 2 * (len(columns) - 1) <= width, width
    assert LAST in {row[0] for row in node_rows(found, width=140)}


def test_parts_of_the_same_names_stay_apart() -> None:
    total, part = NodeStats(), NodeStats()
    for _ in range(2):
        part.add_run([("copy", "Copy", 3, 10), ("y", "Relu", 4, 20)])
    assert add_part(total, part, 0) == {"copy": "copy", "y": "y"}
    assert add_part(total, part, 2) == {"copy": "copy (part 2)", "y": "y (part 2)"}
    assert [(r.name, r.order, r.start) for r in total.rows.values()] == [
        ("copy", 0, 0),
        ("y", 1, 3),
        ("copy (part 2)", 2, 7),
        ("y (part 2)", 3, 10),
    ]
    assert (total.micros.count, total.micros.total, total.micros.last) == (2, 28, 14)
