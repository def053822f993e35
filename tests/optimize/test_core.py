"""What of a graph a model for a runtime can hold, and what helps to hold more."""

from __future__ import annotations

import pytest

from tests.transforms.golden import parse_graph
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
