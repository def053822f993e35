"""TensorFlow.js models of Keras layers: the config in model.json, and weights by the names of layers.

{"modelTopology": {"model_config": {...}, "keras_version": "2.15.0"}}     or the config itself
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinflow.errors import FormatError
from thinflow.ir.graph import Graph
from thinflow.ir.tensor import Tensor
from thinflow.keras.config import LayerConfig, parse_model
from thinflow.keras.files import KerasFile
from thinflow.keras.hdf5 import Group
from thinflow.keras.reading import graph_of

if TYPE_CHECKING:
    import numpy as np


_COUNT = re.compile(r"_\d+\Z")
"""What TensorFlow puts behind a name that is taken."""


class _Shelf:
    """Weights as an HDF5 file of Keras 2 has them: a list for each layer of the outermost model.

    Args:
        weights: by name, `dense/kernel`, in the order of the file.
        lists: layer -> names of its weights.
        path: for messages.
    """

    def __init__(self, weights: Mapping[str, Tensor], lists: Mapping[str, list[str]], path: str) -> None:
        self.path = path
        self._weights, self._lists = weights, lists
        self._names: list[str] | None = list(lists)

    def __contains__(self, path: str) -> bool:
        return path in self._lists

    def close(self) -> None:
        """Nothing: the files are mapped as long as somebody reads them."""

    def names(self) -> list[str]:
        return list(self._lists)

    def group(self, path: str) -> Group | None:
        if path not in self._lists:
            return None
        inner = _Shelf(self._weights, {}, f"{self.path}, layer '{path}'")
        inner._names = self._lists[path]
        return inner

    def texts(self, name: str) -> list[str] | None:
        return self._names

    def text(self, name: str) -> str | None:
        return None

    def array(self, path: str) -> np.ndarray[Any, Any] | None:
        tensor = self._weights.get(path)
        return None if tensor is None else tensor.numpy()


class _Tree:
    """Weights as an HDF5 file of Keras 3 has them, by paths: `layers/dense/vars/0`.

    Args:
        weights: by path from here.
        path: for messages.
    """

    def __init__(self, weights: Mapping[str, Tensor], path: str) -> None:
        self.path = path
        self._weights = weights

    def __contains__(self, path: str) -> bool:
        return path in self._weights or any(name.startswith(f"{path}/") for name in self._weights)

    def close(self) -> None:
        """Nothing, as above."""

    def names(self) -> list[str]:
        return list(dict.fromkeys(name.partition("/")[0] for name in self._weights))

    def group(self, path: str) -> Group | None:
        start = f"{path}/"
        inner = {n.removeprefix(start): w for n, w in self._weights.items() if n.startswith(start)}
        return _Tree(inner, f"{self.path}/{path}") if inner else None

    def texts(self, name: str) -> list[str] | None:
        return None

    def text(self, name: str) -> str | None:
        return None

    def array(self, path: str) -> np.ndarray[Any, Any] | None:
        tensor = self._weights.get(path)
        return None if tensor is None else tensor.numpy()


def graph_of_layers(topology: Mapping[str, Any], weights: Mapping[str, Tensor], file: Path) -> Graph:
    """The graph of a model of layers, in TensorFlow's ops.

    Raises:
        FormatError: there is no model in it, or its weights are of another one.
        UnsupportedOp: a layer that cannot be said in TensorFlow's ops; names it.
    """
    config: object = topology.get("model_config", topology)
    if isinstance(config, str):
        # Some converters store the text of the config.
        from thinflow.keras.files import parse_json

        config = parse_json(config, f"{file}, model_config")
    # TensorFlow.js writes a version of its own and the configs of Keras 2.
    stated = str(topology.get("keras_version", ""))
    version = stated if stated[:1].isdigit() else "2"
    keras = KerasFile(file, config, version, _Shelf({}, {}, str(file)))
    model = parse_model(config, keras.generation)
    shelf: Group
    if any("/vars/" in name for name in weights):
        shelf = _Tree(weights, str(file))
    else:
        shelf = _Shelf(weights, _lists(model, weights), str(file))
    return graph_of(KerasFile(file, config, version, shelf), {})


def _lists(model: LayerConfig, weights: Mapping[str, Tensor]) -> dict[str, list[str]]:
    """The weights of each layer of the outermost model, in their order; those of layers inside go with it.

    A name begins with the layer that the weight is of, the outer one or an inner one of a nested model; in
    front of it Keras 3 writes the name of a Sequential model.

    Raises:
        FormatError: a name tells no layer, or more than one. TensorFlow.js goes by names alone, too.
    """
    assert model.model is not None
    owners: dict[str, str] = {}
    for layer in model.model.layers:
        for name in _names(layer):
            if owners.setdefault(name, layer.name) != layer.name:
                raise FormatError(f"two models in it have a layer '{name}' each, whose weights have one name")
    parts = {name: next((p for p in name.split("/") if p in owners), None) for name in weights}
    if None in parts.values():
        # A model that was made a second time has its own names in the config, and counted ones in front of
        # its weights.
        parts = {name: _COUNT.sub("", name.partition("/")[0]) for name in weights}
        _refuse_two(parts)
    lists: dict[str, list[str]] = {layer.name: [] for layer in model.model.layers}
    for name, part in parts.items():
        if part not in owners:
            raise _nobodys(name)
        lists[owners[part]].append(name)
    return lists


def _refuse_two(parts: Mapping[str, str | None]) -> None:
    """Refuse names that lead to one layer from two."""
    scopes: dict[str | None, str] = {}
    for name, part in parts.items():
        if scopes.setdefault(part, scope := name.partition("/")[0]) != scope:
            raise _nobodys(name)


def _nobodys(name: str) -> FormatError:
    return FormatError(
        f"its weight '{name[:200]}' is of no layer that the config has",
        hint="layers were renamed after they were made: save and convert the model under its own names",
    )


def _names(layer: LayerConfig) -> Iterator[str]:
    pending = [layer]
    while pending:
        one = pending.pop()
        yield one.name
        if one.model is not None:
            pending += one.model.layers
