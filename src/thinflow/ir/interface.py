"""Inputs and outputs of graphs: both ends of each state, and those of a changed graph that stand for others.

State that a model keeps between runs is an input and an output of a graph, which keeps none:

y = f(x), which reads and changes v     ->     y, v/next = f(x, v)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import DType

if TYPE_CHECKING:
    import numpy as np

    from thinflow.ir.tensor import Tensor


@dataclass(frozen=True)
class State:
    """A state of a graph with its two ends.

    Attributes:
        name: of the variable in the model.
        input, output: values of the graph.
        start: what the first run begins with.
    """

    name: str
    input: Value
    output: Value
    start: Tensor

    @property
    def first(self) -> np.ndarray[Any, Any]:
        """The first run's value, in the type that the input has by now."""
        # A transform may have widened or narrowed the input, and the stored start keeps the file's type.
        element = self.input.node.attrs.get("dtype")
        numbers = self.start.numpy()
        return numbers.astype(element.numpy(), copy=False) if isinstance(element, DType) else numbers


def states_of(graph: Graph) -> list[State]:
    """The states of a graph, in its order.

    Raises:
        GraphError: an edit has lost an end of one.
    """
    return [State(s.name, graph.value(s.input), graph.value(s.output), s.start) for s in graph.states]


def declare_states(graph: Graph) -> None:
    """Let the inputs and outputs of a graph end in those of its states."""
    states = states_of(graph)
    if states:
        # States stand behind the rest, so that what users feed and fetch keeps its numbers.
        graph.inputs = [*without_states(graph, graph.inputs), *(s.input for s in states)]
        graph.outputs = [*without_states(graph, graph.outputs), *(s.output for s in states)]


def without_states(graph: Graph, values: Sequence[Value]) -> list[Value]:
    """Those of some values that are no ends of states: what a user feeds and fetches."""
    ends = {v for s in states_of(graph) for v in (s.input, s.output)}
    return [v for v in values if v not in ends]


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
