"""Graphs that keep state."""

from __future__ import annotations

import numpy as np

from tests.transforms.golden import parse_graph as graph
from thinflow.ir.graph import Graph
from thinflow.ir.interface import declare_states
from thinflow.ir.metadata import StateVariable
from thinflow.ir.tensor import Tensor as Numbers

SUM = """
x = Placeholder() {dtype=float, shape=shape[2]}
v = Placeholder() {dtype=float, shape=shape[2]}
left = AddV2(v, x) {T=float}
y = Neg(left) {T=float}
inputs: x
outputs: y
"""


def summing(start: tuple[float, float] = (1, 2)) -> Graph:
    """v = v + x; y = -v."""
    made = graph(SUM)
    made.states = (StateVariable("v", "v", "left", Numbers.from_array(np.float32(start))),)
    declare_states(made)
    return made
