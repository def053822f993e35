"""What is told about an op that no kernel runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.errors import UnsupportedOp
from thinflow.interpreter import run_graph

NAME = """
    x = Placeholder() {dtype=string, shape=shape[]}
    name = Const() {dtype=string, value=string[]{"secret"}}
"""


@pytest.mark.parametrize(
    ("node", "problem", "hint"),
    [
        ("y = ReadFile(name)", "it reads any file that the model names", "--inputs y --feed y=FILE"),
        ("y = MatchingFiles(name)", "it reads any file", "--inputs y --feed y=FILE"),
        (
            "y = RestoreV2(name, name, name) {dtypes=[float]}",
            "it reads any file",
            "`thinflow freeze` puts a checkpoint's values into the graph",
        ),
        ("y = WriteFile(name, x)", "it writes any file that the model names", "leave it out with --outputs"),
        (
            'y = PyFunc(x) {token="f", Tin=[string], Tout=[string]}',
            "the Python function it calls is not in the file",
            "start behind it with --inputs y",
        ),
        ("y = IteratorGetNext(x)", "no kernel for this op", "it belongs to an input pipeline"),
        ("y = AcmeWarp(x)", "no kernel for this op", "start behind it with --inputs y, as `thinflow run`"),
        (
            "low = StringLower(x)\ny = AcmeWarp(low, name)",
            "no kernel for this op",
            "stop before it with --outputs low or start behind it with --inputs y",
        ),
    ],
)
def test_the_reason_and_the_way_out(node: str, problem: str, hint: str) -> None:
    graph = parse_graph(NAME + node)
    with pytest.raises(UnsupportedOp) as caught:
        run_graph(graph, {"x": np.array(b"data", object)}, ["y"])
    assert problem in caught.value.problem
    assert hint in caught.value.hint
    assert caught.value.where.startswith("node 'y' (")


def test_the_way_out_of_a_node_that_reads_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The content is fed in its place; the file the model names is left alone."""
    text = NAME + "y = ReadFile(name)\nz = StringLength(y)\ninputs: x\noutputs: z"
    thinflow.save(parse_graph(text), tmp_path / "m.pb")
    (tmp_path / "content.txt").write_bytes(b"12345")
    assert main(["run", str(tmp_path / "m.pb")]) == 1
    assert "which no model may do here" in capsys.readouterr().err
    argv = ["run", str(tmp_path / "m.pb"), "--inputs", "y", "--feed", f"y={tmp_path / 'content.txt'}"]
    assert main([*argv, "--save", str(tmp_path / "z.npz")]) == 0
    assert np.load(tmp_path / "z.npz")["z"] == 5
