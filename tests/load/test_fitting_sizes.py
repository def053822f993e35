"""Sizes that a file leaves open, chosen so that they fit each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow import formats
from thinflow.analysis.shapes import infer_shapes
from thinflow.cli import main
from thinflow.errors import FeedError, GraphError, UnsupportedOp
from thinflow.load.fitting_sizes import fitting_sizes, settle_sizes, sizes_to_feed, usual_sizes
from thinflow.synthetic import synthetic_feeds

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A sound [batch, samples] in frames of 64, of which four are averaged, and a state [layers, batch, 4].

    The branch that gives the answer is there for 4 frames only, so that other lengths are of no use.
    """
    node, info = helper.make_node, helper.make_tensor_value_info
    then = helper.make_graph([node("Squeeze", ["frames", "two"], ["a"])], "then", [], [info("a", 1, None)])
    other = helper.make_graph([node("Tile", ["frames", "twice"], ["b"])], "other", [], [info("b", 1, None)])
    nodes = [
        node("Unsqueeze", ["sound", "one"], ["line"]),
        node("Conv", ["line", "w"], ["frames"], strides=[64]),
        node("Shape", ["frames"], ["shape"]),
        node("Gather", ["shape", "last"], ["count"]),
        node("Equal", ["count", "single"], ["is_single"]),
        node("If", ["is_single"], ["chosen"], then_branch=then, else_branch=other),
        node("Softmax", ["chosen"], ["shares"]),
        node("Gemm", ["shares", "m"], ["y"]),
        node("Add", ["state", "y"], ["after"]),
    ]
    weights = {
        "one": np.int64([1]), "two": np.int64([2]), "last": np.int64(2), "single": np.int64(1),
        "twice": np.int64([1, 1, 2]), "w": np.ones((3, 1, 256), np.float32), "m": np.ones((3, 4), np.float32),
    }  # fmt: skip
    inputs = [info("sound", 1, ["batch", "samples"]), info("state", 1, [2, "batch", 4])]
    outputs = [info("y", 1, None), info("after", 1, None)]
    constants = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "vad.onnx").write_bytes(model.SerializeToString())
    return str(tmp_path / "vad.onnx")


def opened(path: str) -> thinflow.Graph:
    graph = formats.load(path)
    infer_shapes(graph)
    return graph


def test_one_number_for_one_name_and_all_that_follows_fits(path: str) -> None:
    assert fitting_sizes(opened(path)) == {"batch": (1,), "samples": (256,)}
    assert sizes_to_feed(path, {}) == [(1, 256), (2, 1, 4)]
    # What is given stays, whether or not something fits it.
    assert sizes_to_feed(path, {"samples": (300,)}) == [(1, 300), (2, 1, 4)]
    assert sizes_to_feed(path, {"samples": (900,)}) == [(None, 900), (2, None, 4)]
    assert usual_sizes(opened(path)) == {"batch": (1,), "samples": (8,)}


def test_sizes_of_inner_values_follow(path: str) -> None:
    graph = opened(path)
    assert settle_sizes(graph, {"batch": (1,), "samples": (256,)}) == {}
    infer_shapes(graph)
    assert graph.value("frames").shape == (1, 3, 1)
    assert graph.value("y").shape == (1, 4)
    with pytest.raises(FeedError, match="'sound' is given 1 sizes"):
        settle_sizes(opened(path), {"sound": (256,)})
    with pytest.raises(GraphError, match="no input 'sond'"):
        settle_sizes(opened(path), {"sond": (1, 256)})


