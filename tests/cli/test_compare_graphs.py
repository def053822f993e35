"""`thinflow compare_graphs` answers in the words and exit codes of the original."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.cli import main
from thinflow.formats import save
from thinflow.ir.graph import Graph, Versions
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
        ({"control": True}, "Node named 'y' has inputs 'x, x, ^ctl' that don't match expected 'x, x'"),
        ({"extra": True}, "Found unexpected node '{{node z}} = NoOp[]()'"),
        (
            {"dtype": DOUBLE},
            "Node named 'y' has attr 'T' with value: DT_DOUBLE that does not match expected: DT_FLOAT",
        ),
        (
            {"number": 3},
            "Node named 'x' has attr 'value' with value: Tensor<type: float shape: [2] values: 1 3> "
            "that does not match expected: Tensor<type: float shape: [2] values: 1 2>",
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


@pytest.mark.parametrize(
    ("flags", "changes", "verdict"),
    [
        ([], {"number": 2.0001}, 1),
        (["--rtol=1e-3"], {"number": 2.0001}, 0),
        (["-rtol", "1e-3", "--all=false"], {"number": 2.0001}, 0),
        (["--atol=1e-3"], {"number": 2.01}, 1),
        (["--numeric", "--rtol=1e-3", "--outputs=y"], {"number": 2.0001}, 0),
    ],
)
def test_tolerances(tmp_path: Path, flags: list[str], changes: dict[str, object], verdict: int) -> None:
    a, b = write(tmp_path / "a.pb", **changes), write(tmp_path / "b.pb")
    assert main(["compare_graphs", a, b, *flags]) == verdict


def test_all_lists_everything_and_gaps_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = write(tmp_path / "a.pb", number=3, op="AddV2"), write(tmp_path / "b.pb")
    assert main(["compare_graphs", a, b, "--all", "--atol=0.5"]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("(largest difference 1, 0.333 of the largest value, at [1])")
    assert second == "Node named 'y' has op 'AddV2' that is not expected 'Add'"


def test_unknown_flags_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare_graphs", "a", "b", "--alll"]) == 255
    assert capsys.readouterr().err.startswith("Unknown argument --alll\nhint: did you mean 'all'")
    assert main(["compare_graphs", "a", "b", "--functions=maybe"]) == 255
    assert capsys.readouterr().err.startswith("Couldn't interpret value maybe for flag functions.")


def test_rules() -> None:
    def graph(**attrs: object) -> Graph:
        made = Graph()
        made.add("Conv2D", name="c", attrs={"T": FLOAT, **attrs})
        return made

    plain, spelled = graph(), graph(data_format="NHWC", _note=1)
    assert thinflow.compare(plain, spelled) == [
        "Node named 'c' missing expected attr 'data_format' with value: \"NHWC\""
    ]
    assert thinflow.compare(plain, spelled, ignore_defaults=True) == []
    assert thinflow.compare(plain, spelled, ignore_defaults=True, internal_attrs=True) == [
        "Node named 'c' missing expected attr '_note' with value: 1"
    ]
    newer = graph()
    newer.versions = Versions(producer=8)
    assert thinflow.compare(newer, plain) == []
    (line,) = thinflow.compare(newer, plain, versions=True)
    assert "producer=8" in line
