"""Library functions: graphs that nodes of other graphs call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from thinflow.errors import GraphError
from thinflow.ir.attrs import Attr, FunctionAttr, PlaceholderAttr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import DType

ARGUMENT = "_Arg"
"""The op of the nodes that stand for a function's arguments; its attribute T is the element type."""


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

    def instantiated(self, attrs: Mapping[str, Attr]) -> Function:
        """The function with its attribute placeholders filled in from a call. O(nodes + edges).

        Returns:
            A copy; the function itself if there is nothing to fill in.

        Raises:
            GraphError: the call does not set an attribute that the body asks for.
        """
        if not any(_has_placeholder(a) for node in self.graph for a in node.attrs.values()):
            return self
        given = {**self.defaults, **attrs}
        body = self.graph.clone()
        for node in body:
            for key, attr in list(node.attrs.items()):
                if _has_placeholder(attr):
                    node.attrs[key] = _filled(attr, given, node)

        def twin(value: Value) -> Value:
            return body.node(value.node.name).output(value.port)

        return replace(
            self,
            graph=body,
            inputs=[twin(v) for v in self.inputs],
            outputs=[twin(v) for v in self.outputs],
            control_outputs=[body.node(n.name) for n in self.control_outputs],
        )


class Selection(Mapping[str, Function]):
    """Some functions of a library, each decoded when somebody asks for it."""

    def __init__(self, library: Mapping[str, Function], names: Set[str]) -> None:
        self._library = library
        self._names = [name for name in library if name in names]
        self._chosen = frozenset(self._names)

    def __getitem__(self, name: str) -> Function:
        if name not in self._chosen:
            raise KeyError(name)
        return self._library[name]

    def __contains__(self, name: object) -> bool:
        return name in self._chosen

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def reachable(graph: Graph) -> set[str]:
    """Names of the functions that a graph mentions, directly or through others. O(nodes of their bodies).

    Raises:
        ThinflowError: one of them is damaged.
    """
    found: set[str] = set()
    stack = [graph]
    while stack:
        for node in stack.pop():
            for name in mentioned(node):
                if name in graph.functions and name not in found:
                    found.add(name)
                    stack.append(graph.functions[name].graph)
    return found


def mentioned(node: Node) -> Iterator[str]:
    """The function names that a node may mean: its op and those in its attributes."""
    yield node.op
    stack: list[Attr] = list(node.attrs.values())
    while stack:
        attr = stack.pop()
        if isinstance(attr, tuple):
            stack.extend(attr)
        elif isinstance(attr, FunctionAttr):
            yield attr.name
            stack.extend(attr.attrs.values())


def _has_placeholder(attr: Attr) -> bool:
    if isinstance(attr, FunctionAttr):
        return any(_has_placeholder(a) for a in attr.attrs.values())
    if isinstance(attr, tuple):
        return any(_has_placeholder(a) for a in attr)
    return isinstance(attr, PlaceholderAttr)


def _filled(attr: Attr, given: Mapping[str, Attr], node: Node) -> Attr:
    if isinstance(attr, PlaceholderAttr):
        if attr.name not in given:
            raise GraphError(
                f"the caller of the function does not set '{attr.name}'",
                node.where,
                hint="the file is damaged",
            )
        return given[attr.name]
    if isinstance(attr, FunctionAttr):
        return FunctionAttr(attr.name, {k: _filled(a, given, node) for k, a in attr.attrs.items()})
    if isinstance(attr, tuple):
        return tuple(_filled(a, given, node) for a in attr)  # type: ignore[misc]
    return attr
