"""Noise of each activation by itself, and activations that are lost in theirs and stay float."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.quantize import onnx_programs
from tests.quantize.programs import Builder, samples
from thinflow.optimize.climb import Goal, climb
from thinflow.optimize.rungs import Best
from thinflow.optimize.rungs.activations import (
    _Network,
    drowned_activations,
    loud_activations,
    loud_activations_of_onnx,
)
from thinflow.quantize.activation_noise import SILENT_DB, activation_noise
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.fit import Fit
from thinflow.quantize.recipe import Recipe
from thinflow.tflite.model import Program


def peaks() -> Program:
    """An activation that is nearly everywhere small, and very large in a few places."""
    b = Builder(2)
    x = b.input(1, 16, 16, 8)
    lifted = b.conv(x, 16, act="NONE")
    high = b.op(
        "MUL", lifted, b.op("EXP", b.conv(lifted, 16, 1, act="NONE")), fused_activation_function="NONE"
    )
    b.channels[high] = 16
    y = b.conv(b.conv(high, 16, act="NONE"), 16, act="RELU")
    pooled = b.op("MEAN", y, b.const(np.array([1, 2])), keep_dims=False)
    return b.program(b.op("FULLY_CONNECTED", pooled, b.normal(10, 16), b.normal(10)))


def noise_by_name(program: Program, recipe: Recipe, feeds: list[dict[str, np.ndarray]]) -> dict[str, float]:
    ranges = calibrate(program, feeds, recipe).ranges
    return {t.name: db for t, db in activation_noise(program, recipe, ranges, feeds).items()}


def test_noise_is_what_rounding_alone_does() -> None:
    b = Builder(1)
    program = b.program(b.conv(b.conv(b.input(1, 8, 8, 4), 8, act="NONE"), 8, act="NONE"))
    feeds = samples(program, 8)
    found = noise_by_name(program, Recipe(), feeds)
    x = np.concatenate([f["in0"] for f in feeds])
    step = (x.max() - x.min()) / 255
    # Rounding errors are spread evenly over a step.
    assert found["in0"] == pytest.approx(10 * np.log10(x.var() / (step**2 / 12)), abs=0.2)
    finer = noise_by_name(program, Recipe(scheme="int16x8"), feeds)
    assert all(finer[name] > found[name] + 40 for name in found)


def test_what_all_values_have_in_common_is_no_signal() -> None:
    b = Builder(1)
    program = b.program(b.conv(b.input(1, 8, 8, 4), 8, act="NONE"))
    feeds = [{"in0": f["in0"] + 50} for f in samples(program, 8)]
    # A range from 0 on: the values themselves take a seventh of it.
    assert noise_by_name(program, Recipe(), feeds)["in0"] < 25


def test_a_constant_is_silent() -> None:
    b = Builder(1)
    program = b.program(b.conv(b.input(1, 4, 4, 4), 4, act="NONE"))
    feeds = [{"in0": np.zeros((1, 4, 4, 4), np.float32)} for _ in range(4)]
    assert noise_by_name(program, Recipe(), feeds)["in0"] == SILENT_DB


def test_the_same_in_onnx() -> None:
    net = onnx_programs.Net(1, 4, 6, 6)
    net.program.outputs = [net.conv(net.conv(net.x))]
    ranges = calibrate(net.program, net.samples(), Recipe()).ranges
    found = {t.name: db for t, db in activation_noise(net.program, Recipe(), ranges, net.samples()).items()}
    assert set(found) >= {"x", "conv0_0"}
    assert all(30 < db < 60 for db in found.values())


def test_what_a_clamp_cuts_off_is_no_noise() -> None:
    net = onnx_programs.Net(1, 4, 6, 6)
    raw = net.conv(net.x)
    y = net.op("Relu", raw)
    net.program.outputs = [net.conv(y)]
    fit = Fit(net.program, net.samples(), net.samples())
    found = fit.activation_noise(Recipe())
    assert raw not in found
    assert found[y] > 35
    # In float it is not rounded, and so neither is what it cuts off.
    touching = _Network(Best(Recipe(), Recipe(), fit)).touching(y)
    assert [o.code for o in touching] == ["Relu", "Conv", "Conv"]


def best_of(program: Program, recipe: Recipe, count: int = 16) -> Best:
    feeds = samples(program, count)
    return Best(recipe, recipe, Fit(program, feeds, feeds))


def test_drowned_activations_become_float_with_what_touches_them() -> None:
    program = peaks()
    (candidate,) = drowned_activations(best_of(program, Recipe()))
    main = program.subgraphs[0]
    kept = {o.code: candidate.recipe.why_float(o) for o in main.operators}
    assert kept["MUL"]
    readers = [o for o in main.operators if main.operators[3].outputs[0] in o.inputs]
    assert all(candidate.recipe.why_float(o) for o in readers)
    assert not kept["FULLY_CONNECTED"]


@pytest.mark.parametrize("scheme", ["dynamic", "int8_weights", "float16", "int4_weights"])
def test_schemes_that_round_no_activations_are_let_alone(scheme: str) -> None:
    best = best_of(peaks(), Recipe(scheme=scheme))
    assert not [*drowned_activations(best), *loud_activations(best)]


def test_nothing_is_drowned_in_an_ordinary_network() -> None:
    b = Builder(3)
    program = b.program(b.conv(b.conv(b.input(1, 8, 8, 4), 8), 8))
    assert not list(drowned_activations(best_of(program, Recipe())))


def test_a_climb_tries_them_where_they_help() -> None:
    program = peaks()
    way = climb(Goal(program, {}), samples(program, 24), Recipe(), "default")
    tried = {t.what: t for t in way.trials}["activations with much noise in float"]
    assert tried.gain_db is not None
    assert tried.gain_db > 1
    # Whether it is kept hangs on the error of that gain, which differs with the processor.
    assert tried.kept or tried.gain_db - 1 < 2 * tried.error_db


def test_of_the_others_the_worst_are_tried_one_by_one_while_they_are_cheap() -> None:
    b = Builder(3)
    x = b.conv(b.input(1, 8, 8, 4), 8)
    # Nearly all multiplications.
    y = b.conv(b.conv(x, 64), 8)
    program = b.program(b.op("ADD", x, b.conv(y, 8, 1), fused_activation_function="NONE"))
    best = best_of(program, Recipe())
    tried: list[str] = []

    def taken() -> Iterator[str]:
        for candidate in loud_activations(best):
            best.recipe = candidate.recipe
            yield candidate.what

    tried = [*taken()]
    assert tried
    assert all(what.endswith("' in float") for what in tried)
    heavy = program.subgraphs[0].operators[1:3]
    assert not any(best.recipe.why_float(o) for o in heavy)


def test_where_answers_are_near_onnx_has_floats_and_litert_ranges_of_each_run() -> None:
    pytest.importorskip("onnxruntime")
    net = onnx_programs.Net(1, 4, 8, 8)
    net.program.outputs = [net.conv(net.conv(net.conv(net.x, 4), 64), 64)]
    recipe, feeds = Recipe(few_samples=0), net.samples()
    best = Best(recipe, recipe, Fit(net.program, feeds, feeds))
    (first, *_) = [*loud_activations_of_onnx(best)]
    assert first.what.endswith("' in float")
    assert not [*loud_activations(best)]
    assert not [*loud_activations_of_onnx(best_of(peaks(), Recipe()))]
