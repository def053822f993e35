"""Pictures with their channels in front or with transparency are fed as pictures, too."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.deploy.apps import fed_by_evaluate, picture_model
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT


def channels_first(path: Path) -> Path:
    """Means of the channels of a picture [n,3,16,20]: a graph as PyTorch would have it."""
    graph = Graph()
    shape = ShapeAttr((None, 3, 16, 20))
    x = graph.add("Placeholder", name="picture", attrs={"dtype": FLOAT, "shape": shape}).output()
    order = graph.constant(np.array([0, 2, 3, 1], np.int32), "order")
    moved = graph.add("Transpose", [x, order], "moved").output()
    weights = np.random.default_rng(0).normal(0, 1, (3, 3, 3, 2)).astype(np.float32)
    attrs = {"strides": [1, 2, 2, 1], "padding": "SAME"}
    layer = graph.add("Conv2D", [moved, graph.constant(weights, "w")], "layer", attrs=attrs).output()
    axes = graph.constant(np.array([1, 2], np.int32), "axes")
    graph.inputs, graph.outputs = [x], [graph.add("Mean", [layer, axes], "means").output()]
    thinflow.save(graph, path)
    return path


@pytest.mark.parametrize("suffix", [".pb", ".tflite"])
@pytest.mark.parametrize("target", ["python", "web"])
def test_channels_come_last_in_apps(
    suffix: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = channels_first(tmp_path / "net.pb")
    if suffix == ".tflite":
        source = tmp_path / "net.tflite"
        thinflow.convert(tmp_path / "net.pb", source)
    name = f"made_first_{suffix[1:]}"
    scaling = thinflow.Scaling(mean=(1.0, 2.0, 3.0), std=50.0)
    made = thinflow.deploy(source, tmp_path / "app", target, scaling=scaling, name=name)
    (one,) = made.contract["inputs"]  # type: ignore[misc, attr-defined]
    assert (one["kind"], one["shape"]) == ("picture", [1, 16, 20, 3])
    assert any("is fed channels last" in note for note in made.notes)
    if target == "web":
        assert thinflow.Session(Path(made.path, made.model)).spec("picture").shape == (1, 16, 20, 3)
        return
    monkeypatch.syspath_prepend(tmp_path / "app" / "src")
    app = importlib.import_module(name)
    pixels = np.random.default_rng(1).integers(0, 256, (16, 20, 3), np.uint8)
    (fed,) = app.preprocess(pixels)
    (answer,) = app.run([fed])
    (wanted,) = thinflow.Session(tmp_path / "net.pb", engine="reference").run(
        None, {"picture": fed.transpose(0, 3, 1, 2)}
    )
    np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-4)
    assert "self-test passed" in made.test()


def test_transparency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    source = picture_model(tmp_path / "net.pb", 4)
    scaling = thinflow.Scaling(std=255.0, crop="center")
    made = thinflow.deploy(source, tmp_path / "app", "python", scaling=scaling, name="made_rgba")
    assert made.contract["inputs"][0]["picture"]["order"] == "rgba"  # type: ignore[index]
    assert "self-test passed" in made.test()
    monkeypatch.syspath_prepend(tmp_path / "app" / "src")
    app = importlib.import_module("made_rgba")
    pixels = np.random.default_rng(1).integers(0, 256, (50, 41, 4), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    (wanted,) = fed_by_evaluate(source, [tmp_path / "picture.png"], scaling, mode="RGBA")
    np.testing.assert_array_equal(app.preprocess(tmp_path / "picture.png")[0], wanted)
    other = thinflow.deploy(source, tmp_path / "other", "linux", scaling=scaling)
    assert other.contract["inputs"][0]["kind"] == "numbers"  # type: ignore[index]
    assert any("looks like a picture with transparency" in note for note in other.notes)
