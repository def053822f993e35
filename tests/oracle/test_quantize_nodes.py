"""Eight-bit graphs in TensorFlow: they load there, give the numbers of thinflow's kernels, and are no larger
than those of the original tool.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.night import ALL_NETWORKS
from tests.oracle import _original
from tests.oracle._frozen import Array, Frozen, get, run_in_tensorflow, to_graph, to_message
from tests.transforms.golden import parse_graph
from thinflow.analysis.shapes import port_count
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT
from thinflow.rewrite.runner import run
from thinflow.transforms import resolve

CONV = 'T=float, data_format="NHWC", dilations=[1,1,1,1], padding="SAME"'
POOL = 'T=float, data_format="NHWC", ksize=[1,2,2,1], strides=[1,2,2,1]'

NETS = {
    "layers": f"""
        x = Placeholder() {{dtype=float, shape=shape[1,9,9,3]}}
        w = Const() {{value=float[3,3,3,8]{{normal 1}}}}
        b = Const() {{value=float[8]{{normal 2}}}}
        conv = Conv2D(x, w) {{{CONV}, strides=[1,2,2,1]}}
        bias = BiasAdd(conv, b) {{T=float, data_format="NHWC"}}
        relu = Relu6(bias) {{T=float}}
        pool = MaxPool(relu) {{{POOL}, padding="SAME"}}
        shape = Const() {{value=int32[2]{{1,-1}}}}
        flat = Reshape(pool, shape) {{T=float, Tshape=int32}}
        v = Const() {{value=float[72,5]{{normal 3}}}}
        fc = MatMul(flat, v) {{T=float, transpose_a=false, transpose_b=false}}
        c = Const() {{value=float[5]{{normal 4}}}}
        y = Add(fc, c) {{T=float}}
        inputs: x
        outputs: y
    """,
    "branches": f"""
        x = Placeholder() {{dtype=float, shape=shape[2,8,8,4]}}
        w1 = Const() {{value=float[1,1,4,4]{{normal 5}}}}
        w2 = Const() {{value=float[3,3,4,4]{{normal 6}}}}
        a = Conv2D(x, w1) {{{CONV}, strides=[1,1,1,1]}}
        b = Conv2D(x, w2) {{{CONV}, strides=[1,1,1,1]}}
        sum = Add(a, b) {{T=float}}
        product = Mul(sum, a) {{T=float}}
        axis = Const() {{value=int32[]{{3}}}}
        all = Concat(axis, product, b, x) {{N=3, T=float}}
        mean = AvgPool(all) {{{POOL}, padding="VALID"}}
        size = Const() {{value=int32[2]{{6,6}}}}
        y = ResizeBilinear(mean, size) {{T=float, align_corners=true, half_pixel_centers=false}}
        z = Abs(sum) {{T=float}}
        inputs: x
        outputs: y, z
    """,
    "trained": f"""
        x = Placeholder() {{dtype=float, shape=shape[1,6,6,2]}}
        w = Const() {{value=float[3,3,2,4]{{normal 7}}}}
        b = Const() {{value=float[4]{{normal 8}}}}
        low = Const() {{value=float[]{{0}}}}
        high = Const() {{value=float[]{{6}}}}
        conv = Conv2D(x, w) {{{CONV}, strides=[1,1,1,1]}}
        bias = BiasAdd(conv, b) {{T=float, data_format="NHWC"}}
        pool = MaxPool(bias) {{{POOL}, padding="VALID"}}
        relu = Relu(pool) {{T=float}}
        y = FakeQuantWithMinMaxVars(relu, low, high) {{narrow_range=false, num_bits=8}}
        inputs: x
        outputs: y
    """,
    "dead": """
        x = Placeholder() {dtype=float, shape=shape[1,4]}
        w = Const() {value=float[4,3]{0.1 x 12}}
        b = Const() {value=float[3]{-9,-8,-7}}
        fc = MatMul(x, w) {T=float, transpose_a=false, transpose_b=false}
        sum = Add(fc, b) {T=float}
        y = Relu(sum) {T=float}
        keep = Abs(sum) {T=float}
        inputs: x
        outputs: y, keep
    """,
    "zeros": """
        x = Placeholder() {dtype=float, shape=shape[2,4]}
        w = Const() {value=float[4,3]{0 x 12}}
        fc = MatMul(x, w) {T=float, transpose_a=false, transpose_b=false}
        relu = Relu(fc) {T=float}
        y = Mul(relu, fc) {T=float}
        inputs: x
        outputs: y
    """,
    "transposed": """
        x = Placeholder() {dtype=float, shape=shape[5,2]}
        w = Const() {value=float[3,5]{normal 9}}
        one = Const() {value=float[]{1.5}}
        fc = MatMul(x, w) {T=float, transpose_a=true, transpose_b=true}
        more = Mul(fc, one) {T=float}
        y = Add(more, more) {T=float}
        inputs: x
        outputs: y
    """,
}
TWICE = {"transposed"}
"""Nets that read a tensor twice in one op, at which the original gives up."""

RECIPE = "quantize_weights(minimum_size=16) quantize_nodes strip_unused_nodes"

needs_original = pytest.mark.skipif(
    not _original.available(), reason="this TensorFlow has no Graph Transform Tool"
)


def frozen_net(name: str) -> Frozen:
    graph = parse_graph(NETS[name])
    shape = tuple(graph.node("x").get("shape"))
    outputs = tuple(v.name for v in graph.outputs)
    return Frozen(to_message(graph), {"x": (shape, np.dtype(np.float32))}, outputs)


def quantized(frozen: Frozen, recipe: str = RECIPE) -> Graph:
    return run(frozen.graph(), resolve(recipe), port_count=port_count).graph


def here(graph: Graph, feeds: dict[str, Array]) -> list[Array]:
    return Plan(graph, graph.outputs, graph.inputs).run({v: feeds[v.node.name] for v in graph.inputs})


def there(graph: Graph, feeds: dict[str, Array]) -> list[Array]:
    return run_in_tensorflow(to_message(graph), feeds, [v.name for v in graph.outputs])


@pytest.mark.parametrize(
    "recipe", [RECIPE, "quantize_nodes", "quantize_nodes(fallback_min=-40, fallback_max=40)"]
)
@pytest.mark.parametrize("name", NETS)
def test_tensorflow_computes_the_same(name: str, recipe: str) -> None:
    frozen = frozen_net(name)
    graph = quantized(frozen, recipe)
    assert not {"Conv2D", "MatMul", "Add", "Mul", "Relu", "BiasAdd", "Concat"} & {n.op for n in graph}
    for seed in range(3):
        feeds = frozen.feeds(seed)
        for mine, theirs in zip(here(graph, feeds), there(graph, feeds), strict=True):
            # Codes agree; their decoding may differ in the last bit.
            np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", NETS)
def test_close_to_float(name: str) -> None:
    frozen = frozen_net(name)
    graph = quantized(frozen)
    for seed in range(3):
        feeds = frozen.feeds(seed)
        for expected, found in zip(frozen.run(seed), there(graph, feeds), strict=True):
            assert np.abs(found - expected).max() <= 0.05 * np.abs(expected).max() + 1e-6


@needs_original
@pytest.mark.parametrize("name", sorted(set(NETS) - TWICE))
def test_no_larger_than_the_original(name: str) -> None:
    frozen = frozen_net(name)
    theirs = _original.transform_graph(frozen.graph_def, list(frozen.inputs), frozen.outputs, RECIPE)
    assert theirs is not None
    ours = to_message(quantized(frozen))
    assert len(ours.node) <= len(theirs.node)
    assert _size(ours) <= _size(theirs)
    missing = _eight_bit_names(theirs) - {node.name for node in ours.node}
    assert not missing, "a node of the original's result has another name here"


def _size(message: Any) -> int:
    copy = type(message)()
    copy.CopyFrom(message)
    copy.ClearField("versions")
    return int(copy.ByteSize())


def _eight_bit_names(message: Any) -> set[str]:
    return {n.name for n in message.node if n.op.startswith(("Quantized", "Requant"))}


@needs_original
@pytest.mark.parametrize("name", sorted(TWICE))
def test_where_the_original_gives_up(name: str) -> None:
    frozen = frozen_net(name)
    assert _original.transform_graph(frozen.graph_def, list(frozen.inputs), frozen.outputs, RECIPE) is None
    assert "Mul" not in {n.op for n in quantized(frozen)}


def test_codes_as_input() -> None:
    frozen = frozen_net("layers")
    graph = quantized(frozen, "quantize_nodes(input_min=-1, input_max=1)")
    codes = np.random.default_rng(1).integers(0, 256, (1, 9, 9, 3)).astype(np.uint8)
    (mine,) = here(graph, {"x": codes})
    message = to_message(graph)
    with tf.Graph().as_default() as imported:
        tf.import_graph_def(message, name="")
        with tf.compat.v1.Session(graph=imported) as session:
            feed = tf.compat.v1.quantize_v2(
                codes.astype(np.float32), 0.0, 255.0, tf.quint8, mode="MIN_FIRST"
            )[0]
            theirs = session.run("y:0", {"x:0": session.run(feed)})
    np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-7)


EIGHT_BIT = """
    add_default_attributes
    strip_unused_nodes
    remove_nodes(op=Identity, op=CheckNumerics)
    fold_constants(ignore_errors=true)
    fold_batch_norms
    fold_old_batch_norms
    quantize_weights
    quantize_nodes
    strip_unused_nodes
    sort_by_execution_order
