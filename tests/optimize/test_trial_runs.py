"""Whether a failing run is the fault of made-up data or of the graph."""

from __future__ import annotations

import numpy as np
import pytest

from tests.transforms.golden import parse_graph
from thinflow.analysis.shapes import infer_shapes
from thinflow.optimize.samples import Samples
from thinflow.optimize.trial_runs import why_not_running

IMAGE = """
    x = Placeholder() {dtype=float, shape=shape[1,4,4,1]}
    w = Const() {dtype=float, value=float[1,1,1,1]{2}}
"""
NUMBER = "x = Placeholder() {dtype=string, shape=shape[]}\ny = StringToNumber(x) {out_type=float}\n"
SAMPLES = {"x": np.zeros((1, 4, 4, 1), np.float32)}


@pytest.mark.parametrize(
    ("text", "feed", "words", "of_made_up"),
    [
        (NUMBER, np.array(b"word", object), "word", False),
        (IMAGE + 'y = Conv2D(x, w) {strides=[1,1,1,1], padding="ODD", T=float}', None, "ODD", True),
        (IMAGE + 'y = Conv2D(x, w) {strides=[1,0,1,1], padding="SAME", T=float}', None, "strides", True),
        (IMAGE + 'y = Conv2D(x, w) {strides=1.5, padding="SAME", T=float}', None, "float", True),
        (IMAGE + "y = AcmeWarp(x)", None, "no kernel", True),
        (IMAGE + "y = Relu(x) {T=float}", None, "", False),
    ],
)
def test_made_up_data_may_be_at_fault(text: str, feed: object, words: str, of_made_up: bool) -> None:
    graph = parse_graph(f"{text}\ninputs: x\noutputs: y")
    infer_shapes(graph)
    fed = {graph.inputs[0]: SAMPLES["x"] if feed is None else np.asarray(feed)}
    real = why_not_running(graph, Samples(lambda: iter([fed]), 1, synthetic=False))
    assert (words in real.message) if words and real is not None else real is None
    assert (why_not_running(graph, Samples(lambda: iter([fed]), 1, synthetic=True)) is not None) == of_made_up
