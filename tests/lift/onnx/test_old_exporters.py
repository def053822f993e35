"""Files as PyTorch's exporters of 2018 to 2020 wrote them: old opsets, computed sizes, ops of ATen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lift.onnx.models import agree, graph_of, lifted, node, runtime, save
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(18)
X = RNG.standard_normal((2, 3, 6, 5)).astype(np.float32)
VECTORS = {n: RNG.uniform(0.5, 1.5, 4).astype(np.float32) for n in ("scale", "shift", "mean", "variance")}
WEIGHTS = {"w": RNG.standard_normal((4, 3, 3, 3)).astype(np.float32), "b": VECTORS["shift"]}


def constant(name: str, content: Any) -> Any:
    """A node, as PyTorch wrote most of its constants."""
    from onnx import numpy_helper

    return node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(content), name))


def check(path: Path, feed: dict[str, np.ndarray]) -> None:
    """The interpreter and both written files say what ONNX Runtime says of the source."""
    expected = runtime(path, feed)
    agree(expected, lifted(path, feed))
    for name in ("o.tflite", "o.onnx"):
        made = path.with_name(name)
        thinflow.save(graph_of(path), made)
        agree(expected, list(thinflow.run(made, feed).values()))


def pads(kind: str, number: float = 0.0) -> Any:
    return node("Pad", ["x"], ["p"], mode=kind, pads=[0, 0, 1, 2, 0, 0, 1, 0], value=number)


@pytest.mark.parametrize("opset", [7, 8, 9])
def test_a_convolutional_net(tmp_path: Path, opset: int) -> None:
    """Pads with attributes, a norm with a momentum, a Gemm behind sizes that are computed."""
    nodes = [
        pads("reflect"),
        node(
            "Conv", ["p", "w", "b"], ["c"], dilations=[1, 1], group=1, kernel_shape=[3, 3], pads=[0, 0, 0, 0]
        ),
        node("BatchNormalization", ["c", *VECTORS], ["n"], epsilon=1e-5, momentum=0.9),
        node("Relu", ["n"], ["r"]),
        node("MaxPool", ["r"], ["m"], kernel_shape=[2, 2], pads=[0, 0, 0, 0], strides=[2, 2]),
        node("Dropout", ["m"], ["d"], ratio=0.5),
        node("Shape", ["d"], ["s"]),
        constant("zero", np.int64(0)),
        node("Gather", ["s", "zero"], ["batch"], axis=0),
        constant("rest", np.int64(-1)),
        node("Unsqueeze", ["batch"], ["a"], axes=[0]),
        node("Unsqueeze", ["rest"], ["z"], axes=[0]),
        node("Concat", ["a", "z"], ["sizes"], axis=0),
        node("Reshape", ["d", "sizes"], ["f"]),
        node("Gemm", ["f", "dense", "bias"], ["y"], alpha=1.0, beta=1.0, transB=1),
        node("LogSoftmax", ["y"], ["out"], axis=1),
    ]
    dense = {"dense": RNG.standard_normal((5, 24)).astype(np.float32), "bias": np.ones(5, np.float32)}
    feed = {"x": X}
    check(
        save(tmp_path / "m.onnx", nodes, feed, ["out"], WEIGHTS | VECTORS | dense, opset=opset, domains=()),
        feed,
    )


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("opset", [7, 9])
def test_upsampling(tmp_path: Path, opset: int, mode: str) -> None:
    """Scales as an attribute until opset 8, then as a constant."""
    scales = [1.0, 1.0, 2.0, 3.0]
    nodes = [node("Upsample", ["x"], ["y"], mode=mode, scales=scales)]
    if opset > 8:
        nodes = [constant("s", np.float32(scales)), node("Upsample", ["x", "s"], ["y"], mode=mode)]
    check(save(tmp_path / "m.onnx", nodes, {"x": X}, ["y"], opset=opset, domains=()), {"x": X})


def test_sizes_beside_scales_that_are_empty(tmp_path: Path) -> None:
    """Opset 11: what was left out was written as a constant without elements."""
    empty = [constant("roi", np.zeros(0, np.float32)), constant("s", np.zeros(0, np.float32))]
    how = {"coordinate_transformation_mode": "pytorch_half_pixel", "cubic_coeff_a": -0.75, "mode": "linear"}
    resize = node("Resize", ["x", "roi", "s", "sizes"], ["y"], nearest_mode="floor", **how)
    nodes = [*empty, constant("sizes", np.int64([2, 3, 12, 15])), resize]
    check(save(tmp_path / "m.onnx", nodes, {"x": X}, ["y"], opset=11, domains=()), {"x": X})
    nodes[1] = constant("s", np.float32([1, 1, 2, 3]))
    path = save(tmp_path / "both.onnx", nodes, {"x": X}, ["y"], opset=11, domains=())
    with pytest.raises(UnsupportedOp, match="it has both sizes and scales"):
        thinflow.load(path)


@pytest.mark.parametrize("kind", ["constant", "reflect", "edge"])
def test_pads_with_attributes(tmp_path: Path, kind: str) -> None:
    nodes = [pads(kind, 1.5 if kind == "constant" else 0.0)]
    check(save(tmp_path / "m.onnx", nodes, {"x": X}, ["p"], opset=9, domains=()), {"x": X})


def test_axes_and_ends_as_attributes(tmp_path: Path) -> None:
    nodes = [
        node("Slice", ["x"], ["a"], axes=[2, 3], starts=[1, -3], ends=[9223372036854775807, -1]),
        node("Clip", ["a"], ["b"], min=-0.5, max=0.5),
        node("ReduceSum", ["b"], ["c"], axes=[1], keepdims=1),
        node("Squeeze", ["c"], ["d"], axes=[1]),
        node("Split", ["d"], ["e", "f"], axis=1, split=[2, 3]),
        node("TopK", ["f"], ["g", "places"], axis=1, k=2),
    ]
    check(save(tmp_path / "m.onnx", nodes, {"x": X}, ["e", "g", "places"], opset=9, domains=()), {"x": X})


@pytest.mark.parametrize("domain", ["", "org.pytorch.aten"])
def test_ops_that_the_exporter_left_to_aten_are_refused_by_name(tmp_path: Path, domain: str) -> None:
    left = node("ATen", ["x"], ["y"], domain=domain, operator="roi_pool_v2")
    path = save(tmp_path / "m.onnx", [left], {"x": X}, ["y"], opset=9, domains=(domain,) if domain else ())
    with pytest.raises(UnsupportedOp, match=r"PyTorch's own op 'roi_pool_v2'") as caught:
        thinflow.load(path)
    assert "a newer PyTorch" in str(caught.value)


def test_names_that_a_rule_would_give(tmp_path: Path) -> None:
    """A node of the file is called as the rule of another would call one of its own."""
    k = {"k": np.int64([2])}
    nodes = [
        node("TopK", ["x", "k"], ["a", "b"], axis=1),
        node("Cast", ["x"], ["a/Cast"], to=6),
        node("Cast", ["b"], ["a/Cast_1"], to=1),
    ]
    check(
        save(tmp_path / "m.onnx", nodes, {"x": X}, ["a", "a/Cast", "a/Cast_1", "b"], k, opset=13, domains=()),
        {"x": X},
    )