"""


@pytest.mark.parametrize(
    "name",
    [
        *("mobilenet_small", "mobilenet_v2_small", "inception_v3", "zoo:digits"),
        *(["resnet50_v2"] if ALL_NETWORKS else []),
    ],
)
def test_whole_networks_run(name: str) -> None:
    """Where the original's result of a Keras network loads, but stops with an error or gives NaN."""
    frozen = get(name)
    graph = quantized(frozen, EIGHT_BIT)
    assert "QuantizedConv2D" in {n.op for n in graph}
    assert "Conv2D" not in {n.op for n in graph}
    feeds = dict(zip([v.name for v in graph.inputs], frozen.feeds().values(), strict=True))
    for expected, found in zip(frozen.run(), there(graph, feeds), strict=True):
        assert found.shape == expected.shape
        assert np.isfinite(found).all()
    assert to_message(graph).ByteSize() <= 0.4 * frozen.graph_def.ByteSize()


@needs_original
@pytest.mark.parametrize("name", ["tf1_norms", "zoo:digits", "mobilenet_small"])
def test_recipe_no_larger_than_the_original(name: str) -> None:
    frozen = get(name)
    theirs = _original.transform_graph(frozen.graph_def, list(frozen.inputs), frozen.outputs, EIGHT_BIT)
    if theirs is None:
        pytest.skip("the original gives up")
    ours = to_message(quantized(frozen, EIGHT_BIT))
    assert len(ours.node) <= len(theirs.node), (
        Counter(n.op for n in ours.node),
        Counter(n.op for n in theirs.node),
    )
    assert _size(ours) <= _size(theirs)


