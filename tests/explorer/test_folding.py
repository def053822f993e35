"""Graphs that are too large for a page."""

from __future__ import annotations

import pytest

from tests.explorer.shown import Shown
from thinflow.explorer import building, folding
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT


def chain(names: list[str]) -> Graph:
    graph = Graph()
    value = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1,))}).output()
    graph.inputs = [value]
    for name in names:
        value = graph.add("Relu", [value], name, attrs={"T": FLOAT}).output()
    graph.outputs = [value]
    return graph


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "MOST_NODES", 100)
    monkeypatch.setattr(folding, "MOST_BOXES", 20)


def test_scopes_become_boxes() -> None:
    shown = Shown(chain([f"layer_{n // 50}/op_{n}" for n in range(500)]))
    folded = [shown.strings[op] for op in shown.view.nodes.op if "nodes" in shown.strings[op]]
    # The last node is the output and stays.
    assert folded == ["50 nodes"] * 9 + ["49 nodes"]
    assert ("x", "layer_0/") in shown.edges()
    assert ("layer_8/", "layer_9/") in shown.edges()
    (note,) = shown.built.flat.notes
    assert "501 nodes are too many for a page" in note
    place = shown.built.places["layer_0/"]
    assert [shown.strings[t] for t in shown.view.nodes.attributes[place]] == ["nodes", "50", "Relu", "50"]


def test_the_deepest_level_that_fits_is_shown() -> None:
    shown = Shown(chain([f"net/stage_{n // 100}/block_{n // 50}/op_{n}" for n in range(500)]))
    assert "net/stage_0/block_1/" in shown.built.places


def test_names_without_scopes_are_told_by_their_places() -> None:
    shown = Shown(chain([f"n{n}" for n in range(500)]))
    assert "nodes 0 to 25/" in shown.built.places
    assert len(shown.built.boxes) <= 25
