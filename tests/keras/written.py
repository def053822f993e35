"""Keras files written without Keras, as it would write them."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Arrays = Sequence[np.ndarray]


def layer(kind: str, name: str = "", **options: Any) -> dict[str, Any]:
    """A layer's entry in a config of Keras 2 and 3."""
    return {"class_name": kind, "config": {"name": name or kind.lower(), "trainable": True, **options}}


def dense(name: str = "dense", units: int = 3, **options: Any) -> dict[str, Any]:
    return layer("Dense", name, units=units, use_bias=False, activation="linear", **options)


def source(*shape: int | None, name: str = "x") -> dict[str, Any]:
    """An InputLayer."""
    return layer("InputLayer", name, batch_input_shape=[None, *shape], dtype="float32")


def sequential(*layers: Mapping[str, Any]) -> dict[str, Any]:
    return {"class_name": "Sequential", "config": {"name": "net", "layers": list(layers)}}


def node(config: Mapping[str, Any], *reads: Sequence[Any]) -> dict[str, Any]:
    """A layer of a Functional model, with one call on outputs of others."""
    uses = [[[name, use, tensor, {}] for name, use, tensor in reads]] if reads else []
    return {**config, "name": config["config"]["name"], "inbound_nodes": uses}


def functional(layers: Sequence[Mapping[str, Any]], inputs: Any, outputs: Any) -> dict[str, Any]:
    config = {"name": "net", "layers": list(layers), "input_layers": inputs, "output_layers": outputs}
    return {"class_name": "Functional", "config": config}


def write_h5(
    path: Path,
    config: Any,
    weights: Mapping[str, Arrays] | None = None,
    version: str = "2.15.0",
    **attrs: Any,
) -> Path:
    """A whole model's HDF5 file; weights by name of layer, in Keras's order."""
    import h5py

    with h5py.File(path, "w") as file:
        if config is not None:
            file.attrs["model_config"] = config if isinstance(config, str) else json.dumps(config)
        file.attrs.update(keras_version=version, backend="tensorflow", **attrs)
        fill(file.create_group("model_weights"), weights or {})
    return path


def fill(group: Any, weights: Mapping[str, Arrays]) -> None:
    """Weights by layer, in the layout of Keras's HDF5 files."""
    group.attrs["layer_names"] = [name.encode() for name in weights]
    for name, arrays in weights.items():
        below = group.create_group(name)
        below.attrs["weight_names"] = [f"{name}/w{n}:0".encode() for n in range(len(arrays))]
        for n, array in enumerate(arrays):
            below[f"{name}/w{n}:0"] = array


def weights_bytes(weights: Mapping[str, Arrays]) -> bytes:
    """The content of model.weights.h5; weights by place, such as "layers/dense"."""
    import h5py

    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for place, arrays in weights.items():
            for n, array in enumerate(arrays):
                file[f"{place}/vars/{n}"] = array
    return buffer.getvalue()


def write_keras(
    path: Path,
    config: Any,
    weights: Mapping[str, Arrays] | bytes,
    version: str = "3.9.0",
    *,
    separator: str = "/",
    **members: bytes,
) -> Path:
    """A .keras archive."""
    content = weights if isinstance(weights, bytes) else weights_bytes(weights)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": version}))
        archive.writestr("config.json", config if isinstance(config, str) else json.dumps(config))
        archive.writestr("model.weights.h5", content)
        for name, data in members.items():
            archive.writestr(name.replace("/", separator), data)
    return path
