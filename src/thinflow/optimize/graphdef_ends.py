"""Graphs of other formats' files, before they are written as GraphDefs.

A GraphDef names neither inputs nor outputs: who opens it takes what nothing reads for an output. So what no
output needs, such as sizes that were computed on the way, must not be there, and an output that the network
itself goes on with needs an end of its own.
"""

from __future__ import annotations

from thinflow.analysis.interface import guess_interface
from thinflow.ir.graph import Graph, Value
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Trace
from thinflow.transforms.strip_unused_nodes import StripUnusedNodes


def with_plain_ends(graph: Graph) -> Graph:
    """The graph with its outputs as all that nothing reads, by their names; TensorFlow's own as they are."""
    if graph.source is None or not graph.outputs:
        return graph
    plain = graph.clone()
    StripUnusedNodes().apply(plain, Trace())
    plain.outputs = [_end(plain, value) for value in plain.outputs]
    return plain


def unsaid_ends(graph: Graph) -> list[str]:
    """A note on the outputs of such a graph, if who opens its file would take others, or in another order."""
    if graph.source is None:
        return []
    stated = [v.name for v in graph.outputs]
    if [v.name for v in guess_interface(graph).chosen_outputs] == stated:
        return []
    return [f"a GraphDef does not say what its outputs are: open it with --outputs {','.join(stated)}"]


def _end(graph: Graph, value: Value) -> Value:
    """What ends the graph under the name of an output."""
    node, kind = value.node, value.spec.dtype
    is_end = not any(output.uses for output in node.outputs)
    is_fed_or_known = node.tensor is not None or has(node.op, Trait.PLACEHOLDER)
    if is_end or is_fed_or_known or value.port or kind is None or graph.outputs.count(value) > 1:
        return value
    name = node.name
    graph.rename(node, graph.unique_name(f"{name}/value"))
    end = graph.add("Identity", [value], name, attrs={"T": kind}).output()
    end.spec = value.spec
    return end
