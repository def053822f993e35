"""Rounded weights of layers, as schemes round them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.quantize.programs import Builder
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.schemes import storing
from thinflow.quantize.simulate import rounded_weights


@pytest.mark.parametrize("scheme", ["int8", "int8_weights", "int4_weights", "float16", "dynamic"])
def test_rounded_weights_are_those_of_the_scheme(scheme: str) -> None:
    b = Builder()
    y = b.conv(b.conv(b.conv(b.input(1, 6, 6, 32), 32), 32), 32)
    program = b.program(y)
    recipe = Recipe(scheme=scheme)
    rounded = rounded_weights(program, recipe, storing(program, recipe))
    assert len(rounded) == 3
    first, middle, _ = (np.abs(w - o.inputs[1].data).max() for o, w in rounded.items())
    largest = np.abs(program.subgraphs[0].operators[0].inputs[1].data).max()
    assert 0 < first <= largest / 254 * 1.001
    assert (middle > first * 4) == (scheme == "int4_weights")
