"""LiteRT (.tflite) files as graphs with LiteRT's own ops, for looking at, comparing and running them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from thinflow.errors import FormatError, GraphError, closest
from thinflow.formats.files import map_file
from thinflow.formats.foreign import beside, list_text, unreadable
from thinflow.formats.format import Format, Sample
from thinflow.ir.graph import Graph, paused_gc
from thinflow.ir.types import TensorSpec
from thinflow.ir.usage import Usage
from thinflow.ir.vocabulary import LITERT

if TYPE_CHECKING:
    from thinflow.tflite.model import Program, Tensor

_HINT = "the file is damaged or was cut short; convert the model again"
_AT, _IDENTIFIER = 4, b"TFL3"
_SHOWN_TEXT = 400
_SHOWN_SIGNATURES = 20


_DEFAULT = "serving_default"
"""TensorFlow's name for the signature to serve."""


def load(path: str | os.PathLike[str], *, signature: str | None = None) -> Graph:
    """The graph in a .tflite file; weights stay views of the mapped file.

    Args:
        path: the file.
        signature: the graph behind this signature; default the one that runs when nothing is named.

    Raises:
        FormatError: not such a file, or a damaged one; names the place.
        GraphError: there is no such signature.
    """
    buffer = map_file(path, unpack=False)
    try:
        with paused_gc():
            graph = from_bytes(buffer, signature=signature, path=Path(path))
    except FormatError as error:
        raise unreadable(error, os.fspath(path), FORMAT.title, _HINT) from error
    graph.path = os.fspath(path)
    return graph


def from_bytes(data: memoryview | bytes, *, signature: str | None = None, path: Path | None = None) -> Graph:
    """The graph in the bytes of a .tflite file.

    Args:
        data: the bytes; weights are views of them.
        signature: as for `load`.
        path: where they come from, to find files of weights beside; None to leave those out.
    """
    from thinflow.formats._tflite_graph import graph_of
    from thinflow.tflite.reader import read_program

    losses: list[str] = []
    files: dict[str, memoryview] = {}

    def opened(name: str) -> memoryview:
        assert path is not None
        if name not in files:
            files[name] = map_file(beside(path, name), unpack=False)
        return files[name]

    program = read_program(data, losses=losses, beside=opened if path is not None else None)
    if not program.subgraphs:
        raise FormatError("there are no subgraphs in it")
    main = _subgraph_of(program, signature)
    graph = graph_of(program, main)
    graph.facts = _facts(program, losses)
    graph.usage = _usage(program, main, graph, data)
    if main:
        graph.facts["subgraph"] = str(main)
    if signature is not None:
        graph.facts["signature"] = signature
    for given in program.signatures.values():
        for name, tensor in (*given.inputs.items(), *given.outputs.items()):
            # Names of a signature hold for its own subgraph; those of other
            # subgraphs would name nothing here.
            if tensor in _tensors(program, main):
                plain = tensor.name.removesuffix(":0")
                graph.aliases.setdefault(name, graph.aliases.get(plain, plain))
    return graph


def signature_names(data: memoryview | bytes) -> list[str]:
    """The keys of the signatures in the bytes of a .tflite file.

    Raises:
        FormatError: the bytes are damaged.
    """
    from thinflow.tflite.reader import read_program

    return list(read_program(data, losses=[]).signatures)


def default_signature(data: memoryview | bytes) -> str | None:
    """The signature of a .tflite file that runs when none is named: "serving_default" if there are several
    graphs behind them, None if there is one, which runs under its own names.

    Raises:
        FormatError: the bytes are damaged.
        GraphError: there are several graphs, and none of them is the default.
    """
    from thinflow.tflite.reader import read_program

    program = read_program(data, losses=[])
    keys = [key for key, given in program.signatures.items() if given.outputs]  # others put state back
    if len(keys) < 2 or len({_subgraph_of(program, key) for key in keys}) < 2:
        return None
    if _DEFAULT in keys:
        return _DEFAULT
    raise GraphError(
        f"the model has {len(keys)} signatures, and none is called {_DEFAULT}",
        hint=f"choose one with --signature: {', '.join(keys)}",
    )


