"""The transposes that a converted model keeps: how many, where, and why."""

from __future__ import annotations

from collections.abc import Iterable

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.pattern import constant_tensor

_SHOWN = 4
_FREE = Trait.ELEMENTWISE | Trait.IDENTITY | Trait.PAD | Trait.BIAS_ADD
"""Ops that work in any order of axes: what stands in the way of a transpose lies behind them."""


def transpose_note(graph: Graph, written: Iterable[str] | None = None) -> str:
    """One line on the transposes left in a graph, in the order of its nodes; "" if there are none.

    Args:
        graph: before it is lowered.
        written: names of what the transposes of the lowered program make, since lowering has no need of some,
            such as those around a recurrent layer; None if that is not known.
    """
    left = [n for n in graph if n.op == "Transpose" and constant_tensor(n.inputs[0]) is None]
    if written is not None:
        kept = list(written)
        left = [n for n in left if any(name == n.name or name.startswith(f"{n.name}/") for name in kept)]
    if not left:
        return ""
    places: dict[str, int] = {}
    for node in left:
        reason = _reason(node)
        places[reason] = places.get(reason, 0) + 1
    shown = [f"{count} x {text}" if count > 1 else text for text, count in places.items()]
    rest = [f"and {len(shown) - _SHOWN} places more"] if len(shown) > _SHOWN else []
    return f"{len(left)} {'transpose' if len(left) == 1 else 'transposes'} left: " + "; ".join(
        [*shown[:_SHOWN], *rest]
    )


def _reason(node: Node) -> str:
    """What keeps a transpose: an end of the model, what the model itself does, or two ops that differ."""
    source, reader = _origin(node.inputs[0]), _destination(node.output())
    if source.is_graph_input:
        return f"input '{source.name}' is fed in another order than it is computed in (--input-layout auto)"
    if isinstance(reader, Value):
        return (
            f"output '{reader.name}' is given in another order than it is computed in (--output-layout auto)"
        )
    if has(source.node.op, Trait.RESHAPE) and has(reader.op, Trait.RESHAPE):
        return "elements change places between two reshapes, as in a shuffle"
    return (
        f"'{reader.name}' ({reader.op}) reads its axes in another order than '{source.name}'"
        f" ({source.node.op}) gives them"
    )


def _origin(value: Value) -> Value:
    """The value that comes from an op with an order of axes of its own, upwards from another."""
    while has(value.node.op, _FREE) and not value.is_graph_input:
        sources = [v for v in value.node.inputs if constant_tensor(v) is None]
        if len(sources) != 1:
            return value
        value = sources[0]
    return value


def _destination(value: Value) -> Node | Value:
    """The op with an order of axes of its own that reads a value first, or the output that it becomes."""
    while not value.is_graph_output:
        reader = next(iter(value.readers), None)
        if reader is None:
            return value
        if not has(reader.op, _FREE) or len(value.readers) > 1:
            return reader
        value = reader.output()
    return value
