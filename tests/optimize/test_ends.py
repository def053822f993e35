"""The rungs that leave the first and the last layer in float."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.quantize.programs import Builder
from thinflow.optimize.rungs import Best, Candidate
from thinflow.optimize.rungs.ends import first_layer, last_layer
from thinflow.quantize.fit import Fit
from thinflow.quantize.recipe import Recipe
from thinflow.tflite.model import Program

Candidates = Callable[[Best], Iterator[Candidate]]


def network(*, first: int = 4) -> Program:
    """A sound in a row that becomes a picture, three convolutions, and a layer behind a pool."""
    b = Builder(1)
    picture = b.op("RESHAPE", b.input(1, 64), b.const([1, 8, 8, 1]))
    b.channels[picture] = 1
    x = b.conv(picture, first)
    x = b.conv(b.conv(x, 16), 32)
    pooled = b.op("MEAN", x, b.const([1, 2]), keep_dims=False)
    logits = b.op("FULLY_CONNECTED", pooled, b.normal(3, 32), b.normal(3))
    return b.program(b.op("SOFTMAX", logits, beta=1.0))


def floats(rung: Candidates, program: Program, recipe: Recipe | None = None) -> list[tuple[str, ...]]:
    recipe = Recipe() if recipe is None else recipe
    found = [c.recipe for c in rung(Best(recipe, recipe, Fit(program, [], [])))]
    return [(*r.skip_nodes, *r.weights_only) for r in found]


def test_the_first_layer_is_found_behind_a_reshape() -> None:
    assert floats(first_layer, network()) == [("node1",)]


def test_the_last_layer_is_found_before_a_softmax() -> None:
    assert floats(last_layer, network()) == [("node5",)]


def test_a_first_layer_that_is_most_of_the_network_stays() -> None:
    b = Builder(1)
    x = b.conv(b.input(1, 8, 8, 3), 32)
    assert floats(first_layer, b.program(b.conv(x, 4, 1))) == []


def test_all_layers_that_read_inputs_are_first() -> None:
    b = Builder(1)
    one, other = b.input(1, 8, 8, 1), b.input(1, 8, 8, 1)
    joined = b.op("CONCATENATION", b.conv(one, 8), b.conv(other, 8), axis=3, fused_activation_function="NONE")
    b.channels[joined] = 16
    program = b.program(b.conv(b.conv(joined, 32), 16))
    assert floats(first_layer, program) == [("node0", "node1")]


@pytest.mark.parametrize(
    ("rung", "ends"), [(first_layer, {"input_type": "int8"}), (last_layer, {"output_type": "int8"})]
)
def test_where_integers_are_wanted_nothing_is_float(rung: Candidates, ends: dict[str, str]) -> None:
    assert floats(rung, network(), Recipe(**ends)) == []
