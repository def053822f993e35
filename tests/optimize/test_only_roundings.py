"""Quantized files whose answers part: by roundings that add up, or by something else?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.compare.verify import verify as verify_models
from thinflow.optimize.only_roundings import only_roundings

pytest.importorskip("ai_edge_litert")
pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

GRIDS = {"x": (0.02, 128), "h": (0.01, 0), "y": (0.2, 90)}
TOLERANCE = 1e-3


def saved(path: Path, *, factor: float = 2.0, flip: bool = False, is_float: bool = False) -> Path:
    """tanh(factor · conv(relu(conv(x)))) as QDQ, but for the end, which is float; or all of it in float."""
    rng = np.random.default_rng(3)
    node = helper.make_node
    nodes: list = []
    constants: dict[str, np.ndarray] = {"factor": np.float32(factor)}

    def rounded(name: str) -> str:
        if is_float:
            return name
        scale, zero = GRIDS[name]
        constants.update({f"{name}_s": np.float32(scale), f"{name}_z": np.uint8(zero)})
        pair = [f"{name}_s", f"{name}_z"]
        nodes.append(node("QuantizeLinear", [name, *pair], [f"{name}_q"]))
        nodes.append(node("DequantizeLinear", [f"{name}_q", *pair], [f"{name}_d"]))
        return f"{name}_d"

    def conv(x: str, y: str, count: int, filters: int) -> None:
        codes = rng.integers(-127, 128, (filters, count, 3, 3)).astype(np.int8)
        scale = np.float32(0.002 if y == "h" else 0.001)
        if flip and y == "y":
            codes[1] = -codes[1]
        if is_float:
            constants[f"{y}_wd"] = codes * scale
        else:
            constants.update({f"{y}_w": codes, f"{y}_ws": scale, f"{y}_wz": np.int8(0)})
            nodes.append(node("DequantizeLinear", [f"{y}_w", f"{y}_ws", f"{y}_wz"], [f"{y}_wd"]))
        nodes.append(node("Conv", [x, f"{y}_wd"], [y], pads=[1] * 4, kernel_shape=[3, 3]))

    conv(rounded("x"), "h", 3, 6)
    conv(rounded("h"), "y", 6, 5)
    nodes.append(node("Mul", [rounded("y"), "factor"], ["m"]))
    nodes.append(node("Tanh", ["m"], ["t"]))
    info = helper.make_tensor_value_info
    stored = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "net", [info("x", 1, [1, 3, 9, 9])], [info("t", 1, None)], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A .tflite of the network."""
    thinflow.convert(saved(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    return tmp_path / "m.tflite"


def told(path: Path, made: Path) -> str:
    return only_roundings(str(path), str(made), TOLERANCE, None)


def test_the_same_layers_differ_by_roundings_alone(made: Path) -> None:
    own = made.with_suffix(".onnx")
    assert told(own, made).startswith("only roundings add up: in m.onnx, each of ")
    # Whichever is named first, with inputs of the user's as well.
    assert told(made, own)
    feed = {"x": np.random.default_rng(0).uniform(-2, 2, (1, 3, 9, 9)).astype(np.float32)}
    assert only_roundings(str(own), str(made), TOLERANCE, [feed])


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda p: saved(p, flip=True), id="a filter turned"),
        pytest.param(lambda p: saved(p, factor=2.5), id="another end, which is float"),
        pytest.param(lambda p: saved(p, is_float=True), id="no eight bits"),
    ],
)
def test_other_networks_differ_by_more(other: Callable[[Path], Path], made: Path, tmp_path: Path) -> None:
    path = other(tmp_path / "other.onnx")
    assert told(path, made) == ""
    assert told(made, path) == ""
    assert not thinflow.verify(path, made).ok


def test_what_says_so_is_asked_where_answers_part(made: Path, tmp_path: Path) -> None:
    a, b = str(saved(tmp_path / "other.onnx", factor=2.5)), str(made)
    found = verify_models(a, b, only_roundings=lambda: "only roundings add up: in m.onnx, so it is")
    assert found.ok
    assert not found.is_within
    assert found.first_divergence == ""
    assert str(found).startswith("the graphs agree but for roundings: largest relative difference ")
    assert "only roundings add up: in m.onnx, so it is" in str(found)
    # Whoever names a tolerance is told what is beyond.
    assert not thinflow.verify(a, b, tolerance=TOLERANCE).ok
