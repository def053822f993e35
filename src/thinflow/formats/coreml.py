"""Core ML's packages (.mlpackage), as graphs with MIL's own ops. coremltools is not needed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from thinflow.errors import FormatError
from thinflow.formats._coreml_package import MANIFEST, Package
from thinflow.formats.foreign import is_as_read, unreadable
from thinflow.formats.format import Format, Sample
from thinflow.ir.graph import Graph, paused_gc
from thinflow.ir.vocabulary import COREML

_HINT = "write it anew: thinflow convert MODEL.pb OUT.mlpackage"


def load(path: str | os.PathLike[str]) -> Graph:
    """The graph of a package's main function; weights stay views of the mapped file.

    Raises:
        FormatError: a damaged package, or one that holds no program; names the place.
    """
    from thinflow.formats._coreml_graph import graph_of

    try:
        with paused_gc():
            graph = graph_of(Package(Path(path)))
    except FormatError as error:
        raise unreadable(error, os.fspath(path), COREML.title, _HINT) from error
    graph.path = os.fspath(path)
    return graph


def save(graph: Graph, path: Any) -> int:
    """Copy the package that a graph was read from; the bytes written.

    Raises:
        ParameterError: the graph is of another vocabulary.
        GraphError: it was changed since, which cannot be written.
        WriteError: it cannot be written.
    """
    from thinflow.formats._coreml_package import copy_package

    return copy_package(graph, Path(path), unchanged=is_as_read(graph))


def _recognise(sample: Sample) -> bool:
    return sample.is_folder and (sample.path / MANIFEST).is_file()


FORMAT = Format(
    name=COREML.name,
    title=COREML.title,
    recognise=_recognise,
    load=load,
    save=save,
    suffixes=(".mlpackage",),
    vocabulary=COREML,
    rank=14,
)
