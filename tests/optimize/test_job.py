"""The main job on the small bundled model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.page_scripts import PAGE
from thinflow import zoo
from thinflow.errors import GraphError, ParameterError, WriteError
from thinflow.optimize.report import OptimizeReport
from thinflow.zoo import digits

FILES = {
    "digits_fp32.pb",
    "digits_fp32.tflite",
    "digits_int8.tflite",
    "recipe.toml",
    "report.json",
    "report.md",
    *PAGE,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("job") / "digits.pb"
    thinflow.save(digits.build(0), path)
    return path


@pytest.fixture(scope="module")
def report(model: Path) -> OptimizeReport:
    result = thinflow.optimize(
        model,
        model.parent / "out",
        calibration=zoo.calibration("digits", 40, 0),
        test=zoo.test_set("digits"),
        samples=40,
        measure=False,
    )
    assert isinstance(result, OptimizeReport)
    return result


def test_writes_its_files(model: Path, report: OptimizeReport) -> None:
    assert {p.name for p in (model.parent / "out").iterdir()} == FILES
    assert report.sizes["int8"] < report.sizes["fp32"] / 2
    assert report.sizes["fp32_pb"] <= model.stat().st_size


def test_proves_what_it_made(report: OptimizeReport) -> None:
    assert report.float_difference < 1e-4
    assert report.float_quality.same_answer == 40
    assert report.int8_quality.drop is not None
    assert report.int8_quality.drop <= 10
    assert not report.synthetic
    assert report.latency is None
    assert not any("SYNTHETIC" in w for w in report.warnings)


def test_reports_agree(model: Path, report: OptimizeReport) -> None:
    data = json.loads((model.parent / "out" / "report.json").read_text("utf-8"))
    assert data["verdict"] == report.verdict
    assert report.markdown() == (model.parent / "out" / "report.md").read_text("utf-8")
    assert report.inputs == [("image", "float[?,8,8,1]")]
    assert [name for name, _ in report.outputs] == ["probabilities"]


def test_the_float_graph_still_computes_the_same(model: Path, report: OptimizeReport) -> None:
    assert thinflow.verify(model, report.files["fp32_pb"]).ok


def test_made_up_inputs_are_said_to_be(model: Path, tmp_path: Path) -> None:
    found = thinflow.optimize(model, tmp_path / "a" / "b", samples=2, measure=False)
    assert found.synthetic
    assert any(w.startswith("SYNTHETIC INPUT") for w in found.warnings)
    assert {p.name for p in (tmp_path / "a" / "b").iterdir()} == FILES


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"outputs": []}, GraphError, "no output was found\nhint: name it with --outputs"),
        ({"outputs": ["nope"]}, GraphError, "there is no output 'nope'"),
        ({"samples": 0}, ParameterError, "0 samples are too few\nhint: give at least 1"),
        ({"labels": "none.txt"}, ParameterError, "the labels cannot be read"),
    ],
)
def test_mistakes_leave_no_folder(
    model: Path, tmp_path: Path, options: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        thinflow.optimize(model, tmp_path / "out", measure=False, **options)
    assert not (tmp_path / "out").exists()


def test_a_file_where_the_folder_should_be(model: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    for target in (tmp_path / "out", tmp_path / "out" / "deeper"):
        with pytest.raises(WriteError, match="there is a file of this name\nhint: name a folder"):
            thinflow.optimize(model, target, samples=2, measure=False)


def test_samples_that_do_not_fit(model: Path, tmp_path: Path) -> None:
    with pytest.raises(thinflow.FeedError, match="image"):
        thinflow.optimize(
            model, tmp_path / "out", calibration={"image": np.zeros((3, 5, 5, 1), np.float32)}, measure=False
        )
    assert not (tmp_path / "out").exists()
