"""Samples that are none, too few, or not what the model takes: on the command line and in Python, for both
runtimes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow import zoo
from thinflow.api import write_arrays
from thinflow.cli import main
from thinflow.errors import FeedError
from thinflow.optimize import quantize_job
from thinflow.zoo import digits

X = zoo.calibration("digits", 20, 0)["image"]
Array = np.ndarray[Any, Any]


def _with(value: float, count: int) -> Array:
    spoilt = X.copy()
    spoilt[:count, 2, 2, 0] = value
    return spoilt


REFUSED: dict[str, tuple[Callable[[], dict[str, Array]], str]] = {
    "none": (lambda: {"image": X[:0]}, "there are no samples"),
    "other sizes": (lambda: {"image": X[:, :5]}, "sample 0: input 'image' wants shape"),
    "a rank less": (lambda: {"image": X[..., 0]}, "sample 0: input 'image' wants shape"),
    "complex": (lambda: {"image": X.astype(complex)}, "input 'image' wants float, found complex128"),
    "another name": (lambda: {"picture": X}, "the model has no input 'picture'"),
    "many NaN": (
        lambda: {"image": _with(np.nan, 5)},
        "5 of 20 samples hold NaN or infinity; the first is sample 0, in input 'image'",
    ),
    "all infinite": (lambda: {"image": _with(np.inf, 20)}, "20 of 20 samples hold NaN or infinity"),
    "labels missing": (lambda: {"image": X, "labels": np.zeros(3, int)}, "there are 3 labels for 20 samples"),
}
TOLD: dict[str, tuple[Callable[[], dict[str, Array]], str]] = {
    "one": (lambda: {"image": X[:1]}, "only 1 calibration sample;"),
    "one NaN": (
        lambda: {"image": _with(np.nan, 1)},
        "sample 0 (input 'image') holds NaN or infinity and was left out",
    ),
    "zeros": (lambda: {"image": X * 0}, "20 of 20 samples are one number everywhere, such as sample 0"),
    "constant": (lambda: {"image": X * 0 + 5}, "20 of 20 samples are one number everywhere"),
    "a dead column": (lambda: {"image": X * (np.arange(8) > 0)[:, None]}, ""),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bad") / "digits.pb"
    thinflow.save(digits.build(0), made)
    return made


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
@pytest.mark.parametrize("kind", REFUSED)
def test_refused_in_words(
    model: Path, kind: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, problem = REFUSED[kind]
    data, out = tmp_path / "data.npz", tmp_path / f"m.{suffix}"
    write_arrays(data, make())
    assert main(["quantize", str(model), str(out), "--calibration", str(data), "--effort", "none"]) == 1
    err = capsys.readouterr().err
    assert problem in err
    assert "Traceback" not in err
    assert not out.exists()
    with pytest.raises(FeedError) as error:
        thinflow.quantize(model, make(), effort="none", format=suffix)
    assert problem in str(error.value)


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
@pytest.mark.parametrize("kind", TOLD)
def test_taken_with_a_warning(
    model: Path, kind: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, told = TOLD[kind]
    data, out = tmp_path / "data.npz", tmp_path / f"m.{suffix}"
    write_arrays(data, make())
    assert main(["quantize", str(model), str(out), "--calibration", str(data)]) == 0
    assert told in capsys.readouterr().out
    (answers,) = thinflow.Session(out).run(None, {"image": X[:1]})
    assert np.isfinite(answers).all()


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_an_interrupted_run_leaves_the_file_that_was_there(
    model: Path, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object, **fields: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(quantize_job, "compare_models", interrupted)
    out = tmp_path / f"m.{suffix}"
    out.write_bytes(b"as it was")
    assert main(["quantize", str(model), str(out), "--effort", "none"]) == 130
    assert out.read_bytes() == b"as it was"
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
