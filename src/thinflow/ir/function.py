"""Library functions: graphs that nodes of other graphs call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from thinflow.errors import GraphError
from thinflow.ir.attrs import Attr, FunctionAttr, PlaceholderAttr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import DType

# TensorFlow's own op for it, once a FunctionDef is made a graph.
ARGUMENT = "_Arg"
"""The op of the nodes that stand for a function's arguments; its attribute T is the element type."""

NMS_PADDED = "non_max_suppression_padded_v2"
KEPT_WHOLE = frozenset({NMS_PADDED})
"""What functions implement, as they say themselves, that runtimes have something better for than the body."""


# Taken off before a new digest is put on, so that names do not grow with every save.
_EDITED = re.compile(r"__edited_[0-9a-f]{8}$")


def edited_name(name: str, digest: str) -> str:
    """The name in a file of a function whose body is another one than in the file that it is from."""
    return f"{name_before_edits(name)}__edited_{digest}"


def name_before_edits(name: str) -> str:
    """The name of an edited function in the file that it is from."""
    return _EDITED.sub("", name)


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
        if not any(_has_placeholder(a) for node in self.graph for a in node.attrs.values()):
            return self
        given = {**self.defaults, **attrs}
        copy = self.copied()
        for node in copy.graph:
            for key, attr in list(node.attrs.items()):
                if _has_placeholder(attr):
                    node.attrs[key] = _filled(attr, given, node)
        return copy


class Edited(Mapping[str, Function]):
    """A library with functions changed or added, the rest decoded when somebody asks for it.

    Attributes:
        library: what it was made from.
        changes: the changed and added functions by name.
    """

    def __init__(self, library: Mapping[str, Function], changes: Mapping[str, Function]) -> None:
        self.library = library
        self.changes = dict(changes)

    def __getitem__(self, name: str) -> Function:
        return self.changes[name] if name in self.changes else self.library[name]

    def __contains__(self, name: object) -> bool:
        return name in self.changes or name in self.library

    def __iter__(self) -> Iterator[str]:
        yield from self.library
        yield from (name for name in self.changes if name not in self.library)

    def __len__(self) -> int:
        return len(self.library) + sum(name not in self.library for name in self.changes)


class Selection(Mapping[str, Function]):
    """Some functions of a library, each decoded when somebody asks for it."""

    def __init__(self, library: Mapping[str, Function], names: Set[str]) -> None:
        self.library = library
        self._names = [name for name in library if name in names]
        self._chosen = frozenset(self._names)

    def __getitem__(self, name: str) -> Function:
        if name not in self._chosen:
            raise KeyError(name)
        return self.library[name]

    def __contains__(self, name: object) -> bool:
        return name in self._chosen

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def changes(functions: Mapping[str, Function]) -> dict[str, Function]:
    """The functions of a library that do not stand in the file behind it, or stand there differently.

    A library that a file stands behind says so by a true attribute `is_stored`.
    """
    if isinstance(functions, Edited):
        return {**changes(functions.library), **functions.changes}
    if isinstance(functions, Selection):
        return {name: f for name, f in changes(functions.library).items() if name in functions}
    return {} if getattr(functions, "is_stored", False) else dict(functions)


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
                # The second condition ends at functions that call each other in a circle.
                if name in graph.functions and name not in found:
                    found.add(name)
                    stack.append(graph.functions[name].graph)
    return found


def mentioned(node: Node) -> Iterator[str]:
    """The function names that a node may mean: its op and those in its attributes."""
    # A function may be called by a node whose op is the function's name, with no attribute that says so.
    yield node.op
    stack: list[Attr] = list(node.attrs.values())
    while stack:
        attr = stack.pop()
        if isinstance(attr, tuple):
            stack.extend(attr)
        elif isinstance(attr, FunctionAttr):
            yield attr.name
            # A function given to a function: attributes of a reference may hold references.
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
