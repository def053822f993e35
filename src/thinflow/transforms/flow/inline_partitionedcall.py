"""Put the bodies of functions in the place of the nodes that call them, so that every transform sees them.

y = partitioned_call(x, f=double); double(a) = add(a, a)  ->  y = add(x, x)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thinflow.errors import ThinflowError, TransformError
from thinflow.ir.attrs import Attr, FunctionAttr
from thinflow.ir.function import KEPT_WHOLE, Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors
from thinflow.ir.types import DType
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import drop_dangling_colocation
from thinflow.rewrite.pattern import constant_tensor
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.transforms.flow.library import copy_body, endless, prune
from thinflow.transforms.shared.effects import effect_free, in_loops, is_stateless

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
        drop_dangling_colocation(graph, names)
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
        callees = set()
        for node in body:
            try:
                called = self._called(node, functions)
            except Refuse:
                continue
            if called is not None and called[0].name in functions:
                callees.add(called[0].name)
        return callees


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
    tensor = constant_tensor(node.inputs[0])
    if tensor is None:
        raise Refuse(f"its condition '{node.inputs[0].name}' is not constant")
    condition = tensor.numpy()
    # A scalar holds if it is not zero, anything else if it has elements.
    holds = bool(condition[()]) if condition.ndim == 0 else condition.size > 0
    return "then_branch" if holds else "else_branch"


# ---- Copies of a body where it is called


class Inlining:
    """One call on its way out of the graph; everything is checked before the first edit.

    Args:
        graph: where the call is.
        call: the node to replace.
        function: what it calls, its attributes filled in.
        arguments: what it passes.
        in_loop: whether it is in a loop of TF1, so that the body has to be in there, too.
        origin: name of the transform.

    Raises:
        Refuse: the call has to stay.
    """

    def __init__(
        self,
        graph: Graph,
        call: Node,
        function: Function,
        arguments: Sequence[Value],
        origin: str,
        *,
        in_loop: bool,
    ) -> None:
        self.in_loop = in_loop
        self.graph, self.call, self.function, self.origin = graph, call, function, origin
        self.arguments, self.inputs = arguments, {v.node for v in function.inputs}
        self._refuse_misfits(len(arguments))
        self.effects = self._effects()
        self.types = self._result_types() if self._needs_holder() else ()

    def _refuse_misfits(self, passed: int) -> None:
        name, taken = self.function.name, len(self.function.inputs)
        if passed != taken:
            raise Refuse(f"it passes {passed} arguments to '{name}', which takes {taken}")
        if self.function.graph.missing:
            lost = next(iter(self.function.graph.missing))
            raise Refuse(f"'{name}' refers to a node '{lost}', which does not exist")
        for value in self.call.outputs:
            if value.is_graph_input:
                raise Refuse(f"'{value.name}' is an input of the graph")
            if value.port >= len(self.function.outputs) and (value.uses or value.is_graph_output):
                raise Refuse(
                    f"'{value.name}' is used, but '{name}' gives {len(self.function.outputs)} values"
                )

    def _effects(self) -> list[Node]:
        """The nodes of the body that run in every call and do more than compute."""
        if not self.function.control_outputs:
            return []
        free = effect_free(self.function.graph)
        return [n for n in self.function.control_outputs if n not in free and n not in self.inputs]

    def _needs_holder(self) -> bool:
        """True if a node has to stay in the place of the call: for its name, or to wait."""
        if self.call.is_protected:
            return True
        results = self.function.outputs
        if self.call.control_inputs and any(v.node in self.inputs for v in results):
            # An argument handed straight on would be there before what the call waited for.
            return True
        # Whoever reads a result may count on the effects of the call having happened.
        return any(not ancestors([v.node]).issuperset(self.effects) for v in results if self.effects)

    def _result_types(self) -> tuple[DType, ...]:
        declared = self.call.attrs.get("Tout")
        types: list[DType] = []
        for port, value in enumerate(self.function.outputs):
            listed = declared[port] if isinstance(declared, tuple) and port < len(declared) else None
            # The caller knows best; a generic function says nothing of its types.
            known = (listed, *self.function.output_types[port : port + 1], value.node.attrs.get("T"))
            element = next((t for t in known if isinstance(t, DType)), None)
            if element is None:
                raise Refuse(f"the type of its output {port} is not known")
            types.append(element)
        return tuple(types)

    def apply(self) -> list[Node]:
        """Replace the call; the nodes that came in, in the order of the body."""
        copies = copy_body(self.function, self.arguments, self._copy, self.call.name)
        self._wait(copies.nodes)
        effects = [copies.nodes[n] for n in self.effects]
        # Not the whole body: what only computes need not be waited for.
        for waiter in self.call.control_outputs:
            for node in (*effects, *self.call.control_inputs):
                waiter.add_control_input(node)
        results = [copies.value(value) for value in self.function.outputs]
        if self.types:
            one = len(results) == 1
            attrs: dict[str, Attr] = {"T": self.types[0] if one else self.types}
            # A node that does nothing but keep the name, and wait.
            holder = self.graph.add(
                "Identity" if one else "IdentityN",
                results,
                f"{self.call.name}/results",
                attrs=attrs,
                control_inputs=effects,
                before=self.call,
            )
            holder.origin = self.origin
            self.graph.replace(self.call, holder)
        else:
            self.graph.bypass(self.call, dict(enumerate(results)), keep_control=False)
        return list(copies.nodes.values())

    def _copy(self, node: Node) -> Node:
        name, device = f"{self.call.name}/{node.name}", node.device or self.call.device
        copy = self.graph.graft(node, name, device=device, before=self.call)
        copy.origin = node.origin or self.origin
        return copy

    def _wait(self, copies: Mapping[Node, Node]) -> None:
        """Let what has an effect, and what gives a result, wait for what the call waited for."""
        if self.in_loop:
            anchor = [*(v.node for v in self.call.inputs), *self.call.control_inputs][:1]
            # Without inputs it would be outside of the frame.
            for copy in copies.values():
                if not copy.inputs and not copy.control_inputs:
                    copy.set_control_inputs(anchor)
        if not self.call.control_inputs:
            return
        givers = {value.node for value in self.function.outputs}
        for node, copy in copies.items():
            # What lies between needs no edge: it is reached through those that wait, or may run early.
            if node in givers or not is_stateless(copy):
                for awaited in self.call.control_inputs:
                    copy.add_control_input(awaited)
