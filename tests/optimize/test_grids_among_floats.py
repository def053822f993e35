"""QDQ files that round some tensors and not those beside them: what they do not round, nothing else does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.night import AT_NIGHT
from thinflow.compare.inner_values import inner_differences
from thinflow.optimize.axis_orders import Ordered, orders_between

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert")

NARROW = """
    a = Mul(d, three)
    b = AveragePool<kernel_shape = [3, 3]>(a)
    q = QuantizeLinear(b, small, zero)
    y = DequantizeLinear(q, small, zero)
"""
"""Means reach a third as far as what they are taken of."""
FINE = """
    a = Sub(d, three)
    b = Sigmoid(a)
    q = QuantizeLinear(b, fine, none)
    y = DequantizeLinear(q, fine, none)
"""
"""Steps below LiteRT's 1/256."""
NORM = """
    m = ReduceMean<axes = [2, 3], keepdims = 1>(d)
    c = Sub(d, m)
    q = QuantizeLinear(c, small, zero)
    r = DequantizeLinear(q, small, zero)
    s = Mul(r, r)
    v = ReduceMean<axes = [2, 3], keepdims = 1>(s)
    t = Sqrt(v)
    y = Div(c, t)
"""
"""The deviation is made of rounded numbers, and divides those that are not."""
BESIDE = """
    a = Mul(d, three)
    b = ConvTranspose<kernel_shape = [1, 1]>(a, kernel)
    q = QuantizeLinear(b, large, zero)
    r = DequantizeLinear(q, large, zero)
    c = Relu(b)
    cq = QuantizeLinear(c, small, none)
    cr = DequantizeLinear(cq, small, none)
    y = Add(r, cr)
"""
"""A layer of floats, of which one reader has numbers in coarse steps and the other in finer ones."""
PARTS = """
    w = DequantizeLinear(even, scale)
    c = Conv<kernel_shape = [1, 1]>(d, w)
    cq = QuantizeLinear(c, large, zero)
    cd = DequantizeLinear(cq, large, zero)
    a, b = Split<axis = 1>(cd)
    aq = QuantizeLinear(a, small, zero)
    ad = DequantizeLinear(aq, small, zero)
    bq = QuantizeLinear(b, scale, none)
    bd = DequantizeLinear(bq, scale, none)
    y = Concat<axis = 1>(ad, bd)
"""
"""A grid for each part."""
CLIPPED = """
    w = DequantizeLinear(even, scale)
    c = Conv<kernel_shape = [1, 1]>(d, w)
    l = Clip(c, low, three)
    q = QuantizeLinear(l, large, zero)
    y = DequantizeLinear(q, large, zero)
"""
"""Limits within the grid of an output, which has another name than what rounds it."""
CHOSEN = """
    a = Mul(d, three)
    e = Exp(d)
    m = Max(a, e)
    q = QuantizeLinear(m, small, none)
    r = DequantizeLinear(q, small, none)
    y = Add(r, a)
"""
"""The grid of a maximum, which cuts off what another one reads of its parts."""
LIMITED = """
    m = Min(d, limits)
    y = Mul(m, three)
"""
"""Limits beside the grid, and beyond it."""
PRODUCTS = """
    f = Reshape(d, rows)
    t = Transpose<perm = [0, 2, 1]>(f)
    h = Reshape(t, heads)
    p = Transpose<perm = [2, 0, 3, 1, 4]>(h)
    pq = QuantizeLinear(p, scale, zero)
    pd = DequantizeLinear(pq, scale, zero)
    k, v = Split<axis = 0>(pd)
    k0 = Squeeze(k, first)
    v0 = Squeeze(v, first)
    kt = Transpose<perm = [0, 1, 3, 2]>(k0)
    s = MatMul(v0, kt)
    sq = QuantizeLinear(s, large, zero)
    y = DequantizeLinear(sq, large, zero)
"""
"""Keys and values come out of one split, and only keys are turned: two axes of each have changed places."""
SHIFTED = """
    w = DequantizeLinear(weights, scale, odd)
    a = Conv<kernel_shape = [1, 1]>(d, w)
    aq = QuantizeLinear(a, scale, zero)
    ad = DequantizeLinear(aq, scale, zero)
    e = Elu(ad)
    q = QuantizeLinear(e, scale, zero)
    y = DequantizeLinear(q, scale, zero)
"""
"""Weights with a zero point ask for LiteRT's uint8, of which its ELU does not know."""
CASES = {
    "means of what is not rounded": NARROW,
    "a sigmoid in fine steps": FINE,
    "a norm of numbers that are rounded for its variance": NORM,
    "a layer read before it is rounded": BESIDE,
    "parts of several grids": PARTS,
    "limits inside of a grid": CLIPPED,
    "a maximum one part of which is read elsewhere": CHOSEN,
    "a minimum with numbers off the grid": LIMITED,
    "axes of products that changed places": PRODUCTS,
    "a kernel without uint8": SHIFTED,
}


