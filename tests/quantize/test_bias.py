"""Corrected biases: outputs of the quantized network have the means that they have in float."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.quantize import onnx_programs
from tests.quantize.programs import Builder, run
from tests.quantize.related_inputs import net, related
from thinflow.errors import FeedError
from thinflow.quantize.bias import corrected_biases
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.gptq import gptq_rounding
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.rounding import NEAREST, Grid, Rounding
from thinflow.quantize.schemes import quantize_program
from thinflow.typing import Array


class Downward(Rounding):
    """The next code below, which shifts every mean."""

    def codes(self, w: Array, grid: Grid) -> Array:
        found = np.floor(w / grid.along(w.ndim))
        codes: Array = np.clip(found, -grid.limit, grid.limit).astype(np.int8)
        return codes


def shift(program: Any, made: Any, feeds: list[dict[str, np.ndarray]]) -> float:
    """The largest shift of the mean of an output channel, beside the spread of the outputs."""
    before, after = (
        np.concatenate([run(p, *f.values(), plain=True)[0].reshape(-1, 16) for f in feeds])
        for p in (program, made)
    )
    return float(np.abs((after - before).mean(axis=0)).max() / before.std())


@pytest.mark.parametrize("scheme", ["int8", "int16x8", "dynamic", "int8_weights", "int4_weights"])
def test_means_come_back_in_every_scheme(scheme: str) -> None:
    program, feeds = net()
    recipe = Recipe(scheme=scheme)
    ranges = calibrate(program, feeds).ranges
    # Layers of few weights stay float where weights alone are stored.
    least = 4 if recipe.needs_samples else 1
    rough = quantize_program(program, recipe, ranges, rounding=Downward())
    rounding = corrected_biases(program, recipe, ranges, Downward(), feeds)
    better = quantize_program(program, recipe, ranges, rounding=rounding)
    assert shift(program, better.program, feeds) <= shift(program, rough.program, feeds) / least
    sizes = [len(one.program.subgraphs[0].tensors()) for one in (rough, better)]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("types", [("int8", "int8"), ("uint8", "float32")])
def test_models_of_integer_inputs_take_the_same_samples(types: tuple[str, str]) -> None:
    program, feeds = net()
    recipe = Recipe(input_type=types[0], output_type=types[1], columns="portable")
    ranges = calibrate(program, feeds).ranges
    rounding = corrected_biases(program, recipe, ranges, gptq_rounding(program, recipe, feeds), feeds)
    assert len(rounding.means) == 3
    quantize_program(program, recipe, ranges, rounding=rounding)


def test_layers_that_share_everything_share_one_corrected_bias() -> None:
    b = Builder(3)
    w, bias = b.normal(32, 64), b.normal(32)
    parts = b.op("SPLIT", b.const(np.array(1)), b.input(4, 128), out=(w.dtype,) * 2, num_splits=2)
    program = b.program(b.op("ADD", *(b.op("FULLY_CONNECTED", p, w, bias) for p in parts)))
    feeds = related(program)
    for scheme in ("int8", "dynamic", "int8_weights"):
        recipe = Recipe(scheme=scheme)
        ranges = calibrate(program, feeds).ranges
        rounding = corrected_biases(program, recipe, ranges, Downward(), feeds)
        assert len(rounding.means) == 1
        plain = quantize_program(program, recipe, ranges).program
        made = quantize_program(program, recipe, ranges, rounding=rounding).program
        assert len(made.subgraphs[0].constants()) == len(plain.subgraphs[0].constants())


def test_layers_without_a_bias_and_those_that_stay_float_are_left() -> None:
    b = Builder(4)
    x = b.op("FULLY_CONNECTED", b.input(4, 24), b.normal(24, 24), None)
    program = b.program(b.op("FULLY_CONNECTED", x, b.normal(10, 24), b.normal(10)))
    feeds = related(program)
    ranges = calibrate(program, feeds).ranges
    recipe = Recipe(skip_nodes=("node1",))
    rounding = corrected_biases(program, recipe, ranges, NEAREST, feeds)
    assert not rounding.means
    assert len(corrected_biases(program, Recipe(), ranges, NEAREST, feeds).means) == 1
    w = program.subgraphs[0].operators[0].inputs[1].data
    np.testing.assert_array_equal(
        rounding.codes(w, Grid(np.full(24, 0.1, np.float32), 0)),
        NEAREST.codes(w, Grid(np.full(24, 0.1, np.float32), 0)),
    )


def test_samples_that_do_not_fit_are_refused() -> None:
    program, feeds = net()
    ranges = calibrate(program, feeds).ranges
    with pytest.raises(FeedError, match="no input 'other'"):
        corrected_biases(program, Recipe(), ranges, NEAREST, [{"other": np.zeros(1, np.float32)}])
    with pytest.raises(FeedError, match="no calibration samples"):
        corrected_biases(program, Recipe(), ranges, NEAREST, [])


def test_means_come_back_in_onnx_models() -> None:
    pytest.importorskip("onnxruntime")
    made = onnx_programs.Net(1, 6, 8, 8)
    made.program.outputs = [made.op("Relu", made.conv(made.op("Relu", made.conv(made.x, 12)), 5))]
    program, feeds = made.program, related(made.program)
    recipe, ranges = Recipe(few_samples=0), calibrate(made.program, feeds).ranges
    rounding = corrected_biases(program, recipe, ranges, Downward(), feeds)
    assert len(rounding.means) == 2
    results = [program]
    for one in (Downward(), rounding):
        results.append(quantize_program(program, recipe, ranges, rounding=one).program)
        onnx_programs.check(results[-1])
    outputs = [np.stack([onnx_programs.run(p, f)[0] for f in feeds]) for p in results]
    means = [y.mean(axis=(0, 1, 3, 4)) for y in outputs]
    rough, better = (np.abs(m - means[0]).max() for m in means[1:])
    assert better < rough / 3
