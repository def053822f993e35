"""Models in fewer bits as GraphDefs, and one recipe for every target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow import zoo
from thinflow.api import quantize_to_file
from thinflow.errors import ParameterError
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT, STRING
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.recipe_file import RecipeFile, write_recipe
from thinflow.transforms.quantized.grids import kept_grids
from thinflow.zoo import digits

pytest.importorskip("ai_edge_litert")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "recipe.toml"
    write_recipe(path, RecipeFile(Recipe(rounding="gptq", rescale="all", looked_at=16)))
    return path


@pytest.mark.parametrize("suffix", [".tflite", ".onnx", ".pb", ".pbtxt"])
def test_one_recipe_for_every_target(suffix: str, recipe: Path, tmp_path: Path) -> None:
    if suffix == ".onnx":
        pytest.importorskip("onnxruntime")
    graph, samples = digits.build(0), zoo.calibration("digits", 24, 0)
    report = quantize_to_file(graph, tmp_path / f"m{suffix}", samples, recipe=recipe)
    assert report["path"] == str(tmp_path / f"m{suffix}")
    test = zoo.test_set("digits")
    name = next(iter(test))
    answers = [
        next(iter(thinflow.run(model, {name: test[name][:64]}).values())).argmax(-1)
        for model in (graph, tmp_path / f"m{suffix}")
    ]
    assert np.mean(answers[0] == answers[1]) > 0.95


def test_a_graph_rounds_where_the_file_does(tmp_path: Path) -> None:
    graph, samples = digits.build(0), zoo.calibration("digits", 24, 0)
    model = thinflow.quantize(graph, samples, effort="none")
    for suffix in (".tflite", ".pb"):
        model.save(tmp_path / f"m{suffix}")
    made = thinflow.load(tmp_path / "m.pb")
    assert [v.name for v in (*made.inputs, *made.outputs)] == [
        v.name for v in (*graph.inputs, *graph.outputs)
    ]
    assert len(kept_grids(made)) > 3
    thinflow.convert(tmp_path / "m.pb", tmp_path / "again.tflite")
    feed = {made.inputs[0].name: np.asarray(next(iter(samples.values())))[:8]}
    first, graph_answers, again = (
        next(iter(thinflow.run(tmp_path / name, feed).values()))
        for name in ("m.tflite", "m.pb", "again.tflite")
    )
    np.testing.assert_allclose(first, graph_answers, atol=0.02)
    np.testing.assert_allclose(first, again, atol=0.02)


def test_what_stands_around_the_core_stays(tmp_path: Path) -> None:
    """Text comes in, text goes out; the matrix between is rounded."""
    g = Graph()
    x = g.add("Placeholder", name="x", attrs={"dtype": STRING, "shape": ShapeAttr((4, 8))})
    numbers = g.add("StringToNumber", [x], "numbers", attrs={"out_type": FLOAT})
    weights = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
    product = g.add("MatMul", [numbers, g.constant(weights, "w")], "product")
    g.inputs, g.outputs = [x.output()], [g.add("AsString", [product], "y").output()]
    feed = {"x": np.vectorize(str)(np.random.default_rng(1).normal(size=(4, 8)).round(3)).astype(object)}
    report = quantize_to_file(g, tmp_path / "m.pb", [feed], effort="none", strict=True)
    assert not report["partial"]
    made = thinflow.load(tmp_path / "m.pb")
    assert kept_grids(made)
    before, after = (np.asarray(next(iter(thinflow.run(m, feed).values()))).astype(float) for m in (g, made))
    assert 0 < np.abs(before - after).max() < 0.1 * np.abs(before).max()


def test_a_graph_takes_no_codes(tmp_path: Path) -> None:
    graph, samples = digits.build(0), zoo.calibration("digits", 8, 0)
    model = thinflow.quantize(graph, samples, recipe=Recipe(input_type="int8"), effort="none")
    with pytest.raises(ParameterError, match="takes and gives float32"):
        model.save(tmp_path / "m.pb")
    assert not (tmp_path / "m.pb").exists()
