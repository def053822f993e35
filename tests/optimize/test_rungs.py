"""Rungs for networks with loops."""

from __future__ import annotations

import numpy as np

from tests.quantize.cells import INPUTS, UNITS, cell
from thinflow.ir.types import FLOAT
from thinflow.optimize.rungs import Best
from thinflow.optimize.rungs.recurrent import beside_cells
from thinflow.quantize.fit import Fit
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
    return [c.recipe for c in beside_cells(Best(recipe, Fit(program, [], [])))]


def test_layers_beside_a_loop_are_tried_in_float() -> None:
    (found,) = recipes(network(64), Recipe())
    assert found.weights_only == ("in", "out")
    (rest,) = recipes(network(64), Recipe(skip_nodes=("in",)))
    assert rest.skip_nodes == ("in",)
    assert rest.weights_only == ("out",)


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
