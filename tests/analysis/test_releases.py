"""Which release of TensorFlow wrote a graph."""

from __future__ import annotations

import pytest

from thinflow.analysis.releases import era
from thinflow.ir.graph import Graph, Versions
from thinflow.ir.types import FLOAT


@pytest.mark.parametrize(
    ("producer", "told"),
    [
        (27, "TensorFlow 1.11 to 1.13, GraphDef version 27"),
        (38, "TensorFlow 1.14, GraphDef version 38"),
        (500, "TensorFlow 2.3 to 2.5, GraphDef version 500"),
        (8, "TensorFlow before 1.0, GraphDef version 8"),
        (99_999, "TensorFlow 2.21 or newer, GraphDef version 99999"),
    ],
)
def test_by_the_version_it_declares(producer: int, told: str) -> None:
    graph = Graph()
    graph.versions = Versions(producer=producer)
    assert era(graph) == told


def test_without_a_version_by_its_youngest_op() -> None:
    graph = Graph()
    assert era(graph) == ""
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT})
    graph.add("Relu", [x.output()], name="old", attrs={"T": FLOAT})
    assert era(graph) == "TensorFlow of any release, by its ops"
    graph.add("LeakyRelu", [x.output()], name="young", attrs={"T": FLOAT})
    assert era(graph) == "TensorFlow 1.13 or newer, by its ops"
    graph.add("SomebodysOwnOp", [x.output()], name="foreign")
    assert era(graph) == "TensorFlow 1.13 or newer, by its ops"
