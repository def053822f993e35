"""The bundled and generated models: what is in them, and that they compute something sensible."""

from __future__ import annotations

import pkgutil
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.night import AT_NIGHT
from thinflow import zoo
from thinflow.errors import ParameterError, WriteError
from thinflow.formats import graphdef
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph
from thinflow.zoo import _layers

RANDOM = ["inception_v3_2015", "mobilenet_v1", "mobilenet_v2", "resnet_v2_50"]
ANSWERING = RANDOM if AT_NIGHT else ["mobilenet_v1", "mobilenet_v2"]
"""Those that are run; the larger ones at night."""


@cache
def built(name: str) -> Graph:
    """One copy for all tests; none of them changes it."""
    return zoo.build(name)


def run(graph: Graph, images: np.ndarray, *names: str) -> list[np.ndarray]:
    """Named values, or the outputs."""
    values = [graph.value(n) for n in names] or graph.outputs
    return Plan(graph, values, graph.inputs).run({graph.inputs[0]: images})


def op_counts(graph: Graph) -> str:
    """`3 Const, 2 Add`, most frequent first, then by name."""
    counts = Counter(node.op for node in graph)
    return ", ".join(f"{n} {op}" for op, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def parameters(graph: Graph) -> int:
    return sum(node.tensor.size for node in graph if node.tensor is not None)


def control_edges(graph: Graph) -> int:
    return sum(len(node.control_inputs) for node in graph)


def sinks(graph: Graph) -> list[str]:
    """Nodes that nothing uses, but for constants and NoOps."""
    return [n.name for n in graph if not n.is_used and n.op not in ("Const", "NoOp")]


def test_names_are_files_and_described() -> None:
    files = {m.name for m in pkgutil.iter_modules(zoo.__path__) if not m.name.startswith("_")}
    assert zoo.names() == sorted(files) == ["digits", *RANDOM]
    for name in zoo.names():
        assert 20 < len(zoo.describe(name)) < 110, name


@pytest.mark.parametrize("name", ["digits", *RANDOM])
def test_survives_a_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.pb"
    graph = built(name)
    graphdef.save(graph, path)
    loaded = graphdef.load(path)
    assert loaded.versions == graph.versions
    assert not loaded.problems
    assert [(n.name, n.op, graphdef.reference_texts(n)) for n in loaded] == [
        (n.name, n.op, graphdef.reference_texts(n)) for n in graph
    ]


def test_resnet_is_what_the_guides_print() -> None:
    graph = built("resnet_v2_50")
    assert op_counts(graph) == (
        "328 Const, 272 Identity, 147 Mul, 114 Add, 54 Conv2D, 49 Relu, 49 Rsqrt, 49 Sub, 22 BiasAdd, "
        "4 MaxPool, 4 Pad, 2 Reshape, 1 Mean, 1 Placeholder, 1 Softmax, 1 Squeeze"
    )
    assert parameters(graph) == 25_615_936
    assert control_edges(graph) == 0
    assert [v.name for v in graph.inputs] == ["input"]
    assert graph.node("input").get("shape") == (1, 224, 224, 3)
    assert sinks(graph) == [v.name for v in graph.outputs] == ["resnet_v2_50/predictions/Reshape_1"]


def test_resnet_has_slim_names() -> None:
    graph = built("resnet_v2_50")
    scope = "resnet_v2_50/block1/unit_1/bottleneck_v2"
    assert graph.node(f"{scope}/conv1/weights/read").op == "Identity"
    norm = f"{scope}/preact/batchnorm"
    assert graphdef.reference_texts(graph.node(f"{norm}/mul")) == [
        f"{norm}/Rsqrt",
        f"{scope}/preact/gamma/read",
    ]
    assert graphdef.reference_texts(graph.node(f"{norm}/add_1")) == [f"{norm}/mul_1", f"{norm}/sub"]


def test_inception_is_what_the_guides_print() -> None:
    graph = built("inception_v3_2015")
    assert op_counts(graph) == (
        "489 Const, 99 CheckNumerics, 99 Identity, 94 BatchNormWithGlobalNormalization, 94 Conv2D, 94 Relu, "
        "11 Concat, 9 AvgPool, 5 MaxPool, 1 BiasAdd, 1 Cast, 1 DecodeJpeg, 1 ExpandDims, 1 MatMul, 1 Mul, "
        "1 Reshape, 1 ResizeBilinear, 1 Softmax, 1 Sub"
    )
    assert parameters(graph) == 23_885_411
    assert control_edges(graph) == 99
    assert [v.name for v in graph.inputs] == ["Mul"]
    assert sinks(graph) == [v.name for v in graph.outputs] == ["softmax"]


def test_inception_is_old_enough_for_its_batch_norms() -> None:
    graph = built("inception_v3_2015")
    assert graph.versions is not None
    assert graph.versions.producer <= 8
    waits = graph.node("mixed_9/tower/mixed/conv_1/control_dependency")
    assert graphdef.reference_texts(waits) == [
        "mixed_9/tower/mixed/conv_1/batchnorm",
        "^mixed_9/tower/mixed/conv_1/CheckNumerics",
    ]


def test_mobilenet_v1_ops() -> None:
    graph = built("mobilenet_v1")
    counts = Counter(node.op for node in graph)
    assert counts["FusedBatchNorm"] == counts["Relu6"] == 27
    assert (counts["DepthwiseConv2dNative"], counts["Conv2D"]) == (13, 15)
    assert sinks(graph) == ["MobilenetV1/Predictions/Reshape_1"]


def test_mobilenet_v2_is_frozen_like_keras() -> None:
    graph = built("mobilenet_v2")
    counts = Counter(node.op for node in graph)
    assert (counts["FusedBatchNormV3"], counts["Conv2D"], counts["DepthwiseConv2dNative"]) == (52, 35, 17)
    assert (counts["AddV2"], counts["NoOp"]) == (10, 1)
    assert graphdef.reference_texts(graph.node("Identity")) == [
        "mobilenetv2_1.00_224/predictions/Softmax",
        "^NoOp",
    ]
    reads = graph.node("NoOp").control_inputs
    assert len(reads) == counts["Identity"] - 1
    assert all(n.inputs[0].node.name == f"{n.name}/resource" for n in reads)
    assert sinks(graph) == ["Identity"]


@pytest.mark.parametrize("name", ANSWERING)
def test_answers_depend_on_the_picture(name: str) -> None:
    graph = built(name)
    images = zoo.calibration(name, 2, seed=7)[graph.inputs[0].name]
    first, second = (run(graph, image[None])[0].ravel() for image in images)
    assert np.isclose(first.sum(), 1, atol=1e-4)
    assert np.abs(first - second).sum() > 0.3
    assert 0.005 < first.max() < 0.99


@pytest.mark.parametrize("name", ANSWERING)
def test_activations_stay_in_a_sane_range(name: str) -> None:
    graph = built(name)
    relus = [n.name for n in graph if n.op in ("Relu", "Relu6")]
    images = zoo.calibration(name, 4, seed=7)[graph.inputs[0].name]
    for image in (images[0], images[3]):  # blobs and stripes; grain
        spreads = [y.std() for y in run(graph, image[None], *relus)]
        assert min(spreads) > 0.02
        assert max(spreads) < 10


def test_same_seed_same_file(tmp_path: Path) -> None:
    for file, seed in (("a.pb", 3), ("b.pb", 3), ("c.pb", 4)):
        zoo.write("mobilenet_v2", tmp_path / file, seed)
    a, b, c = ((tmp_path / file).read_bytes() for file in ("a.pb", "b.pb", "c.pb"))
    assert a == b
    assert len(a) == len(c)
    assert a != c


def test_digits_are_recognised() -> None:
    graph, test = built("digits"), zoo.test_set("digits")
    probabilities = run(graph, test["image"])[0]
    right = (probabilities.argmax(1) == test["labels"]).mean()
    assert right == 0.9875
    assert f"{right:.2%}" in zoo.describe("digits")


def test_digits_images() -> None:
    test = zoo.test_set("digits")
    calibration = zoo.calibration("digits")["image"]
    for images, count in ((test["image"], 400), (calibration, 200)):
        assert images.shape == (count, 8, 8, 1)
        assert images.dtype == np.float32
        assert (images.min(), images.max()) == (0, 16)
    assert set(test["labels"]) == set(range(10))
    assert len(zoo.calibration("digits", 5)["image"]) == 5
    held_out = {image.tobytes() for image in test["image"]}
    assert not held_out.intersection(image.tobytes() for image in calibration)


def test_digits_keeps_what_training_left() -> None:
    graph = built("digits")
    ops = Counter(node.op for node in graph)
    assert ops["FusedBatchNormV3"] == 4
    assert graph.node("dropout/random_uniform/RandomUniform").op == "RandomUniform"
    assert sinks(graph) == ["probabilities"]
    assert graph.node("image").get("shape") == (None, 8, 8, 1)


def test_shipped_data_is_small() -> None:
    folder = Path(zoo.__file__).parents[1] / "data"
    assert (folder / "digits.pb").stat().st_size < 300_000
    assert (folder / "digits_test.npz").stat().st_size < 200_000


@pytest.mark.parametrize(
    ("call", "problem", "hint"),
    [
        (lambda: zoo.build("resnet"), "there is no sample named 'resnet'", "did you mean 'resnet_v2_50'?"),
        (lambda: zoo.build("_layers"), "there is no sample named '_layers'", ""),
        (lambda: zoo.build("zzz"), "there is no sample named 'zzz'", f"there are: {', '.join(zoo.names())}"),
        (
            lambda: zoo.build("digits", -1),
            "seed is -1; it cannot be negative",
            "any whole number from 0 on will do",
        ),
        (lambda: zoo.calibration("digits", 0), "count is 0; at least one image is needed", ""),
        (
            lambda: zoo.calibration("digits", 201),
            "count is 201; there are 200 calibration images of digits",
            "",
        ),
        (
            lambda: zoo.test_set("mobilenet_v1"),
            "'mobilenet_v1' has random weights and therefore no test images",
            "these are trained: digits",
        ),
    ],
)
def test_errors(call: Callable[[], object], problem: str, hint: str) -> None:
    with pytest.raises(ParameterError) as caught:
        call()
    assert caught.value.problem == problem
    if hint:
        assert caught.value.hint == hint


def test_write_says_where_it_failed(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="nowhere"):
        zoo.write("digits", tmp_path / "nowhere" / "digits.pb")


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2])
def test_builder_computes_what_the_graph_does(padding: str, stride: int) -> None:
    b = _layers.Builder(0, producer=24)
    image = b.placeholder("image", 11, probe_size=11)
    pictures = b.seen(image)
    w = b.filters(3, 2, 3, 5)
    d = b.normal(3, 2, 3, 1, std=1.0)
    values = [
        b.conv(image, w, b.const(w, "w"), "conv", stride, padding),
        b.depthwise(image, d, b.const(d, "d"), "depthwise", stride, padding),
        b.pool("MaxPool", image, "max", 3, stride, padding),
        b.pool("AvgPool", image, "mean", 3, stride, padding),
    ]
    seen = [b.seen(v) for v in values]
    graph = b.finish([image], values)
    for value, expected, actual in zip(values, seen, run(graph, pictures), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5, err_msg=value.name)


def test_filters_pass_on_no_common_part() -> None:
    w = _layers.Builder(0, producer=24).filters(3, 3, 64, 8)
    np.testing.assert_allclose(w.sum(2), 0, atol=1e-5)
    assert abs(w.var() * 3 * 3 * 64 - 2) < 0.2
