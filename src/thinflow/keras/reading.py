"""From a Keras model's file to its graph."""

from __future__ import annotations

import os
from collections.abc import Mapping

from thinflow.errors import ThinflowError
from thinflow.ir.graph import Graph
from thinflow.keras.config import LayerConfig, parse_model
from thinflow.keras.files import KerasFile, open_file
from thinflow.keras.hdf5_objects import NewerForm
from thinflow.keras.operations.refused import CALLING
from thinflow.keras.registry import custom_entries, met, no_such_layer, registry
from thinflow.keras.structure import build
from thinflow.keras.weights import Entries, Weights


def load(path: str | os.PathLike[str], custom_layers: Mapping[str, object] | None = None) -> Graph:
    """The graph of a Keras model's file or folder, in TensorFlow's ops.

    Args:
        path: a .keras archive or what is in one as a folder, or an HDF5 file.
        custom_layers: name of a class, or of a Lambda layer -> the function that says what it computes.

    Raises:
        FormatError: no model, a damaged one, or weights that are not those of the config.
        UnsupportedOp: a layer that cannot be said in TensorFlow's ops; names it.
        EngineUnavailable: h5py is not installed.
        ParameterError: a function is given for a layer that the model does not have.
    """
    try:
        return _load(path, custom_layers or {}, by_package=False)
    except NewerForm:
        return _load(path, custom_layers or {}, by_package=True)


def _load(path: str | os.PathLike[str], custom_layers: Mapping[str, object], *, by_package: bool) -> Graph:
    file = open_file(path, by_package=by_package)
    try:
        graph = graph_of(file, custom_layers)
    except ThinflowError as error:
        raise error if os.fspath(path) in error.where else error.at(os.fspath(path)) from error
    finally:
        # Also after an error, whose traceback would hold the file open as long as somebody looks at it.
        file.weights.close()
    graph.path = os.fspath(path)
    return graph


def graph_of(file: KerasFile, custom_layers: Mapping[str, object]) -> Graph:
    """The graph of a model whose config and weights are there, whatever they came in."""
    known = registry()
    model = parse_model(file.config, file.generation)
    entries = Entries(known.layers, custom_entries(custom_layers))
    graph = build(model, known, entries, Weights(file, model, entries))
    own = _own_layers(model)
    met(own, entries.fitted)
    for name in custom_layers:
        if name not in entries.fitted:
            raise no_such_layer(f"custom_layers= for '{name}'", own)
    graph.facts = {**_facts(file, model), **graph.facts}
    return graph


def _own_layers(model: LayerConfig) -> list[str]:
    """The layers that a function can be given for: Lambda layers, and operations that call a function, by
    their names, others by their classes."""
    pending, names = [model], dict[str, None]()
    while pending:
        layer = pending.pop()
        is_named = layer.kind == "Lambda" or (layer.is_operation and layer.kind in CALLING)
        if is_named or layer.is_custom:
            names[layer.name if is_named else layer.kind] = None
        pending += reversed(layer.model.layers) if layer.model is not None else ()
    return list(names)


def _facts(file: KerasFile, model: LayerConfig) -> dict[str, str]:
    assert model.model is not None
    kind = "Sequential" if model.model.is_sequential else "Functional"
    return {
        "producer": f"Keras {file.version}",
        "model": f"{kind} '{model.name}', {len(model.model.layers)} layers",
    }
