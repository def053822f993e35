"""Rounding by Gram matrices: beside all roundings there are, for layers of both runtimes, within memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.quantize import onnx_programs
from tests.quantize.programs import CONV, Builder, codes, interpreter, run
from tests.quantize.related_inputs import net, related
from thinflow.errors import FeedError
from thinflow.quantize import gptq, grams
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.gptq import Solver, gptq_rounding
from thinflow.quantize.grams import layers_of
from thinflow.quantize.products import products
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.rounding import NEAREST, Grid
from thinflow.quantize.schemes import quantize_program
from thinflow.quantize.weights import weight_scales
from thinflow.tflite.model import Program, Tensor

Feeds = list[dict[str, np.ndarray]]


def grid_of(w: np.ndarray, axis: int | None = 0, limit: int = 7) -> Grid:
    return Grid(weight_scales(w, axis, limit).astype(np.float32), axis, limit)


# --------------------------------------------------------------------------------------- beside all there are


def test_no_worse_than_nearest_and_near_the_best_of_all_roundings() -> None:
    to_best, nearest_to_best = [], []
    for seed in range(12):
        b = Builder(seed)
        program = b.program(b.op("FULLY_CONNECTED", b.input(8, 5), b.normal(1, 5), None))
        feeds = related(program, seed=seed)
        w = program.subgraphs[0].operators[0].inputs[1].data
        grid = grid_of(w, limit=3)
        found = gptq_rounding(program, Recipe(), feeds).codes(w, grid)
        assert found.dtype == np.int8
        assert abs(found).max() <= 3
        x = np.concatenate([f["in0"] for f in feeds]).astype(np.float64)
        below = np.floor(w / grid.scales[:, None])
        all_there_are = [np.clip(below + step, -3, 3) for step in product((0, 1), repeat=5)]
        ours, nearest, *others = (
            float(np.square(x @ (w - one * grid.scales[:, None]).T).sum())
            for one in (found, NEAREST.codes(w, grid), *all_there_are)
        )
        assert ours <= nearest * 1.1  # judged by rows that were held out
        to_best.append(ours / min(others))
        nearest_to_best.append(nearest / min(others))
    assert np.median(to_best) < 1.5 < 2 < np.median(nearest_to_best)


LITERT: dict[str, Callable[[Builder], Tensor]] = {
    "conv": lambda b: b.conv(b.input(1, 6, 7, 12), 16, act="NONE"),
    "conv with strides": lambda b: b.conv(b.input(2, 9, 7, 12), 16, act="RELU", stride_w=2, stride_h=3),
    "dilated": lambda b: b.conv(
        b.input(1, 9, 9, 8), 8, act="NONE", padding="VALID", dilation_w_factor=2, dilation_h_factor=1
    ),
    "grouped": lambda b: b.op("CONV_2D", b.input(1, 6, 6, 8), b.normal(6, 3, 3, 4), b.normal(6), **CONV),
    "depthwise": lambda b: b.op(
        "DEPTHWISE_CONV_2D", b.input(1, 6, 6, 8), b.normal(1, 3, 3, 16), b.normal(16), **CONV,
        depth_multiplier=2,
    ),
    "dense": lambda b: b.op("FULLY_CONNECTED", b.input(4, 24), b.normal(10, 24), b.normal(10)),
    "dense without bias": lambda b: b.op("FULLY_CONNECTED", b.input(4, 24), b.normal(10, 24), None),
    "batch matmul": lambda b: b.op("BATCH_MATMUL", b.input(1, 4, 24), b.normal(24, 10)),
    "transposed": lambda b: b.op(
        "TRANSPOSE_CONV", b.const(np.array([1, 8, 8, 6])), b.normal(6, 2, 2, 8), b.input(1, 4, 4, 8),
        padding="VALID", stride_w=2, stride_h=2,
    ),
}  # fmt: skip


def by_hand(layer: Any, values: np.ndarray, w: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    rows = layer.rows(values, chosen).astype(np.float64)
    found: np.ndarray = rows @ layer.matrix(w).transpose(0, 2, 1)
    return found.transpose(1, 0, 2).reshape(len(chosen), -1)


@pytest.mark.parametrize("name", [n for n in LITERT if n != "transposed"])
def test_rows_times_weights_are_what_litert_computes(name: str) -> None:
    b = Builder(2)
    program = b.program(LITERT[name](b))
    (layer,) = products(program)
    (feed,) = related(program, 1)
    (expected,) = run(program, *feed.values(), plain=True)
    values, w = feed["in0"], np.asarray(layer.weights.array())
    chosen = np.arange(layer.count(values))
    y = by_hand(layer, values, w, chosen)
    if layer.has_bias:
        y = y + layer.operator.inputs[2].data
    if name == "conv with strides":
        y = np.maximum(y, 0)
    np.testing.assert_allclose(y, expected.reshape(y.shape), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(layer.restored(layer.matrix(w)), w)


@pytest.mark.parametrize("name", LITERT)
@pytest.mark.parametrize("limit", [127, 7])
def test_outputs_of_every_layer_come_closer(name: str, limit: int) -> None:
    b = Builder(2)
    program = b.program(LITERT[name](b))
    (layer,) = products(program)
    feeds = related(program)
    w = np.asarray(layer.weights.array())
    axis = {"DEPTHWISE_CONV_2D": 3, "BATCH_MATMUL": 1}.get(layer.operator.code, 0)
    grid = grid_of(w, axis, limit)
    rounding = gptq_rounding(program, Recipe(), feeds)

    def error(found: np.ndarray) -> float:
        gap = w - found * grid.along(w.ndim)
        values = [feed["in0"] for feed in related(program, 20, seed=99)]
        rows = np.concatenate([by_hand(layer, v, gap, np.arange(layer.count(v))) for v in values])
        return float(np.square(rows - (rows.mean(axis=0) if layer.has_bias else 0)).sum())

    better = error(rounding.codes(w, grid)) / error(NEAREST.codes(w, grid))
    assert better < 0.95


@pytest.mark.parametrize("scheme", ["int8", "int16x8", "dynamic", "int8_weights", "int4_weights"])
def test_every_scheme_runs_with_the_same_operators(scheme: str) -> None:
    program, feeds = net()
    recipe = Recipe(scheme=scheme)
    ranges = calibrate(program, feeds).ranges
    plain = quantize_program(program, recipe, ranges).program
    better = quantize_program(program, recipe, ranges, rounding=gptq_rounding(program, recipe, feeds)).program
    assert codes(better) == codes(plain)
    assert [t.shape for t in better.subgraphs[0].tensors()] == [t.shape for t in plain.subgraphs[0].tensors()]
    interpreter(better, plain=False)


# -------------------------------------------------------------------------------------------- unusual layers


def test_shared_weights_have_one_set_of_codes_and_one_bias() -> None:
    b = Builder(3)
    w, bias = b.normal(32, 64), b.normal(32)
    parts = b.op("SPLIT", b.const(np.array(1)), b.input(4, 128), out=(dtype_of(w),) * 2, num_splits=2)
    program = b.program(b.op("ADD", *(b.op("FULLY_CONNECTED", p, w, bias) for p in parts)))
    feeds = related(program)
    rounding = gptq_rounding(program, Recipe(), feeds)
    (layer,) = rounding.layers.values()
    assert len(layer.products) == 2
    for scheme in ("int8", "int8_weights"):
        recipe = Recipe(scheme=scheme)
        ranges = calibrate(program, feeds).ranges
        plain, made = (
            quantize_program(program, recipe, ranges, **choices) for choices in ({}, {"rounding": rounding})
        )
        assert len(made.program.subgraphs[0].constants()) == len(plain.program.subgraphs[0].constants())


def dtype_of(tensor: Tensor) -> Any:
    return tensor.dtype


def test_inputs_that_are_always_zero_keep_the_nearest_codes() -> None:
    b = Builder(4)
    program = b.program(b.op("FULLY_CONNECTED", b.input(4, 12), b.normal(6, 12), None))
    feeds = related(program)
    for feed in feeds:
        feed["in0"][:, 3:5] = 0
    w = program.subgraphs[0].operators[0].inputs[1].data
    grid = grid_of(w)
    found = gptq_rounding(program, Recipe(), feeds).codes(w, grid)
    np.testing.assert_array_equal(found[:, 3:5], NEAREST.codes(w, grid)[:, 3:5])
    nothing = [{"in0": np.zeros((4, 12), np.float32)}] * 3
    still = gptq_rounding(program, Recipe(), nothing).codes(w, grid)
    np.testing.assert_array_equal(still, NEAREST.codes(w, grid))


def test_layers_that_never_saw_a_finite_sample_keep_the_nearest() -> None:
    b = Builder(4)
    x = b.op("LOG", b.input(4, 12))
    program = b.program(b.op("FULLY_CONNECTED", x, b.normal(6, 12), b.normal(6)))
    # Logarithms of negative numbers: samples themselves must be finite.
    feeds = [{"in0": np.full((4, 12), -1.0, np.float32)}] * 3
    w, bias = (t.data for t in program.subgraphs[0].operators[1].inputs[1:])
    rounding = gptq_rounding(program, Recipe(), feeds)
    np.testing.assert_array_equal(rounding.codes(w, grid_of(w)), NEAREST.codes(w, grid_of(w)))
    np.testing.assert_array_equal(rounding.bias(w, grid_of(w), bias), bias)


def test_wide_layers_are_rounded_in_parts_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grams, "WIDEST", 16)
    b = Builder(4)
    program = b.program(b.op("FULLY_CONNECTED", b.input(4, 40), b.normal(6, 40), None))
    w = program.subgraphs[0].operators[0].inputs[1].data
    rounding = gptq_rounding(program, Recipe(), related(program))
    assert (rounding.codes(w, grid_of(w)) != NEAREST.codes(w, grid_of(w))).any()
    (note,) = rounding.notes
    assert "has 40 inputs, which are rounded in 3 parts" in note


def test_memory_stays_within_its_bound_at_the_price_of_more_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    program, feeds = net()
    recipe, ranges = Recipe(), calibrate(program, feeds).ranges
    at_once = quantize_program(program, recipe, ranges, rounding=gptq_rounding(program, recipe, feeds))
    walks: list[int] = []

    def counted(program: Any, layers: Any, *rest: Any, **more: Any) -> None:
        walks.append(sum(one.bytes for one in layers))
        grams.gather(program, layers, *rest, **more)

    monkeypatch.setattr(gptq, "gather", counted)
    monkeypatch.setattr(gptq, "BUDGET", 60_000)
    rounding = gptq_rounding(program, recipe, feeds)
    in_turn = quantize_program(program, recipe, ranges, rounding=rounding)
    assert len(walks) == 2
    assert sum(len(one.grams) > 0 for one in rounding.layers.values()) == 2
    for one, other in zip(stored(at_once.program), stored(in_turn.program), strict=True):
        np.testing.assert_array_equal(one, other)


def stored(program: Program) -> list[np.ndarray]:
    return [t.array() for t in program.subgraphs[0].constants()]


def test_the_same_samples_give_the_same_codes() -> None:
    program, feeds = net()
    ranges = calibrate(program, feeds).ranges
    one, other = (
        quantize_program(program, Recipe(), ranges, rounding=gptq_rounding(program, Recipe(), feeds))
        for _ in range(2)
    )
    for a, b in zip(stored(one.program), stored(other.program), strict=True):
        np.testing.assert_array_equal(a, b)


def test_layers_that_stay_float_are_not_looked_at() -> None:
    program, feeds = net()
    rounding = gptq_rounding(program, Recipe(skip_nodes=("node0",)), feeds)
    assert len(rounding.layers) == 2


def test_samples_that_do_not_fit_are_refused_at_once() -> None:
    program, _ = net()
    with pytest.raises(FeedError, match="no input 'other'"):
        gptq_rounding(program, Recipe(), [{"other": np.zeros(1, np.float32)}])
    with pytest.raises(FeedError, match="no calibration samples"):
        gptq_rounding(program, Recipe(), [])


# ------------------------------------------------------------------------------------------------------- ONNX


def onnx_layers() -> dict[str, Callable[[onnx_programs.Net], Any]]:
    rng = np.random.default_rng(8)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    return {
        "conv": lambda n: n.op(
            "Conv", n.x, normal(8, 6, 3, 3), normal(8), shape=(1, 8, 4, 4), kernel_shape=(3, 3),
            strides=(2, 2), pads=(0, 1, 1, 0),
        ),
        "lower": lambda n: n.op(
            "Conv", n.x, normal(8, 6, 2, 2), normal(8), shape=(1, 8, 8, 8), kernel_shape=(2, 2),
            auto_pad="SAME_LOWER",
        ),
        "grouped": lambda n: n.op(
            "Conv", n.x, normal(8, 3, 3, 3), normal(8), shape=(1, 8, 6, 6), kernel_shape=(3, 3), group=2
        ),
        "matmul": lambda n: n.op("MatMul", n.x, normal(8, 10), shape=(1, 6, 8, 10)),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["conv", "lower", "grouped", "matmul"])
def test_onnx_layers_are_rounded_too(name: str) -> None:
    pytest.importorskip("onnxruntime")
    net = onnx_programs.Net(1, 6, 8, 8)
    net.program.outputs = [onnx_layers()[name](net)]
    (layer,) = products(net.program)
    feeds = related(net.program)
    (expected,) = onnx_programs.run(net.program, feeds[0])
    w = layer.weights.array()
    y = by_hand(layer, feeds[0]["x"], w, np.arange(layer.count(feeds[0]["x"])))
    if layer.has_bias:
        y = y + layer.operator.inputs[2].data
    turned = np.moveaxis(expected, 1, -1) if name != "matmul" else expected
    np.testing.assert_allclose(y, turned.reshape(y.shape), rtol=1e-4, atol=1e-4)

    ranges = calibrate(net.program, feeds).ranges
    rounding = gptq_rounding(net.program, Recipe(), feeds)
    grid = grid_of(w, 1 if name == "matmul" else 0)
    assert (rounding.codes(w, grid) != NEAREST.codes(w, grid)).any()
    result = quantize_program(net.program, Recipe(), ranges, rounding=rounding)
    onnx_programs.check(result.program)
    onnx_programs.run(result.program, feeds[0])


def test_gemm_in_both_forms() -> None:
    pytest.importorskip("onnxruntime")
    for turned in (0, 1):
        net = onnx_programs.Net(4, 12)
        w = net.rng.standard_normal((12, 5)).astype(np.float32)
        bias = net.rng.standard_normal(5).astype(np.float32)
        y = net.op("Gemm", net.x, w.T.copy() if turned else w, bias, shape=(4, 5), transB=turned)
        net.program.outputs = [y]
        (layer,) = products(net.program)
        assert layer.has_bias
        (feed,) = related(net.program, 1)
        (expected,) = onnx_programs.run(net.program, feed)
        found = by_hand(layer, feed["x"], layer.weights.array(), np.arange(4)) + bias
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_large_means_of_rows_held_out_leave_nothing_in_what_is_centred() -> None:
    """The means of all rows are others than those of the rows in the matrix: 1 % of 100 is as loud as x."""
    b = Builder(1)
    program = b.program(b.op("FULLY_CONNECTED", b.input(1, 12), b.normal(6, 12), b.normal(6)))
    (layer,) = layers_of(products(program)).values()
    rows = np.random.default_rng(0).normal(0, 1, (1, 300, 12)) + 100
    layer.begin()
    held = layer.judges(300)
    rows[:, held] += 10
    layer.add(rows.astype(np.float32))
    gram = Solver(layer).gram(layer.parts[0])[0]
    np.testing.assert_allclose(gram, np.cov(rows[0, ~held].T, bias=True), atol=0.05)
