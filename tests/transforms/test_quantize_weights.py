"""Weights in 8 bits: the numbers, not only the nodes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.transforms.support import Array, compute, feeds_for, reasons, step, to_bytes
from thinflow.ir.graph import Graph
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import BFLOAT16, DOUBLE, FLOAT, HALF, DType
from thinflow.ops import registry

needs_dequantize = pytest.mark.skipif(
    registry.find("Dequantize") is None, reason="there is no Dequantize yet"
)


def weights_graph(values: Array, element: DType = FLOAT) -> Graph:
    """y = relu(c)."""
    graph = Graph()
    value = graph.constant(Tensor.from_array(values, element), "c")
    graph.outputs = [graph.add("Relu", [value], "y", attrs={"T": element}).output()]
    return graph


def quantized(values: list[float]) -> tuple[list[int], float, float]:
    graph, report = step(weights_graph(np.float32(values)), "quantize_weights(minimum_size=1)")
    assert report.changes == 1, reasons(report)
    numbers = [graph.node(f"c_quantized_{part}").tensor for part in ("const", "min", "max")]
    const, low, high = [t.numpy() for t in numbers if t is not None]
    return const.tolist(), float(low), float(high)


def test_the_numbers_of_the_original() -> None:
    pad = [0.0] * 4
    assert quantized([-1, -0.5, 0, 0.25, 2, *pad]) == ([0, 42, 85, 106, 255, *[85] * 4], -1, 2)
    assert quantized([1, 2, 3, *pad]) == ([85, 170, 255, 0, 0, 0, 0], 0, 3)
    assert quantized([-3, -2, -1, *pad]) == ([0, 85, 170, *[255] * 4], -3, 0)


def test_the_range_always_holds_zero() -> None:
    assert quantized(np.linspace(-5, -1, 20).tolist())[1:] == (-5, 0)
    low, high = quantized(np.linspace(0.1, 4, 20).tolist())[1:]
    assert (low, high) == (0, 4)


def test_all_zeros() -> None:
    assert quantized([0.0] * 20) == ([0] * 20, 0, 1)


@needs_dequantize
@pytest.mark.parametrize("mode", ["MIN_FIRST", "SCALED"])
def test_numbers_come_back(mode: str, rng: np.random.Generator) -> None:
    values = rng.standard_normal(400).astype(np.float32)
    values[::7] = 0
    graph = weights_graph(values)
    graph.outputs = [graph.add("Neg", [graph.value("c")], "z", attrs={"T": FLOAT}).output()]
    after, _ = step(graph, f"quantize_weights(minimum_size=1, mode={mode})")
    (back,) = compute(after, {})
    width = np.ptp(values) / 255 if mode == "MIN_FIRST" else np.abs(values).max() / 127
    assert np.abs(values + back).max() <= 0.501 * width
    assert (back[values == 0] == 0).all(), "zero is exact"


@needs_dequantize
def test_zeros_come_back_as_zeros() -> None:
    after, _ = step(weights_graph(np.zeros(50, np.float32)), "quantize_weights(minimum_size=1)")
    np.testing.assert_array_equal(compute(after, {})[0], np.zeros(50))


LAYERS = {
    "Conv2D": ((2, 2, 3, 5), (1, 4, 4, 3), {"strides": (1, 1, 1, 1), "padding": b"SAME"}, (1, 1, 1, 5)),
    "DepthwiseConv2dNative": (
        (2, 2, 3, 2),
        (1, 4, 4, 3),
        {"strides": (1, 1, 1, 1), "padding": b"SAME"},
        (1, 1, 3, 2),
    ),
    "MatMul": ((6, 5), (2, 6), {}, (1, 5)),
    "MatMul/transposed": ((5, 6), (2, 6), {"transpose_b": True}, (5, 1)),
    "BatchMatMulV2": ((6, 5), (3, 2, 6), {}, (1, 5)),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_a_scale_per_channel(layer: str, rng: np.random.Generator) -> None:
    shape, shape_in, attrs, scales = LAYERS[layer]
    values = rng.standard_normal(shape).astype(np.float32) * 10 ** rng.uniform(-3, 3, scales).astype(
        np.float32
    )
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": _shape(shape_in)})
    alias = graph.add("Identity", [graph.constant(values, "w")], "i", attrs={"T": FLOAT})
    y = graph.add(layer.partition("/")[0], [x, alias], "y", attrs={"T": FLOAT, **attrs})
    graph.inputs, graph.outputs = [x.output()], [y.output()]
    after, report = step(graph, "quantize_weights(minimum_size=1, axis=auto)")
    scale = after.node("w_scale").tensor
    assert scale is not None
    assert scale.shape == scales
    assert f"{np.prod(scales)} channels" in report.trace.changes[0].text
    feeds = feeds_for(graph)
    (expected,), (found,) = compute(graph, feeds), compute(after, feeds)
    largest = np.abs(expected).reshape(-1, expected.shape[-1]).max(axis=0)
    assert (np.abs(found - expected).reshape(-1, expected.shape[-1]).max(axis=0) <= 0.03 * largest).all()


def _shape(dims: tuple[int, ...]) -> object:
    from thinflow.ir.attrs import ShapeAttr

    return ShapeAttr(dims)


def test_readers_that_disagree_get_one_range() -> None:
    graph = Graph()
    w = graph.constant(np.eye(6, dtype=np.float32), "w")
    x = graph.constant(np.ones((2, 6), np.float32), "x")
    a = graph.add("MatMul", [x, w], "a", attrs={"T": FLOAT})
    b = graph.add("MatMul", [x, w], "b", attrs={"T": FLOAT, "transpose_b": True})
    graph.outputs = [a.output(), b.output()]
    after, _ = step(graph, "quantize_weights(minimum_size=30, axis=auto)")
    assert after.node("w").op == "Dequantize"


@pytest.mark.parametrize("element", [HALF, BFLOAT16, DOUBLE])
def test_other_types_only_on_demand(element: DType, rng: np.random.Generator) -> None:
    graph = weights_graph(rng.standard_normal(64).astype(element.numpy()), element)
    _, report = step(graph, "quantize_weights(minimum_size=1)")
    assert reasons(report) == {"c": f"it is {element}; dtype={element} includes it"}
    after, _ = step(graph, f"quantize_weights(minimum_size=1, dtype={element})")
    assert after.node("c").op == "Cast"
    assert after.node("c").attrs["DstT"] is element


def test_the_size_limit() -> None:
    for count, changes in ((1023, 0), (1024, 1)):
        _, report = step(weights_graph(np.arange(count, dtype=np.float32)), "quantize_weights")
        assert report.changes == changes


def test_the_file_gets_smaller(rng: np.random.Generator) -> None:
    graph = weights_graph(rng.standard_normal(10_000).astype(np.float32))
    after, _ = step(graph, "quantize_weights")
    assert len(to_bytes(after)) < 0.27 * len(to_bytes(graph))
    splat = weights_graph(np.broadcast_to(np.float32(2.5), (2000,)))
    after, _ = step(splat, "quantize_weights")
    assert to_bytes(after) == to_bytes(splat)


def test_names_that_are_taken() -> None:
    graph = weights_graph(np.arange(20, dtype=np.float32))
    graph.outputs = [*graph.outputs, graph.constant(np.float32(7), "c_quantized_min")]
    after, _ = step(graph, "quantize_weights(minimum_size=1)")
    assert [v.node.name for v in after.node("c").inputs] == [
        "c_quantized_const",
        "c_quantized_min_1",
        "c_quantized_max",
    ]
    assert after.node("c_quantized_min").tensor is not None
