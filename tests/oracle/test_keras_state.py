"""Recurrent layers that keep their state: the answers to calls one after the other are Keras's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.oracle import _keras_models as models

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]
CALLS = 3


def network(generation: int) -> Any:
    keras = models.package(generation)
    layers = keras.layers
    x = keras.Input(batch_shape=(2, 3, 4))
    y = layers.LSTM(5, stateful=True, return_sequences=True)(x)
    y = layers.Bidirectional(layers.GRU(3, stateful=True, return_sequences=True))(y)
    shared = layers.SimpleRNN(6, stateful=True, return_sequences=True)
    model = keras.Model(x, shared(shared(y)))
    models.randomize(model, np.random.default_rng(generation))
    return model


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize("generation", [2, 3])
def test_calls(generation: int, suffix: str, tmp_path: Path) -> None:
    model = network(generation)
    path = tmp_path / f"model{suffix}"
    model.save(path)
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal((2, 3, 4)).astype(np.float32) for _ in range(CALLS)]
    wanted = [np.asarray(model(x, training=False)) for x in xs]
    thinflow.convert(path, tmp_path / "model.tflite", state="keep")
    sources: list[Any] = [thinflow.load(path, state="keep"), tmp_path / "model.tflite"]
    for source, engine in zip(sources, ("reference", "litert"), strict=True):
        session = thinflow.Session(source, engine=engine)
        (fed,), (read,) = session.inputs, session.outputs
        for x, y in zip(xs, wanted, strict=True):
            np.testing.assert_allclose(session.run([read], {fed: x})[0], y, atol=1e-5)
    frozen = thinflow.load(path)
    assert not frozen.states
    assert "every run begins with the values that were saved" in frozen.facts["state"]
