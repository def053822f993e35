"""Networks with channels of very unequal size do not collapse in eight bits, without being asked to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from benchmarks.ptq.data import CALIBRATION, TEST, digits
from tests.quantize.programs import Builder, samples, uneven
from thinflow.engines.litert import Model
from thinflow.optimize.rescaling import with_equal_channels
from thinflow.quantize.recipe import Recipe

MODELS = Path(__file__).parents[2] / "benchmarks" / "ptq" / "models"


@pytest.mark.parametrize("scheme", ["int8", "int16x8", "dynamic", "int8_weights"])
def test_a_badly_scaled_network_answers_as_the_plain_one(scheme: str) -> None:
    calibration, test = digits(60, CALIBRATION), digits(200, TEST)
    right = {}
    for name in ("plain", "plain_scaled"):
        made = thinflow.quantize(MODELS / f"{name}.keras", {"image": calibration.x}, scheme=scheme)
        model = Model(made.content)
        found = np.concatenate([model.run([x[None]])[0] for x in test.x])
        right[name] = (found.argmax(1) == test.y).mean()
        told = [text for text in made.warnings if "were rescaled" in text]
        assert len(told) == (name == "plain_scaled")
    assert right["plain_scaled"] >= right["plain"] - 0.005
    assert "which changes no answer in float" in told[0]


def test_what_gains_nothing_stays_as_it_was() -> None:
    """Before a depthwise layer, which has a scale for each channel, equal sizes gain a lot in eight bits and
    nothing in halves.
    """
    b = Builder(3)
    y = uneven(b, b.input(1, 8, 8, 4), 12)
    b.channels[y] = 12
    program = b.program(b.depthwise(y, act="NONE"))
    feeds = samples(program)
    assert with_equal_channels(program, feeds, Recipe(scheme="float16")).program is program
    found = with_equal_channels(program, feeds, Recipe())
    assert found.program is not program
    assert "times the middle one" in found.note


def test_one_sample_is_too_few_to_judge() -> None:
    b = Builder(3)
    y = uneven(b, b.input(1, 8, 8, 4), 12)
    b.channels[y] = 12
    program = b.program(b.depthwise(y, act="NONE"))
    assert with_equal_channels(program, samples(program, 1), Recipe()).note == ""


def test_a_pattern_for_what_stands_behind_the_logits() -> None:
    b = Builder(3)
    y = uneven(b, b.input(1, 8, 8, 4), 12)
    b.channels[y] = 12
    logits = b.op("MEAN", b.depthwise(y, act="NONE"), b.const(np.array([1, 2])), keep_dims=False)
    program = b.program(b.op("SOFTMAX", logits, beta=1.0))
    recipe = Recipe(skip_nodes=(program.subgraphs[0].operators[-1].origin,))
    assert with_equal_channels(program, samples(program), recipe).note
