"""Sessions on paths: graphs are loaded, .tflite and .onnx files run as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.engines._files import engine_of
from thinflow.engines.session import Session
from thinflow.errors import EngineUnavailable, FeedError, FormatError, GraphError
from thinflow.formats import named, sample_of

TEXT = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
b = Placeholder() {dtype=float, shape=shape[1,2]}
w = Const() {dtype=float, value=float[4,2]{1,2,3,4,5,6,7,8}}
y = MatMul(x, w) {T=float}
z = AddV2(y, b) {T=float}
r = Relu(z) {T=float}
inputs: x, b
outputs: r, z
"""
X = np.ones((1, 4), np.float32)
B = np.array([[0, -30]], np.float32)


@pytest.fixture
def tflite(tmp_path: Path) -> Path:
    path = tmp_path / "m.tflite"
    thinflow.save(parse_graph(TEXT), path)
    return path


def test_a_graph_is_loaded_with_its_interface(tmp_path: Path) -> None:
    path = tmp_path / "m.pb"
    thinflow.save(parse_graph(TEXT), path)
    session = Session(path)
    assert set(session.inputs) == {"x", "b"}
    assert "r" in session.outputs
    assert session.graph is not None
    assert session.run(["r"], {"x": X, "b": B})[0].tolist() == [[16, 0]]


@pytest.mark.parametrize("engine", ["auto", "litert"])
def test_a_tflite_file_runs_by_name_in_any_order(tflite: Path, engine: str) -> None:
    session = Session(str(tflite), engine)
    assert (session.engine, session.graph) == ("litert", None)
    assert {n: str(s) for n, s in session.inputs.items()} == {"x": "float[1,4]", "b": "float[1,2]"}
    assert list(session.outputs) == ["r", "z"]
    z, r = session.run(["z:0", "r"], {"b:0": B, "x": X})
    assert (z.tolist(), r.tolist()) == ([[16, -10]], [[16, 0]])
    assert [a.tolist() for a in session.run(None, {"x": X, "b": B})] == [[[16, 0]], [[16, -10]]]
    assert session.placement == {"r": "litert", "z": "litert"}
    assert session.reasons == {}


def test_results_of_a_file_belong_to_the_caller(tflite: Path) -> None:
    session = Session(tflite)
    (first,) = session.run("z", {"x": X, "b": B})
    session.run("z", {"x": 2 * X, "b": B})
    assert first.tolist() == [[16, -10]]
    first[:] = 0


def test_open_sizes_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    thinflow.save(parse_graph(TEXT.replace("[1,", "[?,")), path)
    session = Session(path)
    for batch in (3, 1):
        (z,) = session.run("z", {"x": np.ones((batch, 4)), "b": np.zeros((batch, 2))})
        assert z.shape == (batch, 2)


@pytest.mark.parametrize(
    ("fetch", "feed", "words"),
    [
        ("q", {"x": X, "b": B}, "m.tflite: cannot fetch 'q': the file has no such output\nhint: it has r, z"),
        ("y", {"x": X, "b": B}, "cannot fetch 'y'"),
        ("r", {"xx": X, "b": B}, "cannot feed 'xx': the file has no such input\nhint: did you mean 'x'"),
    ],
)
def test_unknown_names_of_a_file(tflite: Path, fetch: str, feed: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(GraphError, match=words):
        Session(tflite).run(fetch, feed)


@pytest.mark.parametrize(
    ("feed", "words"),
    [
        ({"x": X}, "nothing was fed for the input 'b'\nhint: it takes float"),
        ({"x": X, "b": X}, r"'b' has shape \[1,2\], the array fed has \[1,4\]"),
        ({"x": X, "x:0": X, "b": B}, "'x' is fed twice"),
        ({"x": X.astype(np.complex64), "b": B}, "'x' takes float"),
    ],
)
def test_feeds_that_do_not_fit_a_file(tflite: Path, feed: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(FeedError, match=words):
        Session(tflite).run("r", feed)


def test_another_engine_than_the_files(tflite: Path) -> None:
    pytest.importorskip("onnxruntime")
    session = Session(tflite, "onnxruntime")
    assert [a.tolist() for a in session.run(["r", "z"], {"x": X, "b": B})] == [[[16, 0]], [[16, -10]]]
    assert session.placement["r"] == "onnxruntime"


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    text = "x = Placeholder() {dtype=float, shape=shape[2]}\nodd_name = Relu(x) {T=float}\n"
    thinflow.save(parse_graph(f"{text}inputs: x\noutputs: odd_name\n"), path)
    path.write_bytes(path.read_bytes().replace(b"odd_name", b"odd\x90name"))
    with pytest.raises(EngineUnavailable, match=r"LiteRT refuses the model: .*can't decode byte 0x90"):
        Session(path, "litert")


def test_the_interpreter_checks_a_float_tflite_file(tflite: Path) -> None:
    session = Session(tflite, "reference")
    assert [a.tolist() for a in session.run(["r", "z"], {"x": X, "b": B})] == [[[16, 0]], [[16, -10]]]
    assert session.placement["r"] == "reference"


def test_an_onnx_file(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from thinflow.lower.onnx.convert import lower_graph
    from thinflow.onnx.writer import to_bytes

    graph = parse_graph(TEXT)
    path = tmp_path / "m.onnx"
    path.write_bytes(to_bytes(lower_graph(graph, graph.inputs, graph.outputs).program))
    session = Session(path)
    assert session.engine == "onnxruntime"
    assert str(session.inputs["x"]) == "float[1,4]"
    assert session.run(["r"], {"b": B, "x": X})[0].tolist() == [[16, 0]]


def test_paths_that_lead_to_no_model(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there is no such file"):
        Session(tmp_path / "absent.tflite")
    damaged = tmp_path / "m.tflite"
    damaged.write_bytes(b"\x1c\0\0\0TFL3" + bytes(100))
    with pytest.raises(EngineUnavailable, match=r"m\.tflite: LiteRT refuses the model"):
        Session(damaged)


def test_files_are_told_as_formats_tell_them(tmp_path: Path) -> None:
    path = tmp_path / "model"
    for tag in range(256):
        path.write_bytes(b"\x08\x08" + bytes([tag]) + b"\x07pytorch")
        is_onnx = named("onnx").recognise(sample_of(path))
        assert engine_of(path) == ("onnxruntime" if is_onnx else ""), hex(tag)


@pytest.mark.parametrize(
    ("head", "engine"),
    [
        (b"\x1c\0\0\0TFL3", "litert"),
        (b"\x08\x08\x12\x07pytorch", "onnxruntime"),
        (b"\x08\x01\x12\x10saved model", ""),
        (b"\x0a\x10\x0a\x01x", ""),
        (b"\x08", ""),
        (b"", ""),
    ],
)
def test_files_are_told_by_content(tmp_path: Path, head: bytes, engine: str) -> None:
    path = tmp_path / "model"
    path.write_bytes(head)
    assert engine_of(path) == engine
