"""Put the bodies of functions in the place of the nodes that call them, so that every transform sees them.

y = partitioned_call(x, f=double); double(a) = add(a, a)  ->  y = add(x, x)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thinflow.errors import ThinflowError, TransformError
from thinflow.ir.attrs import FunctionAttr
from thinflow.ir.function import KEPT_WHOLE, Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import drop_lost_classes
from thinflow.rewrite.pattern import constant_node
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.transforms.flow.inlining import Inlining
from thinflow.transforms.flow.library import endless, prune
from thinflow.transforms.shared.effects import in_loops

MAX_NODES = 1_000_000
"""Nodes that inlining may add; functions that call functions twice grow without bounds."""

Call = tuple[FunctionAttr, Sequence[Value]]
"""A function with the attributes to call it with, and the arguments."""


@transform("inline_partitionedcall")
@dataclass(frozen=True)
class InlinePartitionedCall(Transform):
    """Inline PartitionedCall, StatefulPartitionedCall and calls by the name of the function, at every depth.

    Functions that call themselves stay, and so do loops, conditions, and functions that say that they
    implement something which the runtimes have an op for.

    Attributes:
        prune_library: drop the functions that nothing calls any more.
        lower_cond: put the branch in the place of an If whose condition is constant.
    """

    prune_library: bool = True
    lower_cond: bool = False

    def apply(self, graph: Graph, trace: Trace) -> None:
        names = {node.name for node in graph}
        endless = self._endless(graph)
        # A body called in a loop has to be in the frame, too.
        inside = in_loops(graph)
        # Turned round, so that calls are taken off the end in file order; bodies go on top.
        stack = list(graph)[::-1]
        added = 0
        while stack:
            node = stack.pop()
            try:
                called = self._called(node, graph.functions)
                if called is None:
                    continue
                function = _definition(called[0], graph.functions, endless)
                inlining = Inlining(graph, node, function, called[1], self.name, in_loop=node in inside)
            except Refuse as refusal:
                trace.leave(node, refusal.reason)
                continue
            # Counted as they come: function bodies may double at every depth.
            added += len(function.graph)
            if added > MAX_NODES:
                raise TransformError(
                    f"the functions would grow to more than {MAX_NODES:,} nodes",
                    node.where,
                    hint="the model cannot be inlined; leave the transform out",
                )
            trace.changed(node, f"replaced by the body of '{function.name}'")
            body = inlining.apply()
            stack.extend(reversed(body))
            names.update(twin.name for twin in body)
            if node in inside:
                inside.update(body)
        drop_lost_classes(graph, names)
        if self.prune_library and trace.changes:
            prune(graph, trace)

    def _called(self, node: Node, functions: Mapping[str, Function]) -> Call | None:
        """The call that a node is; None if it is not to be inlined.

        Raises:
            Refuse: it does not say.
        """
        if node.op in functions:
            # The node itself is the reference: its attributes are those of the function.
            return FunctionAttr(node.op, node.attrs), node.inputs
        if has(node.op, Trait.CALL):
            called, arguments = node.attrs_view.get("f"), node.inputs
        elif self.lower_cond and has(node.op, Trait.IF) and node.inputs:
            called, arguments = node.attrs_view.get(_taken_branch(node)), node.inputs[1:]
        else:
            return None
        if not isinstance(called, FunctionAttr):
            raise Refuse("it does not say which function it calls")
        return called, arguments

    def _endless(self, graph: Graph) -> set[str]:
        """The functions whose calls never end."""
        functions = graph.functions
        return endless(
            self._callees(graph, functions), lambda name: self._callees(functions[name].graph, functions)
        )

    def _callees(self, body: Graph, functions: Mapping[str, Function]) -> set[str]:
        found = set()
        for node in body:
            try:
                called = self._called(node, functions)
            except Refuse:
                continue
            if called is not None and called[0].name in functions:
                found.add(called[0].name)
        return found


def _definition(called: FunctionAttr, functions: Mapping[str, Function], endless: set[str]) -> Function:
    if called.name not in functions:
        raise Refuse(f"there is no function '{called.name}'")
    if called.name in endless:
        raise Refuse(f"'{called.name}' calls itself, or a function that does")
    try:
        function = functions[called.name].instantiated(called.attrs)
    except ThinflowError as error:
        raise Refuse(f"'{called.name}' cannot be read: {error.problem}") from error
    # Runtimes have one fast op in place of the body.
    if function.implements in KEPT_WHOLE:
        raise Refuse(f"'{called.name}' says that it implements {function.implements}, which runtimes know")
    return function


def _taken_branch(node: Node) -> str:
    """The attribute that holds the branch a condition takes.

    Raises:
        Refuse: the condition is not constant.
    """
    source = constant_node(node.inputs[0])
    if source is None or source.tensor is None:
        raise Refuse(f"its condition '{node.inputs[0].name}' is not constant")
    condition = source.tensor.numpy()
    # A scalar holds if it is not zero, anything else if it has elements.
    holds = bool(condition[()]) if condition.ndim == 0 else condition.size > 0
    return "then_branch" if holds else "else_branch"
