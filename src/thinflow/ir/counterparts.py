"""Inputs and outputs of a changed graph that stand for those of the graph before."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.ir.graph import Graph, Value


def counterparts(before: Sequence[Value], after: Sequence[Value], graph: Graph) -> list[Value]:
    """For each value of a list, the one of the changed list that stands for it. O(values).

    A transform may give an input another name, as cutting at two ports of one node does; it then keeps its
    place in the list.

    Args:
        before: the inputs, or the outputs, of a graph.
        after: those of the graph made from it.
        graph: that graph, for names that left the list.

    Raises:
        GraphError: the lists have different lengths, and the changed graph has no value of a name.
    """
    by_name = {v.name: v for v in after}
    # Names before places: where every name survived, the list may only have been put in another order.
    if all(v.name in by_name for v in before):
        return [by_name[v.name] for v in before]
    if len(before) == len(after):
        return list(after)
    return [by_name[v.name] if v.name in by_name else graph.value(v.name) for v in before]
