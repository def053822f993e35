"""The graph: nodes and values, what its file says beside them, and the functions that nodes may call."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from thinflow.ir.attrs import Attr, filled, has_placeholder
from thinflow.ir.metadata import Passenger, Problem, StateVariable, Versions
from thinflow.ir.names import parse_value_name
from thinflow.ir.node import Node, NodeSource, Use, Value, make_use
from thinflow.ir.source_file import SourceFile
from thinflow.ir.structure import Structure
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import DType
from thinflow.ir.usage import Usage

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "Function",
    "Graph",
    "Node",
    "NodeSource",
    "Passenger",
    "Problem",
    "StateVariable",
    "Use",
    "Value",
    "Versions",
    "copy_into",
    "graph_of",
    "library_of",
    "paused_gc",
]


class Graph(Structure):
    """Nodes in file order, with the values that go in and come out.

    Attributes:
        versions: carried through.
        passenger: file contents carried through.
        functions: the library of functions that nodes may call, by name; read-only, decoded on first use.
        path: where the graph was loaded from, "" if nowhere.
        problems: what only the file's spelling shows to be broken (a data input after a control input...).
        aliases: other names of values, such as those a signature renamed: old name -> name.
        vocabulary: whose ops these are: "" TensorFlow's, "tflite" or "onnx". Ops of others begin with `tfl.`
            or `onnx.`; such a graph is for looking at and for running its file, and is lifted to be changed.
        source: the file that it was made from, where that speaks of other ops; it stays the same whatever
            becomes of the graph.
        facts: what the file says of itself (producer, version, signatures...): topic -> text.
        usage: how its inputs are made and what its outputs mean, as far as the file says.
        states: what is kept from one run to the next; each is an input and an output, too. See `ir.states`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.versions: Versions | None = None
        self.passenger = Passenger()
        self.functions: Mapping[str, Function] = {}
        self.path = ""
        self.problems: list[Problem] = []
        self.aliases: dict[str, str] = {}
        self.vocabulary = ""
        self.source: SourceFile | None = None
        self.facts: dict[str, str] = {}
        self.usage = Usage()
        self.states: tuple[StateVariable, ...] = ()

    def value(self, name: str) -> Value:
        """The value called `node` or `node:port`, or one of which that is an alias.

        Raises:
            GraphError: no such node, or the port is not a number.
        """
        node_name, port = parse_value_name(name)
        # A node that is there is meant by its name, even if an alias is spelled alike.
        if port or node_name not in self._names.by_name:
            alias = self.aliases.get(f"{node_name}:{port}" if port else node_name)
            # One step and no more, so that aliases in a circle end here.
            if alias is not None and alias != name:
                node_name, port = parse_value_name(alias)
        return self.node(node_name).output(port)

    def constant(
        self, content: Tensor | np.ndarray[Any, Any], name: str = "Const", *, before: Node | None = None
    ) -> Value:
        """A new `Const` node's value.

        Arrays are shared, not copied; their numpy type decides the element type.
        """
        tensor = content if isinstance(content, Tensor) else Tensor.from_array(content)
        return self.add(
            "Const", name=name, attrs={"dtype": tensor.dtype, "value": tensor}, before=before
        ).output()

    def clone(self) -> Graph:
        """A copy with its own nodes and edges; tensors, sources and other immutable things are shared.

        O(nodes + edges).
        """
        copy = Graph()
        copy_into(copy, self)
        return copy

    def __deepcopy__(self, memo: object) -> Graph:
        return self.clone()

    def __repr__(self) -> str:
        return f"Graph({self.path or 'unnamed'}, {len(self)} nodes)"


def graph_of(node: Node) -> Graph | None:
    """The graph that a node is in; None once it was removed."""
    graph = node.graph
    assert graph is None or isinstance(graph, Graph)
    return graph


def library_of(node: Node) -> Mapping[str, Function]:
    """The functions that a node may call; none once it was removed."""
    graph = node.graph
    return {} if graph is None else graph.functions  # type: ignore[attr-defined]  # as `graph_of`, asked at every node


def copy_into(copy: Graph, graph: Graph) -> None:
    """Fill an empty graph with twins of a graph's nodes and edges; what is immutable is shared.

    O(nodes + edges).
    """
    copy.versions, copy.passenger, copy.path = graph.versions, graph.passenger, graph.path
    # Functions are views that nobody edits in place, so both graphs may hold the same library.
    copy.functions, copy.aliases = graph.functions, dict(graph.aliases)
    copy.vocabulary, copy.source, copy.facts = graph.vocabulary, graph.source, dict(graph.facts)
    copy.problems, copy.states, copy.usage = list(graph.problems), graph.states, graph.usage
    # All twins before any edge: a loop's Merge reads a NextIteration that stands later in the file.
    twins: dict[Node, Node] = {}
    with paused_gc():
        for node in graph:
            twin = twins[node] = _twin(node)
            twin.graph = copy
            copy._nodes.insert(twin, None)
        # Stand-ins are in no graph's list, but inputs read them.
        for node in graph.missing.values():
            twins[node] = _twin(node)
        copy._names = graph._names.copy(twins)
        for node, twin in twins.items():
            _copy_edges(node, twin, twins)
    copy.inputs = [twins[v.node].output(v.port) for v in graph.inputs]
    copy.outputs = [twins[v.node].output(v.port) for v in graph.outputs]
    # From here on others edit it.
    copy._edits = 0


