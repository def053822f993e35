"""Content of a SavedModel, read from its file alone, and runs of one of its signatures."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thinflow.errors import FeedError, ThinflowError, closest

if TYPE_CHECKING:
    import numpy as np

    from thinflow.formats.metagraph import MetaGraph

PathLike = str | os.PathLike[str]

RISKY_OPS = ("PrintV2", "ReadFile", "WriteFile")
"""Ops that touch the machine a model runs on, as TensorFlow's own scan lists them."""


def meta_graphs(folder: PathLike) -> list[MetaGraph]:
    """The graphs of a SavedModel in the order of the file.

    Raises:
        FormatError: the folder holds none, or a damaged one.
    """
    from thinflow.formats import savedmodel

    return savedmodel.read(folder).graphs


def meta_graph(folder: PathLike, tags: str) -> MetaGraph:
    """The graph with exactly these tags.

    Raises:
        FormatError: there is none; the sets there are are named.
    """
    from thinflow.formats import savedmodel

    return savedmodel.read(folder).select(tags)


def tags_of(meta: MetaGraph) -> list[str]:
    """The tags of a graph as the file orders them."""
    return list(meta.message.meta_info_def.tags)


def type_name(number: int) -> str:
    """An element type as TensorFlow's Python calls it: 1 is "float32"."""
    from thinflow.ir.types import dtype

    name = dtype(int(number)).name
    # The other types have one name in C++ and in Python.
    return {"float": "float32", "double": "float64", "half": "float16"}.get(name, name)


def signature_message(meta: MetaGraph, key: str) -> Any:
    """The SignatureDef of a key.

    Raises:
        FormatError: there is none; the closest is offered.
    """
    from thinflow.errors import FormatError

    signatures = meta.message.signature_def
    if key not in signatures:
        hint = closest(key, signatures) or f"there is {', '.join(sorted(signatures)) or 'none'}"
        raise FormatError(f"there is no signature '{key}'", str(meta.path), hint)
    return signatures[key]


def op_counts(meta: MetaGraph) -> dict[str, int]:
    """Op -> how often it occurs in the graph and its functions, sorted by name."""
    counts = Counter(node.op for node in meta.graph)
    for name in meta.graph.functions:
        counts.update(node.op for node in meta.graph.functions[name].graph if node.op != "_Arg")
    return dict(sorted((op, count) for op, count in counts.items() if op not in meta.graph.functions))


# --- functions ----------------------------------------------------------------------------------------------


def callable_functions(meta: MetaGraph) -> Iterator[tuple[str, list[tuple[list[Any], dict[str, Any]]]]]:
    """The functions a user of the loaded object can call: attribute -> for each variant its positional and
    its named arguments, as StructuredValue messages.
    """
    objects = meta.message.object_graph_def
    if not objects.nodes:
        return
    # Object 0 is the root, the object that was saved.
    for child in sorted(objects.nodes[0].children, key=lambda child: child.local_name):
        if not 0 <= child.node_id < len(objects.nodes):
            continue
        node = objects.nodes[child.node_id]
        kind = node.WhichOneof("kind")
        if kind == "function":
            names = list(node.function.concrete_functions)
        elif kind == "bare_concrete_function":
            names = [node.bare_concrete_function.concrete_function_name]
        else:
            continue
        known = [objects.concrete_functions[name] for name in names if name in objects.concrete_functions]
        yield child.local_name, [_arguments(function.canonicalized_input_signature) for function in known]


def _arguments(signature: Any) -> tuple[list[Any], dict[str, Any]]:
    values = list(signature.tuple_value.values)
    # A signature is the pair (args, kwargs).
    positional = list(values[0].tuple_value.values) if values else []
    named = dict(values[1].dict_value.fields) if len(values) > 1 else {}
    return positional, named


# --- running ------------------------------------------------------------------------------------------------


def run_signature(
    folder: PathLike, tags: str, key: str, feeds: Mapping[str, Any]
) -> dict[str, np.ndarray[Any, Any]]:
    """Compute the outputs of a signature: name -> array, sorted by name.

    Args:
        folder: the SavedModel.
        tags: of the graph, with commas.
        key: of the signature.
        feeds: input name -> array, or what can be made one.

    Raises:
        FormatError: no such graph or signature.
        FeedError: an unknown, missing or unfit input.
    """
    from thinflow.engines.session import Session
    from thinflow.load.sources import open_model

    signature = meta_graph(folder, tags).signatures.get(key)
    if signature is None:
        signature_message(meta_graph(folder, tags), key)
        # It is in the file, or the line above would have said so.
        raise FeedError(f"'{key}' is no signature that can be run", hint="it only names an operation")
    _check_names(feeds, list(signature.inputs))
    graph = open_model(folder, tags=tags, signature=key)
    inputs = dict(zip(signature.inputs, graph.inputs, strict=True))
    session = Session(graph)
    arrays = {
        value.name: _fitted(feeds[name], session.spec(value.name).dtype, name)
        for name, value in inputs.items()
    }
    fetches = [value.name for value in graph.outputs]
    return dict(zip(signature.outputs, session.run(fetches, arrays), strict=True))


def _check_names(feeds: Mapping[str, Any], known: Sequence[str]) -> None:
    listed = ", ".join(known) or "none"
    for name in feeds:
        if name not in known:
            raise FeedError(f"'{name}' is not an input of the signature", hint=f"the inputs are: {listed}")
    missing = [name for name in known if name not in feeds]
    if missing:
        raise FeedError(f"the input '{missing[0]}' is not given", hint=f"the inputs are: {listed}")


def _fitted(array: Any, element: Any, name: str) -> np.ndarray[Any, Any]:
    """The array in the type of the input."""
    import numpy as np

    from thinflow.ir.tensor import Tensor

    try:
        if element is None:
            return np.asarray(array)
        return Tensor.from_array(array, element).numpy()
    except (ThinflowError, ValueError, TypeError, OverflowError) as error:
        problem = error.problem if isinstance(error, ThinflowError) else error
        raise FeedError(f"what is given for '{name}' cannot be turned into {element}: {problem}") from error
