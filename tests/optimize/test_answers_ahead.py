"""Answers computed ahead: in order, whatever takes long; one after the other where runs leave something."""

from __future__ import annotations

import numpy as np
import pytest

from thinflow import Graph
from thinflow.errors import FeedError
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT
from thinflow.optimize import answers_ahead as module
from thinflow.optimize.answers_ahead import answers_ahead


def doubled() -> Graph:
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((None,))}).output()
    graph.inputs, graph.outputs = [x], [graph.add("Add", [x, x], "y").output()]
    return graph


@pytest.mark.parametrize("cores", [1, 3])
def test_answers_come_in_order(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "usable_cores", lambda: cores)
    graph = doubled()
    (x,) = graph.inputs
    # The first takes longest.
    sizes = [300_000, *range(1, 20)]
    feeds = ((n, {x: np.full(size, n, np.float32)}) for n, size in enumerate(sizes))
    found = list(answers_ahead(graph, graph.outputs, graph.inputs, feeds))
    assert [n for n, _ in found] == list(range(20))
    assert all((y == 2 * n).all() and len(y) == size for (n, (y,)), size in zip(found, sizes, strict=True))


def test_what_is_known_is_not_computed() -> None:
    graph = doubled()
    (x,) = graph.inputs
    feeds = [("known", None), ("new", {x: np.ones(1, np.float32)})]
    found = dict(answers_ahead(graph, graph.outputs, graph.inputs, feeds))
    assert found["known"] == []
    assert found["new"][0] == 2


def test_runs_that_leave_something_go_one_after_the_other() -> None:
    graph = doubled()
    assert not module._leaves_something(graph)
    x = graph.inputs[0]
    graph.outputs = [graph.add("Add", [x, graph.add("RandomStandardNormal", name="noise").output()]).output()]
    assert module._leaves_something(graph)


def test_the_sample_that_fails_is_the_one_that_raises() -> None:
    graph = doubled()
    (x,) = graph.inputs
    feeds = [(0, {x: np.ones(1, np.float32)}), (1, {}), (2, {x: np.ones(1, np.float32)})]
    found = answers_ahead(graph, graph.outputs, graph.inputs, feeds)
    assert next(found)[0] == 0
    with pytest.raises(FeedError, match="nothing was fed for the input 'x'"):
        next(found)
