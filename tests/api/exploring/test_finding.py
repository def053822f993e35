"""Boxes found by the names that others give them."""

from __future__ import annotations

import numpy as np

from thinflow.api.exploring.finding import Finder
from thinflow.explorer.building import build
from thinflow.explorer.document import Texts
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT


def test_what_runs_is_found_before_a_constant_of_the_name() -> None:
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((4,))}).output()
    bias = graph.constant(np.ones(4, np.float32), "block/Relu")
    added = graph.add("AddV2", [x, bias], "block/Add")
    graph.inputs, graph.outputs = [x], [added.output()]
    built = build(graph, "", Texts())
    finder = Finder(built)
    # As an operator is called that holds the sum, its activation and its bias.
    assert finder.find("block/Relu;block/Add;block/bias") == built.places["block/Add"]
    assert finder.find("block/Relu:0") == built.places["block/Relu"]
    assert finder.find("nothing;at/all") is None
