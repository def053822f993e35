"""What a model is, with the files beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from thinflow.analysis.shapes import declared_spec, infer_shapes
from thinflow.analysis.size_names import is_settled, size_names
from thinflow.analysis.summary import Summary, summarize
from thinflow.formats.packed_bytes import packed_kind
from thinflow.interpreter.turns import turns_of
from thinflow.ir.graph import Graph
from thinflow.ir.vocabulary import ONNX


def summary_of(graph: Graph, shapes: Mapping[str, Sequence[int | None]] | None = None) -> Summary:
    """What a model is, as its file has it; of one in its file's own ops with the sizes that follow, and how
    large it is with the files of weights beside it.

    Args:
        graph: as it was read; edited.
        shapes: as for `load`.

    Raises:
        GraphError: a shape for something that is no input.
        FeedError: one of another rank.
    """
    found = _summary_in_own_ops(graph, shapes or {}) if graph.vocabulary else None
    summary = summarize(graph, shapes, turns_of) if found is None else found
    summary.file_bytes += bytes_beside(graph.path, is_onnx=graph.vocabulary == ONNX.name)
    return summary


def bytes_beside(path: str, *, is_onnx: bool) -> int:
    """Bytes of the files of weights that a model's file names."""
    # What is packed holds all of its weights.
    if not os.path.isfile(path) or packed_kind(path):
        return 0
    if is_onnx:
        from thinflow.formats.onnx_model import external_bytes

        return external_bytes(path)
    if path.endswith(".json"):
        from thinflow.formats.tfjs import shard_bytes

        return shard_bytes(path)
    return 0


def _summary_in_own_ops(graph: Graph, shapes: Mapping[str, Sequence[int | None]]) -> Summary | None:
    """The summary of a graph of which the file may state the ends alone, as exporters of ONNX do: what lies
    between follows from TensorFlow's ops. None where nothing has to.
    """
    infer_shapes(graph)
    if not shapes and not _leaves_sizes_open(graph):
        return None
    # What lifts a file takes longer to import than most graphs to summarize.
    from thinflow.load.fitting_sizes import settle_sizes

    of_one = graph.clone() if not shapes else None
    failures = settle_sizes(graph, shapes)
    summary = summarize(graph, shapes, turns_of)
    # Without shapes to contradict it is an op that cannot be lifted, which is no fault of sizes.
    summary.shape_failures |= failures if shapes else {}
    batch = _batch_of_one(of_one) if of_one is not None and summary.cost.unsized else {}
    if of_one is not None and batch:
        # Sizes that are computed from an open batch stay unknown, and costs are for one sample.
        settle_sizes(of_one, batch)
        counted = summarize(of_one, None, turns_of)
        summary.cost, summary.peak = counted.cost, counted.peak
    return summary


def _batch_of_one(graph: Graph) -> dict[str, Sequence[int | None]]:
    """Sizes of one for what a graph leaves open, where that is the batch alone; else none.

    Args:
        graph: shapes inferred.
    """
    named = {n: places for n, places in size_names(graph.inputs).items() if not is_settled(places)}
    batches = {n for n, places in named.items() if any(axis == 0 for _, axis in places)}
    # A state may count its layers first: what is called as the batch of another input is one there, too.
    places = {place for n in batches for place in named[n]}
    found: dict[str, Sequence[int | None]] = dict.fromkeys(batches, (1,))
    for value in graph.inputs:
        shape = declared_spec(value).shape or ()
        open_at = [axis for axis, size in enumerate(shape) if size is None and (value, axis) not in places]
        if open_at == [0]:
            found[value.name] = (1, *shape[1:])
        elif open_at:
            return {}
    return found


def _leaves_sizes_open(graph: Graph) -> bool:
    """True if the type or a size of an inner value is not known, beside a batch. O(nodes).

    Args:
        graph: shapes inferred.
    """
    made = (v for node in graph if node.tensor is None for v in node.outputs if node.inputs)
    return any(v.dtype is None or v.shape is None or None in v.shape[1:] for v in made)
