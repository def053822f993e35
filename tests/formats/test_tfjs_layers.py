"""TensorFlow.js models of Keras layers: made from Keras's own files, as its converter does, and by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow.errors import FormatError, UnsupportedOp

SHARED = Path(os.environ.get("THINFLOW_SHARED", "../shared"))
ZOO = [
    SHARED / "zoo" / "keras" / f"{n}.h5" for n in ("tinymaix_mnist_dw", "tinymaix_mnist_resnet", "ecg_bilstm")
]
RNG = np.random.default_rng(0)


def write(folder: Path, topology: dict[str, Any], weights: dict[str, np.ndarray]) -> Path:
    blob = b"".join(a.tobytes() for a in weights.values())
    (folder / "group1-shard1of1.bin").write_bytes(blob)
    entries = [{"name": n, "shape": list(a.shape), "dtype": a.dtype.name} for n, a in weights.items()]
    content = {
        "format": "layers-model",
        "generatedBy": "keras v2.15.0",
        "modelTopology": topology,
        "weightsManifest": [{"paths": ["group1-shard1of1.bin"], "weights": entries}],
    }
    (folder / "model.json").write_text(json.dumps(content))
    return folder / "model.json"


def layer(kind: str, name: str, **options: Any) -> dict[str, Any]:
    return {"class_name": kind, "config": {"name": name, "trainable": True, "dtype": "float32", **options}}


DENSE = {"use_bias": True, "activation": "linear"}
K = [RNG.standard_normal(s).astype(np.float32) for s in ((4, 3), (3,), (3, 2), (2,))]
NORM = [RNG.random(3).astype(np.float32) + 0.5 for _ in range(4)]
X = RNG.standard_normal((5, 4)).astype(np.float32)


def sequential() -> dict[str, Any]:
    layers = [
        layer("Dense", "one", units=3, batch_input_shape=[None, 4], **DENSE),
        layer("BatchNormalization", "norm", axis=[1], epsilon=1e-3, center=True, scale=True),
        layer("Dense", "two", units=2, use_bias=True, activation="relu"),
    ]
    return {"class_name": "Sequential", "config": {"name": "net", "layers": layers}}


def expected() -> np.ndarray:
    gamma, beta, mean, variance = NORM
    y = (X @ K[0] + K[1] - mean) / np.sqrt(variance + 1e-3) * gamma + beta
    return np.maximum(y @ K[2] + K[3], 0)


BY_KERAS = dict(
    zip(
        (
            *("one/kernel", "one/bias"),
            *("norm/gamma", "norm/beta", "norm/moving_mean", "norm/moving_variance"),
            *("two/kernel", "two/bias"),
        ),
        (*K[:2], *NORM, *K[2:]),
        strict=True,
    )
)
# TensorFlow.js itself writes what training changes first, of all layers.
BY_ITSELF = {n: BY_KERAS[n] for n in sorted(BY_KERAS, key=lambda n: "moving" in n)}


@pytest.mark.parametrize("weights", [BY_KERAS, BY_ITSELF])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_network(weights: dict[str, np.ndarray], wrapped: bool, tmp_path: Path) -> None:
    own = {**sequential(), "keras_version": "tfjs-layers 4.2.0", "backend": "tensor_flow.js"}
    topology = {"model_config": sequential(), "keras_version": "2.15.0"} if wrapped else own
    path = write(tmp_path, topology, weights)
    graph = thinflow.load(path)
    assert graph.facts["producer"] == "keras v2.15.0"
    (y,) = thinflow.Session(graph, "reference").run(None, {graph.inputs[0].name: X})
    np.testing.assert_allclose(y, expected(), rtol=1e-5, atol=1e-6)
    thinflow.convert(path, tmp_path / "m.tflite")
    session = thinflow.Session(tmp_path / "m.tflite")
    (y,) = session.run(None, {next(iter(session.inputs)): X})
    np.testing.assert_allclose(y, expected(), rtol=1e-5, atol=1e-6)


# Keras 3 has the model's own name in front; of its archives the converter takes the paths in the file.
BY_KERAS_3 = {f"net/{n}": a for n, a in BY_KERAS.items()}
BY_PATH = {
    f"layers/{place}/vars/{number}": array
    for place, arrays in (("dense", K[:2]), ("batch_normalization", NORM), ("dense_1", K[2:]))
    for number, array in enumerate(arrays)
}
COUNTED = {n.replace("/", "_1/", 1): a for n, a in BY_KERAS.items()}


@pytest.mark.parametrize("weights", [BY_KERAS_3, BY_PATH, COUNTED], ids=["prefix", "path", "counted"])
def test_names_of_weights(weights: dict[str, np.ndarray], tmp_path: Path) -> None:
    topology = {"model_config": sequential(), "keras_version": "3.5.0" if weights is BY_PATH else "2.15.0"}
    graph = thinflow.load(write(tmp_path, topology, weights))
    (y,) = thinflow.Session(graph, "reference").run(None, {graph.inputs[0].name: X})
    np.testing.assert_allclose(y, expected(), rtol=1e-5, atol=1e-6)


def test_weights_of_layers_with_other_names_are_not_guessed(tmp_path: Path) -> None:
    """The converter goes by the order of the alphabet, not by that of the layers."""
    square = {n: np.eye(4, dtype=np.float32) * k for k, n in enumerate(("dense", "dense_1", "dense_2"))}
    layers = [layer("Dense", name, units=4, use_bias=False, activation="linear") for name in "zyx"]
    layers[0]["config"]["batch_input_shape"] = [None, 4]
    topology = {"class_name": "Sequential", "config": {"name": "net", "layers": layers}}
    with pytest.raises(FormatError, match="weight 'dense_1/kernel' is of no layer"):
        thinflow.load(write(tmp_path, topology, {f"{n}/kernel": a for n, a in square.items()}))
    layers = [layer("Dense", f"dense{n}", units=4, use_bias=False, activation="linear") for n in ("", "_1")]
    layers[0]["config"]["batch_input_shape"] = [None, 4]
    topology["config"] = {"name": "net", "layers": layers}
    weights = {f"dense_{n}/kernel": square["dense"] for n in (1, 2)}
    with pytest.raises(FormatError, match="weight 'dense_2/kernel' is of no layer"):
        thinflow.load(write(tmp_path, topology, weights))


def test_a_model_inside_of_a_model(tmp_path: Path) -> None:
    inner = sequential()
    inner["config"]["name"] = "inner"
    outer = [inner, layer("Dense", "last", units=1, use_bias=False, activation="linear")]
    topology = {"class_name": "Sequential", "config": {"name": "outer", "layers": outer}}
    last = RNG.standard_normal((2, 1)).astype(np.float32)
    graph = thinflow.load(write(tmp_path, topology, {**BY_ITSELF, "last/kernel": last}))
    (y,) = thinflow.Session(graph, "reference").run(None, {graph.inputs[0].name: X})
    np.testing.assert_allclose(y, expected() @ last, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("file", ZOO, ids=lambda p: p.stem)
def test_models_of_the_zoo(file: Path, tmp_path: Path) -> None:
    """As tensorflowjs_converter makes of them: the config, and the lists of weights one after the other."""
    h5py = pytest.importorskip("h5py")
    if not file.is_file():
        pytest.skip("the zoo is not here")
    weights: dict[str, np.ndarray] = {}
    with h5py.File(file) as stored:
        config = json.loads(stored.attrs["model_config"])
        group = stored["model_weights"]
        for name in group.attrs["layer_names"]:
            for weight in group[name].attrs["weight_names"]:
                text = weight.decode() if isinstance(weight, bytes) else weight
                weights[text.removesuffix(":0")] = np.array(group[name][text])
        version = stored.attrs["keras_version"]
    topology = {"model_config": config, "keras_version": str(version), "backend": "tensorflow"}
    answers = np.load(file.with_suffix(".npz"))
    graph = thinflow.load(write(tmp_path, topology, weights))
    given = [answers[k] for k in answers.files if k.startswith("in:")]
    feed = dict(zip([v.name for v in graph.inputs], given, strict=True))
    found = thinflow.Session(graph, "reference").run(None, feed)
    stated = [answers[k] for k in answers.files if k.startswith("out:")]
    for y, want in zip(found, stated, strict=True):
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="neither a graph nor a model of Keras layers"):
        thinflow.load(write(tmp_path, {"training_config": {}}, {}))
    with pytest.raises(FormatError, match="it has 2 arrays of weights, and the file holds 1"):
        thinflow.load(write(tmp_path, sequential(), {n: a for n, a in BY_KERAS.items() if n != "two/bias"}))
    unknown = sequential()
    unknown["config"]["layers"][1] = layer("Lambda", "norm", function=["4wEA", None, None])
    with pytest.raises((UnsupportedOp, FormatError), match="norm"):
        thinflow.load(write(tmp_path, unknown, BY_KERAS))
    twice = [sequential(), sequential()]
    for n, inner in enumerate(twice):
        inner["config"]["name"] = f"part_{n}"
    topology = {"class_name": "Sequential", "config": {"name": "outer", "layers": twice}}
    with pytest.raises(FormatError, match="two models in it have a layer"):
        thinflow.load(write(tmp_path, topology, BY_KERAS))
