"""Steps: layers in running order, and which of those looked at together make up for what lies in front."""

from __future__ import annotations

import math

import pytest

from tests.quantize.programs import Builder
from thinflow.quantize import steps
from thinflow.quantize.grams import Layer, layers_of
from thinflow.quantize.products import products
from thinflow.quantize.steps import steps_of
from thinflow.tflite.model import Program


def branches() -> tuple[Program, dict[object, Layer]]:
    """in -> a -> (b -> c, d) -> sum -> e, and the layers by name."""
    b = Builder(1)
    dense = [b.normal(8, 8) for _ in range(5)]

    def layer(n: int, x: object) -> object:
        return b.op("FULLY_CONNECTED", x, dense[n], b.normal(8))

    first = layer(0, b.input(1, 8))
    joined = b.op("ADD", layer(2, layer(1, first)), layer(3, first))
    program = b.program(layer(4, joined))
    found = list(layers_of(products(program)).values())
    names = dict(zip((id(w.data) for w in dense), "abcde", strict=True))
    return program, {names[id(layer.product.weights.data)]: layer for layer in found}


def test_each_level_is_a_step() -> None:
    program, layers = branches()
    made = steps_of(program, layers, 1, math.inf)
    assert [sorted(step.keys) for step in made] == [["a"], ["b", "d"], ["c"], ["e"]]
    assert all(step.first == frozenset(step.keys) for step in made)


def test_of_levels_looked_at_together_the_first_makes_up_for_what_lies_in_front(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "_FEWEST", 2)
    monkeypatch.setattr(steps, "_WORK", 0)
    program, layers = branches()
    made = steps_of(program, layers, 1, math.inf)
    assert [sorted(step.keys) for step in made] == [["a", "b", "d"], ["c", "e"]]
    assert [sorted(step.first) for step in made] == [["a"], ["c"]]


def test_no_step_holds_more_than_the_budget_but_for_a_single_layer() -> None:
    program, layers = branches()
    made = steps_of(program, layers, 1, 1)
    assert [len(step.keys) for step in made] == [1] * 5
    assert all(step.first == frozenset(step.keys) for step in made)
