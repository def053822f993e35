"""A Keras model of 100 MB: what it costs to make a LiteRT file of it; and MLPerf Tiny's four, made by Keras
again from the weights of their .tflite files: what proven files of them cost, and what these answer.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench import ROOT, Bench
from benchmarks.lines import Line, NotThereYet, guarded, judged
from benchmarks.processes import in_turns, run
from thinflow.typing import Array

TITLE = "a Keras model, from .h5"
IN_QUICK = True
SECONDS, MEMORY = 2.0, 300e6
BLOCKS = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""ResNet-50's widths, numbers of blocks and strides."""
TINY = ("mlperf_ad01_int8", "mlperf_kws_ref", "mlperf_resnet_quant", "mlperf_vww_96_int8")
TINY_SECONDS, TINY_APART = 1.0, 1e-5
ZOO = ROOT.parent / "shared" / "zoo"
"""Models of others; without them their lines are left out."""
CONVERT = "import sys, thinflow\nfor path in sys.argv[1:]: thinflow.convert(path, path + '.tflite')"
"""Each proven beside the graph before it is there."""


def measure(bench: Bench) -> Iterator[Line]:
    yield from guarded(TITLE, _cost, bench)
    yield from guarded("MLPerf Tiny's four, from .h5", _tiny, bench)


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


def _tiny(bench: Bench) -> Iterator[Line]:
    sources = [ZOO / "tflite" / f"{name}.tflite" for name in TINY]
    if missing := [source.name for source in sources if not source.exists()]:
        raise NotThereYet(f"no {missing[0]} in {ZOO}")
    run(bench.oracle("keras_from_tflite", bench.folder, *sources))
    models = [str(bench.folder / f"{name}.h5") for name in TINY]
    runs = in_turns({"it": [sys.executable, "-c", CONVERT, *models]}, 3 if bench.quick else 7)["it"]
    cpu = sorted(r.cpu_seconds for r in runs)[len(runs) // 2]
    what = "MLPerf Tiny's four, .h5 to proven .tflite, one process: CPU time"
    yield judged(what, f"≤ {TINY_SECONDS} s", f"{cpu:.2f} s", cpu <= TINY_SECONDS)
    for name in TINY:
        found = np.load(bench.folder / f"{name}.npz")
        files = {
            "its .h5": f"{name}.h5",
            "its .tflite": f"{name}.h5.tflite",
            "TensorFlow's": f"{name}.tflite",
        }
        apart = {who: _apart(bench.folder / file, found["x"], found["y"]) for who, file in files.items()}
        texts = ", ".join(f"{who} {distance:.1g}" for who, distance in apart.items())
        yield judged(
            f"{name}: from Keras's answers", f"≤ {TINY_APART}", texts, max(apart.values()) <= TINY_APART
        )
        yield _int8(name, bench.folder, found["x"], found["y"])


def _apart(model: Path, x: Array, y: Array) -> float:
    """The largest distance of a model's answers from Keras's, relative to the largest of those."""
    return float(np.abs(_answers(model, x) - y).max() / np.abs(y).max())


def _answers(model: Path | bytes, x: Array) -> Array:
    import thinflow

    graph = thinflow.load(model)
    session = thinflow.Session(graph)
    (feed,), (fetch,) = graph.inputs, graph.outputs
    return np.concatenate([session.run([fetch.name], {feed.name: row[None]})[0] for row in x])


def _int8(name: str, folder: Path, x: Array, y: Array) -> Line:
    """The noise of int8 models by where they come from, and how many codes of weights are not the same."""
    import thinflow

    noise, weights = {}, {}
    for suffix in (".h5", ".pb", ".tflite"):
        made = thinflow.quantize(folder / f"{name}{suffix}", x, effort="none")
        path = folder / f"{name}{suffix}_int8.tflite"
        made.save(path)
        noise[suffix] = 10 * math.log10(np.sum(y**2) / np.sum((_answers(path, x) - y) ** 2))
        operators = made.quantized.program.subgraphs[0].operators
        tensors = (t for o in operators for t in o.inputs if t is not None and t.data is not None)
        weights[suffix] = [np.ravel(t.data) for t in tensors if np.asarray(t.data).dtype == np.int8]
    codes = {suffix: np.concatenate(arrays) for suffix, arrays in weights.items()}
    others = [np.count_nonzero(codes[".h5"] != codes[suffix]) for suffix in (".pb", ".tflite")]
    texts = " : ".join(f"{db:.1f}" for db in noise.values())
    share = max(others) / codes[".h5"].size
    what = f"{name}: int8 from .h5 : .pb : TensorFlow's .tflite"
    return judged(what, "≤ 0.1% of codes", f"{texts} dB, {share:.2%} of codes differ", share <= 1e-3)


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
