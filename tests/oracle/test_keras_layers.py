"""Layers and functions of Keras, read from its files without it, compute what Keras computes."""

from __future__ import annotations

from pathlib import Path

import pytest

# The others are imported for the cases that they register.
from tests.oracle import _keras_models as models
from tests.oracle import _keras_preparing_cases, _keras_rare_functions, _keras_sequence_cases  # noqa: F401
from tests.oracle._keras_cases import CASES
from tests.oracle._keras_drawn_functions import DRAWN
from tests.oracle._keras_functions import KERAS_3, TENSORFLOW
from tests.oracle._keras_structures import STRUCTURES

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("default"),  # Keras has some of its own
]
CONTAINERS = (".keras", ".h5")
ALL = [(generation, name) for name, (_, generations) in CASES.items() for generation in generations]
MODELS = [(generation, name) for name, (_, generations) in STRUCTURES.items() for generation in generations]
FUNCTIONS = [*((3, name) for name in KERAS_3), *((2, name) for name in TENSORFLOW)]


@pytest.mark.parametrize(("generation", "name"), ALL)
def test_layer(generation: int, name: str, tmp_path: Path) -> None:
    if (generation, name) == (2, "SpectralNormalization"):
        pytest.skip("tf_keras cannot make one beside Keras 3")
    # A configuration for each: layers by the hundred, built and saved by Keras, take minutes.
    for number, suffix in enumerate(CONTAINERS):
        model, inputs = models.layer_model(models.draw(generation, name, number), name)
        models.compare(model, inputs, tmp_path / f"model{suffix}")


@pytest.mark.parametrize(("generation", "name"), FUNCTIONS)
def test_function(generation: int, name: str, tmp_path: Path) -> None:
    model, inputs = models.function_model(generation, name)
    models.compare(model, inputs, tmp_path / f"model{'.keras' if generation == 3 else '.h5'}")


@pytest.mark.parametrize("name", DRAWN)
def test_drawn_function(name: str, tmp_path: Path) -> None:
    for number in range(4):
        models.compare_drawn(name, number, tmp_path)


@pytest.mark.parametrize(("generation", "name"), MODELS)
def test_structure(generation: int, name: str, tmp_path: Path) -> None:
    model, inputs = models.structure_model(generation, name)
    for suffix in CONTAINERS:
        models.compare(model, inputs, tmp_path / f"model{suffix}")
