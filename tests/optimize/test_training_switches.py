"""Models with is_training and keep_prob: set for inference where nobody feeds them, and said so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.library import constant, graph_of, node
from tests.load.builders import shape
from thinflow.api.converting import convert_verified
from thinflow.errors import FeedError
from thinflow.ir.graph import Graph
from thinflow.ir.types import BOOL, FLOAT
from thinflow.load.graphs import load_for_inference

W = np.arange(12, dtype=np.float32).reshape(4, 3) / 10
X = np.array([[1, -2, 3, 0.5]], np.float32)


def network(declare: bool = False) -> Graph:
    """softmax(dropout(x @ w)) with a batch norm's tf.cond before it, here: twice the value when training."""
    graph = graph_of([
        node("x", "Placeholder", dtype=FLOAT, shape=shape(-1, 4)),
        node("is_training", "Placeholder", dtype=BOOL),
        node("keep_prob", "Placeholder", dtype=FLOAT), constant("w", W), constant("two", 2.0),
        constant("size", [1, 3]), node("h", "MatMul", "x", "w", T=FLOAT),
        node("cond/s", "Switch", "h", "is_training", T=FLOAT),
        node("cond/t", "Mul", "cond/s:1", "two", T=FLOAT),
        node("cond/m", "Merge", "cond/s", "cond/t", T=FLOAT, N=2),
        node("dropout/div", "RealDiv", "cond/m", "keep_prob", T=FLOAT),
        node("dropout/u", "RandomUniform", "size", T="type: 3", dtype=FLOAT),
        node("dropout/add", "Add", "keep_prob", "dropout/u", T=FLOAT),
        node("dropout/Floor", "Floor", "dropout/add", T=FLOAT),
        node("dropout/mul", "Mul", "dropout/div", "dropout/Floor", T=FLOAT),
        node("probs", "Softmax", "dropout/mul", T=FLOAT),
    ])  # fmt: skip
    if declare:
        graph.inputs = [graph.value(name) for name in ("x", "is_training", "keep_prob")]
        graph.outputs = [graph.value("probs")]
    return graph


def expected() -> np.ndarray:
    e = np.exp(X @ W)
    return e / e.sum()


@pytest.mark.parametrize("inputs", [None, ["x"]])
def test_guessed_and_left_out_switches_are_set(inputs: list[str] | None) -> None:
    graph, settings = load_for_inference(network(), inputs=inputs)
    assert [v.name for v in graph.inputs] == ["x"]
    assert settings == ["is_training is false now", "keep_prob is 1 now"]
    (y,) = thinflow.Session(graph, engine="reference").run(["probs"], {"x": X})
    np.testing.assert_allclose(y, expected(), rtol=1e-5)


def test_named_and_declared_ones_stay() -> None:
    graph, settings = load_for_inference(network(), inputs=["x", "is_training", "keep_prob"])
    assert settings == []
    assert len(graph.inputs) == 3
    graph, settings = load_for_inference(network(declare=True))
    assert settings == []
    assert len(graph.inputs) == 3


def test_loading_as_it_is_changes_nothing() -> None:
    assert thinflow.load(network(), inputs=["x"]).node("keep_prob").op == "Placeholder"


def test_optimize_sets_them_and_says_so(tmp_path: Path) -> None:
    report = thinflow.optimize(network(), tmp_path, inputs=["x"], measure=False, samples=4)
    assert any(
        "set for inference: is_training is false now, keep_prob is 1 now" in w for w in report.warnings
    )
    (y,) = thinflow.Session(report.files["fp32"]).run(None, {"x": X})
    np.testing.assert_allclose(y, expected(), rtol=1e-5)
    ops = {n.op for n in thinflow.load(report.files["fp32_pb"])}
    assert not ops & {"Switch", "Merge", "RandomUniform", "Mul"}


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_convert_sets_them_and_says_so(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"m.{suffix}"
    made = convert_verified(network(), path)
    assert any(note.startswith("set for inference: is_training") for note in made.notes)
    (y,) = thinflow.Session(path).run(None, {"x": X})
    np.testing.assert_allclose(y, expected(), rtol=1e-5)


def test_transforms_are_verified_without_them() -> None:
    """As transform_graph runs it: the switches are no inputs and stay placeholders."""
    from thinflow.api.transforming import transform_with_ledger

    result = transform_with_ledger(
        network(), ["fold_constants", "merge_duplicate_nodes"], inputs=["x"], outputs=["probs"]
    )
    assert not result.note
    assert result.graph.node("keep_prob").op == "Placeholder"


def test_running_without_one_says_how_to_set_it() -> None:
    graph = thinflow.load(network(), inputs=["x"])
    with pytest.raises(FeedError) as caught:
        thinflow.Session(graph, engine="reference").run(["probs"], {"x": X, "keep_prob": np.float32(1)})
    assert caught.value.hint is not None
    assert "set_training_switches(name=is_training, value=...)" in caught.value.hint


def test_the_transform_in_a_pipeline() -> None:
    steps = "set_training_switches remove_training_ops remove_dropout remove_nodes(op=Identity)"
    graph = thinflow.transform(network(), steps, inputs=["x"], outputs=["probs"])
    assert {n.op for n in graph if n.op != "Const"} == {"Placeholder", "MatMul", "Softmax"}
