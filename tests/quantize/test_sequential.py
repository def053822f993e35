"""Rounding layer after layer: each makes up for what those before it lost, in every scheme and runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.quantize import onnx_programs
from tests.quantize.programs import Builder, run
from tests.quantize.related_inputs import related
from thinflow.errors import FeedError
from thinflow.quantize import sequential, steps
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.fit import Fit
from thinflow.quantize.gptq import gptq_rounding
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.rounding import NEAREST, Grid, Rounding
from thinflow.quantize.schemes import quantize_program
from thinflow.quantize.sequential import SequentialRounding, sequential_rounding
from thinflow.tflite.model import Program


def deep(layers: int = 6) -> tuple[Program, list[dict[str, np.ndarray]]]:
    """Dense layers with ReLU, the inputs related."""
    b = Builder(5)
    x = b.input(16, 48)
    for _ in range(layers):
        x = b.op("FULLY_CONNECTED", x, b.normal(48, 48), b.normal(48), fused_activation_function="RELU")
    program = b.program(x)
    return program, related(program, 40)


def noise(program: Any, made: Any, feeds: list[dict[str, np.ndarray]]) -> float:
    """Mean square of the error beside that of the outputs."""
    before, after = (
        np.concatenate([run(p, *f.values(), plain=True)[0].ravel() for f in feeds]) for p in (program, made)
    )
    return float(np.square(after - before).mean() / np.square(before).mean())


@pytest.mark.parametrize("scheme", ["int8", "int4_weights"])
def test_deep_networks_come_closer_than_by_layers_rounded_alone(scheme: str) -> None:
    program, feeds = deep()
    made, judged = feeds[::2], feeds[1::2]
    recipe = Recipe(scheme=scheme)
    ranges = calibrate(program, made).ranges
    found = []
    for rounding in (
        NEAREST,
        gptq_rounding(program, recipe, made),
        sequential_rounding(program, recipe, ranges, made),
    ):
        smaller = quantize_program(program, recipe, ranges, rounding=rounding).program
        found.append(noise(program, smaller, judged))
    nearest, alone, ours = found
    assert ours < alone * 1.05
    assert ours < nearest / (3 if scheme == "int4_weights" else 1)


def test_several_levels_in_a_step_do_not_make_up_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    program, feeds = deep()
    recipe = Recipe(scheme="int4_weights")
    monkeypatch.setattr(steps, "_FEWEST", 2)
    monkeypatch.setattr(steps, "_WORK", 0)
    rounding = sequential_rounding(program, recipe, {}, feeds)
    assert [layer.is_first for layer in rounding.layers.values()] == [True, False, False] * 2
    made = quantize_program(program, recipe, rounding=rounding).program
    nearest = quantize_program(program, recipe).program
    assert noise(program, made, feeds) < noise(program, nearest, feeds) / 2


@pytest.mark.parametrize("scheme", ["dynamic", "int8_weights", "int16x8"])
def test_every_scheme_takes_it_and_no_tensors_come_about(scheme: str) -> None:
    program, feeds = deep(3)
    recipe = Recipe(scheme=scheme)
    ranges = calibrate(program, feeds).ranges
    rounding = sequential_rounding(program, recipe, ranges, feeds)
    plain, made = (quantize_program(program, recipe, ranges, rounding=r).program for r in (NEAREST, rounding))
    assert len(made.subgraphs[0].tensors()) == len(plain.subgraphs[0].tensors())
    assert noise(program, made, feeds) < noise(program, plain, feeds) * 1.2


def test_onnx_programs_too() -> None:
    net = onnx_programs.Net(1, 6, 8, 8)
    net.program.outputs = [net.conv(net.op("Relu", net.conv(net.x, 12)), 4)]
    feeds = related(net.program)
    fit = Fit(net.program, feeds, feeds)
    rounding = fit.rounding(Recipe(rounding="sequential"))
    assert isinstance(rounding, SequentialRounding)
    assert len(rounding.layers) == 2
    result = fit.quantized(Recipe(rounding="sequential"))
    onnx_programs.check(result.program)
    onnx_programs.run(result.program, feeds[0])


def test_statistics_are_gone_in_the_end_and_codes_stay() -> None:
    program, feeds = deep(2)
    recipe = Recipe(scheme="int4_weights")
    rounding = sequential_rounding(program, recipe, {}, feeds)
    assert all(not one.grams and not one.crosses and not one.wanted for one in rounding.layers.values())
    first, again = (quantize_program(program, recipe, rounding=rounding).program for _ in range(2))
    for a, b in zip(first.subgraphs[0].constants(), again.subgraphs[0].constants(), strict=True):
        np.testing.assert_array_equal(a.array(), b.array())


def test_a_grid_of_another_recipe_is_rounded_to_nearest() -> None:
    program, feeds = deep(2)
    rounding = sequential_rounding(program, Recipe(scheme="int4_weights"), {}, feeds)
    w = np.asarray(program.subgraphs[0].operators[0].inputs[1].data)
    grid = Grid(np.full(48, 0.3, np.float32), 0, 7)
    np.testing.assert_array_equal(rounding.codes(w, grid), NEAREST.codes(w, grid))
    np.testing.assert_array_equal(rounding.clipped(w, grid).scales, NEAREST.clipped(w, grid).scales)


def test_targets_make_up_for_inputs_that_are_half_as_large() -> None:
    """Where every input comes in at half its size, twice the weights are wanted."""
    b = Builder(1)
    program = b.program(b.op("FULLY_CONNECTED", b.input(64, 8), b.normal(4, 8), None))
    (layer,) = sequential.layers_of(sequential.products(program)).values()
    paired = sequential.Paired(layer.products, 1, 8, layer.parts)
    paired.begin()
    x = np.random.default_rng(0).normal(size=(1, 500, 8)).astype(np.float32)
    paired.add_pair(x / 2, x)
    w = np.asarray(program.subgraphs[0].operators[0].inputs[1].data)
    np.testing.assert_allclose(paired.target(w, 1e-6), 2 * w, rtol=1e-3, atol=1e-3)
    paired.is_first = False
    np.testing.assert_array_equal(paired.target(w, 1e-6), w)


def test_inputs_that_hardly_vary_change_no_weights() -> None:
    b = Builder(1)
    program = b.program(b.op("FULLY_CONNECTED", b.input(64, 8), b.normal(4, 8), b.normal(4)))
    (layer,) = sequential.layers_of(sequential.products(program)).values()
    paired = sequential.Paired(layer.products, 1, 8, layer.parts)
    paired.begin()
    rng = np.random.default_rng(0)
    x = (1000 + 1e-3 * rng.normal(size=(1, 2000, 8))).astype(np.float32)
    paired.add_pair(x, x + rng.normal(size=x.shape).astype(np.float32))
    w = np.asarray(program.subgraphs[0].operators[0].inputs[1].data)
    np.testing.assert_allclose(paired.target(w, 0.01), w, atol=0.1)
    # Nor do numbers that no system has a solution for.
    paired.grams[0][:] = np.nan
    np.testing.assert_array_equal(paired.target(w, 0.01), w)


def test_samples_that_do_not_fit_are_refused() -> None:
    program, _ = deep(1)
    with pytest.raises(FeedError, match="the model has no input 'x'"):
        sequential_rounding(program, Recipe(scheme="dynamic"), {}, [{"x": np.zeros(3, np.float32)}])


def test_a_program_without_layers_is_left_alone() -> None:
    b = Builder(1)
    program = b.program(b.op("RELU", b.input(1, 8)))
    rounding: Rounding = sequential_rounding(program, Recipe(scheme="dynamic"), {}, [])
    w = np.ones((2, 2), np.float32)
    grid = Grid(np.ones(1, np.float32), None)
    np.testing.assert_array_equal(rounding.codes(w, grid), w)
    assert rounding.bias(w, grid, w) is w
