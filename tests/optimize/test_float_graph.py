"""Graphs on their way to a runtime: what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.transforms.golden import parse_graph
from thinflow.errors import NodeError
from thinflow.optimize.float_graph import require_numbers


def test_a_lone_nan_may_be_meant() -> None:
    """As where there is no answer: tf.where(found, x, nan). Weights that are none tell of training."""
    for numbers, is_refused in ((np.nan, False), ([1, np.inf], False), ([1, np.nan], True)):
        graph = parse_graph("x = Placeholder() {dtype=float, shape=shape[2]}\ninputs: x")
        graph.constant(np.float32(numbers), "w")
        if not is_refused:
            require_numbers(graph)
            continue
        with pytest.raises(NodeError, match="1 of its 2 values are NaN"):
            require_numbers(graph)
