"""Models as TensorFlow saves them: opened and frozen here they compute what they compute there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import thinflow
from tests.oracle._freezing import Arrays, assert_same, frozen_in_tensorflow
from tests.oracle._models import SAVED_MODELS, several_signatures
from thinflow.cli import main
from thinflow.formats.savedmodel import read


def in_tensorflow(folder: Path, feeds: Mapping[str, Any], key: str = "serving_default") -> Arrays:
    """What the signature of a SavedModel gives."""
    signature = tf.saved_model.load(str(folder)).signatures[key]
    return {name: y.numpy() for name, y in signature(**{k: tf.constant(x) for k, x in feeds.items()}).items()}


@pytest.mark.parametrize("name", SAVED_MODELS)
def test_a_saved_model_computes_the_same(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    feeds = SAVED_MODELS[name](folder)
    expected = in_tensorflow(folder, feeds)
    graph = thinflow.load(folder)
    assert sorted(v.name for v in graph.inputs) == sorted(feeds)
    names = dict(zip(sorted(expected), (v.name for v in graph.outputs), strict=True))
    found = thinflow.run(graph, feeds, list(names.values()), engine="reference")
    assert_same({key: found[name] for key, name in names.items()}, expected)
    thinflow.save(graph, tmp_path / "frozen.pb")
    assert_same(frozen_in_tensorflow(tmp_path / "frozen.pb", feeds, names), expected)
    reopened = thinflow.load(tmp_path / "frozen.pb", inputs=list(feeds), outputs=list(names.values()))
    found = thinflow.run(reopened, feeds, list(names.values()), engine="reference")
    assert_same({key: found[name] for key, name in names.items()}, expected)


def test_each_signature(tmp_path: Path) -> None:
    feeds = several_signatures(tmp_path / "model")
    for key in ("first", "serving_default"):
        graph = thinflow.load(tmp_path / "model", signature=key)
        expected = in_tensorflow(tmp_path / "model", feeds, key)
        assert_same(thinflow.run(graph, feeds, list(expected)), expected)


@pytest.mark.parametrize("name", ["keras_sequential", "keras_string_lookup", "composite_signature"])
def test_tensorflow_opens_the_saved_model_we_write(name: str, tmp_path: Path) -> None:
    feeds = SAVED_MODELS[name](tmp_path / "model")
    expected = in_tensorflow(tmp_path / "model", feeds)
    thinflow.transform_saved_model(tmp_path / "model", tmp_path / "small", "fold_constants")
    assert sorted(p.name for p in (tmp_path / "small").iterdir()) == ["saved_model.pb"]
    assert_same(in_tensorflow(tmp_path / "small", feeds), expected)


@pytest.mark.parametrize("name", SAVED_MODELS)
def test_the_drop_in_freezes_what_tensorflow_names(name: str, tmp_path: Path) -> None:
    """freeze_graph knows nothing of signatures: outputs keep the names that TensorFlow gave them."""
    feeds = SAVED_MODELS[name](tmp_path / "model")
    signature = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    expected = in_tensorflow(tmp_path / "model", feeds)
    outputs = dict(sorted(read(tmp_path / "model").select().signatures["serving_default"].outputs.items()))
    inputs = read(tmp_path / "model").select().signatures["serving_default"].inputs
    assert len(signature.structured_outputs) == len(outputs)
    code = main(
        [
            "freeze_graph",
            f"--input_saved_model_dir={tmp_path / 'model'}",
            f"--output_graph={tmp_path / 'frozen.pb'}",
            f"--output_node_names={','.join(sorted({e.value for e in outputs.values()}))}",
        ]
    )
    assert code == 0
    fed = {inputs[key].value.partition(":")[0]: value for key, value in feeds.items()}
    names = {key: endpoint.value for key, endpoint in outputs.items()}
    assert_same(frozen_in_tensorflow(tmp_path / "frozen.pb", fed, names), expected)
