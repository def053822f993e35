"""Models of other ops than TensorFlow's, opened as graphs of TensorFlow's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.errors import FeedError, GraphError, UnsupportedOp
from thinflow.ir.source_file import SourceFile

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

RNG = np.random.default_rng(3)
X = RNG.standard_normal((1, 3, 6, 6)).astype(np.float32)


def net(*, batch: int | str = "n", unknown: bool = False) -> bytes:
    """conv -> relu -> split -> one half flattened and multiplied; the other goes out, or into an odd op."""
    node = helper.make_node
    odd = node("Odd", ["right"], ["z"], name="odd", domain="acme") if unknown else None
    nodes = [
        node("Conv", ["x", "w"], ["/m/conv"], pads=[1, 1, 1, 1]),
        node("Relu", ["/m/conv"], ["/m/relu;1"]),
        node("Split", ["/m/relu;1", "halves"], ["left", "right"], axis=1),
        node("Flatten", ["left"], ["flat"]),
        node("MatMul", ["flat", "m"], ["y"]),
        *([odd] if odd else [node("Neg", ["right"], ["z"])]),
    ]
    weights = {
        "w": RNG.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "m": RNG.standard_normal((72, 5)).astype(np.float32),
        "halves": np.int64([2, 2]),
    }
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [info("x", 1, [batch, 3, 6, 6])],
        [info("y", 1, [batch, 5]), info("z", 1, [batch, 2, 6, 6])],
        [numpy_helper.from_array(a, name) for name, a in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    made = helper.make_model(graph, opset_imports=opsets, producer_name="hand", producer_version="1")
    made.ir_version = 8
    return bytes(made.SerializeToString())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "m.onnx").write_bytes(net())
    return tmp_path / "m.onnx"


def test_a_file_is_a_graph_of_tensorflows_ops(path: Path) -> None:
    graph = thinflow.load(path)
    assert graph.vocabulary == ""
    assert {"Conv2D", "Relu", "Neg"} <= {n.op for n in graph}
    assert [v.name for v in graph.inputs + graph.outputs] == ["x", "y", "z"]
    assert graph.inputs[0].shape == (None, 3, 6, 6)
    source = graph.source
    assert source is not None
    assert (source.name, source.engine, source.runtime, source.operators) == (
        *("m.onnx", "onnxruntime", "ONNX Runtime"),
        6,
    )
    assert source.line.startswith("m.onnx is ONNX opset 17, acme 1 from hand 1, 6 operators lifted to ")
    assert thinflow.verify(path, graph).ok
    own = thinflow.load(path, lift=False)
    assert own.vocabulary == "onnx"
    assert [n.op for n in own if n.op.startswith("onnx.")][:2] == ["onnx.Conv", "onnx.Relu"]
    assert own.source is None


def test_the_source_stays_through_copies_and_transforms(path: Path) -> None:
    graph = thinflow.load(path)
    made = thinflow.transform(graph, "fold_constants remove_nodes(op=Identity)")
    assert made.source == graph.source == graph.clone().source == thinflow.load(graph).source


def test_names_of_tensors_lead_to_values_however_they_are_spelled(path: Path) -> None:
    graph = thinflow.load(path)
    runtime = thinflow.Session(path).run(["z"], {"x": X})[0]
    for name in ("/m/relu;1", "m/relu", "right"):
        assert graph.value(name) is not None
    (right,) = thinflow.Session(graph, "reference").run(["right"], {"x": X})
    np.testing.assert_allclose(-right, runtime, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("given", "own"), [("/m/relu;1", "m/relu"), ("left", None), ("/m/conv", None)])
def test_a_part_is_cut_out_by_the_files_names(path: Path, given: str, own: str | None) -> None:
    graph = thinflow.load(path, inputs=[given], outputs=["y"])
    assert len(graph.inputs) == 1
    assert own is None or graph.inputs[0].name == own
    assert "Conv2D" not in {n.op for n in graph}
    whole = thinflow.load(path)
    session = thinflow.Session(whole, "reference")
    inner, y = session.run([given, "y"], {"x": X})
    (found,) = thinflow.Session(graph, "reference").run(["y"], {given: inner})
    np.testing.assert_allclose(found, y, rtol=1e-5, atol=1e-6)


def test_an_op_that_nobody_knows_is_in_the_way_of_what_needs_it_only(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(net(unknown=True))
    with pytest.raises(UnsupportedOp, match=r"node 'z' \(onnx.acme.Odd\): .*no counterpart") as error:
        thinflow.load(tmp_path / "m.onnx")
    assert error.value.hint.startswith("make a part, which ends in front of it: outputs=[...], such as '")
    graph = thinflow.load(tmp_path / "m.onnx", outputs=["y"])
    assert [v.name for v in graph.outputs] == ["y"]
    assert [v.name for v in thinflow.load(tmp_path / "m.onnx", outputs=["right"]).inputs] == ["x"]


def test_sizes_reach_the_placeholders_and_all_behind_them(path: Path, tmp_path: Path) -> None:
    graph = thinflow.load(path, shapes={"x": (2, 3, 6, 6)})
    assert graph.inputs[0].node.get("shape") == (2, 3, 6, 6)
    assert [v.shape for v in graph.outputs] == [(2, 5), (2, 2, 6, 6)]
    thinflow.convert(path, tmp_path / "m.tflite", shapes={"x": (2, 3, 6, 6)})
    assert thinflow.Session(tmp_path / "m.tflite").inputs["x"].shape == (2, 3, 6, 6)


def test_sizes_go_by_the_names_that_the_file_gives_them(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for opened in (
        thinflow.load(path, shapes={"n": (4,)}),
        thinflow.load(thinflow.load(path), shapes={"n": (4,)}),
    ):
        assert [v.shape for v in opened.inputs + opened.outputs] == [(4, 3, 6, 6), (4, 5), (4, 2, 6, 6)]
    assert thinflow.summarize(path, shapes={"n": (4,)}).graph.inputs[0].shape == (4, 3, 6, 6)
    with pytest.raises(FeedError, match="'n' is one size, not 2") as error:
        thinflow.load(path, shapes={"n": (4, 3)})
    assert error.value.hint == "write n=1"
    with pytest.raises(GraphError, match="there is no input 'batch'") as missing:
        thinflow.load(path, shapes={"batch": (4,)})
    assert missing.value.hint == "its inputs are x, n"
    with pytest.raises(FeedError, match="'batch' is not an input") as unknown:
        thinflow.load(thinflow.load(path), shapes={"batch": (4,)})
    assert unknown.value.hint == "the inputs are x; sizes that it leaves open are n"
    assert main(["inspect", str(path)]) == 0
    assert "open size 'n' of x: --shape n=1 settles it" in capsys.readouterr().out


def test_a_fixed_batch_can_be_another(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(net(batch=1))
    graph = thinflow.load(tmp_path / "m.onnx", shapes={"x": (3, 3, 6, 6)})
    assert [v.shape for v in graph.outputs] == [(3, 5), (3, 2, 6, 6)]
    session, one = thinflow.Session(graph), thinflow.Session(tmp_path / "m.onnx")
    y, z = session.run(["y", "z"], {"x": np.concatenate([X, -X, X])})
    first = one.run(["y", "z"], {"x": X})
    np.testing.assert_allclose(y[2:], first[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(z[2:], first[1], rtol=1e-4, atol=1e-5)


def stating(inner: dict[str, tuple[int, ...]], batch: int | str, y: Sequence[int | str]) -> bytes:
    """The net, with other shapes stated of inner tensors and of its first output."""
    model = onnx.load_from_string(net(batch=batch))
    info = helper.make_tensor_value_info
    model.graph.value_info.extend(info(name, 1, shape) for name, shape in inner.items())
    model.graph.output[0].CopyFrom(info("y", 1, y))
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("inner", "batch", "y", "told"),
    [
        ({}, 1, [1, 7], "'y' is computed as [1,5], though the file states [1,7]"),
        ({}, 1, [1, 5, 1], "'y' is computed as [1,5], though the file states [1,5,1]"),
        (
            {"/m/conv": (1, 6, 6, 6), "/m/relu;1": (1, 4, 6, 1)}, 1, [1, 5],
            "'/m/conv' is computed as [1,4,6,6], though the file states [1,6,6,6]",
        ),
        ({"/m/conv": (1, 4, 6, 6)}, 1, [1, 5], ""),
        # A batch that somebody opened at the ends alone.
        ({"/m/conv": (7, 4, 6, 6), "left": (7, 2, 6, 6)}, "n", ["n", 5], ""),
        ({}, "n", [1, 5], ""),
    ],
)  # fmt: skip
def test_what_is_computed_goes_before_what_is_stated(
    inner: dict[str, tuple[int, ...]], batch: int | str, y: list[int | str], told: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(stating(inner, batch, y))
    graph = thinflow.load(path)
    assert graph.source is not None
    assert graph.source.assumed == ((told,) if told else ())
    size = None if batch == "n" else 1
    assert [v.shape for v in graph.outputs] == [(size, 5), (size, 2, 6, 6)]
    fed = {"x": np.concatenate([X, -X]) if size is None else X}
    ours, theirs = (thinflow.run(m, fed) for m in (graph, path))
    for one, other in zip(ours.values(), theirs.values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_batch_is_assumed_where_rules_need_sizes(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=2)]
    nodes.append(helper.make_node("GatherElements", ["y", "i"], ["z"], axis=0))
    ends = [info("x", 1, ["n", 4, 2, 2])], [info("z", 1, ["n", 1, 4, 4])]
    index = numpy_helper.from_array(np.zeros((1, 1, 4, 4), np.int64), "i")
    made = helper.make_model(
        helper.make_graph(nodes, "net", *ends, [index]), opset_imports=[helper.make_opsetid("", 17)]
    )
    made.ir_version = 8
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    graph = thinflow.load(tmp_path / "m.onnx")
    assert graph.source is not None
    if graph.inputs[0].shape == (1, 4, 2, 2):
        assert graph.source.line.endswith("; batch assumed 1")
    assert thinflow.verify(tmp_path / "m.onnx", graph).ok


@pytest.mark.parametrize(
    ("names", "problem", "hint"),
    [
        ({"inputs": ["lefd"]}, "there is no input 'lefd' in the graph", "did you mean 'left'"),
        ({"outputs": ["qqqqqq"]}, "there is no output 'qqqqqq' in the graph", "its outputs are y, z"),
        ({"outputs": ["y", "y"]}, "the output 'y' is given twice", "give each once"),
    ],
)
def test_wrong_names(path: Path, names: dict, problem: str, hint: str) -> None:
    with pytest.raises(GraphError, match=problem) as error:
        thinflow.load(path, **names)
    assert hint in error.value.hint


def test_a_shape_for_no_input(path: Path) -> None:
    with pytest.raises(FeedError, match="'left' is not an input"):
        thinflow.load(path, shapes={"left": (1, 2)})


def test_shapes_go_by_the_names_of_the_file(tmp_path: Path) -> None:
    graph = parse_graph(
        "x = Placeholder() {dtype=float, shape=shape[?,4]}\ny = Relu(x) {T=float}\ninputs: x\noutputs: y\n"
    )
    thinflow.save(graph, tmp_path / "m.tflite")
    opened = thinflow.load(tmp_path / "m.tflite", shapes={"x:0": (5, 4)})
    assert opened.outputs[0].shape == (5, 4)


def test_one_operator_is_told_in_the_singular() -> None:
    source = SourceFile("some/m.onnx", "ONNX opset 17", "ONNX Runtime", operators=1, nodes=1)
    assert source.line == "m.onnx is ONNX opset 17, 1 operator lifted to 1 TensorFlow op"


@pytest.mark.parametrize("sizes", [(-4, 3, 6, 6), (1.5, 3, 6, 6), ("n", 3, 6, 6)])
def test_sizes_that_are_none(path: Path, sizes: tuple[object, ...]) -> None:
    with pytest.raises(
        FeedError, match=r"is no size for 'x'\nhint: give whole numbers; None leaves one open"
    ):
        thinflow.load(path, shapes={"x": sizes})  # type: ignore[dict-item]


def test_minus_one_is_an_open_size(path: Path) -> None:
    graph = thinflow.load(path, shapes={"x": (-1, 3, np.int64(6), 6)})
    assert graph.inputs[0].shape == (None, 3, 6, 6)


def test_a_shape_of_another_rank(path: Path) -> None:
    words = r"'x' is given 3 sizes, \[3,6,6\], and has 4, \[\?,3,6,6\]\nhint: give 4"
    with pytest.raises(FeedError, match=words):
        thinflow.load(path, shapes={"x": (3, 6, 6)})


def test_layouts_are_of_lifted_graphs(path: Path) -> None:
    with pytest.raises(thinflow.ParameterError, match="the file's own\nhint: leave lift=False out"):
        thinflow.load(path, lift=False, input_layout="nhwc")
