"""Layers of quantized files, one by one, beside what was made of them: roundings hide no wrong scale."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.errors import VerificationError
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Node
from thinflow.ir.tensor import Tensor as Numbers
from thinflow.ir.types import FLOAT, INT8, INT32, UINT8
from thinflow.lift.grids import Grid
from thinflow.optimize.beside_source import apart_from_source
from thinflow.optimize.layer_by_layer import is_dictated
from thinflow.optimize.samples import Samples
from thinflow.optimize.source_proof import prove_beside_source
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes
from thinflow.transforms.quantized.grids import kept_grids

pytest.importorskip("ai_edge_litert")
pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

ZOO = (
    "hello_world_int8 micro_speech_quantized mlperf_ad01_int8 mlperf_kws_ref mlperf_resnet_quant"
    " mlperf_str_ww mlperf_vww_96_int8 mobilenet_v1_025_224_quant mnist_lstm_int8"
)
SCALES = {
    "x": (0.02, 128),
    "r": (0.01, 0),
    "p": (0.01, 0),
    "c": (0.05, 100),
    "j": (0.05, 100),
    "y": (0.2, 90),
}
"""Activations of the net below: scale and zero point, uint8."""


def saved(path: Path, scales: dict[str, tuple[float, int]] | None = None) -> Path:
    """y = conv(concat(max_pool(r), c)), r = relu(conv(x)), c = conv(x); QDQ, on the grids given."""
    rng = np.random.default_rng(3)
    node = helper.make_node
    nodes: list = []
    constants: dict[str, np.ndarray] = {}

    def rounded(name: str, kind: type = np.uint8) -> str:
        scale, zero = (scales or SCALES)[name]
        constants.update({f"{name}_s": np.float32(scale), f"{name}_z": kind(zero)})
        pair = [f"{name}_s", f"{name}_z"]
        nodes.append(node("QuantizeLinear", [name, *pair], [f"{name}_q"]))
        nodes.append(node("DequantizeLinear", [f"{name}_q", *pair], [f"{name}_d"]))
        return f"{name}_d"

    def conv(x: str, y: str, count: int, filters: int) -> None:
        constants[f"{y}_w"] = rng.integers(-127, 128, (filters, count, 3, 3)).astype(np.int8)
        # Far enough from each other that no two channels may change places.
        constants[f"{y}_ws"] = np.geomspace(0.001, 0.004, filters, dtype=np.float32)
        constants[f"{y}_wz"] = np.zeros(filters, np.int8)
        nodes.append(node("DequantizeLinear", [f"{y}_w", f"{y}_ws", f"{y}_wz"], [f"{y}_wd"], axis=0))
        nodes.append(node("Conv", [x, f"{y}_wd"], [y], pads=[1] * 4, kernel_shape=[3, 3]))

    x = rounded("x")
    conv(x, "r", 3, 6)
    conv(x, "c", 3, 4)
    nodes.append(node("MaxPool", [rounded("r")], ["p"], kernel_shape=[3, 3], pads=[1] * 4))
    nodes.append(node("Concat", [rounded("p"), rounded("c")], ["j"], axis=1))
    conv(rounded("j"), "y", 10, 5)
    end = rounded("y")
    info = helper.make_tensor_value_info
    stored = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "net", [info("x", 1, [1, 3, 9, 9])], [info(end, 1, None)], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return saved(tmp_path / "m.onnx")


def stated(graph: Graph, name: str) -> Node:
    """The FakeQuant that says the grid of a tensor of the net."""
    return next(n for n in kept_grids(graph) if n.name == f"{name}_q")


def test_a_right_graph_and_what_is_made_of_it(net: Path) -> None:
    found = prove_beside_source(thinflow.load(net)).sentence
    assert "each of 15 quantized layers, fed with the file's own values, is " in found
    assert "not compared" not in found
    made = net.with_name("m.tflite")
    thinflow.convert(net, made)
    found = prove_beside_source(thinflow.load(net), str(made)).sentence
    assert "each of 15 quantized layers" in found


def test_a_kernel_that_rounds_twice_is_no_wrong_scale(tmp_path: Path) -> None:
    """A mean of a few rows, as in a layer norm, of which chance has more a step off than of many."""
    path = tmp_path / "mean.tflite"
    scale = Quantization(np.float32([0.0128]), np.int64([0]))
    x = Tensor("x", (1, 7, 8), INT8, quantization=scale)
    y = Tensor("y", (1, 7, 1), INT8, quantization=dataclasses.replace(scale, scale=np.float32([0.0036])))
    axes = Tensor("axes", (1,), INT32, np.array([-1], np.int32))
    mean = Operator("MEAN", [x, axes], [y], {"keep_dims": True})
    path.write_bytes(to_bytes(Program([Subgraph([x], [y], [mean])])))
    graph = thinflow.load(path)
    rows = np.zeros((1, 7, 8), np.int8)
    # Times 4/9 as twice that, rounded, and its half, rounded: of all but 8 that is a step off.
    rows[0, :, 0] = [-91, -57, -30, 21, 64, 8, 100]
    samples = Samples(lambda: iter([{graph.inputs[0]: rows}]), 1, synthetic=False)
    found = prove_beside_source(graph, samples=samples).sentence
    assert "fed with the file's own values, is within 1 step of" in found


@pytest.mark.parametrize("factor", [0.8, 1.2])
@pytest.mark.parametrize("name", SCALES)
def test_a_wrong_scale(name: str, factor: float, net: Path) -> None:
    graph = thinflow.load(net)
    fake = stated(graph, name)
    for end in ("min", "max"):
        fake.attrs[end] = fake.get(end, 0.0) * factor
    scale = SCALES[name][0]
    with pytest.raises(VerificationError) as caught:
        prove_beside_source(graph)
    problem = caught.value.problem
    told = f"what was made computes '{name}_q' (onnx.QuantizeLinear) otherwise than m.onnx itself in ONNX"
    # One at an end may be far enough off to show over all of the network.
    assert (told in problem and f"its scale is {scale * factor:.6g} and not {scale:.6g}" in problem) or (
        "gives other answers than m.onnx itself" in problem
    )


@pytest.mark.parametrize("name", ["x", "c", "j", "y"])
def test_a_zero_point_one_off(name: str, net: Path) -> None:
    graph = thinflow.load(net)
    fake = stated(graph, name)
    for end in ("min", "max"):
        fake.attrs[end] = fake.get(end, 0.0) - SCALES[name][0]
    zero = SCALES[name][1]
    with pytest.raises(VerificationError, match=rf"its zero_point is {zero + 1} and not {zero}; the layer"):
        prove_beside_source(graph)


def weights_changed(net: Path, change: Callable[[np.ndarray], None]) -> Path:
    """The net beside itself, with other scales of the weights of one layer."""
    model = onnx.load(net)
    for tensor in model.graph.initializer:
        if tensor.name == "c_ws":
            array = numpy_helper.to_array(tensor).copy()
            change(array)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    other = net.with_name("other.onnx")
    onnx.save(model, other)
    return other


def swapped(scales: np.ndarray) -> None:
    scales[[1, 2]] = scales[[2, 1]]


def larger(scales: np.ndarray) -> None:
    scales[2] *= 1.2


@pytest.mark.parametrize("change", [swapped, larger])
def test_wrong_scales_of_weights(change: Callable[[np.ndarray], None], net: Path) -> None:
    graph = thinflow.load(weights_changed(net, change))
    assert graph.source is not None
    # As if these had been read of the file.
    graph.source = dataclasses.replace(graph.source, path=str(net))
    with pytest.raises(VerificationError, match=r"what was made (computes '|gives other answers)"):
        prove_beside_source(graph)


@pytest.mark.parametrize("name", ["r", "c", "j"])
def test_a_wrong_scale_in_what_was_written(name: str, net: Path) -> None:
    scales = SCALES | {name: (SCALES[name][0] * 1.2, SCALES[name][1])}
    made = net.with_name("made.tflite")
    thinflow.convert(saved(net.with_name("other.onnx"), scales), made)
    with pytest.raises(VerificationError, match=r"what was made (computes '|gives other answers)"):
        prove_beside_source(thinflow.load(net), str(made))


def test_parts_that_are_joined_keep_their_scales(net: Path) -> None:
    """What is read by a pool and joined with coarser numbers keeps its steps, and the limit at 0 in them."""
    made = net.with_name("m.tflite")
    thinflow.convert(net, made)
    scales = {n.name: n.attrs_view.get("quantization_scale") for n in thinflow.load(made, lift=False)}
    (pool,) = (s for name, s in scales.items() if name.startswith("p") and "tied" not in name and s)
    assert pool == pytest.approx((0.01,))
    feed = {"x": np.random.default_rng(0).uniform(-2.5, 2.5, (1, 3, 9, 9)).astype(np.float32)}
    (expected,), (found,) = (thinflow.run(path, feed).values() for path in (net, made))
    assert np.abs(expected - found).max() <= 0.2 * 1.01


@pytest.mark.parametrize(("suffix", "other"), [(".tflite", ".onnx"), (".onnx", ".tflite")])
def test_pictures_as_high_and_wide_as_they_have_channels(tmp_path: Path, suffix: str, other: str) -> None:
    """Where shapes do not tell where the channels are, a layer is still fed with them in their places."""
    rng = np.random.default_rng(4)
    g = thinflow.Graph()
    y = g.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 8, 8, 8))}).output()
    g.inputs = [y]
    for number, filters in enumerate((8, 8, 12)):
        kernel = g.constant(rng.normal(0, 0.2, (3, 3, 8, filters)).astype(np.float32))
        attrs = {"strides": (1, 1, 1, 1), "padding": b"SAME"}
        conv = g.add("Conv2D", name=f"c{number}", inputs=[y, kernel], attrs=attrs)
        y = g.add("Relu", name=f"r{number}", inputs=[conv.output()]).output()
    g.outputs = [y]
    samples = [{"x": rng.normal(size=(1, 8, 8, 8)).astype(np.float32)} for _ in range(8)]
    file, made = tmp_path / f"m{suffix}", tmp_path / f"again{other}"
    thinflow.quantize(g, samples, format=suffix[1:], effort="none").save(file)
    thinflow.convert(file, made)
    (expected,), (found,) = (thinflow.run(path, samples[0]).values() for path in (file, made))
    assert np.abs(expected - found).max() < 0.02 * np.abs(expected).max()


@pytest.mark.parametrize("name", ZOO.split())
def test_real_files_are_right_layer_by_layer(name: str, shared: Path) -> None:
    found = prove_beside_source(thinflow.load(shared / "zoo" / "tflite" / f"{name}.tflite")).sentence
    assert "quantized layers, fed with the file's own values, is " in found
    assert "not compared" not in found


@pytest.mark.parametrize("name", ["mlperf_ad01_int8", "mlperf_kws_ref", "mlperf_resnet_quant"])
def test_a_wrong_scale_in_real_files(name: str, shared: Path) -> None:
    names = [n.name for n in kept_grids(thinflow.load(shared / "zoo" / "tflite" / f"{name}.tflite"))]
    for place in (0, len(names) // 2, -1):
        graph = thinflow.load(shared / "zoo" / "tflite" / f"{name}.tflite")
        fake = graph.node(names[place])
        for end in ("min", "max"):
            fake.attrs[end] = fake.get(end, 0.0) * 1.2
        with pytest.raises(VerificationError, match="itself in LiteRT"):
            prove_beside_source(graph)


def test_a_grid_that_a_kernel_dictates_is_so_in_uint8() -> None:
    """LiteRT's sigmoid of int8, and that of uint8, whose codes are 128 higher."""
    assert [is_dictated(Grid(1 / 256, *given)) for given in ((-128, INT8), (0, UINT8), (0, INT8))] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("factor", [1.0, 1.2])
