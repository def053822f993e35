"""No observer goes through unjudged."""

from __future__ import annotations

import re

import pytest

import thinflow
from thinflow import zoo
from thinflow.quantize.recipe import Recipe

GRAPH = zoo.build("digits")
GIVEN = {key: array for key, array in zoo.calibration("digits", 100).items() if key != "labels"}


@pytest.mark.parametrize("form", ["tflite", "onnx"])
def test_an_observer_that_cuts_too_much_is_told(form: str) -> None:
    recipe = Recipe(observer="mse", observer_options={"levels": 3})
    made = thinflow.quantize(GRAPH, GIVEN, recipe=recipe, format=form)
    (told,) = [w for w in made.warnings if "observer" in w]
    found = re.fullmatch(
        r"observer 'mse' costs ([\d.]+) dB: on \d+ samples held out its ranges leave ([\d.-]+) dB,"
        r" and those of minmax, the default, ([\d.]+) dB",
        told,
    )
    assert found is not None
    cost, own, plain = map(float, found.groups())
    assert cost == pytest.approx(plain - own, abs=0.11)
    assert cost > 0.5


@pytest.mark.parametrize("observer", ["minmax", "sigma", "mse", "percentile", "moving"])
def test_observers_that_are_as_good_are_not(observer: str) -> None:
    made = thinflow.quantize(GRAPH, GIVEN, recipe=Recipe(observer=observer), effort="fast")
    assert not [w for w in made.warnings if "observer" in w]


def test_patterns_behind_the_logits_are_no_error() -> None:
    recipe = Recipe(observer="kl", skip_nodes=("probabilities",))
    assert thinflow.quantize(GRAPH, GIVEN, recipe=recipe).content
