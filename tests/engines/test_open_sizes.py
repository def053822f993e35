"""Graphs that leave input sizes open run in LiteRT too: the sizes come with the first feed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from thinflow.engines.session import Session
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import BOOL, FLOAT, INT32

pytest.importorskip("ai_edge_litert")


def graph_of(dims: tuple[int | None, ...] | None, op: str, second: Any, **attrs: Any) -> Graph:
    """y = op(x, second) for an x of that shape."""
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr(dims)}).output()
    y = graph.add(op, [x, graph.constant(second, "c")], "y", attrs={"T": FLOAT, **attrs})
    graph.inputs, graph.outputs = [x], [y.output()]
    return graph


@pytest.mark.parametrize("batch", [1, 3])
def test_unknown_rank(batch: int) -> None:
    """LiteRT takes an unknown rank for a scalar, which cannot be reshaped."""
    session = Session(graph_of(None, "Reshape", np.int32([-1, 2, 2]), Tshape=INT32), "litert")
    x = np.arange(batch * 4, dtype=np.float32).reshape(batch, 4)
    np.testing.assert_array_equal(session.run(["y"], {"x": x})[0], x.reshape(batch, 2, 2))
    assert session.placement == {"y": "litert"}


def test_open_image() -> None:
    """LiteRT takes open sizes for 1, where a filter does not fit."""
    filters = np.ones((3, 3, 1, 1), np.float32)
    graph = graph_of((1, None, None, 1), "Conv2D", filters, strides=(1, 1, 1, 1), padding="VALID")
    session = Session(graph, "litert")
    for height in (3, 5):
        (found,) = session.run(["y"], {"x": np.ones((1, height, 4, 1), np.float32)})
        np.testing.assert_array_equal(found, np.full((1, height - 2, 2, 1), 9, np.float32))
    assert session.placement == {"y": "litert"}


@pytest.mark.parametrize("count", [0, 2])
def test_nothing_found(count: int) -> None:
    """LiteRT has no memory to lend for a tensor whose size it computed as 0."""
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((3,))}).output()
    hits = graph.add("Greater", [x, graph.constant(np.float32(3 - count), "c")], "hits", attrs={"T": FLOAT})
    y = graph.add("Where", [hits.output()], "y", attrs={"T": BOOL})
    session = Session(graph, "litert")
    (found,) = session.run([y.output()], {x: np.float32([1, 2, 3])})
    assert (found.dtype, found.shape) == (np.int64, (count, 1))
    assert set(session.placement.values()) == {"litert"}
