"""One small network in every format: into all that are written, and through every verb."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.formats import programs, test_tfjs
from tests.keras.written import layer, sequential, source, write_h5, write_keras
from tests.night import AT_NIGHT
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.formats import savedmodel

pytest.importorskip("onnxruntime")
pytest.importorskip("h5py")
pytest.importorskip("ai_edge_litert")

KERNEL, BIAS = np.arange(6, dtype=np.float32).reshape(3, 2), np.float32([10, 20])
X = np.float32([[1, -2, 3]])
TEXT = """
x = Placeholder() {dtype=float, shape=shape[?,3]}
w = Const() {value=float[3,2]{0,1,2,3,4,5}}
b = Const() {value=float[2]{10,20}}
m = MatMul(x, w) {T=float}
y = BiasAdd(m, b) {T=float}
inputs: x
outputs: y
"""


def _saved(path: Path) -> Path:
    thinflow.save(parse_graph(TEXT), path)
    return path


def _folder(path: Path) -> Path:
    savedmodel.save(parse_graph(TEXT), path)
    return path


def _keras(path: Path) -> Path:
    unit = layer("Dense", "dense", units=2, use_bias=True, activation="linear")
    config = sequential(source(3), unit)
    if path.suffix == ".h5":
        return write_h5(path, config, {"dense": [KERNEL, BIAS]})
    return write_keras(path, config, {"layers/dense": [KERNEL, BIAS]})


def _tfjs(path: Path) -> Path:
    float_ = test_tfjs.FLOAT
    nodes = [
        test_tfjs.placeholder("x", -1, 3),
        test_tfjs.constant("w", KERNEL),
        test_tfjs.constant("b", BIAS),
        test_tfjs.node("m", "MatMul", "x", "w", T=float_),
        test_tfjs.node("y", "BiasAdd", "m", "b", T=float_),
    ]
    path.mkdir()
    return test_tfjs.write(path, nodes, {"w": KERNEL, "b": BIAS})


# Name of a file or folder -> what writes it, and words of the line about it; "" where nothing is to be told.
SOURCES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "m.pb": (_saved, ""),
    "m.pbtxt": (_saved, ""),
    "saved": (_folder, ""),
    "m.onnx": (_saved, "m.onnx is ONNX opset 17 from thinflow"),
    "m.tflite": (_saved, "m.tflite is LiteRT, 1 operator lifted to"),
    "m.h5": (_keras, "m.h5 is a Keras model"),
    "m.keras": (_keras, "m.keras is a Keras model"),
    "m.pt2": (programs.linear, "m.pt2 is PyTorch"),
    "js": (_tfjs, "model.json is a TensorFlow.js"),
}
TARGETS = ["out.pb", "out.pbtxt", "out.tflite", "out.onnx"]


@pytest.fixture
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return SOURCES[request.param][0](tmp_path / request.param)


def answer(path: str | Path, engine: str = "auto") -> np.ndarray:
    session = thinflow.Session(path, engine)
    (y,) = session.run(list(session.outputs), {next(iter(session.inputs)): X})
    return y


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("path", SOURCES, indirect=True)
def test_every_pair(path: Path, target: str) -> None:
    assert thinflow.convert(path, target) == Path(target).stat().st_size
    np.testing.assert_allclose(answer(target), X @ KERNEL + BIAS, rtol=1e-5)


@pytest.mark.parametrize(
    ("path", "name"), [(n, n) for n in (SOURCES if AT_NIGHT else [*SOURCES][::3])], indirect=["path"]
)
def test_every_verb_says_where_a_model_came_from(
    path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("calibration.npz", **{next(iter(thinflow.Session(path).inputs)): np.tile(X, (20, 1))})
    words = SOURCES[name][1]
    quick = ["--seconds", "0.01", "--samples", "2"]
    for command in (
        ["convert", path, "a.tflite"],
        ["quantize", path, "q.tflite", "--calibration", "calibration.npz"],
        ["transform", path, "t.pb", "-t", "fold_constants"],
        ["optimize", path, "made", *quick],
        ["inspect", path],
        ["view", path, "-o", "v.html"],
        ["run", path],
        ["verify", path, path],
        ["benchmark", path, "--runs", "2", "--no-memory", "--no-peak"],
    ):
        assert main([str(word) for word in command]) == 0, command
        told = capsys.readouterr().out
        says_it = {"convert", "quantize", "transform", "optimize"}
        # A copy is of the file, whatever its ops are.
        if command[0] in says_it and "a copy of the file, byte for byte" not in told:
            assert words in told, (command, told)
        if command[0] == "verify" and name not in {"m.onnx", "m.tflite"}:  # which run as they are
            assert words in told, (command, told)
        if command[0] == "convert" and name in {"m.h5", "m.keras", "m.pt2", "js"}:
            assert "not compared" in told, (command, told)
    for written in ("a.tflite", "t.pb"):
        np.testing.assert_allclose(answer(written), X @ KERNEL + BIAS, rtol=1e-5)
    np.testing.assert_allclose(answer("q.tflite"), X @ KERNEL + BIAS, atol=1)
