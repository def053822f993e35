"""Take out dropout that keeps everything: random numbers that cannot change the result.

mul(div(x, 1), floor(1 + u))      ->  x     u uniform in [0, 1): the TF1 spelling with keep_prob = 1
mul(mul(x, 1), cast(u >= 0))      ->  x     the TF2 spelling with rate = 0
select(u >= 0, mul(x, 1), 0)      ->  x     the same, as newer releases write it
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.ir.graph import Graph, Node, Value
from thinflow.rewrite.colocation import drop_lost_classes
from thinflow.rewrite.edits import sweep
from thinflow.rewrite.pattern import Miss, NodePattern, any_value, constant_node, match, node, source_of
from thinflow.rewrite.rule import Refuse, Transform, transform
from thinflow.rewrite.trace import Trace

_KEEPS = (
    node("GreaterEqual", any_value("random"), any_value("rate")),
    node("LessEqual", any_value("rate"), any_value("random")),
)
_MASKS: tuple[NodePattern, ...] = (
    node("Floor", node("Add|AddV2", any_value("keep"), any_value("random"), commutative=True)),
    *(node("Cast", keeps) for keeps in _KEEPS),
)
_UNIFORM = frozenset({"RandomUniform", "StatelessRandomUniform", "StatelessRandomUniformV2"})
_SELECTS = frozenset({"Select", "SelectV2"})


@transform("remove_dropout")
@dataclass(frozen=True)
class RemoveDropout(Transform):
    """Remove dropout whose keep probability is the constant 1."""

    tolerance = 1e-6

    def apply(self, graph: Graph, trace: Trace) -> None:
        names = {node.name for node in graph}
        for head in graph:
            if head.op != "Mul" and head.op not in _SELECTS:
                continue
            try:
                kept = _kept_value(head) if head.op == "Mul" else _selected_value(head)
            except Refuse as refusal:
                trace.leave(head, refusal.reason)
                continue
            if kept is None:
                continue
            if head.is_protected:
                trace.leave(head, "it is asked for by name")
                continue
            trace.changed(head, f"dropout that keeps everything; its readers read '{kept.name}'")
            sources = [v.node for v in head.inputs]
            graph.bypass(head, {0: kept})
            sweep(graph, sources)
        drop_lost_classes(graph, names)


def _kept_value(head: Node) -> Value | None:
    """What a dropout at this Mul lets through; None if it is no dropout.

    Raises:
        Refuse: it is one, and may drop something.
    """
    for data, mask in (head.inputs, head.inputs[::-1]):
        mask_node = source_of(mask).node
        for pattern in _MASKS:
            found = match(pattern, mask_node)
            if isinstance(found, Miss):
                continue
            random = _uniform(found.random)
            swapped = "keep" in found.bound and random is None
            if swapped:
                random = _uniform(found.keep)
            if random is None:
                continue
            threshold = found.bound.get("rate") or (found.random if swapped else found.keep)
            _require_constant(threshold, 1.0 if "keep" in found.bound else 0.0)
            return _unscaled(data)
    return None


def _selected_value(head: Node) -> Value | None:
    """As `_kept_value`, for a selection between the data and zero."""
    if len(head.inputs) != 3 or not _is_zero(head.inputs[2]):
        return None
    for keeps in _KEEPS:
        found = match(keeps, source_of(head.inputs[0]).node)
        if not isinstance(found, Miss) and _uniform(found.random) is not None:
            _require_constant(found.rate, 0.0)
            return _unscaled(head.inputs[1])
    return None


def _is_zero(value: Value) -> bool:
    """Whether a value is one zero, or as many as the data has."""
    return source_of(value).node.op == "ZerosLike" or _constant(value) == 0.0


def _uniform(value: Value) -> Node | None:
    """The RandomUniform behind a value in [0, 1); scaling by 1 and shifting by 0 are looked through."""
    while True:
        producer = source_of(value).node
        if producer.op in _UNIFORM:
            return producer
        if producer.op not in {"Add", "AddV2", "Mul"} or len(producer.inputs) != 2:
            return None
        neutral = 1.0 if producer.op == "Mul" else 0.0
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
    return float(found.tensor.numpy().ravel()[0])
