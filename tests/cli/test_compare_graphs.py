"""`thinflow compare_graphs` answers in the words and exit codes of the original."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from thinflow.cli import main
from thinflow.formats import save
from thinflow.ir.graph import Graph
from thinflow.ir.types import DOUBLE, FLOAT


def write(path: Path, **changes: object) -> str:
    """x, ctl -> y = Add(x, x), with one thing changed."""
    graph = Graph()
    x = graph.constant(np.float32([1, changes.get("number", 2)]), "x").node
    ctl = graph.add("NoOp", name="ctl")
    dtype = changes.get("dtype", FLOAT)
    y = graph.add(
        str(changes.get("op", "Add")), [x, x], "y", attrs={"T": dtype}, device=str(changes.get("device", ""))
    )
    if changes.get("control"):
        y.add_control_input(ctl)
    if changes.get("extra"):
        graph.add("NoOp", name="z")
    save(graph, path)
    return str(path)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"op": "AddV2"}, "Node named 'y' has op 'AddV2' that is not expected 'Add'"),
        ({"device": "/cpu:0"}, "Node named 'y' has device '/cpu:0' that is not expected ''"),
        ({"control": True}, "Node named 'y' has unexpected control input '^ctl'"),
        ({"extra": True}, "Found unexpected node 'z' (NoOp)"),
        (
            {"dtype": DOUBLE},
            "Node named 'y' has attr 'T' with value: double that does not match expected: float",
        ),
        (
            {"number": 3},
            "Node named 'x' has attr 'value' with value: float[2]{1,3} "
            "that does not match expected: float[2]{1,2}",
        ),
    ],
)
def test_names_the_first_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, object], line: str
) -> None:
    a, b = write(tmp_path / "a.pb", **changes), write(tmp_path / "b.pb")
    assert main(["compare_graphs", a, b]) == 1
    assert capsys.readouterr().out.splitlines() == [line]


def test_equal_graphs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = write(tmp_path / "a.pb"), write(tmp_path / "b.pbtxt")
    assert main(["compare_graphs", a, b]) == 0
    assert capsys.readouterr().out == "Graphs are equal.\n"


def test_wrong_use_and_missing_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare_graphs", "one.pb"]) == 255
    assert "expects two file names" in capsys.readouterr().err
    assert main(["compare_graphs", str(tmp_path / "none.pb"), str(tmp_path / "none.pb")]) == 255
    assert "there is no such file" in capsys.readouterr().err
