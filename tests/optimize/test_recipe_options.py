"""A recipe that was found is repeated exactly, and warns where it is another model's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow import zoo
from thinflow.cli import main
from thinflow.errors import ParameterError
from thinflow.ir.digest import graph_digest
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.recipe_file import RecipeFile, read_recipe, write_recipe
from thinflow.zoo import digits


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    thinflow.save(digits.build(0), "d.pb")
    np.savez("c.npz", **zoo.calibration("digits", 80, 0))


def quantize(*options: str) -> int:
    return main(["quantize", "d.pb", "b.tflite", "--calibration", "c.npz", *options])


@pytest.mark.parametrize("effort", ["fast", "best"])
def test_a_model_is_made_again(effort: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["quantize", "d.pb", "a.tflite", "--calibration", "c.npz", "--effort", effort]
    assert main([*argv, "--save-recipe", "r.toml"]) == 0
    assert quantize("--recipe", "r.toml", "--save-recipe", "again.toml") == 0
    assert Path("b.tflite").read_bytes() == Path("a.tflite").read_bytes()
    assert read_recipe("again.toml").recipe == read_recipe("r.toml").recipe
    smaller = thinflow.quantize("d.pb", "c.npz", recipe="r.toml")
    assert smaller.content == Path("a.tflite").read_bytes()
    assert not smaller.way.trials
    assert not [w for w in smaller.warnings if "another model" in w]


def test_the_main_job_writes_one_and_takes_one() -> None:
    first = thinflow.optimize("d.pb", "out", calibration="c.npz", measure=False, effort="fast")
    assert first.files["recipe"] == Path("out/recipe.toml")
    assert "kept: " in Path("out/recipe.toml").read_text("utf-8") or not first.int8.way.trials
    second = thinflow.optimize("d.pb", "two", calibration="c.npz", measure=False, recipe="out/recipe.toml")
    assert second.files["int8"].read_bytes() == first.files["int8"].read_bytes()


def test_what_contradicts_it_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    write_recipe("r.toml", RecipeFile(Recipe(observer="mse")))
    for flag, why in {
        "--scheme=int16x8": "scheme is 'int16x8' and the recipe's is 'int8'",
        "--observer=moving": "observer is 'moving' and the recipe's is 'mse'",
        "--per-tensor": "per_channel is False and the recipe's is True",
        "--keep-float=x": "skip_nodes is ('x',) and the recipe's is ()",
    }.items():
        assert quantize("--recipe", "r.toml", flag) != 0
        assert why in capsys.readouterr().err
    assert quantize("--recipe", "r.toml", "--scheme=int8", "--observer=mse") == 0
    with pytest.raises(ParameterError, match="scheme is 'dynamic' and the recipe's is 'int8'"):
        thinflow.optimize("d.pb", "out", recipe="r.toml", scheme="dynamic")


def test_of_another_model_there_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    write_recipe("r.toml", RecipeFile(Recipe(), "other.pb", "00"))
    assert quantize("--recipe", "r.toml") == 0
    assert "warning: r.toml was found for 'other.pb', and this is another model" in capsys.readouterr().out
    write_recipe("r.toml", RecipeFile(Recipe(skip_nodes=("nowhere",)), "other.pb", "00"))
    assert quantize("--recipe", "r.toml") != 0
    assert "no operator of the LiteRT model is called 'nowhere'" in capsys.readouterr().err


def test_digests_tell_models_apart() -> None:
    assert graph_digest(digits.build(0)) == graph_digest(thinflow.load("d.pb"))
    digests = set()
    for weights in ([1.0, 2.0], [1.0, 3.0]):
        graph = thinflow.Graph()
        graph.constant(np.array(weights, np.float32), "w")
        digests.add(graph_digest(graph))
    assert len(digests) == 2
