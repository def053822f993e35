"""The float model by itself."""

from __future__ import annotations

import numpy as np

import thinflow
from tests.freezing.builders import shape
from tests.library import constant, graph_of, node
from thinflow.ir.types import FLOAT, INT32
from thinflow.optimizing.float_model import float_graph, float_model


def test_rows_that_are_put_together_have_the_size_their_reshape_says() -> None:
    """A table in two parts: what LiteRT reads is computed before it, of a size that no shape rule knows."""
    one = "type: 1"
    graph = graph_of([
        node("ids", "Placeholder", dtype=INT32, shape=shape(3)), constant("t0", np.ones((4, 2), np.float32)),
        constant("t1", np.ones((4, 2), np.float32) * 2), constant("axis", 0), constant("two", 2),
        constant("places", [0, 1, 2]), node("part", "FloorMod", "ids", "two", T=INT32),
        node("row", "FloorDiv", "ids", "two", T=INT32),
        node("rows", "DynamicPartition", "row", "part", num_partitions=2, T=INT32),
        node("back", "DynamicPartition", "places", "part", num_partitions=2, T=INT32),
        node("a", "GatherV2", "t0", "rows", "axis", Tparams=FLOAT, Tindices=INT32, Taxis=INT32),
        node("b", "GatherV2", "t1", "rows:1", "axis", Tparams=FLOAT, Tindices=INT32, Taxis=INT32),
        node("looked_up", "ParallelDynamicStitch", "back", "back:1", "a", "b", N=2, T=one),
        constant("sizes", [1, 6]), node("r", "Reshape", "looked_up", "sizes", T=FLOAT, Tshape=INT32),
        constant("w", np.ones((6, 50), np.float32)), node("y", "MatMul", "r", "w", T=FLOAT),
    ])  # fmt: skip
    opened = thinflow.load(graph, inputs=["ids"], outputs=["y"])
    model = float_model(float_graph(opened).graph)
    assert [(v.name, v.shape) for v in model.core.inputs] == [("looked_up", (3, 2))]
