"""Nodes that call functions with fewer inputs and results than before."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.ir.attrs import FunctionAttr
from thinflow.ir.graph import Graph, Node
from thinflow.rewrite.edits import sweep
from thinflow.rewrite.rule import Refuse
from thinflow.transforms._dependence import CASES, IFS, WHILES

_PER_OUTPUT = ("Tout", "output_shapes", "_output_shapes")
_HINTS = ("_num_original_outputs", "_read_only_resource_inputs")
"""Annotations that count outputs or inputs, for who takes gradients or orders effects."""


def told(node: Node, inputs: list[int], outputs: list[int], results: int) -> str:
    """What is to become of a call, for the ledger."""
    before = len(node.inputs)
    if node.op in WHILES:
        return f"loses {before - len(inputs)} of {before} variables, which nothing needs"
    lost = [
        f"{count} of {total} {what}"
        for count, total, what in (
            (results - len(outputs), results, "results"),
            (before - len(inputs), before, "inputs"),
        )
        if count
    ]
    return f"loses {' and '.join(lost)}, which nothing needs"


def rewire(
    graph: Graph,
    node: Node,
    functions: Sequence[FunctionAttr],
    inputs: list[int],
    outputs: list[int],
    results: int,
) -> None:
    """Let a node call narrower functions: its attributes, inputs and outputs."""
    offset = 1 if node.op in IFS | CASES else 0
    _name_functions(node, functions)
    for key in _HINTS:
        node.attrs.pop(key, None)
    _choose(node, "T" if node.op in WHILES else "Tin", [i - offset for i in inputs if i >= offset])
    for key in _PER_OUTPUT:
        listed = node.attrs.get(key)
        if isinstance(listed, tuple) and len(listed) == results:
            _choose(node, key, outputs)
    lost = [v.node for i, v in enumerate(node.inputs) if i not in set(inputs)]
    node.set_inputs([node.inputs[i] for i in inputs])
    places = {node.output(old): node.output(new) for new, old in enumerate(outputs)}
    specs = [old.spec for old in places]
    declared = graph.outputs
    for old, new in places.items():
        if old is not new:
            old.replace_uses(new)
    if any(places.get(v, v) is not v for v in declared):
        graph.outputs = [places.get(v, v) for v in declared]
    for new, spec in zip(places.values(), specs, strict=True):
        new.spec = spec
    sweep(graph, lost)


def _name_functions(node: Node, functions: Sequence[FunctionAttr]) -> None:
    if node.op in WHILES:
        node.attrs["cond"], node.attrs["body"] = functions
    elif node.op in IFS:
        node.attrs["then_branch"], node.attrs["else_branch"] = functions
    elif node.op in CASES:
        node.attrs["branches"] = tuple(functions)
    else:
        (node.attrs["f"],) = functions


def refuse_untyped(node: Node, results: int) -> None:
    """Raise Refuse if a list of types is not as long as what it is about."""
    count = len(node.inputs) - (1 if node.op in IFS | CASES else 0)
    expected = {"T": count} if node.op in WHILES else {"Tin": count, "Tout": results}
    for key, length in expected.items():
        listed = node.attrs.get(key, ())
        if listed != () and not (isinstance(listed, tuple) and len(listed) == length):
            raise Refuse(f"its attribute {key} does not list {length} types")


def _choose(node: Node, key: str, places: list[int]) -> None:
    listed = node.attrs.get(key)
    if isinstance(listed, tuple) and all(i < len(listed) for i in places):
        node.attrs[key] = tuple(listed[i] for i in places)