def test_ranges_are_logged_and_frozen(capfd: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    """TensorFlow's own Print writes the log."""
    frozen = frozen_net("layers")
    graph = quantized(frozen)
    logging = 'insert_logging(op=RequantizationRange, show_name=true, message="__requant_min_max:")'
    logged = run(graph, resolve(logging), port_count=port_count).graph
    for seed in range(3):
        there(logged, frozen.feeds(seed))
    log = tmp_path / "ranges.txt"
    log.write_text(capfd.readouterr().err)
    result = run(graph, resolve([("freeze_requantization_ranges", {"min_max_log_file": str(log)})]))
    assert "RequantizationRange" not in {n.op for n in result.graph}
    assert not result.steps[0].trace.warnings
    (expected,), (found,) = frozen.run(1), there(result.graph, frozen.feeds(1))
    assert np.abs(found - expected).max() <= 0.06 * np.abs(expected).max()


CONSTANTS = {
    "normal": np.random.default_rng(1).standard_normal(2000),
    "below": -np.random.default_rng(2).uniform(1, 2, 1024),
    "above": np.random.default_rng(3).uniform(1, 2, 1500),
    "huge": np.random.default_rng(4).standard_normal(1024) * 1e30,
    "tiny": np.random.default_rng(5).standard_normal(1024) * 1e-30,
    "same": np.full(1024, 0.7),
    "holes": np.where(np.arange(1024) % 7, np.random.default_rng(6).standard_normal(1024), np.nan),
}


@needs_original
@pytest.mark.parametrize("name", CONSTANTS)
def test_legacy_weights_equal_those_of_the_original(name: str) -> None:
    graph = Graph()
    value = graph.constant(CONSTANTS[name].astype(np.float32), "w")
    graph.outputs = [graph.add("Neg", [value], "y", attrs={"T": FLOAT}).output()]
    theirs = _original.transform_graph(to_message(graph), [], ["y"], "quantize_weights")
    ours = run(graph, resolve("quantize_weights(legacy=true)"), port_count=port_count).graph
    expected = {n.name: tf.make_ndarray(n.attr["value"].tensor) for n in theirs.node if n.op == "Const"}
    found = {n.name: n.tensor.numpy() for n in ours if n.tensor is not None}
    assert expected.keys() == found.keys()
    for key, numbers in expected.items():
        np.testing.assert_array_equal(numbers.astype(found[key].dtype), found[key])


def test_bytes_load_again() -> None:
    frozen = frozen_net("branches")
    graph = quantized(frozen)
    content = to_message(graph).SerializeToString()
    again = to_graph(content, ["x"], frozen.outputs)
    assert len(again) == len(graph)
