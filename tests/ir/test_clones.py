"""A clone that was only looked at is told from one that was edited, whatever was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.transforms.golden import parse_graph
from thinflow.ir.clones import is_unedited
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT, TensorSpec

TEXT = """
    x = Placeholder() {dtype=float, shape=shape[2]}
    c = Const() {dtype=float, value=float[2]{1, 2}}
    a = AddV2(x, c, ^x) {T=float}
    y = Neg(a) {T=float}
    z = Split(c, y) {T=float, num_split=2}
    inputs: x
    outputs: y, z:1
"""

EDITS: dict[str, Callable[[Graph], object]] = {
    "attribute": lambda g: g.node("y").attrs.update(T=g.node("y").attrs["T"], more=1),
    "constant": lambda g: g.node("c").attrs.update(value=g.constant(np.zeros(2, np.float32)).node.tensor),
    "attribute gone": lambda g: g.node("z").attrs.pop("num_split"),
    "op": lambda g: setattr(g.node("y"), "op", "Abs"),
    "device": lambda g: setattr(g.node("y"), "device", "/cpu:0"),
    "name": lambda g: g.rename(g.node("a"), "b"),
    "input": lambda g: g.node("y").set_input(0, g.value("x")),
    "the same input again": lambda g: g.node("y").set_inputs(g.node("y").inputs),
    "control edge": lambda g: g.node("y").add_control_input(g.node("c")),
    "control edge gone": lambda g: g.node("a").remove_control_input(g.node("x")),
    "order": lambda g: g.move_before(g.node("c"), g.node("x")),
    "order of all": lambda g: g.reorder([*g][::-1]),
    "node": lambda g: g.add("NoOp"),
    "node that comes and goes": lambda g: g.remove(g.add("NoOp")),
    "ends": lambda g: setattr(g, "outputs", [g.value("a")]),
    "facts": lambda g: g.facts.update(producer="somebody"),
    "functions": lambda g: setattr(g, "functions", {}),
    "names given": lambda g: g.unique_name("a"),
    "spec": lambda g: setattr(g.value("a"), "spec", TensorSpec(FLOAT, (2,))),
    "spec of another port": lambda g: setattr(g.value("z:1"), "spec", TensorSpec(FLOAT, (2,))),
    "stand-in": lambda g: g.stand_in("nowhere"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_seen(edit: str) -> None:
    graph = parse_graph(TEXT)
    graph.functions = {}
    copy = graph.clone()
    assert is_unedited(copy, graph)
    EDITS[edit](copy)
    assert not is_unedited(copy, graph)


def test_looking_is_no_edit() -> None:
    graph = parse_graph(TEXT)
    copy = graph.clone()
    for node in copy:
        assert node.attrs == graph.node(node.name).attrs
        assert len(node.outputs) <= 2
        node.output(7)
    assert is_unedited(copy, graph)
