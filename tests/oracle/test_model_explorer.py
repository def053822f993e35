"""Files for Model Explorer and the extension, by its own classes; skipped where it is missing."""

from __future__ import annotations

import dataclasses
import json
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow import zoo
from thinflow.api.viewing import write_model_explorer

pytest.importorskip("model_explorer", reason='install "thinflow[explorer]"')

from model_explorer import graph_builder, node_data_builder
from model_explorer.extension_manager import ExtensionManager


@pytest.fixture(scope="module")
def manager() -> Any:
    found = ExtensionManager(["thinflow.api.model_explorer"])
    found.load_extensions()
    return found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "digits.pb"
    thinflow.save(zoo.build("digits"), path)
    return str(path)


def converted(manager: Any, path: str) -> dict[str, Any]:
    """The graph that the page of Model Explorer gets for a file."""
    command = {"extensionId": "thinflow", "cmdId": "convert", "modelPath": path, "settings": {}}
    (collection,) = manager.run_cmd(command)["graphCollections"]
    (graph,) = collection["graphs"]
    json.dumps(graph)  # it goes over HTTP
    return dict(graph)


def fill(kind: Any, data: Any) -> Any:
    """An instance of one of its dataclasses; a TypeError for a field that it has not."""
    if isinstance(data, list):
        inner = typing.get_args(kind)
        return [fill(inner[0], item) for item in data] if inner else data
    if typing.get_origin(kind) is dict:
        return {name: fill(typing.get_args(kind)[1], item) for name, item in data.items()}
    kind = next((k for k in (kind, *typing.get_args(kind)) if dataclasses.is_dataclass(k)), None)
    if kind is None or not isinstance(data, dict):
        return data
    hints = typing.get_type_hints(kind)
    unknown = set(data) - set(hints)
    assert not unknown, f"{kind.__name__} has no {unknown}"
    return kind(**{name: fill(hints[name], value) for name, value in data.items()})


def test_a_frozen_graph_is_one_of_its_graphs(manager: Any, model: str) -> None:
    graph = fill(graph_builder.Graph, converted(manager, model))
    assert isinstance(graph.nodes[0], graph_builder.GraphNode)
    conv = next(node for node in graph.nodes if node.label == "Conv2D")
    assert [item.attrs[0].value for item in conv.inputsMetadata] == ["input", "filter"]
    ids = {node.id for node in graph.nodes}
    assert {edge.sourceNodeId for node in graph.nodes for edge in node.incomingEdges} <= ids


def test_a_saved_model_and_a_checkpoint_open(manager: Any, tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")

    class Scaled(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.factor = tf.Variable(np.full((4,), 2.0, np.float32), name="factor")

        @tf.function(input_signature=[tf.TensorSpec((None, 4), tf.float32)])
        def __call__(self, x: Any) -> Any:
            return tf.nn.relu(x * self.factor)

    made = Scaled()
    tf.saved_model.save(made, str(tmp_path / "saved"))
    saved = fill(graph_builder.Graph, converted(manager, str(tmp_path / "saved" / "saved_model.pb")))
    assert "Relu" in {node.label for node in saved.nodes}
    assert "VarHandleOp" in saved.nodeLabelsToHide
    prefix = tf.train.Checkpoint(factor=made.factor).write(str(tmp_path / "weights"))
    weights = fill(graph_builder.Graph, converted(manager, f"{prefix}.index"))
    # It hides all that is called Const: of weights alone nothing would be left.
    assert weights.nodeLabelsToHide == []
    assert weights.nodes
    assert "Const" not in {node.label for node in weights.nodes}


def test_the_data_of_nodes_is_one_of_its_data(model: str, tmp_path: Path) -> None:
    written = write_model_explorer(model, tmp_path / "g.json")
    ids = {node["id"] for node in json.loads(Path(written[0]).read_text("utf-8"))["graphs"][0]["nodes"]}
    for path in written[1:]:
        for data in json.loads(Path(path).read_text("utf-8")).values():
            found = fill(node_data_builder.GraphNodeData, data)
            assert found.results.keys() <= ids
            assert all(isinstance(result.value, (int, float)) for result in found.results.values())


def test_its_own_files_stay_with_its_own_reader(manager: Any) -> None:
    # The last that is registered for an ending is not the one it takes.
    (ours,) = [ext for ext in manager.get_extensions_metadata() if ext["id"] == "thinflow"]
    assert "json" not in ours["fileExts"]