def is_of_first_graph(data: memoryview | bytes, signature: str) -> bool:
    """True for a signature of the graph that a .tflite file begins with.

    Raises:
        FormatError: the bytes are damaged.
        GraphError: there is no such signature.
    """
    from thinflow.tflite.reader import read_program

    return _subgraph_of(read_program(data, losses=[]), signature) == 0


def _tensors(program: Program, main: int) -> set[object]:
    return {*program.subgraphs[main].inputs, *program.subgraphs[main].outputs}


def _subgraph_of(program: Program, signature: str | None) -> int:
    from thinflow.tflite.model import signature_subgraph

    if signature is None:
        return 0
    entry = program.signatures.get(signature)
    if entry is None:
        known = list(program.signatures)
        raise GraphError(
            f"the model has no signature '{signature}'",
            hint=closest(signature, known) or f"it has {list_text(known) or 'none'}",
        )
    # What is read of a signature are its tensors: the subgraph that has them is the one.
    return signature_subgraph(signature, entry, program.subgraphs)


def _facts(program: Program, losses: list[str]) -> dict[str, str]:
    facts: dict[str, str] = {}
    if program.description:
        facts["description"] = program.description[:_SHOWN_TEXT]
    # Filled up with zeros to a fixed length.
    version = program.metadata.get("min_runtime_version", b"").rstrip(b"\0 ").decode("ascii", "replace")
    if version:
        facts["runtime"] = version[:32]
    if program.signatures:
        facts["signatures"] = list_text(program.signatures)
        for key, given in list(program.signatures.items())[:_SHOWN_SIGNATURES]:
            facts[f"signature {key}"] = f"{_listed(given.inputs)} -> {_listed(given.outputs)}"
    others = [k for k in program.metadata if k != "min_runtime_version"]
    if others:
        facts["metadata"] = list_text(others)
    if program.wrong_axes:
        from thinflow.tflite.mending import slip_text

        facts["slip"] = f"{slip_text(program.wrong_axes)}; a copy that it takes: thinflow convert"
    if losses:
        facts["left out"] = list_text(losses)
    return facts


def _usage(program: Program, main: int, graph: Graph, data: memoryview | bytes) -> Usage:
    """What LiteRT's metadata says of the ends of a graph."""
    from thinflow.tflite.metadata import KEY, read_usage

    if KEY not in program.metadata:
        return Usage()
    subgraph = program.subgraphs[main]
    inputs, outputs = (
        [graph.aliases.get(plain, plain) for plain in (t.name.removesuffix(":0") for t in side)]
        for side in (subgraph.inputs, subgraph.outputs)
    )
    return read_usage(program.metadata[KEY], data, inputs, outputs, subgraph=main)


def needed_ops(data: memoryview) -> tuple[list[str], list[str]]:
    """The `operator_names` of a file.

    Raises:
        FormatError: the bytes are no model.
    """
    from thinflow.tflite.reader import read_program

    return operator_names(read_program(data, losses=[]))


def operator_names(program: Program) -> tuple[list[str], list[str]]:
    """Names of LiteRT's own operators and of custom ones, of all subgraphs, as often as they stand there."""
    operators = [operator for subgraph in program.subgraphs for operator in subgraph.operators]
    custom = [o.custom_code for o in operators if o.code == "CUSTOM"]
    return [o.code for o in operators if o.code != "CUSTOM"], custom


def _listed(side: Mapping[str, Tensor]) -> str:
    return ", ".join(f"{name} {TensorSpec(t.dtype, t.shape)}" for name, t in side.items()) or "nothing"


def _recognise(sample: Sample) -> bool:
    return sample.head[_AT : _AT + 4] == _IDENTIFIER


def _copy(graph: Graph, path: str | os.PathLike[str]) -> int:
    from thinflow.formats.one_piece import copy_with_weights

    return copy_with_weights(graph, path, LITERT)


FORMAT = Format(
    name=LITERT.name,
    title="a LiteRT (.tflite) model",
    recognise=_recognise,
    load=load,
    save=_copy,
    suffixes=(".tflite", ".lite"),
    vocabulary=LITERT,
    options={"signature": "which of the model's signatures"},
    rank=5,
)
