"""Labels that are numbers of classes, and those that are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow import zoo
from thinflow.api import quantize_to_file, write_arrays
from thinflow.cli import main
from thinflow.errors import FeedError
from thinflow.ir.types import FLOAT, TensorSpec
from thinflow.optimize.class_labels import UNCOUNTED, checked_labels, class_numbers
from thinflow.zoo import digits

SCORES = TensorSpec(FLOAT, (None, 10))


def checked(labels: list[Any], names: list[str] | None = None, **fields: Any) -> tuple[Any, list[str]]:
    choices: dict[str, Any] = {"output": SCORES, "is_scores": True} | fields
    return checked_labels(labels, names, place="sample {}".format, **choices)


def test_whole_numbers_of_any_type_and_rows_with_a_one() -> None:
    assert class_numbers([1.0, np.float32(2), np.int8(3)], None) == [1, 2, 3]
    assert class_numbers([[0, 1, 0], [0.0, 0.0, 1.0]], None) == [1, 2]
    assert class_numbers([[0, 1, 1]], None) is None
    assert class_numbers([0.5], None) is None


@pytest.mark.parametrize("label", [10, -1])
def test_numbers_that_no_class_has(label: int) -> None:
    with pytest.raises(FeedError) as error:
        checked([3, label])
    assert error.value.problem == f"sample 1 is labelled {label}, and the model has 10 classes"
    assert error.value.hint == "labels are places in the model's scores, and count from 0"
    # Of an output that may be anything else, such as an embedding, right answers are not counted.
    numbers, told = checked([3, label], is_scores=False)
    assert numbers is None
    assert told == [f"{error.value.problem}, {UNCOUNTED}"]
    with pytest.raises(FeedError, match="and classes count from 0"):
        checked([-1], output=TensorSpec(FLOAT, (None, 4, 10)))


def test_words_that_are_no_classes() -> None:
    assert checked(["yes", "no"], ["no", "yes"]) == ([1, 0], [])
    with pytest.raises(FeedError, match="sample 1 is labelled 'yess', which is no class") as error:
        checked(["no", "yess"], ["no", "yes"])
    assert error.value.hint == "did you mean 'yes'?"
    assert checked(["IMG"] * 3, ["no", "yes"]) == (
        None,
        [f"labels such as 'IMG' are no class names, {UNCOUNTED}"],
    )
    # Without names nobody knows whether words are labels at all.
    assert checked(["IMG"] * 3) == (None, [])


def test_labels_that_are_no_numbers_of_classes() -> None:
    for label, shown in ((0.5, "0.5"), ([0.2, 0.8], "[0.2, 0.8]")):
        assert checked([label]) == (
            None,
            [f"labels are no numbers of classes (sample 0 has {shown}), {UNCOUNTED}"],
        )


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_users_are_told(tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = tmp_path / "digits.pb", str(tmp_path / f"m.{suffix}")
    thinflow.save(digits.build(0), model)
    data = zoo.calibration("digits", 12, 0)
    x = next(array for name, array in data.items() if name != "labels")
    given = {"image": x, "labels": np.full(12, 99)}
    with pytest.raises(FeedError, match="sample 0 is labelled 99, and the model has 10 classes"):
        quantize_to_file(model, out, given, effort="none")
    write_arrays(tmp_path / "data.npz", given)
    assert main(["quantize", str(model), out, "--calibration", str(tmp_path / "data.npz")]) == 1
    assert "sample 0 is labelled 99, and the model has 10 classes" in capsys.readouterr().err
    report = quantize_to_file(model, out, {"image": x, "labels": np.full(12, 0.5)}, effort="none")
    assert any("labels are no numbers of classes (sample 0 has 0.5)" in w for w in report["warnings"])
