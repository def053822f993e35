"""The float model by itself."""

from __future__ import annotations

import numpy as np

import thinflow
from tests.library import constant, graph_of, node
from tests.load.builders import shape
from thinflow.ir.types import FLOAT, INT32
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import float_model


def test_what_is_computed_before_has_the_size_its_reshape_says() -> None:
    """Which of five numbers are not in a list: LiteRT reads the answer, of a size no shape rule knows."""
    graph = graph_of([
        node("ids", "Placeholder", dtype=INT32, shape=shape(1, 2)), constant("all", [[0, 1, 2, 3, 4]]),
        node("left", "DenseToDenseSetOperation", "all", "ids", T=INT32, set_operation="s: 'a-b'"),
        constant("sizes", [1, 3]), node("r", "Reshape", "left:1", "sizes", T=INT32, Tshape=INT32),
        node("f", "Cast", "r", SrcT=INT32, DstT=FLOAT),
        constant("w", np.ones((3, 50), np.float32)), node("y", "MatMul", "f", "w", T=FLOAT),
    ])  # fmt: skip
    opened = thinflow.load(graph, inputs=["ids"], outputs=["y"])
    model = float_model(float_graph(opened).graph)
    assert [(v.name, v.shape) for v in model.core.inputs] == [("left:1", (3,))]


def test_as_many_rows_as_the_numbers_say_are_no_batch_of_one() -> None:
    """Nothing of the graph's inputs is open; how many different numbers come in is."""
    graph = graph_of([
        node("x", "Placeholder", dtype=INT32, shape=shape(8)), constant("axis", [0]),
        node("u", "UniqueWithCountsV2", "x", "axis", T=INT32, Taxis=INT32, out_idx=INT32),
        constant("sizes", [-1, 1]), node("r", "Reshape", "u", "sizes", T=INT32, Tshape=INT32),
        node("f", "Cast", "r", SrcT=INT32, DstT=FLOAT),
        constant("w", np.ones((1, 50), np.float32)), node("y", "MatMul", "f", "w", T=FLOAT),
    ])  # fmt: skip
    opened = thinflow.load(graph, inputs=["x"], outputs=["y"])
    model = float_model(float_graph(opened).graph)
    assert [(v.name, v.shape) for v in model.inputs] == [("u", (None,))]