def _twin(node: Node) -> Node:
    """A copy without edges."""
    twin = Node(node.name, node.op, node.device, node.source)
    twin._attrs = None if node._attrs is None else dict(node._attrs)
    twin.origin = node.origin
    return twin


def _copy_edges(node: Node, twin: Node, twins: Mapping[Node, Node]) -> None:
    twin._inputs = [twins[v.node].output(v.port) for v in node._inputs]
    for value in node.outputs:
        double = twin.output(value.port)
        double.spec = value.spec
        for use in value.uses:  # in the same order, so that edits go as they would here
            double._add_use(make_use((twins[use.node], use.index)))
    if node._controls:
        # Places too: control inputs are told in their order, not in that of the dict.
        twin._controls = {twins[n]: place for n, place in node._controls.items()}
    if node._successors:
        twin._successors = {twins[n]: None for n in node._successors}


@contextmanager
def paused_gc() -> Iterator[None]:
    """No cycle collection inside: a graph is one big cycle, and walking it again and again while it grows
    costs most.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True, eq=False)
class Function:
    """A graph with a name, arguments and results. A view of the file: do not edit its graph.

    Attributes:
        name: what callers call it.
        graph: its body; calls in there see the same library.
        inputs: the arguments in order, as outputs of `ARGUMENT` nodes.
        outputs: the results in order; may be arguments.
        control_outputs: nodes that run in every call, whether or not a result needs them.
        input_types: element types of the arguments; None where the caller decides.
        output_types: likewise for the results.
        attrs: annotations of the function itself.
        defaults: values of the attributes that callers may set and need not.
        specialized: for a function with lists among its arguments or results, the same for a caller that sets
            these attributes, which say how long they are; here they are as long as the body mentions.
        source: what it was read from, for whoever writes it again; None for a new one.
    """

    name: str
    graph: Graph
    inputs: Sequence[Value]
    outputs: Sequence[Value]
    control_outputs: Sequence[Node] = ()
    input_types: Sequence[DType | None] = ()
    output_types: Sequence[DType | None] = ()
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    defaults: Mapping[str, Attr] = field(default_factory=dict)
    source: object = None
    specialized: Callable[[Mapping[str, Attr]], Function] | None = None

    @property
    def implements(self) -> str:
        """The name of what it computes, which a runtime may know; "" if it does not say."""
        name = self.attrs.get("_implements", b"")
        return name.decode("utf-8", "replace") if isinstance(name, bytes) else ""

    def copied(self) -> Function:
        """The function with a body of its own, which may be edited. O(nodes + edges).

        Arguments and results are declared as inputs and outputs of the body, so that edits keep them.
        """
        body = self.graph.clone()

        def twin(value: Value) -> Value:
            return body.node(value.node.name).output(value.port)

        copy = replace(
            self,
            graph=body,
            inputs=[twin(v) for v in self.inputs],
            outputs=[twin(v) for v in self.outputs],
            control_outputs=[body.node(n.name) for n in self.control_outputs],
        )
        body.inputs, body.outputs = copy.inputs, copy.outputs
        return copy

    def settled(self) -> Function:
        """A copy whose body was edited, with the arguments and results the body declares by now."""
        return replace(
            self,
            inputs=self.graph.inputs,
            outputs=self.graph.outputs,
            # Edits may have removed nodes that ran only for their effect.
            control_outputs=[node for node in self.control_outputs if node in self.graph],
        )

    def instantiated(self, attrs: Mapping[str, Attr]) -> Function:
        """The function with its attribute placeholders filled in from a call. O(nodes + edges).

        Returns:
            A copy; the function itself if there is nothing to fill in.

        Raises:
            GraphError: the call does not set an attribute that the body asks for.
        """
        # Lengths of lists first: they decide how many nodes and ports the body has to fill in.
        if self.specialized is not None:
            return self.specialized({**self.defaults, **attrs}).instantiated(attrs)
        # Most functions have no placeholder, and then the body need not be copied.
        if not any(has_placeholder(a) for node in self.graph for a in node.attrs.values()):
            return self
        values = {**self.defaults, **attrs}
        copy = self.copied()
        for node in copy.graph:
            for key, attr in list(node.attrs.items()):
                if has_placeholder(attr):
                    node.attrs[key] = filled(attr, values, node.where)
        return copy
