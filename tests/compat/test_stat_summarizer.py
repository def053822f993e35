"""StatSummarizer: create, options, run, print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.errors import FeedError, FormatError, GraphError, ParameterError
from thinflow.formats import step_stats

TEXT = """
    x = Placeholder() {dtype=float, shape=shape[2,3]}
    w = Const() {value=float[3,4]{range}}
    y = MatMul(x, w) {T=float}
    z = Relu(y) {T=float}
    inputs: x
    outputs: z
"""
X = np.ones((2, 3), np.float32)


def test_the_four_steps(capsys: pytest.CaptureFixture[str]) -> None:
    summarizer = thinflow.StatSummarizer(parse_graph(TEXT))
    for _ in range(3):
        (z,) = summarizer.run(["z:0"], {"x": X})
        assert z.shape == (2, 4)
    text = summarizer.output_string()
    for title in ("Run Order", "Top by Computation Time", "Top by Memory Use", "Summary by node type"):
        assert f"============================== {title} " in text
    assert "Timings (microseconds): count=3 " in text
    assert "4 nodes defined 3 nodes observed" in text
    assert "\tMatMul\t" in text.replace(" ", "") or "MatMul" in text
    summarizer.print_step_stats()
    assert capsys.readouterr().out == text + "\n"


def test_options_choose_the_tables() -> None:
    options = thinflow.StatSummarizerOptions(
        show_run_order=False, show_memory=False, show_type=False, time_limit=1, style="tf1"
    )
    summarizer = thinflow.StatSummarizer(parse_graph(TEXT), options)
    summarizer.run("z", {"x": X})
    text = summarizer.output_string()
    assert "Run Order" not in text
    assert "Summary by node type" not in text
    table = text.split("\n\n")[0].splitlines()
    assert len(table) == 3  # title, header, one row
    assert "[start]" in table[1]
    assert summarizer.short_summary() in text


def test_runs_measured_elsewhere() -> None:
    summarizer = thinflow.StatSummarizer(parse_graph(TEXT))
    summarizer.process_step_stats([("y", "MatMul", 5000, 32), ("z", "Relu", 1000, 32)])
    assert "Timings (microseconds): count=1 curr=6000\n" in summarizer.short_summary()


def recorded(device: str, *nodes: tuple[str, str, int, int]) -> Any:
    """A StepStats message of one device: node name, label, microseconds, bytes."""
    message = step_stats._message()()
    found = message.dev_stats.add(device=device)
    for name, label, micros, size in nodes:
        node = found.node_stats.add(node_name=name, timeline_label=label, all_end_rel_micros=micros)
        node.memory.add(total_bytes=size)
        node.memory.add(total_bytes=1)
    return message


def test_runs_that_tensorflow_recorded() -> None:
    message = recorded("/device:CPU:0", ("y", "y = MatMul(x, w)", 5000, 31), ("odd", "no label", 10, 0))
    for steps in (message, message.SerializeToString()):
        summarizer = thinflow.StatSummarizer(parse_graph(TEXT))
        summarizer.process_step_stats(steps)
        assert summarizer.stats.last_run() == [("y", "MatMul", 5000, 32), ("odd", "<>", 10, 1)]
        assert "4 nodes defined 2 nodes observed" in summarizer.short_summary()


@pytest.mark.parametrize(
    ("device", "name", "found"),
    [
        ("/device:GPU:0/stream:all", "k:Conv2D", [("k [Kernel]", "gpu:Conv2D")]),
        ("/device:GPU:0/stream:all", "k", [("k", "<>")]),
        ("/device:GPU:0/stream:all", "k:a:b", [("k:a:b", "<>")]),
        ("/device:GPU:0/stream:7", "k:Conv2D", []),
        ("/device:GPU:0/memcpy", "m:MEMCPYHtoD", [("m [MemCpy]", "gpu:MEMCPYHtoD")]),
        ("/device:GPU:0/memcpy", "m:MEMCPYHtoD:44", [("m [MemCpy]", "gpu:44")]),
        ("/device:GPU:0/memcpy", "m:1:2:3", [("m:1:2:3", "<>")]),
        ("/host:CPU:0", "h", []),
        ("/device:CPU:0", "a:b", [("a:b", "Op")]),
    ],
)
def test_kernels_and_copies_of_a_gpu(device: str, name: str, found: list[tuple[str, str]]) -> None:
    data = recorded(device, (name, "x = Op()", 3, 0)).SerializeToString()
    assert [(n, op) for n, op, _, _ in step_stats.from_bytes(data)] == found


def test_bytes_that_are_no_step_stats() -> None:
    summarizer = thinflow.StatSummarizer(parse_graph(TEXT))
    with pytest.raises(FormatError, match="not a valid StepStats message"):
        summarizer.process_step_stats(b"\xff\xff")


def test_a_wrong_style() -> None:
    with pytest.raises(ParameterError, match="there is no table style 'tf3'"):
        thinflow.StatSummarizerOptions(style="tf3")


def test_wrong_names_and_missing_feeds() -> None:
    summarizer = thinflow.StatSummarizer(parse_graph(TEXT))
    with pytest.raises(GraphError, match="zz"):
        summarizer.run("zz", {"x": X})
    with pytest.raises(FeedError, match="x"):
        summarizer.run("z")


@pytest.mark.parametrize("engine", ["reference", "litert", "onnxruntime", "auto"])
def test_the_four_steps_on_every_engine(engine: str) -> None:
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("onnxruntime")
    summarizer = thinflow.StatSummarizer(parse_graph(TEXT), engine=engine)
    for _ in range(2):
        (z,) = summarizer.run("z", {"x": X})
        np.testing.assert_allclose(z, X @ np.arange(12, dtype=np.float32).reshape(3, 4))
    text = summarizer.output_string()
    assert "Timings (microseconds): count=2 " in text
    assert "4 nodes defined " in text
    product = {"reference": "MatMul", "onnxruntime": "MatMul"}.get(engine, "FULLY_CONNECTED")
    assert any(product in row.op or "Gemm" in row.op for row in summarizer.stats.rows.values())


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
@pytest.mark.parametrize("engine", ["reference", "auto"])
def test_the_four_steps_with_files(tmp_path: Path, suffix: str, engine: str) -> None:
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("onnxruntime")
    thinflow.save(parse_graph(TEXT), tmp_path / f"m.{suffix}")
    summarizer = thinflow.StatSummarizer(tmp_path / f"m.{suffix}", engine=engine)
    (z,) = summarizer.run(["z"], {"x": X})
    assert z.shape == (2, 4)
    assert "Timings (microseconds): count=1 curr=" in summarizer.short_summary()


def test_a_file_in_another_engine_than_its_own(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("onnxruntime")
    thinflow.save(parse_graph(TEXT), tmp_path / "m.tflite")
    own, other = (
        thinflow.StatSummarizer(tmp_path / "m.tflite", engine=engine) for engine in ("litert", "onnxruntime")
    )
    np.testing.assert_allclose(other.run(["z"], {"x": X})[0], own.run(["z"], {"x": X})[0], rtol=1e-6)


def test_a_feed_that_does_not_fit() -> None:
    summarizer = thinflow.StatSummarizer(parse_graph(TEXT))
    with pytest.raises(FeedError, match=r"'x' has shape \[2,3\], the array fed has \[6\]"):
        summarizer.run("z", {"x": np.ones(6, np.float32)})


def test_an_op_with_many_outputs_is_called_once() -> None:
    graph = parse_graph("""
        x = Placeholder() {dtype=float, shape=shape[2,3]}
        axis = Const() {value=int32[]{1}}
        s = Split(axis, x) {T=float, num_split=3}
        y = AddN(s:0, s:1, s:2) {T=float, N=3}
        inputs: x
        outputs: y
    """)
    summarizer = thinflow.StatSummarizer(graph)
    for _ in range(2):
        summarizer.run(["y:0"], {"x": X})
    (line,) = [
        t for t in summarizer.output_string().split("Summary by node type")[1].splitlines() if "Split" in t
    ]
    # Of one run: one node, called once.
    assert line.split()[1] == "1"
    assert line.split()[-1] == "1"
