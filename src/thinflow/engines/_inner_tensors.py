"""Inner tensors of .tflite and .onnx files: what their own runtimes computed on the way to the outputs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thinflow.engines._files import open_file, path_of
from thinflow.engines.onnxruntime import open_session, session_options
from thinflow.formats.packed_bytes import bytes_of, content_of
from thinflow.ir.graph import Graph
from thinflow.onnx.protos import more_outputs
from thinflow.tflite.runtime import interpreter, source
from thinflow.typing import Array


def litert_tensors(graph: Graph, names: Sequence[str], feed: Mapping[str, Any]) -> dict[str, Array]:
    """Values of tensors, computed one by one: with XNNPACK most never come into being.

    Args:
        graph: as it was read from its file.
        names: of tensors in the file.
        feed: name of an input, the file's or the signature's -> array.
    """
    from ai_edge_litert.interpreter import OpResolverType

    own = open_file(graph, "litert", 1)
    fed = {own.find(name, "feed").name: np.asarray(x) for name, x in feed.items()}
    key = graph.facts.get("signature")
    try:
        runtime = interpreter(
            **source(content_of(path_of(graph))),
            # Else the arena gives the memory of a tensor to the next one as soon as nobody reads it.
            experimental_preserve_all_tensors=True,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            # Inputs may have to be resized first.
            allocated=False,
        )
        if key is None:
            _run_whole(runtime, fed)
        else:
            runtime.get_signature_runner(key)(**fed)
    except (ValueError, RuntimeError, KeyError):
        return {}
    return _kept_tensors(runtime, set(names), int(graph.facts.get("subgraph", 0)))


def _run_whole(runtime: Any, fed: Mapping[str, Array]) -> None:
    for detail in runtime.get_input_details():
        runtime.resize_tensor_input(detail["index"], fed[detail["name"]].shape)
    runtime.allocate_tensors()
    for detail in runtime.get_input_details():
        runtime.set_tensor(detail["index"], fed[detail["name"]])
    runtime.invoke()


def _kept_tensors(runtime: Any, wanted: set[str], subgraph: int) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for detail in runtime.get_tensor_details(subgraph):
        name = detail["name"]
        # A variable's handle is no array, and LiteRT reads memory that is not there when it is asked for one.
        if name in wanted and name not in found and detail["dtype"] is not np.object_:
            try:
                # The first of a name: a file may give one name to several tensors.
                found[name] = runtime.get_tensor(detail["index"], subgraph)
            except ValueError:  # never came into being
                continue
    return found


def onnxruntime_tensors(path: str, names: Sequence[str], feed: Mapping[str, Any]) -> dict[str, Array]:
    """Values of tensors of a file, to whose outputs they are added.

    Args:
        path: of the .onnx file.
        names: of tensors in the file.
        feed: name of an input -> array.
    """
    own = open_file(path, "onnxruntime", 1)
    fed = {own.find(name, "feed").name: np.asarray(x) for name, x in feed.items()}
    declared = {port.name for port in own.outputs}
    # Protobuf messages one behind the other are one message, merged field by field; the outputs of the graph,
    # being repeated, are joined. Nothing of the model has to be parsed.
    content = bytes(bytes_of(path)) + more_outputs([name for name in names if name not in declared])

    def options(careful: bool) -> Any:
        # As the model itself runs: on some CPUs other eight-bit products overflow.
        made = session_options(careful=careful)
        # The model comes as bytes, which have no folder in which to look for files of weights.
        folder = os.path.dirname(os.path.abspath(path))
        made.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        return made

    try:
        session = open_session(content, options)
        results = session.run(list(names), fed)
    except Exception:  # its exceptions have no common base but this
        return {}
    return {n: x for n, x in zip(names, results, strict=True) if isinstance(x, np.ndarray)}
