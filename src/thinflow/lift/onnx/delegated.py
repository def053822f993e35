"""Ops of other vocabularies that are one of ONNX's, whose rule then says them in TensorFlow's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Value
from thinflow.lift.lifter import Call
from thinflow.lift.rules import refuse_unread, rule_for


def onnx_results(
    c: Call, op: str, operands: Sequence[Value | None], options: Mapping[str, Attr], count: int = 1
) -> list[Value]:
    """The results of one of ONNX's ops in the place of a call.

    Raises:
        UnsupportedOp: its rule refuses it.
    """
    node = Graph().add(f"onnx.{op}", [], c.node.name, attrs=options)
    for port in range(count):
        node.output(port)
    call, entry = Call(c.lifter, node, list(operands)), rule_for(node.op)
    assert entry is not None, op
    results = entry.rule(call)
    refuse_unread(call, entry)
    return results if isinstance(results, list) else [results]
