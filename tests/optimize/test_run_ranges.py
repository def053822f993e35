"""The rung that lets LiteRT find the ranges of each run."""

from __future__ import annotations

import numpy as np
import pytest

from tests.quantize.programs import Builder
from thinflow.optimize.rungs import Best
from thinflow.optimize.rungs.run_ranges import ranges_of_each_run
from thinflow.optimize.sqnr import SqnrMeter
from thinflow.quantize.fit import Fit
from thinflow.quantize.recipe import Recipe
from thinflow.tflite.model import Program

SEPARABLE, WIDE = ("node1",), ("node2", "node3")


def network(*, depth: int = 24, groups: int = 1) -> Program:
    """A depthwise layer between a convolution of few weights and two of many."""
    b = Builder(5)
    x = b.conv(b.input(1, 8, 8, 2), depth, 1)
    x = b.depthwise(x)
    x = b.conv(x, 96, 1)
    w = b.normal(32, 3, 3, 96 // groups, scale=0.05)
    options = {"padding": "SAME", "stride_w": 2, "stride_h": 2, "fused_activation_function": "NONE"}
    return b.program(b.op("CONV_2D", x, w, b.normal(32), **options))


def candidates(program: Program, recipe: Recipe, *, taken: bool = False) -> list[Recipe]:
    best, found = Best(recipe, recipe, Fit(program, [], [])), []
    for candidate in ranges_of_each_run(best):
        found.append(candidate.recipe)
        best.recipe = candidate.recipe if taken else recipe
    return found


def test_large_layers_find_ranges_and_small_ones_between_are_float() -> None:
    both, alone = candidates(network(), Recipe())
    assert both.dynamic_nodes == alone.dynamic_nodes == WIDE
    # All constants of the rest are a small part of the file.
    assert set(both.skip_nodes) == {"node0", *SEPARABLE}
    assert alone.skip_nodes == ()


def test_what_was_taken_with_the_rest_is_not_tried_without() -> None:
    (found,) = candidates(network(), Recipe(), taken=True)
    assert found.skip_nodes


def test_layers_that_are_in_float_stay_so() -> None:
    both, _ = candidates(network(), Recipe(skip_nodes=("node3",)))
    assert both.dynamic_nodes == ("node2",)
    assert both.skip_nodes[0] == "node3"


def test_a_rest_of_many_multiplications_stays_in_integers() -> None:
    b = Builder(5)
    x = b.depthwise(b.depthwise(b.input(1, 16, 16, 16)))
    pooled = b.op("MEAN", x, b.const([1, 2]), keep_dims=False)
    program = b.program(b.op("FULLY_CONNECTED", pooled, b.normal(64, 16), b.normal(64)))
    (found,) = candidates(program, Recipe())
    assert (found.dynamic_nodes, found.skip_nodes) == (("node3",), ())


def test_kernels_of_grouped_layers_find_none() -> None:
    (found,) = candidates(network(groups=2), Recipe())
    assert found.dynamic_nodes == ("node2",)


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(input_type="int8", output_type="int8"),
        Recipe(scheme="dynamic"),
        Recipe(scheme="int16x8"),
        Recipe(skip_nodes=("node2", "node3")),
    ],
)
def test_other_models_stay(recipe: Recipe) -> None:
    assert candidates(network(), recipe) == []


def test_it_leaves_less_noise_than_ranges_of_all_samples() -> None:
    program, rng = network(), np.random.default_rng(0)
    # Samples of unlike size, as sounds are: a range that holds the largest leaves small ones few steps.
    sizes = rng.uniform(0.2, 2, 48)
    pictures = [(rng.standard_normal((1, 8, 8, 2)) * size).astype(np.float32) for size in sizes]
    feeds = [{"in0": picture} for picture in pictures]
    fit = Fit(program, feeds[:32], feeds[:32])
    meter = SqnrMeter(program, [[picture] for picture in pictures[32:]])
    both, alone = candidates(program, Recipe())
    plain, some, more = (meter.sqnr(fit.quantized(r).program) for r in (Recipe(), alone, both))
    assert plain + 2 < some
    assert some + 2 < more