def saved(body: str, path: Path) -> Path:
    """A net of opset 13 that rounds its input x [1,4,8,4] to `d`."""
    numbers = {
        "scale": np.float32(0.02), "small": np.float32(0.013), "large": np.float32(0.05),
        "fine": np.float32(0.0007), "zero": np.uint8(128), "none": np.uint8(0), "odd": np.uint8(120),
        "three": np.float32(3), "low": np.float32(-0.7),
        "limits": np.float32([-9, 0.013, -1.111, 0.7]).reshape(4, 1, 1),
        "rows": np.int64([1, 4, 32]), "heads": np.int64([1, 32, 2, 2, 1]), "first": np.int64([0]),
        "even": np.arange(-128, 128, 16, np.int8).reshape(4, 4, 1, 1),
        "kernel": np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4, 1, 1),
        "weights": np.arange(0, 256, 16, np.uint8).reshape(4, 4, 1, 1),
    }  # fmt: skip
    start = "codes = QuantizeLinear(x, scale, zero) d = DequantizeLinear(codes, scale, zero)"
    header = '<ir_version: 8, opset_import: ["" : 13]> net (float[1,4,8,4] x) => (float y)'
    model = onnx.parser.parse_model(f"{header} {{ {start} {body} }}")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    used = {n for node in model.graph.node for n in node.input}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in numbers.items() if n in used
    )
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"] if AT_NIGHT else [".tflite"])
@pytest.mark.parametrize("case", CASES)
def test_answers_are_the_files(case: str, suffix: str, tmp_path: Path) -> None:
    source = saved(CASES[case], tmp_path / "m.onnx")
    # A graph that anybody may have changed is written anew, where a path of the same format asks for a copy.
    given = source if suffix == ".tflite" else thinflow.load(source)
    made = thinflow.convert_verified(given, tmp_path / f"made{suffix}")
    assert suffix != ".tflite" or "quantized layer" in made.proof
    assert not made.is_part
    feed = {"x": np.random.default_rng(1).normal(size=(1, 4, 8, 4)).astype(np.float32)}
    (expected,), (found,) = (thinflow.run(path, feed).values() for path in (source, made.path))
    assert np.abs(expected - found).max() <= 0.01 * np.abs(expected).max()
    # No more than roundings here and there.
    assert np.abs(expected - found).mean() <= 0.001 * np.abs(expected).max()


def test_orders_in_which_sizes_fit() -> None:
    # As it is before channels last, and these before everything else.
    assert orders_between((1, 8, 8, 8), (1, 8, 8, 8))[:3] == [(0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2)]
    assert orders_between((1, 9, 7, 3), (1, 3, 9, 7))[0] == (0, 2, 3, 1)
    # Other axes, and sizes of 1, wherever these are.
    assert orders_between((1, 4, 8, 16), (1, 4, 16, 8)) == [(0, 1, 3, 2)]
    assert orders_between((1, 1, 17, 64), (1, 64, 17)) == [(0, 2, 1)]
    assert orders_between((1, 1, 16, 16), (1, 16, 16))[:2] == [(0, 1, 2), (0, 2, 1)]
    # Joined axes.
    assert orders_between((1, 63, 3), (1, 3, 9, 7))[:2] == [(0, 1, 2, 3), (0, 2, 3, 1)]
    assert orders_between((2, 3), (4, 2)) == []


def test_the_order_that_is_nearest_to_what_is_computed() -> None:
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": thinflow.ir.types.FLOAT}).output()
    y = graph.add("Identity", [x], "y").output()
    y.spec = x.spec = thinflow.ir.types.TensorSpec(thinflow.ir.types.FLOAT, (2, 4, 4))
    graph.inputs, graph.outputs = [x], [y]
    array = np.arange(32, dtype=np.float32).reshape(2, 4, 4)
    ordered = Ordered({y: array})
    assert ordered.nearest(graph, {x: array.transpose(0, 2, 1)}, unlikely=False)
    np.testing.assert_array_equal(ordered.arrays[y], array.transpose(0, 2, 1))
    assert not ordered.nearest(graph, {x: array}, unlikely=True)


def test_a_relu_that_only_rounding_says_is_no_difference(tmp_path: Path) -> None:
    """What is cut off at 0 by codes is compared with the codes, and not with what they are made of."""
    source = saved(BESIDE.replace("Relu(b)", "Sub(b, three)"), tmp_path / "m.onnx")
    thinflow.convert(source, tmp_path / "m.tflite")
    feed = {"x": np.linspace(-2, 2, 128, dtype=np.float32).reshape(1, 4, 8, 4)}
    found = inner_differences(source, tmp_path / "m.tflite", feed, feed, tolerance=1e-3)
    assert [layer.name for layer in found if layer.difference.relative > 1e-3] == []
    assert len(found) > 4
