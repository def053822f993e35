"""Comparisons as documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import thinflow
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT
from thinflow.pages.report import document_data
from thinflow.zoo import digits


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("diff")
    graph = digits.build(0)
    thinflow.save(graph, found / "a.pb")
    thinflow.save(thinflow.transform(graph, "fold_constants fold_old_batch_norms"), found / "b.pb")
    thinflow.save(graph, found / "c.tflite")
    return found


def blocks(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By kind and title."""
    return {f"{b['kind']} {b.get('title', '')}".strip(): b for s in found["sections"] for b in s["blocks"]}


def facts(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By label."""
    return {fact["label"]: fact for fact in blocks(found)["facts"]["items"]}


def test_nodes_that_are_there_but_differ_are_no_success() -> None:
    graphs = []
    for size in (2, 3):
        graph = thinflow.Graph()
        x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, size))}).output()
        graph.inputs, graph.outputs = [x], [graph.add("Relu", [x], "y", attrs={"T": FLOAT}).output()]
        graphs.append(graph)
    found = document_data(thinflow.diff(*graphs, numerics=False).document())
    alone = facts(found)["in one graph only"]
    assert (alone["value"], alone["tone"]) == ("0", "")
    assert found["tone"] == "bad"


def test_two_graphs(folder: Path) -> None:
    diff = thinflow.diff(folder / "a.pb", folder / "b.pb")
    found = document_data(diff.document(["thinflow verify a.pb b.pb"]))
    assert found["title"] == "a.pb and b.pb"
    assert found["verdict"] == diff.verdict
    assert found["tone"] == "good"
    assert found["data"] == json.loads(json.dumps(diff.data()))
    ops = blocks(found)["bars Ops that occur more or less often"]
    assert ops["series"] == ["a.pb", "b.pb"]
    changed = {row["label"]: row["values"] for row in ops["rows"]}
    assert all(a != b for a, b in changed.values())
    assert changed["FusedBatchNormV3"] == [4, 0]
    explained = blocks(found)["bars Nodes by the rewrite that accounts for them"]
    assert sum(row["values"][0] for row in explained["rows"]) > 0
    assert "bars Largest difference" in blocks(found)
    assert found["sections"][-1]["blocks"][0]["items"][0]["text"] == "thinflow verify a.pb b.pb"


def test_other_networks(folder: Path) -> None:
    graph = digits.build(0)
    other = thinflow.transform(graph, "add_default_attributes")
    last = other.outputs[0]
    other.outputs = [other.add("Neg", [last], "extra", attrs={"T": last.node.get("T")}).output()]
    found = document_data(thinflow.diff(graph, other, numerics=False).document())
    assert found["tone"] == "bad"
    assert facts(found)["in one graph only"]["tone"] == "bad"
    alone = blocks(found)["table Only in digits.pb (second)"]
    assert ["extra", "Neg"] in alone["rows"]


def test_equal_graphs_have_little_to_show(folder: Path) -> None:
    found = document_data(thinflow.diff(folder / "a.pb", folder / "a.pb").document())
    assert found["verdict"].startswith("the same graph")
    assert [s["id"] for s in found["sections"]] == ["result"]
    assert found["title"] == "a.pb (first) and a.pb (second)"


def test_a_conversion(folder: Path) -> None:
    diff = thinflow.diff(folder / "a.pb", folder / "c.tflite")
    found = document_data(diff.document())
    assert found["verdict"] == diff.verdict
    assert found["tone"] == "good"
    layers = blocks(found)["layers Signal to noise layer by layer"]
    assert len(layers["rows"]) == len(diff.data()["layers"]) > 3
    # The random numbers of its dropout, which is switched off, are others each time.
    assert layers["first"] is None
    assert "make no difference" in layers["note"]
    assert layers["rows"][-1]["after"] > 60
    became = next(s for s in found["sections"] if s["id"] == "what-became-of-the-nodes")
    assert sum(row[2] for row in became["blocks"][0]["rows"]) == len(diff.data()["became"])
    assert blocks(found)["bars Bytes of constants by type"]["series"] == ["a.pb", "c.tflite"]


def test_a_conversion_that_rounds_says_where_they_part(folder: Path, tmp_path: Path) -> None:
    made = thinflow.quantize(folder / "a.pb", scheme="int4_weights")
    made.save(tmp_path / "small.tflite")
    found = document_data(thinflow.diff(folder / "c.tflite", tmp_path / "small.tflite").document())
    layers = blocks(found)["layers Signal to noise layer by layer"]
    below = [n for n, row in enumerate(layers["rows"]) if row["after"] < 20]
    assert layers["first"] == (below[0] if below else None)
    assert found["tone"] == "warn"
