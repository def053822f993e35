"""Rewritten graphs compute in TensorFlow what the graphs before compute there."""

from __future__ import annotations

import numpy as np
import pytest

from tests.transforms.golden import Case, all_cases
from tests.transforms.support import apply, feeds_for
from thinflow.formats import graphdef
from thinflow.ir.graph import Graph
from thinflow.ops._defaults import defaults_of

tf = pytest.importorskip("tensorflow")

CASES = [
    c for c in all_cases() if c.file == "target_runtime.txt" and not c.error and "Custom(" not in c.before
]


def compute(graph: Graph, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a graph in TensorFlow."""
    message = tf.compat.v1.GraphDef.FromString(graphdef.to_bytes(graph))
    with tf.Graph().as_default() as here:
        tf.import_graph_def(message, name="")
        with tf.compat.v1.Session(graph=here) as session:
            named = {f"{name}:0": array for name, array in feeds.items()}
            return session.run([f"{v.node.name}:{v.port}" for v in graph.outputs], named)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_numbers(case: Case) -> None:
    graph = case.graph()
    for node in graph:
        if "alpha" in node.attrs:
            node.attrs["alpha"] = float(node.attrs["alpha"])  # the text writes 2.0 as 2
    result = apply(graph, case.pipeline).graph
    feeds = feeds_for(graph)
    for before, after in zip(compute(graph, feeds), compute(result, feeds), strict=True):
        assert before.dtype == after.dtype
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def test_defaults_are_those_of_the_registry() -> None:
    from scripts import op_defaults
    from scripts.op_outputs import op_definitions

    # Ops that other packages of this environment register are not in the file.
    written = op_defaults.TARGET.read_text("utf-8")
    names = set(written.replace(":", " ").split())
    known = [op for op in op_definitions() if op.name in names]
    assert len(known) > 1800
    assert written == op_defaults.table(known), "run scripts/op_defaults.py"
    assert defaults_of("Conv2D") is not None
