"""What the golden cases of fold_old_batch_norms cannot show: every layout, blocks, and mixed precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.transforms.support import apply, assert_same_numbers, reasons, step
from thinflow.ir.attrs import Attr, ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import FLOAT, dtype

Array = np.ndarray[Any, Any]


def uniform(shape: tuple[int, ...], seed: int, kind: str = "float") -> Array:
    return np.random.default_rng(seed).uniform(0.3, 1.7, shape).astype(dtype(kind).numpy())


def start(shape: tuple[int, ...], kind: str = "float") -> Graph:
    graph = Graph()
    attrs: dict[str, Attr] = {"dtype": dtype(kind), "shape": ShapeAttr(shape)}
    graph.inputs = [graph.add("Placeholder", name="x", attrs=attrs).output()]
    return graph


def norm(
    graph: Graph, x: Value, channels: int, name: str, op: str = "FusedBatchNormV3", **more: Attr
) -> Value:
    parameters = [graph.constant(uniform((channels,), 50 + i), f"{name}/p{i}") for i in range(4)]
    attrs: dict[str, Attr] = {"T": FLOAT, "U": FLOAT, "epsilon": 1e-3, "is_training": False, **more}
    return graph.add(op, [x, *parameters], name, attrs=attrs).output()


def conv(
    graph: Graph, x: Value, shape: tuple[int, ...], name: str, op: str = "Conv2D", **more: Attr
) -> Value:
    kind = more.get("T", FLOAT)
    weights = graph.constant(uniform(shape, 3, str(kind)), f"{name}/w")
    strides = (1,) * len(shape)
    attrs: dict[str, Attr] = {"T": FLOAT, "padding": b"SAME", "strides": strides, **more}
    return graph.add(op, [x, weights], name, attrs=attrs).output()


@pytest.mark.parametrize("layout", [b"NHWC", b"NCHW"])
@pytest.mark.parametrize(
    ("op", "shape", "channels"), [("Conv2D", (3, 3, 2, 5), 5), ("DepthwiseConv2dNative", (3, 3, 2, 3), 6)]
)
@pytest.mark.parametrize("version", ["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"])
def test_layouts_and_versions(
    layout: bytes, op: str, shape: tuple[int, ...], channels: int, version: str
) -> None:
    graph = start((2, 4, 4, 2) if layout == b"NHWC" else (2, 2, 4, 4))
    value = conv(graph, graph.inputs[0], shape, "conv", op, data_format=layout)
    graph.outputs = [norm(graph, value, channels, "bn", version, data_format=layout)]
    after, _ = step(graph, "fold_old_batch_norms")
    assert [n.op for n in after] == ["Placeholder", "Const", op, "Const", "BiasAdd"]
    assert after.node("bn").attrs["data_format"] == layout
    assert_same_numbers(graph, after, 2e-5)


def test_half_precision_data_with_float_parameters() -> None:
    graph = start((1, 4, 4, 2), "half")
    value = conv(graph, graph.inputs[0], (3, 3, 2, 5), "conv", T=dtype("half"))
    graph.outputs = [norm(graph, value, 5, "bn", T=dtype("half"))]
    after, _ = step(graph, "fold_old_batch_norms")
    assert {n.tensor.dtype.name for n in after if n.tensor} == {"half"}
    assert_same_numbers(graph, after, 5e-3)


@pytest.mark.parametrize("layout", [b"NHWC", b"NCHW", b"NDHWC", b"NCDHW"])
def test_pre_activation_is_lowered(layout: bytes) -> None:
    shape = {
        b"NHWC": (2, 4, 4, 3),
        b"NCHW": (2, 3, 4, 4),
        b"NDHWC": (1, 2, 2, 2, 3),
        b"NCDHW": (1, 3, 2, 2, 2),
    }[layout]
    graph = start(shape)
    value = norm(graph, graph.inputs[0], 3, "bn", data_format=layout)
    graph.outputs = [graph.add("Relu", [value], "y", attrs={"T": FLOAT}).output()]
    after, report = step(graph, "fold_old_batch_norms(lower_unfoldable=true)")
    assert [n.op for n in after] == ["Placeholder", "Const", "Const", "Mul", "AddV2", "Relu"]
    assert not report.trace.left
    assert_same_numbers(graph, after, 1e-4)


def test_residual_block_folds_all_but_the_norm_after_the_addition() -> None:
    graph = start((1, 4, 4, 2))
    first = norm(graph, conv(graph, graph.inputs[0], (3, 3, 2, 2), "c1"), 2, "n1")
    second = norm(graph, conv(graph, first, (3, 3, 2, 2), "c2"), 2, "n2")
    total = graph.add("AddV2", [first, second], "add", attrs={"T": FLOAT}).output()
    graph.outputs = [norm(graph, total, 2, "n3")]
    after, report = step(graph, "fold_old_batch_norms")
    assert [n.name for n in after if "Norm" in n.op] == ["n3"]
    assert "'add' (AddV2) stands in between" in reasons(report)["n3"]
    assert_same_numbers(graph, after, 1e-4)


def test_inception_block() -> None:
    graph = start((1, 4, 4, 2))
    branches = [
        norm(graph, conv(graph, graph.inputs[0], (1, 1, 2, k), f"c{k}"), k, f"n{k}") for k in (1, 2, 3)
    ]
    axis = graph.constant(np.int32(3), "axis")
    joined = graph.add("ConcatV2", [*branches, axis], "joined", attrs={"T": FLOAT, "N": 3}).output()
    same = graph.add("Identity", [joined], "same", attrs={"T": FLOAT}).output()
    graph.outputs = [norm(graph, same, 6, "n")]
    after, _ = step(graph, "fold_old_batch_norms")
    assert not any("Norm" in n.op for n in after)
    assert after.node("n").op == "ConcatV2"
    assert_same_numbers(graph, after, 2e-5)


@pytest.mark.parametrize("op", ["Conv2D", "DepthwiseConv2dNative"])
@pytest.mark.parametrize("padding", [b"VALID", b"SAME"])
@pytest.mark.parametrize("size", [1, 3])
def test_fold_forward_only_without_padding(op: str, padding: bytes, size: int) -> None:
    graph = start((1, 5, 5, 2))
    value = norm(graph, graph.inputs[0], 2, "bn")
    graph.outputs = [conv(graph, value, (size, size, 2, 3), "conv", op, padding=padding)]
    after, report = step(graph, "fold_old_batch_norms(fold_forward=true)")
    folds = padding == b"VALID" or size == 1
    assert any("Norm" in n.op for n in after) != folds
    assert folds or "pads with zeros" in str(report.trace.left)
    assert_same_numbers(graph, after, 1e-4)


@pytest.mark.parametrize("transpose", [False, True])
def test_fold_forward_into_a_matrix_product(transpose: bool) -> None:
    graph = start((1, 2, 2, 3))
    value = norm(graph, graph.inputs[0], 3, "bn")
    weights = graph.constant(uniform((4, 3) if transpose else (3, 4), 9), "w")
    attrs: dict[str, Attr] = {"T": FLOAT, "adj_y": transpose}
    graph.outputs = [graph.add("BatchMatMulV2", [value, weights], "mm", attrs=attrs).output()]
    after, _ = step(graph, "fold_old_batch_norms(fold_forward=true)")
    assert [n.op for n in after] == ["Placeholder", "Const", "BatchMatMulV2", "Const", "BiasAdd"]
    assert after.outputs[0].name == "mm"
    assert_same_numbers(graph, after, 1e-4)


def test_fold_forward_refuses_groups() -> None:
    graph = start((1, 3, 3, 4))
    value = norm(graph, graph.inputs[0], 4, "bn")
    graph.outputs = [conv(graph, value, (3, 3, 2, 4), "conv", padding=b"VALID")]
    _, report = step(graph, "fold_old_batch_norms(fold_forward=true)")
    assert not report.changes
    assert "grouped" in str(report.trace.left)


def test_missing_required_epsilon_is_a_refusal() -> None:
    graph = start((1, 3, 3, 2))
    value = conv(graph, graph.inputs[0], (1, 1, 2, 2), "conv")
    graph.outputs = [norm(graph, value, 2, "bn", "BatchNormWithGlobalNormalization")]
    _, report = step(graph, "fold_old_batch_norms")
    assert reasons(report) == {"bn": "the attribute variance_epsilon is missing"}


def test_versions_survive() -> None:
    from thinflow.ir.graph import Versions

    graph = start((1, 3, 3, 2))
    graph.versions = Versions(producer=8)
    graph.outputs = [norm(graph, conv(graph, graph.inputs[0], (1, 1, 2, 2), "conv"), 2, "bn")]
    assert apply(graph, "fold_old_batch_norms").graph.versions == Versions(producer=8)
