"""Boxes and scores joined into one output: each keeps its own range."""

from __future__ import annotations

import numpy as np
import pytest

from tests.quantize.programs import Builder, codes, run, sqnr
from thinflow.ir.types import FLOAT, INT8
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.schemes import quantize_program
from thinflow.tflite.model import Program, Tensor


def network(far: float, *, behind: str = "", squashed: bool = False) -> Program:
    """Two heads over the same features: boxes around `far`, and scores."""
    b = Builder(0)
    features = b.conv(b.input(1, 8, 8, 8), 16)

    def head(k: int, scale: float, middle: float) -> Tensor:
        y = b.conv(features, k, 1, act="NONE")
        layer = b.operators[-1]
        layer.inputs[1].data = layer.inputs[1].array() * np.float32(scale)
        layer.inputs[2].data = layer.inputs[2].array() * 0 + np.float32(middle)
        if squashed and k == 6:
            y = b.op("LOGISTIC", y)
        return b.op("RESHAPE", y, b.const(np.array([1, 64, k])), new_shape=[1, 64, k])

    parts = [head(4, far / 5, far / 2), head(6, 1, 0)]
    y = b.op("CONCATENATION", *parts, axis=2, fused_activation_function="NONE")
    if behind == "layer":
        y = b.op("FULLY_CONNECTED", y, b.normal(8, 10), b.normal(8), keep_num_dims=True)
    elif behind:
        y = b.op(behind, y, b.const(np.array([64, 10])), new_shape=[64, 10])
    return b.program(y)


def feeds(count: int = 24) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [{"in0": rng.standard_normal((1, 8, 8, 8)).astype(np.float32)} for _ in range(count)]


def quantized(program: Program, recipe: Recipe) -> Program:
    return quantize_program(program, recipe, calibrate(program, feeds(), recipe).ranges).program


def both(program: Program, smaller: Program) -> list[float]:
    """Decibels of boxes and scores."""
    x = next(iter(feeds()[0].values()))
    wanted, found = (run(p, x)[0].reshape(64, 10) for p in (program, smaller))
    return [sqnr(wanted[:, part], found[:, part]) for part in (slice(0, 4), slice(4, 10))]


@pytest.mark.parametrize("squashed", [False, True])
@pytest.mark.parametrize("behind", ["", "RESHAPE"])
@pytest.mark.parametrize("scheme", ["int8", "int16x8"])
def test_each_head_has_its_own_range(scheme: str, behind: str, squashed: bool) -> None:
    program = network(300, behind=behind, squashed=squashed)
    smaller = quantized(program, Recipe(scheme=scheme))
    assert min(both(program, smaller)) > 35  # scores 1 dB, or all 0, with one range in int8
    joint = next(o for o in smaller.subgraphs[0].operators if o.code == "CONCATENATION")
    assert {t.dtype for t in joint.inputs} == {FLOAT}


def test_like_ranges_are_joined_in_integers() -> None:
    smaller = quantized(network(8), Recipe())
    assert codes(smaller)[-2:] == ["CONCATENATION", "DEQUANTIZE"]


def test_a_layer_behind_wants_integers() -> None:
    smaller = quantized(network(300, behind="layer"), Recipe())
    joint = next(o for o in smaller.subgraphs[0].operators if o.code == "CONCATENATION")
    assert {t.dtype for t in joint.inputs} == {INT8}


def test_who_wants_integers_gets_one_range_and_a_warning() -> None:
    recipe = Recipe(input_type="int8", output_type="int8")
    program = network(300)
    made = quantize_program(program, recipe, calibrate(program, feeds(), recipe).ranges)
    assert any("shares the scale of a range of" in warning for warning in made.warnings)
