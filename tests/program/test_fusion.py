"""Fusion: patterns of operators, what replaces them, and what is told of those that stay."""

from __future__ import annotations

import numpy as np
import pytest

from thinflow.ir.ledger import Entry
from thinflow.ir.types import FLOAT
from thinflow.program.fusion import Match, Rewrite, by_code, computed, const, fuse, need, only_if, op, value
from thinflow.program.model import Block, Operator, Tensor

Step = Operator[Tensor]


class AddToLayer(Rewrite[Tensor, Step]):
    """layer(x) + b -> layer(x, b)."""

    patterns = (
        op(
            "add",
            op("layer|dense", computed("x"), name="layer", where=lambda o: o.options.get("why", "")),
            const("b"),
            any_order=True,
        ),
    )

    def replace(self, m: Match[Tensor, Step]) -> None:
        only_if(m.array("b").size)
        need(m.array("b").ndim == 0, "b is not one number")
        layer = m.operator("layer")
        m.wiring.set_input(layer, 1, m.tensor("b"))
        m.wiring.absorb(m.head, layer)


class Square(Rewrite[Tensor, Step]):
    """x * x, and x * 1 * x."""

    patterns = (
        op("mul", value("x"), value("x")),
        op("mul", value("x"), op("mul", value("x"), const("one", 1), any_order=True), any_order=True),
    )

    def replace(self, m: Match[Tensor, Step]) -> None:
        m.wiring.become(m.head, "square", m.tensor("x"), exact=True)


RULES = by_code(AddToLayer(), Square())


def tensor(name: str, number: object = None) -> Tensor:
    data = None if number is None else np.array(number, np.float32)
    return Tensor(name, (2,), FLOAT, data)


def chain(b: object, **options: str) -> Block[Tensor, Step]:
    """layer(x) + b."""
    x, hidden, y = tensor("x"), tensor("hidden"), tensor("y")
    layer = Operator("layer", [x], [hidden], {**options}, "the_layer")
    return Block([x], [y], [layer, Operator("add", [tensor("b", b), hidden], [y], {}, "the_sum")])


def codes(block: Block[Tensor, Step]) -> list[str]:
    return [o.code for o in block.operators]


def test_a_match_is_replaced() -> None:
    block = chain(3)
    fuse(block, RULES)
    (layer,) = block.operators
    assert layer.code == "layer"
    assert [t and t.name for t in layer.inputs] == ["x", "b"]
    assert layer.outputs == block.outputs
    assert not block.left


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (chain([1, 2]), "b is not one number"),
        (chain(3, why="it has a bias already"), "it has a bias already"),
    ],
)
def test_a_match_that_stays_says_why(block: Block[Tensor, Step], reason: str) -> None:
    fuse(block, RULES)
    assert codes(block) == ["layer", "add"]
    assert block.left == [Entry("the_sum", "add", reason)]


def test_what_others_read_stays() -> None:
    block = chain(3)
    hidden = block.operators[0].outputs[0]
    other = tensor("other")
    block.operators.append(Operator("mul", [hidden, tensor("c", 2)], [other]))
    block.outputs.append(other)
    fuse(block, RULES)
    assert block.left == [Entry("the_sum", "add", "'hidden' is also read elsewhere")]


def test_what_is_an_output_stays() -> None:
    block = chain(3)
    block.outputs.append(block.operators[0].outputs[0])
    fuse(block, RULES)
    assert block.left == [Entry("the_sum", "add", "'hidden' is an output")]


def test_what_is_not_meant_is_passed_over() -> None:
    for block in (chain([]), Block([], [], [Operator("add", [tensor("a"), tensor("b")], [tensor("y")])])):
        block.outputs = block.operators[-1].outputs
        fuse(block, RULES)
        assert codes(block)[-1] == "add"
        assert not block.left


def test_one_name_is_one_tensor() -> None:
    x, y, z = tensor("x"), tensor("y"), tensor("z")
    block: Block[Tensor, Step] = Block([x, y], [z], [Operator("mul", [x, y], [z])])
    fuse(block, RULES)
    assert codes(block) == ["mul"]
    block.operators[0].inputs = [x, x]
    fuse(block, RULES)
    assert codes(block) == ["square"]
    assert block.operators[0].options == {"exact": True}


@pytest.mark.parametrize("number", [1, 2])
def test_a_constant_may_have_to_be_a_number(number: int) -> None:
    x, same, z = tensor("x"), tensor("same"), tensor("z")
    steps: list[Step] = [Operator("mul", [tensor("n", number), x], [same]), Operator("mul", [same, x], [z])]
    block = Block([x], [z], steps)
    fuse(block, RULES)
    assert codes(block) == (["square"] if number == 1 else ["mul", "mul"])


def test_some_operators_may_be_kept() -> None:
    block = chain(3)
    fuse(block, RULES, keep=lambda operator: operator.origin == "the_sum")
    assert codes(block) == ["layer", "add"]


def test_reasons_of_an_earlier_run_stay() -> None:
    block = chain([1, 2])
    fuse(block, RULES)
    fuse(block, by_code(Square()))
    assert len(block.left) == 1
