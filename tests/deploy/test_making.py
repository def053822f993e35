"""Folders of apps: what stands in the contract, whose folders are replaced, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.deploy.folder import MANIFEST
from thinflow.deploy.targets import target_names, targets
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT
from thinflow.zoo import digits


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "My digits-2.pb"
    thinflow.save(digits.build(0), path)
    return path


def test_every_target_has_the_name_of_its_file_and_a_title() -> None:
    assert [one.name for one in targets()] == target_names()
    assert all(one.title for one in targets())


def test_the_contract_says_what_was_asked_for(model: Path, tmp_path: Path) -> None:
    scaling = thinflow.Scaling(mean=8.0, std=16.0, resize=20, crop="center")
    labels = [f"digit {n}" for n in range(10)]
    made = thinflow.deploy(model, tmp_path / "app", "python", scaling=scaling, labels=labels, top=3)
    assert made.name == "my_digits_2"
    told = json.loads((tmp_path / "app" / "src" / made.name / "assets" / "model.json").read_text())
    (fed,) = told["inputs"]
    assert fed["said"] == "flags"
    assert fed["picture"] == {
        "height": 8,
        "width": 8,
        "channels": 1,
        "order": "grey",
        "resize": [20],
        "crop": "center",
        "mean": [8.0],
        "std": [16.0],
        "store": "real",
    }
    assert (told["task"], told["labels"], told["top"]) == ("classification", labels, 3)
    assert told["outputs"][0]["softmax"] is False
    assert told["self_test"]["answer"].startswith("digit ")
    assert told["doubts"] == []


def test_the_answer_is_the_models(model: Path, tmp_path: Path) -> None:
    made = thinflow.deploy(model, tmp_path / "app", "python")
    assets = tmp_path / "app" / "src" / made.name / "assets"
    fed = np.frombuffer((assets / "selftest" / "input_0.bin").read_bytes(), np.float32).reshape(1, 8, 8, 1)
    (wanted,) = thinflow.Session(model, engine="reference").run(None, {"image": fed})
    stored = np.frombuffer((assets / "selftest" / "output_0.bin").read_bytes(), np.float32)
    np.testing.assert_allclose(stored, wanted.reshape(-1), atol=1e-5)
    assert any("--mean" in doubt for doubt in made.contract["doubts"])


def test_logits_become_probabilities_in_the_app(tmp_path: Path) -> None:
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 4))}).output()
    w = graph.constant(np.arange(12, dtype=np.float32).reshape(4, 3), "w")
    y = graph.add("MatMul", [x, w], "y").output()
    graph.inputs, graph.outputs = [x], [y]
    made = thinflow.deploy(graph, tmp_path / "net", "python", labels=["a", "b", "c"])
    assert made.contract["outputs"][0]["softmax"] is True
    assert made.contract["inputs"][0]["kind"] == "numbers"


def test_a_folder_of_ours_is_made_anew_and_no_other(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "app"
    thinflow.deploy(model, out, "python")
    made = thinflow.deploy(model, out, "python", name="other")
    assert made.name == "other"
    assert [p.name for p in (out / "src").iterdir()] == ["other"]
    (out / "README.md").write_text("mine")
    with pytest.raises(thinflow.WriteError, match=r"README.md was changed, and would be lost"):
        thinflow.deploy(model, out, "python")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    with pytest.raises(thinflow.WriteError, match="the folder is not empty"):
        thinflow.deploy(model, tmp_path / "mine", "python")
    (out / "README.md").unlink()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(thinflow.WriteError, match=r"notes.txt is not of deploy"):
        thinflow.deploy(model, out, "python")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["app", "mine"]


def test_nothing_is_left_behind_where_it_cannot_be_made(tmp_path: Path) -> None:
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 4))}).output()
    bent = graph.add("Relu", [x], "bent", attrs={"T": FLOAT}).output()
    y = graph.add("SomeOpOfNobody", [bent], "y").output()
    graph.inputs, graph.outputs = [x], [y]
    with pytest.raises(thinflow.PartialModel, match="SomeOpOfNobody") as caught:
        thinflow.deploy(graph, tmp_path / "net", "python")
    # It takes whole models alone, and has no word that would change that.
    assert "strict" not in caught.value.hint
    assert "--outputs" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"target": "pyton"}, "there is no target 'pyton'"),
        ({"name": "9 lives"}, "an app cannot be called '9 lives'"),
        ({"top": 0}, "0 classes cannot be shown"),
        ({"sample": "nowhere.png"}, "there is no such sample"),
    ],
)
def test_wrong_options(options: dict[str, object], problem: str, model: Path, tmp_path: Path) -> None:
    given: dict[str, object] = {"target": "python", **options}
    with pytest.raises(thinflow.ParameterError, match=problem):
        thinflow.deploy(model, tmp_path / "app", **given)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_opened_again(model: Path, tmp_path: Path) -> None:
    made = thinflow.deploy(model, tmp_path / "app", "python")
    again = thinflow.Deployment.open(tmp_path / "app")
    assert (again.target, again.name, again.files) == (made.target, made.name, made.files)
    assert (again.size_bytes, again.answer, again.model) == (made.size_bytes, made.answer, made.model)
    (tmp_path / "app" / MANIFEST).write_text("{}")
    with pytest.raises(thinflow.FormatError, match="is damaged"):
        thinflow.Deployment.open(tmp_path / "app")
    with pytest.raises(thinflow.FormatError, match="there is no such folder"):
        thinflow.Deployment.open(tmp_path / "nowhere")
    with pytest.raises(thinflow.FormatError, match="this is no folder of an app"):
        thinflow.Deployment.open(tmp_path)
