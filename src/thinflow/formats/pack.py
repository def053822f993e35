"""Packed models (.tfpack) as graphs; see `packed_bytes`."""

from __future__ import annotations

import os

from thinflow.errors import FormatError
from thinflow.formats import graphdef, onnx, tflite
from thinflow.formats.format import Format, Sample
from thinflow.formats.packed_bytes import MAGIC, Interface, open_pack, write_pack
from thinflow.ir.graph import Graph


def load(path: str | os.PathLike[str]) -> Graph:
    """The graph in a package.

    Raises:
        FormatError: wrong key, or a changed file.
        ParameterError: it is encrypted and no key is there.
    """
    pack = open_pack(path)
    kind = pack.header.get("kind")
    readers = {"graphdef": graphdef.from_bytes, "tflite": tflite.from_bytes, "onnx": onnx.from_bytes}
    if not isinstance(kind, str) or kind not in readers:
        raise FormatError(
            f"this package holds a model of the unknown kind '{str(kind)[:40]}'", pack.path, "update thinflow"
        )
    model, interface = pack.contents()
    try:
        graph = readers[kind](model)
        if interface.inputs or interface.outputs:
            interface.apply(graph)
    except FormatError as error:
        raise error.at(pack.path) from error
    graph.path = pack.path
    return graph


def _recognise(sample: Sample) -> bool:
    return sample.head.startswith(MAGIC)


FORMAT = Format(
    name="tfpack",
    title="a packed model",
    recognise=_recognise,
    load=load,
    save=lambda graph, path: write_pack(path, graphdef.to_chunks(graph), interface=Interface.of(graph)),
    suffixes=(".tfpack",),
    rank=5,
)
