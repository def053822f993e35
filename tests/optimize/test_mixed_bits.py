"""Mixed bits: the layers that four bits harm most, as many as fit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.quantize.programs import Builder
from tests.quantize.related_inputs import related
from thinflow.errors import ParameterError
from thinflow.ir.types import INT8
from thinflow.optimize.climb import Goal, climb
from thinflow.optimize.mixed_bits import Costly, costly_layers, worth_eight_bits
from thinflow.optimize.rungs import bits
from thinflow.quantize.fit import Fit
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.schemes import quantize_program
from thinflow.quantize.small_weights import INT4
from thinflow.tflite.model import Program


def net() -> tuple[Program, list[dict[str, np.ndarray]]]:
    """Dense layers, of which the third has a large weight in each channel, of an input that is always 0."""
    b = Builder(4)
    x = b.input(8, 64)
    for n in range(6):
        w = b.normal(64, 64)
        data = np.asarray(w.array()) * 0.1
        bias = np.ones(64, np.float32)
        if n == 1:
            data[5], bias[5] = 0, 0
        if n == 2:
            data[:, 5] *= 60
        w.data = data
        x = b.op("FULLY_CONNECTED", x, w, b.const(bias), fused_activation_function="RELU")
    program = b.program(x)
    for n, operator in enumerate(program.subgraphs[0].operators):
        operator.origin = f"dense[{n}]"
    return program, related(program, 40)


RECIPE = Recipe(scheme="int4_weights")


def test_the_layer_with_the_most_noise_comes_first() -> None:
    program, feeds = net()
    layers = costly_layers(Fit(program, feeds, feeds), RECIPE)
    # The first and the last layer have eight bits already.
    assert sorted(layer.pattern for layer in layers) == [f"dense[{n}]" for n in (1, 2, 3, 4)]
    assert layers[0].pattern == "dense[2]"
    assert layers[0].noise > 3 * layers[1].noise
    assert {layer.bytes for layer in layers} == {64 * 64 // 2}


def test_layers_that_have_eight_bits_are_not_named_again() -> None:
    program, feeds = net()
    kept = Recipe(scheme="int4_weights", eight_bits=("dense[2]",))
    layers = costly_layers(Fit(program, feeds, feeds), kept)
    assert sorted(layer.pattern for layer in layers) == [f"dense[{n}]" for n in (1, 3, 4)]


def test_what_fits_is_taken_and_what_does_not_is_passed_over() -> None:
    layers = [Costly("a", 1.0, 10), Costly("b", 2.0, 100), Costly("c", 0.1, 30)]
    assert [layer.pattern for layer in worth_eight_bits(layers, 50)] == ["a", "c"]
    assert worth_eight_bits(layers, 9) == []


def test_named_layers_keep_eight_bits() -> None:
    program, _ = net()
    made = quantize_program(program, Recipe(scheme="int4_weights", eight_bits=("dense[[][23]]",)))
    kinds = [t.dtype for t in made.program.subgraphs[0].constants() if t.dtype in (INT4, INT8)]
    assert kinds == [INT8, INT4, INT8, INT8, INT4, INT8]


def test_names_that_are_not_there_and_schemes_without_four_bits_are_refused() -> None:
    program, _ = net()
    with pytest.raises(ParameterError, match="no operator of the LiteRT model is called 'dense9'"):
        quantize_program(program, Recipe(scheme="int4_weights", eight_bits=("dense9",)))
    with pytest.raises(
        ParameterError, match=r"eight_bits says which weights have more than four, and scheme .int8. has none"
    ):
        Recipe(scheme="int8", eight_bits=("dense*",))
    with pytest.raises(ParameterError, match="eight_bits is a string"):
        Recipe(scheme="int4_weights", eight_bits="dense*")  # type: ignore[arg-type]


def test_a_climb_takes_them_where_they_are_worth_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    program, feeds = net()
    monkeypatch.setattr(bits, "_ROOM", (0.2,))
    made = climb(Goal(program, {}), feeds, RECIPE, "default")
    assert made.recipe.eight_bits == ("dense[2]",)
    assert any(t.what == "dense[2] in eight bits" and t.kept for t in made.trials)
