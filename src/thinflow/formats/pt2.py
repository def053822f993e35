"""Programs that PyTorch's torch.export wrote, as graphs with ATen's own ops. PyTorch is not needed."""

from __future__ import annotations

import os

from thinflow.errors import FormatError, UnsupportedOp
from thinflow.formats.foreign import copy_file, unreadable
from thinflow.formats.format import Format, Sample
from thinflow.ir.graph import Graph, paused_gc
from thinflow.ir.vocabulary import ATEN, EXPORT_HINT


def load(path: str | os.PathLike[str]) -> Graph:
    """The graph in a .pt2 file; weights stay views of the mapped file.

    Raises:
        FormatError: a damaged file, or one that is pickled; names the place.
        UnsupportedOp: the program holds what a graph cannot.
    """
    from thinflow.formats._pt2_program import graph_of

    try:
        with paused_gc():
            graph = graph_of(path)
    except FormatError as error:
        raise unreadable(error, os.fspath(path), ATEN.title, EXPORT_HINT) from error
    except UnsupportedOp as error:
        raise error.at(os.fspath(path)) from error
    graph.path = os.fspath(path)
    return graph


def _recognise(sample: Sample) -> bool:
    if not sample.head.startswith(b"PK\x03\x04"):
        return False
    from thinflow.formats._pt2_archive import is_program, names_in

    return is_program(names_in(sample.path))


FORMAT = Format(
    name=ATEN.name,
    title=ATEN.title,
    recognise=_recognise,
    load=load,
    save=lambda graph, path: copy_file(graph, path, ATEN),
    suffixes=(".pt2",),
    vocabulary=ATEN,
    rank=15,
)
