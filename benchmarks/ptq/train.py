"""Train the networks: `python -m benchmarks.ptq.train [NAME ...]`, with Keras installed; minutes for all.

Writes models/NAME.keras beside this file. What is compared are these files: trained again, on another machine
or with another Keras, weights differ.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import keras
import numpy as np

from benchmarks.ptq import data
from benchmarks.ptq.networks import NETWORKS, Network

FOLDER = Path(__file__).parent / "models"
SAMPLES = 6000
SEED = 5


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or NETWORKS:
        started = time.monotonic()
        network = NETWORKS[name]
        model = made_again(network) if network.like else trained(network)
        # A model that was not compiled is saved without the state of its optimizer.
        bare = network.build()
        bare.set_weights(model.get_weights())
        bare.save(FOLDER / f"{name}.keras")
        took, parameters = time.monotonic() - started, model.count_params()
        print(f"{name:18} {parameters:7} parameters  {judged(model, network):24} {took:5.1f} s", flush=True)


def trained(network: Network) -> keras.Model:
    """A network after its epochs, with a rate that rises and falls."""
    keras.utils.set_random_seed(SEED)
    model = network.build()
    x, y = data.SETS[network.data](SAMPLES, data.TRAINING)
    is_classifier = y.ndim == 1 and model.layers[-1].name == "probabilities"
    target = x.reshape(len(x), -1) if y.ndim == 1 and not is_classifier else y
    steps = network.epochs * (len(x) // 64)
    rate = keras.optimizers.schedules.CosineDecay(
        network.rate / 20, steps * 9 // 10, warmup_target=network.rate, warmup_steps=steps // 10
    )
    loss = "sparse_categorical_crossentropy" if is_classifier else "mse"
    model.compile(keras.optimizers.Adam(rate), loss=loss)
    model.fit(x, target, batch_size=64, epochs=network.epochs, verbose=0)
    return model


def made_again(network: Network) -> keras.Model:
    """The trained network that it is like, with its weights rescaled; its answers stay the same.

    Raises:
        AssertionError: they do not.
    """
    model = keras.models.load_model(FOLDER / f"{network.like}.keras", compile=False)
    x, _ = data.SETS[network.data](64, data.TEST)
    before = model.predict(x, verbose=0)
    assert network.rescale is not None
    network.rescale(model)
    after = model.predict(x, verbose=0)
    assert np.abs(after - before).max() < 1e-3 * np.abs(before).max(), "the function has changed"
    return model


def judged(model: keras.Model, network: Network) -> str:
    """The share of right answers, or of the variance that is explained."""
    x, y = data.SETS[network.data](1000, data.TEST)
    found = model.predict(x, verbose=0)
    if found.ndim == 2 and found.shape[1] <= 12:
        return f"{(found.argmax(1) == y).mean():.1%} right"
    wanted = x.reshape(len(x), -1) if found.ndim == 2 else y
    return f"{1 - ((found - wanted) ** 2).mean() / wanted.var():.1%} explained"


if __name__ == "__main__":
    main()
