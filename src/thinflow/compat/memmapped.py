"""Packages whose weights are used where they lie in the file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from thinflow.ir.graph import Graph
from thinflow.load.graphs import Source

if TYPE_CHECKING:
    from thinflow.formats.memmapped import Written


def convert_memmapped(source: Source, path: str | os.PathLike[str], *, min_bytes: int = 10_000) -> Written:
    """Write a memmapped package: constants of at least so many bytes lie outside the graph, aligned.

    Args:
        source: path of a model of any kind, or a Graph.
        path: where to.
        min_bytes: smaller constants stay in the graph.

    Raises:
        FormatError: the source cannot be read.
        ParameterError: the limit is not positive.
        WriteError: the package cannot be written.
    """
    from thinflow.formats.memmapped import write
    from thinflow.load.sources import open_model

    return write(source if isinstance(source, Graph) else open_model(source), path, min_bytes=min_bytes)
