"""Differences of two graphs in structure and constants, node by node, paired by name."""

from __future__ import annotations

from thinflow.ir.attrs import attr_key, attr_text
from thinflow.ir.graph import Graph, Node


def graph_differences(a: Graph, b: Graph) -> list[str]:
    """Sentences, in the file order of `b`; empty if the graphs are equal.

    Node order, versions, functions and attributes that start with `_` do not count. Reads constants.
    """
    found: list[str] = []
    for node in b:
        twin = a.find(node.name)
        if twin is None:
            found.append(f"Did not find expected node '{node.name}' ({node.op})")
        else:
            found += _node_differences(twin, node)
    found += [f"Found unexpected node '{n.name}' ({n.op})" for n in a if n.name not in b]
    return found


def _node_differences(a: Node, b: Node) -> list[str]:
    name = f"Node named '{b.name}'"
    if a.op != b.op:
        return [f"{name} has op '{a.op}' that is not expected '{b.op}'"]
    found: list[str] = []
    if a.device != b.device:
        found.append(f"{name} has device '{a.device}' that is not expected '{b.device}'")
    inputs = [v.name for v in a.inputs], [v.name for v in b.inputs]
    if len(inputs[0]) != len(inputs[1]):
        found.append(
            f"{name} has inputs '{', '.join(inputs[0])}' that don't match expected '{', '.join(inputs[1])}'"
        )
    for index, (x, y) in enumerate(zip(*inputs, strict=False)):
        if x != y:
            found.append(f"{name} has input {index} '{x}' that doesn't match expected '{y}'")
    controls = {n.name for n in a.control_inputs}, {n.name for n in b.control_inputs}
    found += [f"{name} missing expected control input '^{n}'" for n in sorted(controls[1] - controls[0])]
    found += [f"{name} has unexpected control input '^{n}'" for n in sorted(controls[0] - controls[1])]
    for key in sorted(k for k in {*a.attrs, *b.attrs} if not k.startswith("_")):
        if key not in a.attrs:
            found.append(f"{name} missing expected attr '{key}' with value: {attr_text(b.attrs[key])}")
        elif key not in b.attrs:
            found.append(f"{name} has unexpected attr '{key}' with value: {attr_text(a.attrs[key])}")
        elif attr_key(a.attrs[key]) != attr_key(b.attrs[key]):
            found.append(
                f"{name} has attr '{key}' with value: {attr_text(a.attrs[key])} "
                f"that does not match expected: {attr_text(b.attrs[key])}"
            )
    return found
