"""Graphs for TensorBoard."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from thinflow.api.files import stored_graph
from thinflow.ir.graph import Graph
from thinflow.load.graphs import Source

_SMALL_BYTES = 1024
"""Constants up to this size stay when weights are left out: TensorBoard shows nothing larger."""


def write_events(
    source: Source,
    log_dir: str | os.PathLike[str],
    *,
    tags: str | None = None,
    run_metadata: Sequence[str | os.PathLike[str]] = (),
    keep_weights: bool = True,
) -> Path:
    """Write an event file with a graph as it stands in its file, variables and functions included.

    Args:
        source: path of a model of any kind, or a Graph.
        log_dir: folder for `tensorboard --logdir`; made if need be.
        tags: which graph of a SavedModel.
        run_metadata: files with a serialized RunMetadata each, listed by their names.
        keep_weights: whether big constants keep their contents, which TensorBoard does not show.

    Returns:
        The path of the file.

    Raises:
        FormatError: the source cannot be read.
        WriteError: the event file cannot be written.
    """
    from thinflow.formats import events

    graph = stored_graph(source, tags)
    runs = [events.read_run_metadata(path) for path in run_metadata]
    return events.save(graph if keep_weights else _without_weights(graph), log_dir, runs)


def _without_weights(graph: Graph) -> Graph:
    """A copy whose big constants are zeros, stored as one."""
    import numpy as np

    from thinflow.ir.tensor import Tensor

    copy = graph.clone()
    for node in copy:
        tensor = node.tensor
        if tensor is not None and tensor.dtype.itemsize and tensor.storage.stored_bytes > _SMALL_BYTES:
            # A repeated value: it is written as a single number, with type and shape in place.
            zeros = np.broadcast_to(np.zeros((), tensor.dtype.numpy()), tensor.shape)
            node.attrs["value"] = Tensor.from_array(zeros, tensor.dtype)
    return copy
