"""Made-up sizes that do not fit: the error names the input and the flag."""

from __future__ import annotations

from pathlib import Path

import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.errors import FeedError

TEXT = """
x = Placeholder() {dtype=float%s}
w = Const() {dtype=float, value=float[4,2]{1,2,3,4,5,6,7,8}}
y = BatchMatMulV2(x, w) {T=float}
inputs: x
outputs: y
"""


@pytest.fixture(params=["", ", shape=shape[?,?]"], ids=["any shape", "any sizes"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    thinflow.save(parse_graph(TEXT % request.param), tmp_path / "m.pb")
    return str(tmp_path / "m.pb")


def problem(model: str) -> str:
    """How the error begins for a graph."""
    shape = thinflow.load(model).inputs[0].spec.shape
    if shape is None:
        return "the graph does not say what shape 'x' has, and [] does not fit: node 'y' (BatchMatMulV2)"
    return "'x' has the shape [?,?], and made-up sizes, [1,8], do not fit: node 'y' (BatchMatMulV2)"


def test_verify_and_run_name_the_input(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FeedError) as caught:
        thinflow.verify(model, model)
    assert caught.value.message.startswith(problem(model))
    assert caught.value.hint.startswith("say what sizes it has, for example --shape x=1,")
    for command in (["verify", model, model], ["run", model, "--engine", "reference"]):
        assert main(command) == 1
        assert capsys.readouterr().err.startswith(f"error: {problem(model)}")
        assert main([*command, "--shape", "x=3,4"]) == 0
        capsys.readouterr()


def test_benchmark_names_the_input(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ai_edge_litert")
    assert main(["benchmark", model, "--runs", "1"]) == 1
    assert "hint: say what sizes it has, for example --shape x=1," in capsys.readouterr().err


def test_feeds_of_the_users_own_are_not_blamed_on_the_shape(model: str) -> None:
    import numpy as np

    with pytest.raises(thinflow.ThinflowError) as caught:
        thinflow.verify(model, model, {"x": np.zeros((1, 5), np.float32)})
    assert caught.value.message.startswith("node 'y' (BatchMatMulV2): ")
