"""Values that exist only between nodes that LiteRT computes together.

They are quantized values whose range only those nodes know, and complex numbers in parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thinflow.analysis.quant_params import QuantParams, infer_quant_params, quantized_type
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import QINT32
from thinflow.lower.tflite.complex import has_form
from thinflow.lower.tflite.quantized_context import READERS
from thinflow.ops.traits import Trait, has


def inner_values(graph: Graph) -> set[Value]:
    """32-bit values, and values without a fixed range, between ops that LiteRT can compute together.

    Their producers and readers have to be lowered as one. Where one of them cannot be, none of what hangs
    together with it is here. O(nodes + edges).
    """
    found = _complex_values(graph)
    if not any(node.op in READERS for node in graph):
        return found
    parameters = infer_quant_params(graph)
    codes = [(node.output(), quantized_type(node.output())) for node in graph if node.op in READERS]
    # 8-bit values whose range is fixed are tensors like others: only these two kinds are not.
    inner = {v for v, kind in codes if kind is not None and (kind is QINT32 or v not in parameters)}
    return found | (inner - _spoilt(inner, {v for v in inner if not _is_possible(v, parameters)}))


def _complex_values(graph: Graph) -> set[Value]:
    """Complex numbers between ops that have a form for them; what is handed out is none of them."""
    made = {v for node in graph for v in node.outputs if v.dtype is not None and v.dtype.kind == "c"}
    # Constants and inputs have a tensor to hold them, also of complex numbers.
    found = {v for v in made if v.node.tensor is None and v.node.op not in ("Placeholder", "PlaceholderV2")}
    return found - _spoilt(
        found, {v for v in found if v.is_graph_output or not all(map(has_form, (v.node, *v.readers)))}
    )


def _is_possible(value: Value, parameters: Mapping[Value, QuantParams]) -> bool:
    """True if LiteRT's kernels can take a value on the way from its producer to its readers."""
    # A range that is measured from 32-bit values has no form, nor a Requantize that asks for one.
    makes = value.node.op != "Requantize" and not has(value.node.op, Trait.MEASURES_RANGE)
    return makes and not value.is_graph_output and all(_takes(node, parameters) for node in value.readers)


def _takes(node: Node, parameters: Mapping[Value, QuantParams]) -> bool:
    if has(node.op, Trait.MEASURES_RANGE) or node.op not in READERS:
        return False
    return node.op != "Requantize" or node.output() in parameters


def _spoilt(found: set[Value], start: set[Value]) -> set[Value]:
    """All that hangs together with `start`: over a node that makes or reads both."""
    spoilt, stack = set(start), list(start)
    while stack:
        value = stack.pop()
        for node in (value.node, *value.readers):
            near = {v for v in (*node.inputs, *node.outputs) if v in found} - spoilt
            spoilt |= near
            stack += near
    return spoilt


def inner_groups(graph: Graph) -> list[list[Node]]:
    """The nodes that make or read inner values, in groups that have to be lowered as one."""
    found = inner_values(graph)
    groups: list[list[Node]] = []
    seen: set[Node] = set()
    for start in (v.node for v in found):
        if start in seen:
            continue
        seen.add(start)
        group, stack = [], [start]
        while stack:
            node = stack.pop()
            group.append(node)
            values = [v for v in (*node.inputs, *node.outputs) if v in found]
            near = {n for v in values for n in (v.node, *v.readers)} - seen
            seen |= near
            stack += near
        groups.append(group)
    return groups


def border(group: Sequence[Node]) -> tuple[list[Value], list[Value]]:
    """Inputs of a group from outside, and those of its outputs that others read."""
    inside = set(group)
    read = dict.fromkeys(v for n in group for v in n.inputs if v.node not in inside)
    made = dict.fromkeys(
        v for n in group for v in n.outputs if v.is_graph_output or any(r not in inside for r in v.readers)
    )
    return list(read), list(made)
