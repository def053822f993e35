"""Two quantized files: are their answers apart by nothing but roundings that add up?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from thinflow.engines._child import TIMEOUT_SECONDS
from thinflow.errors import ThinflowError
from thinflow.ir.graph import Graph, Value
from thinflow.ir.interface import without_states
from thinflow.load.graphs import load
from thinflow.optimize.beside_source import apart_from_source
from thinflow.optimize.samples import samples_for
from thinflow.typing import Array

_SAMPLES = 2


def only_roundings(one: str, other: str, tolerance: float, feeds: Sequence[Mapping[str, Any]] | None) -> str:
    """What says that the layers of two files are the same, and their roundings add up; "" if nothing does.

    Each layer of the first that its runtime can be asked about is compared with the other's, fed with the
    file's own tensors. A float network is not asked: of one layer it is hardly apart from its eight bits.

    Args:
        one, other: paths of models that engines run.
        tolerance: relative difference up to which they agree.
        feeds: name in `one` -> array; made up if None.
    """
    try:
        graphs = load(one), load(other)
    except ThinflowError:  # whoever runs them says more
        return ""
    if not all(g.source is not None and g.source.has_codes and not g.states for g in graphs):
        return ""
    for graph, made in zip(graphs, (other, one), strict=True):
        with suppress(ThinflowError):  # the difference is what is told then
            if told := _equal_layers(graph, made, tolerance, feeds if made == other else None):
                return told
    return ""


def _equal_layers(
    graph: Graph, made: str, tolerance: float, feeds: Sequence[Mapping[str, Any]] | None
) -> str:
    assert graph.source is not None, "it came from no file"
    if not graph.source.engine:
        return ""
    samples = list(samples_for(graph, None, limit=_SAMPLES)) if feeds is None else _by_input(graph, feeds)
    outputs = without_states(graph, graph.outputs)
    apart = apart_from_source(
        graph,
        made,
        samples,
        outputs,
        tolerance,
        TIMEOUT_SECONDS,
        made_up=feeds is None,
        by_layer=True,
    )
    layers = apart.layers
    if (
        not apart.ok
        or layers is None
        or layers.left
        or layers.unseen
        or layers.other_end
        or not layers.compared
    ):
        return ""
    return f"only roundings add up: in {graph.source.name}, {layers.sentence}"


def _by_input(graph: Graph, feeds: Sequence[Mapping[str, Any]]) -> list[dict[Value, Array]]:
    """Feeds of the file as those of its graph, whose axes may be in another order."""
    source = graph.source
    assert source is not None
    found = []
    for feed in feeds[:_SAMPLES]:
        given = {graph.value(graph.aliases.get(name, name)): np.asarray(x) for name, x in feed.items()}
        orders = {v: source.orders.get(v.name) for v in given}
        found.append({v: x if (o := orders[v]) is None else x.transpose(o) for v, x in given.items()})
    return found
