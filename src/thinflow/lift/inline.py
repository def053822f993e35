"""Functions of a file put into the place of a call: their nodes are lifted among those of the caller.

So sizes and constants of the caller are known to the rules inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from thinflow.analysis.shapes import constant_spec
from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import Attr, FunctionAttr, PlaceholderAttr, filled, has_placeholder
from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import execution_order
from thinflow.ir.types import TensorSpec
from thinflow.lift.lifter import Call, Lifter
from thinflow.lift.nodes import lift_node
from thinflow.typing import Array

_DEEPEST = 24
"""Calls inside calls; ONNX's own definitions are at most three deep."""
_MOST_NODES = 200_000
"""Nodes that the calls of a model may become: functions that call each other twice double at every level."""


class _Inliner(Lifter):
    """What lifts a function's body into a graph that is there."""

    def __init__(
        self, outer: Lifter, function: Function, operands: Sequence[Value | None], graph: Graph
    ) -> None:
        super().__init__(function.graph, function.graph.facts or outer.facts, outer.scope)
        own = {"facts": self.facts, "_source": self._source, "graph": graph}
        # What is known, made and left to do is that of the caller.
        vars(self).update({**vars(outer), **own})
        self._values = dict(zip(function.inputs, operands, strict=True))

    def copy(self, node: Node) -> None:
        """Take over a constant; arguments have their values already."""
        if node.op == ARGUMENT:
            return
        if node.tensor is None:
            raise UnsupportedOp(f"a function cannot hold {node.op}")
        value = self.graph.constant(node.tensor, self.graph.unique_name(f"{self.prefix}{node.name}"))
        value.spec = constant_spec(node.tensor)
        self._values[node.output()] = value

    def place(self, node: Node, results: list[Value]) -> None:
        """Note what stands for an op; names of the body are not those of the file."""
        self.note(node, results)


def inlined(
    c: Call,
    function: Function,
    operands: Sequence[Value | None],
    *,
    graph: Graph | None = None,
    name: str = "",
) -> list[Value]:
    """The results of a function of the file for some operands, its nodes lifted into the graph of the call.

    Args:
        graph: where the nodes go, if not there.
        name: what their names begin with, if not with the call's.

    Raises:
        UnsupportedOp: something in it has no counterpart; functions call each other endlessly.
    """
    outer = c.lifter
    depth, count = outer.calls
    if depth >= _DEEPEST:
        raise UnsupportedOp("its functions call each other too deeply")
    if len(operands) != len(function.inputs):
        raise UnsupportedOp(f"its body takes {len(function.inputs)} operands, it gets {len(operands)}")
    inner = _Inliner(outer, function, operands, c.lifter.graph if graph is None else graph)
    inner.prefix = f"{name or c.name}/"
    inner.calls = (depth + 1, count)
    for node in execution_order(function.graph):
        count[0] += 1
        if count[0] > _MOST_NODES:
            raise UnsupportedOp(f"its functions become more than {_MOST_NODES} nodes")
        try:
            lift_node(inner, node)
        except UnsupportedOp as error:
            inside = "" if error.problem.startswith("within it") else f"within it, {node.op}: "
            raise UnsupportedOp(f"{inside}{error.problem}", error.where, error.hint) from error
    return [inner.of(v) for v in function.outputs]


def specialized(function: Function, options: Mapping[str, Attr]) -> Function:
    """A function with a call's options in the place of its parameters; options that are not given are off."""
    copy = function.copied()
    library = dict(copy.graph.functions)
    for node in copy.graph:
        for key, attr in list(node.attrs.items()):
            if isinstance(attr, PlaceholderAttr) and attr.name not in options:
                # An option that the call leaves out is left out inside as well.
                del node.attrs[key]
            elif has_placeholder(attr):
                node.attrs[key] = filled(attr, options, node.where)
            elif isinstance(attr, FunctionAttr) and attr.name in library and _waits(library[attr.name]):
                # A body of control flow inside: parameters of the function around it are its own.
                name = _free(library, attr.name)
                library[name] = replace(specialized(library[attr.name], options), name=name)
                node.attrs[key] = FunctionAttr(name)
    copy.graph.functions = library
    copy.graph.facts = dict(function.graph.facts)
    return copy


def _waits(function: Function) -> bool:
    """True if something in a body waits for the options of a call."""
    # Deeper bodies are looked at when their own turn comes: a copy too many does no harm.
    return any(
        has_placeholder(a) or isinstance(a, FunctionAttr) for n in function.graph for a in n.attrs.values()
    )


def _free(library: Mapping[str, Function], name: str) -> str:
    count = 1
    while f"{name}_{count}" in library:
        count += 1
    return f"{name}_{count}"


def copied_in(graph: Graph, value: Value, content: Array) -> Value:
    """A constant of another graph, or a value whose elements are known."""
    tensor = value.node.tensor
    copy = graph.constant(content if tensor is None else tensor, graph.unique_name("constant"))
    assert copy.node.tensor is not None
    copy.spec = constant_spec(copy.node.tensor)
    return copy


def lifted_body(
    c: Call, function: Function, operands: Sequence[Value], name: str, *, fixed: Sequence[bool]
) -> tuple[Function, list[Value]]:
    """A function of the file as one of TensorFlow's ops, and the operands that it takes.

    Operands that are constants go into it.

    Args:
        fixed: of the operands, True for those that are the same in every call: their sizes hold inside.
    """
    graph = Graph()
    arguments: list[Value] = []
    taken: list[Value] = []
    inside: list[Value] = []
    for number, (value, is_fixed) in enumerate(zip(operands, fixed, strict=True)):
        content = c.content(value) if is_fixed else None
        if content is not None:
            inside.append(copied_in(graph, value, content))
            continue
        if value.dtype is None:
            raise UnsupportedOp("the type of a value that its body reads is not known")
        argument = graph.add(ARGUMENT, name=f"x{number}", attrs={"T": value.dtype}).output()
        argument.spec = value.spec if is_fixed else TensorSpec(value.dtype)
        arguments.append(argument)
        taken.append(value)
        inside.append(argument)
    results = inlined(c, function, inside, graph=graph, name="body")
    graph.inputs, graph.outputs = arguments, results
    types = [v.dtype for v in results]
    lifted = Function(
        name, graph, arguments, results, input_types=[v.dtype for v in taken], output_types=types
    )
    return lifted, taken
