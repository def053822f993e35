"""Bodies of loops and branches, copied into the frames and between the Switches that take their place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from thinflow.analysis.loops import infer_with_loops
from thinflow.errors import ThinflowError
from thinflow.ir.attrs import Attr, FunctionAttr
from thinflow.ir.function import Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import BOOL, INT32, STRING, DType, TensorSpec
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import adapt_moved_class
from thinflow.rewrite.rule import Refuse, Trace
from thinflow.transforms.inline_partitionedcall import InlinePartitionedCall
from thinflow.transforms.shared.effects import effect_free


class Library:
    """The functions that loops and branches call, as bodies that can be copied.

    Args:
        functions: those of the graph.
        endless: names of functions that call themselves, or others that do.
    """

    def __init__(self, functions: Mapping[str, Function], endless: Collection[str]) -> None:
        self._functions, self._endless = functions, endless

    def body(self, called: Attr | None, arguments: Sequence[TensorSpec], results: int) -> Function:
        """A function, its attributes filled in and calls in it inlined; its values have this call's specs.

        Raises:
            Refuse: it cannot be copied, or does not fit its caller.
        """
        if not isinstance(called, FunctionAttr):
            raise Refuse("it does not say which function it calls")
        name = called.name
        if name not in self._functions:
            raise Refuse(f"there is no function '{name}'")
        if name in self._endless:
            raise Refuse(f"'{name}' calls itself, or a function that does")
        try:
            function = _inlined(self._functions[name].instantiated(called.attrs))
        except ThinflowError as error:
            raise Refuse(f"'{name}' cannot be read: {error.problem}") from error
        if function.graph.missing:
            lost = next(iter(function.graph.missing))
            raise Refuse(f"'{name}' refers to a node '{lost}', which does not exist")
        if len(function.inputs) != len(arguments) or len(function.outputs) != results:
            raise Refuse(
                f"'{name}' takes {len(function.inputs)} values and gives {len(function.outputs)}, "
                f"not {len(arguments)} and {results}"
            )
        infer_with_loops(function.graph, dict(zip(function.inputs, arguments, strict=True)))
        return function


def _inlined(function: Function) -> Function:
    """The function without calls in its body, which is its own."""
    copy = function.copied()
    graph = copy.graph
    # An effect may be that of a call, which goes; what waits for the call then waits for what the call did.
    effects = [
        graph.add("NoOp", control_inputs=[n], name=f"{n.name}/done")
        if has(n.op, Trait.CALL) or n.op in graph.functions
        else n
        for n in copy.control_outputs
    ]
    InlinePartitionedCall(prune_library=False).run(graph, Trace())
    return replace(copy, control_outputs=effects).settled()


def effects_of(function: Function) -> list[Node]:
    """The nodes of a body that run in every call and do more than compute."""
    free = effect_free(function.graph) if function.control_outputs else set()
    return [n for n in function.control_outputs if n not in free and n.output() not in function.inputs]


@dataclass
class Place:
    """The place to which bodies are copied.

    Attributes:
        graph: to be edited.
        call: the node to be replaced; what is made stands in front of it.
        origin: name of the transform.
        made: all that was made, in order.
    """

    graph: Graph
    call: Node
    origin: str
    made: list[Node]

    def add(
        self,
        op: str,
        inputs: Sequence[Value],
        name: str,
        attrs: Mapping[str, Attr] | None = None,
        wait: Sequence[Node] = (),
    ) -> Node:
        """A new node, named inside the scope of the call."""
        node = self.graph.add(
            op,
            inputs,
            f"{self.call.name}/{name}",
            attrs=attrs,
            control_inputs=wait,
            device=self.call.device,
            before=self.call,
        )
        node.origin = self.origin
        self.made.append(node)
        return node

    def constant(self, content: np.ndarray, name: str, anchor: Node) -> Value:
        """A constant that is there when `anchor` has run."""
        value = self.graph.constant(content, f"{self.call.name}/{name}", before=self.call)
        value.node.origin = self.origin
        value.node.add_control_input(anchor)
        self.made.append(value.node)
        return value

    def body(
        self, function: Function, arguments: Sequence[Value], anchor: Node, idle: Collection[Node] = ()
    ) -> tuple[list[Value], list[Node]]:
        """A body's results and effects, its nodes copied.

        Args:
            function: the body.
            arguments: what it is given.
            anchor: runs whenever the body is to run, and only then. What reads nothing waits for it.
            idle: nodes whose values are there even when the body is not to run.
        """
        given = dict(zip(function.inputs, arguments, strict=True))
        twins = {node: self._copy(node) for node in function.graph if node.output() not in given}
        names = {node.name: copy.name for node, copy in twins.items()}
        # An annotation may name an argument, too.
        names |= {v.node.name: argument.node.name for v, argument in given.items()}

        def twin(value: Value) -> Value:
            return given[value] if value in given else twins[value.node].output(value.port)

        for node, copy in twins.items():
            copy.set_inputs([twin(v) for v in node.inputs])
            copy.set_control_inputs(twin(n.output()).node for n in node.control_inputs)
            for value in node.outputs:
                copy.output(value.port).spec = value.spec
            # Everything it reads is there all the time, and so would it be.
            if all(n in idle for n in (*(v.node for v in copy.inputs), *copy.control_inputs)):
                copy.add_control_input(anchor)
            self._adapt_names(copy, names)
        results = [self._anchored(twin(v), anchor, idle) for v in function.outputs]
        return results, [twins[n] for n in effects_of(function)]

    def _copy(self, node: Node) -> Node:
        inner = node.name.removeprefix(f"{self.call.name}/")
        copy = self.add(node.op, (), inner, node.attrs)
        copy.device = node.device or self.call.device
        return copy

    def _anchored(self, value: Value, anchor: Node, idle: Collection[Node]) -> Value:
        """The value, through an Identity if it is there even when the body is not to run."""
        if value.node not in idle:
            return value
        attrs = {"T": value.spec.dtype} if value.spec.dtype is not None else {}
        return self.add("Identity", [value], value.node.name.rpartition("/")[2], attrs, [anchor]).output()

    def _adapt_names(self, copy: Node, names: Mapping[str, str]) -> None:
        """Adapt what a body says by name: who stands on the same device, and which loop a node is in."""
        adapt_moved_class(copy, names)
        frame = copy.attrs.get("frame_name")
        if has(copy.op, Trait.ENTER) and isinstance(frame, bytes):
            # A frame is known by its name: two copies of one body would otherwise be one loop.
            copy.attrs["frame_name"] = f"{self.call.name}/".encode() + frame

    def truth(self, value: Value, name: str, wait: Sequence[Node] = ()) -> Value:
        """The truth that TensorFlow takes a condition for, as a bool; `wait` runs before it.

        Raises:
            Refuse: it is not known what that would be.
        """
        element, shape = value.dtype, value.shape
        # A bool of unknown rank is taken for the scalar that it nearly always is.
        if element is BOOL and (shape == () or shape is None):
            return self.add("Identity", [value], name, {"T": BOOL}, wait).output()
        if element is None or shape is None:
            raise Refuse(f"the type or the rank of its condition '{value.name}' is not known")
        # Of a tensor that is no scalar TensorFlow asks whether it has elements.
        if shape:
            size = self.add("Size", [value], f"{name}/size", {"T": element, "out_type": INT32}, wait)
            zero = self.constant(np.array(0, np.int32), f"{name}/zero", size)
            return self.add("Greater", [size.output(), zero], name, {"T": INT32}).output()
        # A Switch itself runs on both sides; what stands behind its output, on one.
        here = self.add("Identity", [value], f"{name}/Identity", {"T": element}, wait)
        # A scalar holds if it is not zero, or for text not empty.
        nothing = np.array(b"", object) if element is STRING else np.zeros((), element.numpy())
        zero = self.constant(nothing, f"{name}/zero", here)
        return self.add("NotEqual", [here.output(), zero], name, {"T": element}).output()


def refuse_vague_condition(value: Value) -> None:
    """Raise Refuse if `Place.truth` would."""
    if value.dtype is BOOL and (value.shape == () or value.shape is None):
        return
    if value.dtype is None or value.shape is None:
        raise Refuse(f"the type or the rank of its condition '{value.name}' is not known")


def types_in(node: Node, attr: str, values: Sequence[Value]) -> list[DType]:
    """The element types of values, from a list attribute of a node or from their shape rules.

    Raises:
        Refuse: one is not known.
    """
    listed = node.attrs.get(attr)
    found: list[DType] = []
    for number, value in enumerate(values):
        told = listed[number] if isinstance(listed, tuple) and number < len(listed) else None
        element = told if isinstance(told, DType) else value.dtype
        if element is None:
            raise Refuse(f"the type of '{value.name}' is not known")
        found.append(element)
    return found
