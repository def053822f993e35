"""Take out dropout that keeps everything: random numbers that cannot change the result.

mul(div(x, 1), floor(1 + u))      ->  x     u uniform in [0, 1): the TF1 spelling with keep_prob = 1
mul(mul(x, 1), cast(u >= 0))      ->  x     the TF2 spelling with rate = 0
select(u >= 0, mul(x, 1), 0)      ->  x     the same, as newer releases write it
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from thinflow.ir.graph import Node, Value
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_of, any_value, constant_node, node, source_of
from thinflow.rewrite.rule import Refuse, transform


def _is_zero(value: Value) -> bool:
    """Whether a value is one zero, or as many as the data has."""
    return source_of(value).node.op == "ZerosLike" or _constant(value) == 0.0


def _uniform(value: Value) -> Node | None:
    """The RandomUniform behind a value in [0, 1); scaling by 1 and shifting by 0 are looked through."""
    while True:
        producer = source_of(value).node
        if has(producer.op, Trait.RANDOM_UNIFORM):
            return producer
        if producer.op not in {"Add", "AddV2", "Mul"} or len(producer.inputs) != 2:
            return None
        neutral = 1.0 if producer.op == "Mul" else 0.0
        # x + 0 and x * 1, with the constant on either side.
        others = [a for a, b in (producer.inputs, producer.inputs[::-1]) if _constant(b) == neutral]
        if not others:
            return None
        value = others[0]


def _unscaled(data: Value) -> Value:
    """The value before division or multiplication by 1, if that is what made it."""
    producer = source_of(data).node
    if producer.op in {"RealDiv", "Div", "Mul"} and len(producer.inputs) == 2:
        if _constant(producer.inputs[1]) == 1.0:
            return producer.inputs[0]
        if producer.op == "Mul" and _constant(producer.inputs[0]) == 1.0:
            return producer.inputs[1]
    return data


def _require_constant(value: Value, wanted: float) -> None:
    found = _constant(value)
    if found is None:
        raise Refuse(f"dropout whose probability comes from '{value.name}', which is no constant")
    if found != wanted:
        raise Refuse(f"dropout that drops: '{value.name}' is {found:g}, not {wanted:g}")


def _constant(value: Value) -> float | None:
    """The number a scalar constant holds."""
    found = constant_node(value)
    if found is None or found.tensor is None or found.tensor.size != 1:
        return None
    # One element of any rank.
    return float(found.tensor.numpy().ravel()[0])


def _needs_uniform(index: int) -> Callable[[Node], str | None]:
    """A condition: input `index` is a random number in [0, 1)."""
    return lambda node: None if _uniform(node.inputs[index]) is not None else "nothing in it is random"


# All but the head are only looked at: other readers of a mask do not matter, since the mask is not changed.
_KEEPS = (
    node("GreaterEqual", "*", any_value("rate"), boundary=True, where=_needs_uniform(0)),
    node("LessEqual", any_value("rate"), "*", boundary=True, where=_needs_uniform(1)),
)
_FLOORS = (
    node("Add|AddV2", any_value("keep"), "*", boundary=True, where=_needs_uniform(1)),
    node("Add|AddV2", "*", any_value("keep"), boundary=True, where=_needs_uniform(0)),
)


_MASKS = (
    node("Floor", any_of(*_FLOORS), boundary=True),
    node("Cast", any_of(*_KEEPS), boundary=True),
)


def _not_zero(select: Node) -> str | None:
    return None if _is_zero(select.inputs[2]) else "what it takes instead of the data is not zero"


@transform("remove_dropout")
@dataclass(frozen=True)
class RemoveDropout(Rewrite):
    """Remove dropout whose keep probability is the constant 1."""

    tolerance = 1e-6
    in_file_order = True
    until_fixpoint = False
    near_misses = False
    pattern: ClassVar = any_of(
        node(
            "Mul",
            any_value("data"),
            any_of(*_MASKS),
            commutative=True,
            name="head",
        ),
        node(
            "Select|SelectV2", any_of(*_KEEPS), any_value("data"), any_value(), name="head", where=_not_zero
        ),
    )

    def check(self, m: Match) -> None:
        if m.get("keep") is not None:
            _require_constant(m.keep, 1.0)
        else:
            _require_constant(m.rate, 0.0)
        if m.head.is_protected:
            raise Refuse("it is asked for by name")

    def describe(self, m: Match) -> str:
        return f"dropout that keeps everything; its readers read '{_unscaled(m.data).name}'"

    def build(self, m: Match, site: Site) -> Value:
        return _unscaled(m.data)
