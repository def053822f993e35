"""Graphs as short text, for golden tests and for people.

x = Placeholder() {dtype=float, shape=shape[1,?]}
w = Const() {value=float[2]{1,2}}
y = Mul(x, w, ^init) {T=float} @/cpu:0
inputs: x
outputs: y
"""

from __future__ import annotations

from thinflow.ir.attrs import attr_text
from thinflow.ir.function import Function
from thinflow.ir.graph import Graph, Node


def node_text(node: Node) -> str:
    """One line for one node."""
    inputs = ", ".join([v.name for v in node.inputs] + [f"^{n.name}" for n in node.control_inputs])
    # The value says its type itself.
    hidden = {"dtype"} if node.op == "Const" else set()
    attrs = ", ".join(f"{k}={attr_text(v)}" for k, v in sorted(node.attrs.items()) if k not in hidden)
    return (
        f"{node.name} = {node.op}({inputs})"
        + (f" {{{attrs}}}" if attrs else "")
        + (f" @{node.device}" if node.device else "")
    )


def graph_text(graph: Graph) -> str:
    """The whole graph in file order, then its inputs and outputs."""
    lines = [node_text(n) for n in graph]
    lines.append("inputs: " + ", ".join(v.name for v in graph.inputs))
    lines.append("outputs: " + ", ".join(v.name for v in graph.outputs))
    return "\n".join(lines) + "\n"


def library_text(graph: Graph) -> str:
    """The functions of the graph's library; nothing if there are none. Decodes all of them.

    def double(x: float)
    y = Add(x, x) {T=float}
    return y
    """
    return "".join(function_text(function) for function in graph.functions.values())


def function_text(function: Function) -> str:
    """One function; behind `effects` the nodes that run in every call."""
    arguments = [f"{v.node.name}: {attr_text(v.node.attrs['T'])}" for v in function.inputs]
    lines = [f"def {function.name}({', '.join(arguments)})"]
    # Arguments stand in the first line.
    lines += [node_text(n) for n in function.graph if n.output() not in function.inputs]
    results = f"return {', '.join(v.name for v in function.outputs)}".rstrip()
    effects = ", ".join(n.name for n in function.control_outputs)
    return "\n".join([*lines, f"{results} effects {effects}" if effects else results]) + "\n"
