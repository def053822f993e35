"""A .tflite file that LiteRT refuses and the interpreter runs: "auto" takes the interpreter and says why."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.cli import main
from thinflow.errors import EngineUnavailable
from thinflow.ir.types import FLOAT, INT8, INT32
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

pytest.importorskip("ai_edge_litert")
RNG = np.random.default_rng(2)
WEIGHTS = RNG.integers(-9, 9, (3, 1, 1, 2)).astype(np.int8)


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A convolution whose bias states dimension 3 for its scales, as early converters wrote it."""
    one = Quantization((0.5,), (0,))
    x = Tensor("x", (1, 2, 2, 2), INT8, quantization=one)
    y = Tensor("y", (1, 2, 2, 3), INT8, quantization=one)
    scales = (0.1, 0.2, 0.3)
    w = Tensor("w", WEIGHTS.shape, INT8, WEIGHTS, quantization=Quantization(scales, (0, 0, 0), axis=0))
    grid = Quantization(tuple(s / 2 for s in scales), (0, 0, 0), axis=3)
    monkeypatch.setattr(Program, "validate", lambda self: None)  # which would not let it be written
    bias = Tensor("b", (3,), INT32, np.int32([5, -7, 0]), quantization=grid)
    options = {"stride_w": 1, "stride_h": 1, "padding": "VALID"}
    program = Program([Subgraph([x], [y], [Operator("CONV_2D", [x, w, bias], [y], options)])])
    path = tmp_path / "m.tflite"
    path.write_bytes(to_bytes(program))
    return str(path)


def test_the_interpreter_runs_it(refused: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(EngineUnavailable, match="quantized_dimension must be in range") as caught:
        thinflow.Session(refused, "litert")
    assert caught.value.hint == f"`thinflow convert {refused} mended.tflite` writes a copy that LiteRT takes"
    with caplog.at_level(logging.WARNING):
        session = thinflow.Session(refused)
    assert (session.engine, session.is_lifted) == ("reference", True)
    assert session.refusal.startswith("LiteRT refuses the model: quantized_dimension")
    assert "the interpreter runs it" in caplog.text
    x = RNG.integers(-99, 99, (1, 2, 2, 2)).astype(np.int8)
    (y,) = session.run(None, {"x": x})
    real = (x / 2) @ (WEIGHTS.reshape(3, 2).T * [0.1, 0.2, 0.3]) + np.array([5, -7, 0]) * [0.05, 0.1, 0.15]
    np.testing.assert_allclose(y / 2, real.clip(-64, 63.5), atol=0.26)
    assert set(session.reasons.values()) == {session.refusal}
    assert set(session.placement.values()) == {"reference"}


def test_commands_say_who_runs_it(refused: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", refused]) == 0
    assert "run by reference" in capsys.readouterr().out
    assert main(["verify", refused, refused]) == 0
    assert main(["benchmark", refused, "--runs", "2", "--warmup", "1"]) == 0
    told = capsys.readouterr().out
    assert "reference" in told
    assert "LiteRT refuses the model" in told
    assert main(["benchmark", refused, "--runs", "2", "--engine", "litert"]) == 1


def test_the_benchmark_of_it_beside_threads(refused: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A process with threads, such as a notebook's, cannot fork."""
    done = threading.Event()
    beside = threading.Thread(target=done.wait)
    beside.start()
    try:
        assert main(["benchmark", refused, "--runs", "2", "--warmup", "1"]) == 0
    finally:
        done.set()
        beside.join()
    told = capsys.readouterr().out
    assert "reference" in told
    assert "LiteRT refuses the model" in told


def test_what_nobody_runs_is_refused_as_before(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(b"\x1c\0\0\0TFL3" + bytes(100))
    with pytest.raises(EngineUnavailable, match=r"m\.tflite: LiteRT refuses the model"):
        thinflow.Session(path)


def test_an_op_of_nobody_is_no_damage(tmp_path: Path) -> None:
    x, r, y = (Tensor(n, (1, 4), FLOAT) for n in ("x", "r", "y"))
    steps = [Operator("RELU", [x], [r]), Operator("CUSTOM", [r], [y], custom_code="Acme")]
    path = tmp_path / "m.tflite"
    path.write_bytes(to_bytes(Program([Subgraph([x], [y], steps)])))
    with pytest.raises(EngineUnavailable, match="unresolved custom op: Acme") as caught:
        thinflow.Session(path)
    assert "node 'y' (tfl.custom.Acme)" in caught.value.hint
    assert caught.value.hint.endswith("a part that ends in front of it can be made: outputs=[...]")


def test_messages_of_onnx_runtime_are_without_its_sources(tmp_path: Path) -> None:
    helper = pytest.importorskip("onnx").helper
    ends = [[helper.make_tensor_value_info(n, 1, [2])] for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", *ends)
    path = tmp_path / "m.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=40)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(EngineUnavailable, match="refuses the model: Unsupported model IR version: 40"):
        thinflow.Session(path, "onnxruntime")


def test_an_op_set_that_nobody_knows_yet(tmp_path: Path) -> None:
    """No part of such a file is known any better."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    ends = [[onnx.helper.make_tensor_value_info(n, 1, [2])] for n in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", *ends)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 99)], ir_version=8)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(EngineUnavailable, match="ONNX Runtime refuses") as caught:
        thinflow.Session(path)
    assert "outputs=" not in caught.value.hint
    assert "export it for version" in caught.value.hint
