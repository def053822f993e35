"""Rungs for recurrent networks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.quantize.cells import INPUTS, UNITS, cell
from tests.quantize.programs import Builder
from thinflow.ir.types import FLOAT
from thinflow.optimize.rungs import Best
from thinflow.optimize.rungs.recurrent import beside_cells, unrolled
from thinflow.optimize.rungs.rounding import smoothed_weights
from thinflow.quantize.fit import Fit
from thinflow.quantize.macs import unrolled_cells
from thinflow.quantize.recipe import Recipe
from thinflow.tflite.model import Operator, Program, Tensor


def network(wide: int) -> Program:
    """A layer of some width, a loop, and a layer."""
    program = cell()
    main = program.subgraphs[0]
    loop, rng = main.operators[0], np.random.default_rng(0)
    x = Tensor("input", (1, wide), FLOAT)
    y = Tensor("answer", (1, 10), FLOAT)
    constants = [
        Tensor(name, shape, FLOAT, rng.standard_normal(shape).astype(np.float32))
        for name, shape in (("before", (INPUTS, wide)), ("behind", (10, UNITS)))
    ]
    main.operators = [
        Operator("FULLY_CONNECTED", [x, constants[0], None], [main.inputs[0]], origin="in"),
        loop,
        Operator("FULLY_CONNECTED", [main.outputs[0], constants[1], None], [y], origin="out"),
    ]
    main.inputs, main.outputs = [x], [y]
    return program


def recipes(program: Program, recipe: Recipe) -> list[Recipe]:
    return [c.recipe for c in beside_cells(Best(recipe, recipe, Fit(program, [], [])))]


def test_layers_beside_a_loop_are_tried_in_float() -> None:
    (found,) = recipes(network(64), Recipe())
    assert found.weights_only == ("in", "out")
    (rest,) = recipes(network(64), Recipe(skip_nodes=("in",)))
    assert rest.skip_nodes == ("in",)
    assert rest.weights_only == ("out",)


def test_an_lstm_of_integers_stays_one_beside_products_of_its_name() -> None:
    program = network(8)
    main = program.subgraphs[0]
    x, mask = main.operators[1].inputs[0], Tensor("mask", (1, INPUTS), FLOAT)
    y = main.operators[2].inputs[0]
    gates = [Tensor(f"gate{i}", (UNITS, INPUTS), FLOAT, np.ones((UNITS, INPUTS), np.float32)) for i in "ifco"]
    square = Tensor("mask/weights", (INPUTS, INPUTS), FLOAT, np.eye(INPUTS, dtype=np.float32))
    main.operators[1:2] = [
        Operator("FULLY_CONNECTED", [x, square, None], [mask], origin="lstm"),
        Operator("UNIDIRECTIONAL_SEQUENCE_LSTM", [mask, *gates], [y], origin="lstm"),
    ]
    main.operators[-1].inputs[0] = y
    (stored,) = recipes(program, Recipe())
    assert stored.weights_only == ("in", "lstm", "out")
    (found,) = recipes(program, Recipe(float_parts=Recipe().float_parts - {"recurrent"}))
    assert (*found.weights_only, *found.skip_nodes) == ("in", "out")


def test_layers_larger_than_the_loop_are_not() -> None:
    assert recipes(network(8192), Recipe()) == []


def test_models_of_integers_and_schemes_without_are_left_alone() -> None:
    assert recipes(network(64), Recipe(input_type="int8", output_type="int8")) == []
    assert recipes(network(64), Recipe(scheme="dynamic")) == []


def test_networks_without_loops_are_left_alone() -> None:
    program = network(64)
    main = program.subgraphs[0]
    main.operators = main.operators[:1]
    main.outputs = main.operators[0].outputs
    assert recipes(program, Recipe()) == []


def unrolled_network(steps: int) -> Program:
    """h = tanh(W [x, h] + b), so many times, and a layer."""
    b = Builder(3)
    h, w, bias = b.input(1, 32), b.normal(32, 48, scale=0.15), b.normal(32, scale=0.1)
    for _ in range(steps):
        both = b.op("CONCATENATION", b.input(1, 16), h, axis=1, fused_activation_function="NONE")
        h = b.op("TANH", b.op("FULLY_CONNECTED", both, w, bias))
    return b.program(b.op("FULLY_CONNECTED", h, b.normal(4, 32), b.normal(4)))


def unrolled_recipes(program: Program, recipe: Recipe) -> list[Recipe]:
    return [c.recipe for c in unrolled(Best(recipe, recipe, Fit(program, [], [])))]


def test_unrolled_cells_are_tried_with_ranges_of_each_run() -> None:
    program = unrolled_network(4)
    (found,) = unrolled_recipes(program, Recipe())
    cells = tuple(o.origin for o in unrolled_cells(program))
    assert found.dynamic_nodes == cells
    assert len(cells) == 4
    assert unrolled_recipes(program, found) == []
    (rest,) = recipes(program, found)
    assert rest.weights_only == (program.subgraphs[0].operators[-1].origin,)


def test_three_layers_with_the_same_weights_are_no_recurrence() -> None:
    assert unrolled_recipes(unrolled_network(3), Recipe()) == []


@pytest.mark.parametrize(
    "recipe",
    [Recipe(input_type="int8", output_type="int8"), Recipe(scheme="dynamic"), Recipe(scheme="int16x8")],
)
def test_unrolled_cells_of_other_models_stay(recipe: Recipe) -> None:
    assert unrolled_recipes(unrolled_network(4), recipe) == []


def test_smoothing_is_tried_again_with_weights_that_make_up_for_one_another() -> None:
    b = Builder(3)
    h = b.op(
        "FULLY_CONNECTED", b.input(1, 8), b.normal(24, 8), b.normal(24), fused_activation_function="RELU"
    )
    program = b.program(b.op("FULLY_CONNECTED", h, b.normal(4, 24), b.normal(4)))
    feeds = [{"in0": np.random.default_rng(i).standard_normal((1, 8)).astype(np.float32)} for i in range(8)]
    fit = Fit(program, feeds, feeds)

    def tried(recipe: Recipe) -> list[Recipe]:
        return [c.recipe for c in smoothed_weights(Best(recipe, recipe, fit))]

    smoothed = Recipe(rescale="all", rounding="gptq")
    assert tried(Recipe()) == tried(Recipe(rounding="gptq")) == [smoothed]
    assert tried(smoothed) == tried(Recipe(rescale="all")) == tried(Recipe(scheme="int16x8")) == []
