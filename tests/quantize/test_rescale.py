"""Networks with channels of very unequal size do not collapse in eight bits, without being asked to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from benchmarks.ptq.data import CALIBRATION, TEST, digits, drawn_for
from thinflow.engines.litert import Model
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import float_model
from thinflow.optimize.samples import rebind, samples_for
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.rescale import UNEQUAL, rescale

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


@pytest.mark.parametrize("name", ["plain", "depthwise", "residual", "inverted", "gated"])
def test_ordinary_networks_are_far_from_unequal(name: str) -> None:
    """What `UNEQUAL` stands on: channels of trained networks differ by a few times."""
    graph = thinflow.load(MODELS / f"{name}.keras")
    (x,) = graph.inputs
    given = samples_for(graph, {x.name: drawn_for(name, 32, CALIBRATION).x})
    plain = float_graph(graph, samples=given, verify=False).graph
    model = float_model(plain, rebind(given, graph, plain))
    found = rescale(model.program, Recipe(rescale="all"), list(model.feeds(rebind(given, graph, plain))))
    assert found.groups
    assert found.ratio < 4 < UNEQUAL
