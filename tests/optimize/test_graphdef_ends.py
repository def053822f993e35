"""GraphDefs made of other formats' files: nothing is there but what leads to the outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.cli import main

onnx = pytest.importorskip("onnx")
X = np.float32([[1, -2, 3]])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two outputs, of which one goes on to the other, and a size that comes to nothing."""
    node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        node("Relu", ["x"], ["first"]),
        node("Neg", ["first"], ["second"]),
        node("Shape", ["first"], ["sizes"]),
        node("Cast", ["sizes"], ["unread"], to=1),
    ]
    inputs, outputs = [info("x", 1, ["n", 3])], [info("first", 1, ["n", 3]), info("second", 1, ["n", 3])]
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs)
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_a_graphdef_shows_its_outputs(path: Path) -> None:
    thinflow.convert(path, path.with_suffix(".pb"))
    session = thinflow.Session(path.with_suffix(".pb"), engine="reference")
    assert set(session.outputs) == {"first", "second"}
    first, second = session.run(["first", "second"], {"x": X})
    np.testing.assert_array_equal(first, np.maximum(X, 0))
    np.testing.assert_array_equal(second, -np.maximum(X, 0))
    assert {n.op for n in thinflow.load(path.with_suffix(".pb"))} == {
        "Placeholder",
        "Relu",
        "Neg",
        "Identity",
    }


def test_outputs_that_nobody_would_guess_are_told(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(path), str(path.with_suffix(".pb"))]) == 0
    assert "open it with --outputs first,second" in capsys.readouterr().out


def test_a_graph_that_is_given_stays_as_it_is(path: Path) -> None:
    graph = thinflow.load(path)
    names = [node.name for node in graph]
    thinflow.convert(graph, path.with_suffix(".pbtxt"))
    assert [node.name for node in graph] == names
    assert "unread" in names


def test_tensorflow_graphs_are_written_whole(path: Path) -> None:
    graph = thinflow.load(path)
    thinflow.save(graph, path.with_name("whole.pb"))
    thinflow.convert(path.with_name("whole.pb"), path.with_name("again.pb"))
    assert graph.find("unread") is not None
    assert thinflow.load(path.with_name("again.pb")).find("unread") is not None
