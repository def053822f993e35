"""Copies the body of a function to the place where it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thinflow.ir.attrs import Attr
from thinflow.ir.function import Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors
from thinflow.ir.types import DType
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import adapt_moved_class
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.shared.effects import effect_free, is_stateless


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
        self.arguments = dict(zip((v.node for v in function.inputs), arguments, strict=False))
        self.copies: dict[Node, Node] = {}
        self._refuse_misfits(len(arguments))
        self.effects = self._effects()
        self.types = self._result_types() if self._needs_holder() else ()

    def _refuse_misfits(self, given: int) -> None:
        name, wanted = self.function.name, len(self.function.inputs)
        if given != wanted:
            raise Refuse(f"it passes {given} arguments to '{name}', which takes {wanted}")
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
        return [n for n in self.function.control_outputs if n not in free and n not in self.arguments]

    def _needs_holder(self) -> bool:
        """Whether a node has to stay in the place of the call: for its name, or to wait."""
        if self.call.is_protected:
            return True
        results = self.function.outputs
        if self.call.control_inputs and any(v.node in self.arguments for v in results):
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
        self._copy()
        self._wait()
        effects = [self.copies[n] for n in self.effects]
        # Not the whole body: what only computes need not be waited for.
        for waiter in self.call.control_outputs:
            for node in (*effects, *self.call.control_inputs):
                waiter.add_control_input(node)
        results = [self._copy_of(value) for value in self.function.outputs]
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
        return list(self.copies.values())

    def _copy(self) -> None:
        body = [n for n in self.function.graph if n not in self.arguments]
        for node in body:
            name, device = f"{self.call.name}/{node.name}", node.device or self.call.device
            copy = self.graph.graft(node, name, device=device, before=self.call)
            copy.origin = node.origin or self.origin
            self.copies[node] = copy
        # Names in the body -> here: annotations refer to nodes by name.
        names = {node.name: copy.name for node, copy in self.copies.items()}
        names |= {node.name: value.node.name for node, value in self.arguments.items()}
        for node, copy in self.copies.items():
            copy.set_inputs([self._copy_of(v) for v in node.inputs])
            if node.control_inputs:
                copy.set_control_inputs(self._copy_of(n.output()).node for n in node.control_inputs)
            self._adapt_names(copy, names)

    def _adapt_names(self, copy: Node, names: Mapping[str, str]) -> None:
        """Adapt what a body says by name: who stands on the same device, and which loop a node is in."""
        adapt_moved_class(copy, names)
        frame = copy.attrs_view.get("frame_name") if has(copy.op, Trait.ENTER) else None
        if isinstance(frame, bytes):
            # A frame is known by its name: two copies of one body would otherwise be one loop.
            copy.attrs["frame_name"] = f"{self.call.name}/".encode() + frame

    def _copy_of(self, value: Value) -> Value:
        argument = self.arguments.get(value.node)
        return self.copies[value.node].output(value.port) if argument is None else argument

    def _wait(self) -> None:
        """Let what has an effect, and what gives a result, wait for what the call waited for."""
        if self.in_loop:
            anchor = [*(v.node for v in self.call.inputs), *self.call.control_inputs][:1]
            # Without inputs it would be outside of the frame.
            for copy in self.copies.values():
                if not copy.inputs and not copy.control_inputs:
                    copy.set_control_inputs(anchor)
        if not self.call.control_inputs:
            return
        givers = {value.node for value in self.function.outputs}
        for node, copy in self.copies.items():
            # What lies between needs no edge: it is reached through those that wait, or may run early.
            if node in givers or not is_stateless(copy):
                for awaited in self.call.control_inputs:
                    copy.add_control_input(awaited)
