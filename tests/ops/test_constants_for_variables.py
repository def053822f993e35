"""Writing to what was a variable before the graph was frozen."""

from __future__ import annotations

import pytest

import thinflow
from tests.library import constant, graph_of, node
from thinflow.errors import NodeError
from thinflow.ir.types import FLOAT


@pytest.mark.parametrize("op", ["Assign", "AssignAdd", "AssignSub"])
def test_a_constant_cannot_be_written_to(op: str) -> None:
    nodes = [constant("state", [1.0, 2.0]), constant("x", [3.0, 4.0]), node("y", op, "state", "x", T=FLOAT)]
    graph = thinflow.load(graph_of(nodes), inputs=[], outputs=["y"])
    with pytest.raises(NodeError) as caught:
        thinflow.Session(graph, engine="reference").run(["y"], {})
    assert "it writes to a constant, which was a variable" in caught.value.message
    assert caught.value.hint is not None
    assert "thinflow freeze" in caught.value.hint
