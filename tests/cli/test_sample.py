"""`thinflow sample`: files, printed lines, mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from thinflow import zoo
from thinflow.cli import main
from thinflow.formats import graphdef


@pytest.mark.parametrize("argv", [["sample"], ["sample", "--list"]])
def test_lists_models(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    first, *lines, last = capsys.readouterr().out.splitlines()
    assert first == f"{len(zoo.names())} models can be written:"
    assert [line.split()[0] for line in lines] == zoo.names()
    assert last == "next: thinflow sample digits digits.pb"


def test_lists_models_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sample", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == zoo.names()


def test_writes_digits_with_its_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, calibration, test = (str(tmp_path / f) for f in ("d.pb", "c.npz", "t.npz"))
    assert main(["sample", "digits", model, "--calibration", calibration, "--test", test]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"wrote {model}: digits, 89 nodes, 43.9 k parameters",
        "  input image, output probabilities",
        f"wrote {calibration}: image [200, 8, 8, 1]",
        f"wrote {test}: image [400, 8, 8, 1], labels [400]",
        f"next: thinflow inspect {model}",
    ]
    shipped = Path(zoo.__file__).parents[1] / "data" / "digits.pb"
    assert Path(model).read_bytes() == shipped.read_bytes()
    with np.load(calibration) as arrays:
        assert arrays["image"].dtype == np.float32
    with np.load(test) as arrays:
        assert set(arrays) == {"image", "labels"}


def test_seed_and_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, calibration = str(tmp_path / "m.pb"), str(tmp_path / "images")
    argv = [
        "sample",
        "mobilenet_v2",
        model,
        "--seed",
        "5",
        "--calibration",
        calibration,
        "--count",
        "2",
        "--json",
    ]
    assert main(argv) == 0
    written = json.loads(capsys.readouterr().out)
    assert (written["name"], written["seed"], written["outputs"]) == ("mobilenet_v2", 5, ["Identity"])
    assert written["calibration"] == {"file": calibration, "arrays": {"input": [2, 224, 224, 3]}}
    name = "mobilenetv2_1.00_224/Conv1/Conv2D/ReadVariableOp/resource"
    weights, expected = (g.node(name).tensor for g in (graphdef.load(model), zoo.build("mobilenet_v2", 5)))
    assert weights is not None
    assert expected is not None
    assert np.array_equal(weights.numpy(), expected.numpy())


@pytest.mark.parametrize(
    ("argv", "problem", "hint"),
    [
        (["resnet_v2", "{}/m.pb"], "there is no sample named 'resnet_v2'", "did you mean 'resnet_v2_50'"),
        (["digits"], "it is not said where to write", "thinflow sample digits digits.pb"),
        (
            ["digits", "{}/m.pb", "--count", "3"],
            "--count counts calibration images",
            "add --calibration FILE.npz",
        ),
        (["digits", "{}/m.pb", "--calibration", "{}/c", "--count", "0"], "count is 0", ""),
        (["digits", "{}/m.pb", "--calibration", "{}/c", "--count", "999"], "there are 200", ""),
        (["digits", "{}/m.pb", "--seed", "-1"], "'-1' is not a whole number", ""),
        (
            ["mobilenet_v1", "{}/m.pb", "--test", "{}/t.npz"],
            "has random weights",
            "these are trained: digits",
        ),
        (["digits", "{}/nowhere/m.pb"], "nowhere/m.pb", ""),
    ],
)
def test_mistakes_leave_nothing_behind(
    argv: list[str], problem: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sample", *(part.format(tmp_path) for part in argv)]) == 1
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("error: ")
    assert problem in error
    assert hint in error
    assert not list(tmp_path.iterdir())


def test_images_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sample", "digits", str(tmp_path / "m.pb"), "--calibration", str(tmp_path / "x" / "c")]) == 1
    assert "its folder does not exist" in capsys.readouterr().err