def test_every_command_takes_them(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", path]) == 0
    told = capsys.readouterr().out
    assert "give the shape of each input: --shape batch=1 --shape samples=256\n" in told
    assert "open size 'samples' of sound: --shape samples=256 settles it\n" in told
    given = ["--shape", "batch=1", "--shape", "samples=256"]
    assert main(["inspect", path, *given]) == 0
    told = capsys.readouterr().out
    assert "sound: an input of float[1,256]" in told
    assert "y: an output of float[1,4]" in told
    assert "open size" not in told
    assert told.splitlines()[-1].endswith("--engine onnxruntime --shape batch=1 --shape samples=256")
    for words in (["run", path], ["run", path, *given], ["run", path, *given, "--engine", "reference"]):
        assert main(words) == 0
        assert "y  float32[1, 4]" in capsys.readouterr().out
    measured = ["benchmark", path, "--runs", "2", "--no-memory", "--no-peak"]
    assert main(measured) == 0
    assert "'sound' leaves sizes open, 1,256 was fed; --shape sound=... sets them" in capsys.readouterr().out
    assert main([*measured, *given]) == 0
    assert "leaves sizes open" not in capsys.readouterr().out
    assert main(["convert", path, str(tmp_path / "m.tflite"), *given]) == 0
    assert main(["verify", path, str(tmp_path / "m.tflite")]) == 0


def test_who_needs_them_says_which(path: str) -> None:
    with pytest.raises(UnsupportedOp, match="depends on sizes which the file leaves open") as caught:
        thinflow.load(path)
    # A batch of one is assumed where that alone would do.
    assert caught.value.hint == "say what sizes it has, for example --shape samples=256"
    assert [v.shape for v in thinflow.load(path, shapes={"samples": (256,)}).inputs] == [
        (None, 256),
        (2, None, 4),
    ]


def test_other_sizes_than_stated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node, info = helper.make_node, helper.make_tensor_value_info
    nodes = [node("Relu", ["x"], ["r"]), node("Reshape", ["r", "s"], ["y"])]
    ends = [[info(n, 1, s)] for n, s in (("x", [1, 8]), ("y", [1, 2, 4]))]
    graph = helper.make_graph(nodes, "g", *ends, [numpy_helper.from_array(np.int64([-1, 2, 4]), "s")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = str(tmp_path / "m.onnx")
    Path(path).write_bytes(model.SerializeToString())
    assert main(["inspect", path, "--shape", "x=3,8"]) == 0
    told = capsys.readouterr().out
    assert "x: an input of float[3,8]" in told
    assert "y: an output of float[3,2,4]" in told
    assert main(["inspect", path, "--shape", "x=3,7"]) == 0
    assert "sizes or attributes do not fit at 1 node, first 'y': " in capsys.readouterr().out
    assert main(["inspect", path, "--shape", "x=8"]) == 1
    assert "'x' is given 1 sizes, [8], and has 2, [1,8]" in capsys.readouterr().err


@pytest.fixture
def plain(tmp_path: Path) -> str:
    """As `path`, of any length from 256 samples on."""
    node, info = helper.make_node, helper.make_tensor_value_info
    nodes = [
        node("Unsqueeze", ["sound", "one"], ["line"]),
        node("Conv", ["line", "w"], ["frames"], strides=[64]),
        node("ReduceMean", ["frames"], ["y"], axes=[1, 2], keepdims=1),
        node("Mul", ["state", "y"], ["after"]),
    ]
    weights = {"one": np.int64([1]), "w": np.ones((3, 1, 256), np.float32)}
    inputs = [info("sound", 1, ["batch", "samples"]), info("state", 1, [2, "batch", 4])]
    constants = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, [info("after", 1, None)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "sound.onnx").write_bytes(model.SerializeToString())
    return str(tmp_path / "sound.onnx")


def test_proofs_go_by_them(plain: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", plain, str(tmp_path / "m.tflite")]) == 0
    told = capsys.readouterr().out.splitlines()[0]
    assert "LiteRT agrees with the graph" in told
    assert "it agrees with sound.onnx itself in ONNX Runtime" in told


def test_a_whole_shape_settles_its_names_elsewhere(plain: str) -> None:
    graph = thinflow.load(plain, shapes={"sound": (3, 512)})
    assert [v.shape for v in graph.inputs] == [(3, 512), (2, 3, 4)]
    # What is given for another input stays, and so does one that says nothing of the size.
    graph = thinflow.load(plain, shapes={"sound": (None, 512)})
    assert [v.shape for v in graph.inputs] == [(None, 512), (2, None, 4)]
    (feed,) = synthetic_feeds(graph.inputs, 1)
    assert [x.shape for x in feed.values()] == [(1, 512), (2, 1, 4)]


def test_work_is_told_where_a_file_states_its_ends_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ONNX Runtime's own ops have no shape rules here, and a reshape by an open batch stays open; a batch of
    one is assumed for the work.
    """
    node, info = helper.make_node, helper.make_tensor_value_info
    nodes = [
        node("FusedConv", ["x", "w"], ["c"], domain="com.microsoft", pads=[1] * 4, activation="Relu"),
        node("Shape", ["c"], ["shape"]),
        node("Gather", ["shape", "first"], ["batch"]),
        node("Concat", ["batch", "rest"], ["rows"], axis=0),
        node("Reshape", ["c", "rows"], ["f"]),
        node("MatMul", ["f", "m"], ["y"]),
    ]
    weights = {
        "first": np.int64([0]), "rest": np.int64([-1]), "w": np.ones((4, 2, 3, 3), np.float32),
        "m": np.ones((4 * 64, 5), np.float32),
    }  # fmt: skip
    constants = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    ends = [info("x", 1, ["n", 2, 8, 8])], [info("y", 1, ["n", 5])]
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph(nodes, "g", *ends, constants), opset_imports=sets)
    onnx.save(model, tmp_path / "m.onnx")
    summary = thinflow.summarize(tmp_path / "m.onnx")
    assert summary.cost.unknown == {}
    assert summary.cost.total.macs == 64 * 4 * 18 + 256 * 5
    assert summary.precision == "float32"
    assert summary.peak is not None
    assert summary.peak.complete
    assert main(["inspect", str(tmp_path / "m.onnx")]) == 0
    out = capsys.readouterr().out
    assert "at least" not in out
    assert "y: an output of float[?,5]" in out


def test_work_that_is_not_known_is_no_number(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of open sizes nothing but arithmetic with sizes is counted, which says nothing about the work."""
    assert main(["inspect", path]) == 0
    out = capsys.readouterr().out
    assert "FLOP" not in out
    assert "\nwork not known: " in out
    assert "(float32; " in out
