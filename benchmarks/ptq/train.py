"""Train the networks: `python -m benchmarks.ptq.train [NAME ...]`, with Keras installed; minutes for all.

Writes models/NAME.keras beside this file. What is compared are these files: trained again, on another machine
or with another Keras, weights differ.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

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
        model = made_again(name, network) if network.like else trained(name, network)
        # A model that was not compiled is saved without the state of its optimizer.
        bare = network.build()
        weights = model.get_weights()
        bare.set_weights([*map(rounded, weights)] if is_large(model) else weights)
        bare.save(FOLDER / f"{name}.keras")
        pack(FOLDER / f"{name}.keras")
        took, parameters = time.monotonic() - started, model.count_params()
        print(f"{name:18} {parameters:7} parameters  {judged(name, bare):24} {took:5.1f} s", flush=True)


def is_large(model: keras.Model) -> bool:
    """Whether its file would weigh megabytes."""
    return bool(model.count_params() >= 1_000_000)


def rounded(w: np.ndarray) -> np.ndarray:
    """Numbers that float16 holds, in float32: half of their bytes are packed away."""
    return w.astype(np.float16).astype(np.float32)


def pack(path: Path) -> None:
    """Deflate what Keras only stores."""
    with ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def trained(name: str, network: Network) -> keras.Model:
    """A network after its epochs, with a rate that rises and falls."""
    keras.utils.set_random_seed(SEED)
    model = network.build()
    x, y = data.drawn_for(name, SAMPLES, data.TRAINING)
    is_classifier = y.ndim == 1 and model.layers[-1].name == "probabilities"
    target = x.reshape(len(x), -1) if y.ndim == 1 and not is_classifier else y
    steps = network.epochs * (len(x) // 64)
    rate = keras.optimizers.schedules.CosineDecay(
        network.rate / 20, steps * 9 // 10, warmup_target=network.rate, warmup_steps=steps // 10
    )
    loss: Any = (
        "sparse_categorical_crossentropy" if is_classifier else "mse" if y.ndim == 1 else error_of_maps
    )
    model.compile(keras.optimizers.Adam(rate), loss=loss)
    model.fit(x, target, batch_size=64, epochs=network.epochs, verbose=0)
    return model


def error_of_maps(wanted: Any, found: Any) -> Any:
    """Squared error in which the few cells where something is count as much as the many where nothing is."""
    return keras.ops.mean(keras.ops.square(found - wanted) * (1 + 20 * wanted))


def made_again(name: str, network: Network) -> keras.Model:
    """The trained network that it is like, with its weights rescaled; its answers stay the same.

    Raises:
        AssertionError: they do not.
    """
    model = keras.models.load_model(FOLDER / f"{network.like}.keras", compile=False)
    x, _ = data.drawn_for(name, 64, data.TEST)
    before = model.predict(x, verbose=0)
    assert network.rescale is not None
    network.rescale(model)
    after = model.predict(x, verbose=0)
    assert np.abs(after - before).max() < 1e-3 * np.abs(before).max(), "the function has changed"
    return model


def judged(name: str, model: keras.Model) -> str:
    """The share of right answers, or of the variance that is explained."""
    x, y = data.drawn_for(name, 1000, data.TEST)
    found = model.predict(x, verbose=0)
    right = data.right(found, y)
    if right is not None:
        return f"{right:.1%} right"
    return f"{1 - ((found - x.reshape(found.shape)) ** 2).mean() / x.var():.1%} explained"


if __name__ == "__main__":
    main()
