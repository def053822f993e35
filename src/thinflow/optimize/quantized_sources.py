"""Models that were read from quantized files, on their way to be quantized anew."""

from __future__ import annotations

from dataclasses import replace

from thinflow.ir.graph import Graph
from thinflow.optimize.source_proof import note_proof
from thinflow.transforms.quantized.grids import kept_grids, make_ends_float


def prove_and_free(graph: Graph, *, verify: bool = True, may_differ: bool = False) -> bool:
    """Let a graph of a quantized file take and give real numbers, once it is proven beside the file.

    The ranges of its values stay, and count as such that training chose. Samples are then of real numbers,
    as those of any other model.

    Args:
        graph: edited.
        verify: whether to prove it.
        may_differ: as for `prove_beside_source`.

    Returns:
        True if it was of a quantized file, and needs no other proof.
    """
    if not kept_grids(graph):
        return False
    if verify:
        note_proof(graph, None, may_differ=may_differ)
    ends = make_ends_float(graph)
    if graph.source is not None and (ends.inputs or ends.outputs):
        told = (*graph.source.assumed, "codes of inputs and outputs are float32 from here on")
        graph.source = replace(graph.source, assumed=told)
    return True
