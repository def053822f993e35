"""Samples in .csv files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from thinflow import zoo
from thinflow.cli import main
from thinflow.errors import FeedError
from thinflow.ir.types import FLOAT, INT32, TensorSpec
from thinflow.quantize.feeds import open_feeds

ONE = {"x": TensorSpec(FLOAT, (1, 2, 3))}
TWO = {"x": TensorSpec(FLOAT, (1, 2)), "n": TensorSpec(INT32, (1,))}


def table(folder: Path, text: str) -> Path:
    (folder / "data.csv").write_text(text, "utf-8")
    return folder / "data.csv"


@pytest.mark.parametrize("head", ["", "a,b,c,d,e,f\n", "\ufeff"])
def test_rows_are_samples(head: str, tmp_path: Path) -> None:
    feeds = open_feeds(table(tmp_path, f"{head}0,1,2,3,4,5\n6,7,8,9,10,1e1\n\n"), ONE)
    assert len(feeds) == 2
    assert feeds.labels is None
    assert [feed["x"].tolist() for feed in feeds][1] == [[[6, 7, 8], [9, 10, 10]]]


def test_labels_have_a_column(tmp_path: Path) -> None:
    path = table(tmp_path, "a,Label,b,c,d,e,f\n0,cat,1,2,3,4,5\n6,dog,7,8,9,10,11\n")
    feeds = open_feeds(path, ONE, limit=1)
    assert feeds.labels in (["cat"], ["dog"])
    assert open_feeds(path, ONE).labels == ["cat", "dog"]


def test_inputs_are_told_apart_by_names(tmp_path: Path) -> None:
    (feed,) = open_feeds(table(tmp_path, "x_0,x[1],n\n0.5,2,7\n"), TWO)
    assert feed["x"].tolist() == [[0.5, 2]]
    assert feed["n"].tolist() == [7]


@pytest.mark.parametrize(
    ("text", "inputs", "told"),
    [
        ("", ONE, "there are no samples"),
        ("a,b\n", ONE, "there are no samples"),
        ("1,2,3,4,5,6\n1,2\n", ONE, "sample 1 has 2 columns, and others have 6"),
        ("a,b,c,d,e,f\n1,2,3,4,5,x\n", ONE, "'x' in column 'f' is no number"),
        ("1,2\n", ONE, r"input 'x' wants shape \[1,2,3\], found \[2\]"),
        ("x,m\n1,2\n", TWO, "column 'm' is of no input"),
        ("x_0,x_1\n1,2\n", TWO, "nothing is given for input 'n'"),
        ("1,2,3\n", TWO, "the model has 2 inputs, and a table without names of columns gives one"),
    ],
)
def test_tables_that_do_not_fit(text: str, inputs: dict[str, TensorSpec], told: str, tmp_path: Path) -> None:
    with pytest.raises(FeedError, match=told):
        list(open_feeds(table(tmp_path, text), inputs))


def test_files_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FeedError, match="the file cannot be read"):
        open_feeds(tmp_path / "data.csv", ONE)


def test_they_calibrate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = zoo.test_set("digits")
    data, labels = np.asarray(made["image"]), np.asarray(made["labels"])
    rows = [f"{label},{','.join(map(str, x.ravel()))}" for x, label in zip(data[:40], labels, strict=False)]
    path = table(tmp_path, "\n".join([f"label,{','.join(f'p{n}' for n in range(64))}", *rows]))
    assert main(["sample", "digits", str(tmp_path / "digits.pb")]) == 0
    command = ["quantize", str(tmp_path / "digits.pb"), str(tmp_path / "m.tflite"), "--effort", "none"]
    assert main([*command, "--calibration", str(path)]) == 0
    told = capsys.readouterr().out
    assert "samples: 40 samples from" in told
    assert "right: " in told