def test_layers_that_quantize_as_they_run(factor: float, tmp_path: Path) -> None:
    """Whatever the answers of the whole are apart: each layer makes no more noise than codes of what it reads
    do, and one whose weights are a fifth too large does.
    """
    rng = np.random.default_rng(0)
    graph = Graph()
    value = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 64))}).output()
    graph.inputs = [value]
    for name in ("one", "two"):
        weights = graph.constant(rng.standard_normal((64, 64)).astype(np.float32), f"{name}/w")
        value = graph.add("Relu", [graph.add("MatMul", [value, weights], name).output()]).output()
    graph.outputs = [value]
    thinflow.quantize(graph, scheme="dynamic").save(tmp_path / "m.tflite")
    made = thinflow.load(tmp_path / "m.tflite")
    weights = made.node("Relu_1/constant")
    assert weights.tensor is not None
    weights.attrs["value"] = Numbers.from_array(weights.tensor.numpy() * np.float32(factor))
    feeds = [{made.inputs[0]: rng.standard_normal((1, 64)).astype(np.float32)}]
    # No difference is small enough, so that the layers decide.
    apart = apart_from_source(made, made, feeds, made.outputs, 0.0, 60.0, made_up=False, by_layer=True)
    assert apart.ok == (factor == 1.0)
    if apart.ok:
        assert apart.layers is not None
        assert apart.layers.as_it_runs == 2
        assert apart.layers.sentence.startswith("each of 2 layers that quantize as they run")
