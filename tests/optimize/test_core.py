"""What of a graph a model for a runtime can hold, and what helps to hold more."""

from __future__ import annotations

from pathlib import Path

import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.errors import UnsupportedOp
from thinflow.optimize.core import shape_advice


@pytest.mark.parametrize(
    ("shape", "advice"),
    [
        ("[?,?,4]", "if its sizes are known, fix them, such as --shape x=1,8,4"),
        ("[?,96,?,3]", "if its sizes are known, fix them, such as --shape x=1,96,96,3"),
        ("[?,4]", ""),
        ("[1,4]", ""),
        ("?", ""),
    ],
)
def test_open_sizes_are_named(shape: str, advice: str) -> None:
    graph = parse_graph(f"x = Placeholder() {{dtype=float, shape=shape{shape}}}\ninputs: x")
    assert shape_advice(graph.inputs) == advice


def test_sizes_that_contradict_each_other_run_nowhere(tmp_path: Path) -> None:
    graph = parse_graph("""
x = Placeholder() {dtype=float, shape=shape[1,2]}
w = Const() {value=float[3,2]{0,1,2,3,4,5}}
y = MatMul(x, w) {T=float}
inputs: x
outputs: y
""")
    with pytest.raises(UnsupportedOp, match="sizes do not fit") as caught:
        thinflow.convert(graph, tmp_path / "m.tflite")
    assert (
        caught.value.hint == "its sizes contradict each other: give others with --shape, or export it again"
    )
