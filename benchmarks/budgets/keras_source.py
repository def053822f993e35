"""A Keras model of 100 MB: what it costs to make a LiteRT file of it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench import Bench
from benchmarks.lines import Line, guarded, judged
from benchmarks.processes import in_turns

TITLE = "a Keras model, from .h5"
IN_QUICK = True
SECONDS, MEMORY = 2.0, 300e6
BLOCKS = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""ResNet-50's widths, numbers of blocks and strides."""


def measure(bench: Bench) -> Iterator[Line]:
    yield from guarded(TITLE, _cost, bench)


def _cost(bench: Bench) -> Iterator[Line]:
    model, output = bench.folder / "resnet50.h5", bench.folder / "resnet50_keras.tflite"
    write_resnet50(model)
    command = [*bench.thinflow, "convert", str(model), str(output), "--no-verify"]
    runs = in_turns({"it": command}, 3 if bench.quick else 7)["it"]
    cpu = sorted(r.cpu_seconds for r in runs)[len(runs) // 2]
    peak = max(r.peak_bytes for r in runs)
    what = f"ResNet-50 of {model.stat().st_size / 1e6:.0f} MB, .h5 to .tflite, whole process"
    yield judged(f"{what}: CPU time", f"≤ {SECONDS} s", f"{cpu:.2f} s", cpu <= SECONDS)
    yield judged(f"{what}: peak memory", f"≤ {MEMORY / 1e6:.0f} MB", f"{peak / 1e6:.0f} MB", peak <= MEMORY)


def write_resnet50(path: Path) -> None:
    """ResNet-50 with random weights, in the layout of `model.save('resnet50.h5')` of Keras 2."""
    import h5py

    net = Layers()
    x = net.bent(net.normed(net.conv("input", 3, 64, 7, 2)))
    x, depth = net.add("MaxPooling2D", [x], pool_size=3, strides=2, padding="same"), 64
    for width, count, stride in BLOCKS:
        for block in range(count):
            step = stride if block == 0 else 1
            y = net.bent(net.normed(net.conv(x, depth, width, 1, step)))
            y = net.bent(net.normed(net.conv(y, width, width, 3)))
            y = net.normed(net.conv(y, width, 4 * width, 1))
            short = net.normed(net.conv(x, depth, 4 * width, 1, step)) if block == 0 else x
            x, depth = net.bent(net.add("Add", [short, y])), 4 * width
    x = net.add("GlobalAveragePooling2D", [x])
    scores = [net.normal((depth, 1000), depth), np.zeros(1000, np.float32)]
    y = net.add("Dense", [x], scores, units=1000, activation="softmax", use_bias=True)
    ends = {"input_layers": [["input", 0, 0]], "output_layers": [[y, 0, 0]]}
    config = {"class_name": "Functional", "config": {"name": "resnet50", "layers": net.layers, **ends}}
    with h5py.File(path, "w") as file:
        file.attrs.update(keras_version="2.15.0", backend="tensorflow", model_config=json.dumps(config))
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = [name.encode() for name in net.weights]
        for name, arrays in net.weights.items():
            names = [f"{name}/{number}:0" for number in range(len(arrays))]
            below = group.create_group(name)
            below.attrs["weight_names"] = [n.encode() for n in names]
            for stored, array in zip(names, arrays, strict=True):
                below[stored] = array


class Layers:
    """The config and the weights of a model while it grows; layers are called by their names.

    Attributes:
        layers: entries of the config.
        weights: arrays of each layer.
    """

    def __init__(self) -> None:
        shape = [None, 224, 224, 3]
        first = {"name": "input", "batch_input_shape": shape, "dtype": "float32"}
        self.layers: list[dict[str, Any]] = [
            {"class_name": "InputLayer", "config": first, "name": "input", "inbound_nodes": []}
        ]
        self.weights: dict[str, list[np.ndarray[Any, Any]]] = {}
        self._random = np.random.default_rng(0)

    def normal(self, shape: tuple[int, ...], fan_in: int) -> np.ndarray[Any, Any]:
        return (self._random.standard_normal(shape) * math.sqrt(2 / fan_in)).astype(np.float32)

    def add(
        self, kind: str, reads: list[str], weights: list[np.ndarray[Any, Any]] | None = None, **options: Any
    ) -> str:
        name = f"layer_{len(self.layers)}"
        nodes = [[[read, 0, 0, {}] for read in reads]]
        config = {"name": name, "trainable": True, **options}
        self.layers.append({"class_name": kind, "config": config, "name": name, "inbound_nodes": nodes})
        self.weights[name] = weights or []
        return name

    def conv(self, x: str, depth: int, filters: int, size: int, stride: int = 1) -> str:
        kernel = self.normal((size, size, depth, filters), size * size * depth)
        options = {"kernel_size": [size] * 2, "strides": [stride] * 2, "padding": "same", "use_bias": False}
        return self.add("Conv2D", [x], [kernel], filters=filters, activation="linear", **options)

    def normed(self, x: str) -> str:
        count = self.weights[x][0].shape[-1]
        arrays = [np.full(count, n, np.float32) for n in (0.5, 0.1, 0.0, 1.0)]
        return self.add("BatchNormalization", [x], arrays, axis=[3], momentum=0.99, epsilon=1e-3)

    def bent(self, x: str) -> str:
        return self.add("Activation", [x], activation="relu")
