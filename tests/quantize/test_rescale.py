"""Networks with channels of very unequal size do not collapse in eight bits, without being asked to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from benchmarks.ptq.data import CALIBRATION, TEST, digits
from thinflow.engines.litert import Model

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
