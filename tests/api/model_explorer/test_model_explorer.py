"""Files for Model Explorer, and its extension."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import thinflow
from tests.library import graph_of, node
from thinflow import zoo
from thinflow.api.viewing import write_model_explorer
from thinflow.ir.types import FLOAT


@pytest.fixture
def model(tmp_path: Path) -> str:
    thinflow.save(zoo.build("digits"), tmp_path / "digits.pb")
    return str(tmp_path / "digits.pb")


def test_graph_and_node_data(model: str, tmp_path: Path) -> None:
    written = write_model_explorer(model, tmp_path / "g.json")
    assert [Path(path).name for path in written] == [
        "g.json", "g.flops.json", "g.bytes.json", "g.weights.json",
    ]  # fmt: skip
    collection, flops = (json.loads(Path(path).read_text("utf-8")) for path in written[:2])
    (graph,) = collection["graphs"]
    ids = [node["id"] for node in graph["nodes"]]
    assert len(ids) == len(set(ids))
    by_id = dict(zip(ids, graph["nodes"], strict=True))
    for one in graph["nodes"]:
        assert {edge["sourceNodeId"] for edge in one["incomingEdges"]} <= set(ids)
    conv = next(one for one in graph["nodes"] if one["label"] == "Conv2D")
    assert conv["outputsMetadata"][0]["attrs"][0]["key"] == "tensor_shape"
    assert {"key": "padding", "value": '"SAME"'} in conv["attrs"]
    results = flops[graph["id"]]["results"]
    assert results[conv["id"]]["value"] > 0
    assert set(results) <= set(by_id)


def test_the_extension_opens_what_model_explorer_is_given(model: str) -> None:
    manager = pytest.importorskip("model_explorer.extension_manager").ExtensionManager(
        ["thinflow.api.model_explorer"]
    )
    manager.load_extensions()
    command = {"extensionId": "thinflow", "cmdId": "convert", "modelPath": model, "settings": {}}
    (collection,) = manager.run_cmd(command)["graphCollections"]
    assert "Conv2D" in {one["label"] for one in collection["graphs"][0]["nodes"]}


def test_what_is_stored_is_hidden_and_outputs_have_their_names(tmp_path: Path) -> None:
    graph = graph_of(
        [
            node("x", "Placeholder", dtype=FLOAT),
            node("m/w", "VariableV2", dtype=FLOAT),
            node("m/w/read", "Identity", "m/w", T=FLOAT),
            node("m/mul", "Mul", "x", "m/w/read", T=FLOAT),
            node("y", "Identity", "m/mul", T=FLOAT),
        ]
    )
    thinflow.save(graph, tmp_path / "m.pb")
    (path, *_) = write_model_explorer(str(tmp_path / "m.pb"), tmp_path / "g.json")
    (found,) = json.loads(Path(path).read_text("utf-8"))["graphs"]
    hidden = set(found["nodeLabelsToHide"])
    labels = [one["label"] for one in found["nodes"] if one["label"] not in hidden]
    # The read of the variable is hidden; the op of its kind that computes is not.
    assert labels == ["Placeholder", "Mul", "Identity", "y (output)"]
