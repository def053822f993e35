"""Bodies of loops and branches: copied from functions into frames and between Switches, and made functions.

`lower_control_flow` does the first, `raise_control_flow` the second.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from thinflow.analysis.shapes import infer_with_loops
from thinflow.errors import ThinflowError
from thinflow.ir.attrs import Attr, FunctionAttr
from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.names import LEGAL_NAME
from thinflow.ir.order import ancestors
from thinflow.ir.types import BOOL, INT32, STRING, DType, TensorSpec
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Refuse, Trace
from thinflow.transforms.flow.dependence import is_pure_call
from thinflow.transforms.flow.inline_partitionedcall import InlinePartitionedCall
from thinflow.transforms.flow.library import copy_body
from thinflow.transforms.shared.effects import drop_idle_control, effect_free, is_stateless


class CallableBodies:
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
        call: the node to be replaced; new nodes stand in front of it.
        origin: name of the transform.
        nodes: all that were added, in order.
    """

    graph: Graph
    call: Node
    origin: str
    nodes: list[Node]

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
        self.nodes.append(node)
        return node

    def constant(self, content: np.ndarray, name: str, anchor: Node) -> Value:
        """A constant that is there when `anchor` has run."""
        value = self.graph.constant(content, f"{self.call.name}/{name}", before=self.call)
        value.node.origin = self.origin
        value.node.add_control_input(anchor)
        self.nodes.append(value.node)
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
        copies = copy_body(function, arguments, self._copy, self.call.name)
        for node, copy in copies.nodes.items():
            for value in node.outputs:
                copy.output(value.port).spec = value.spec
            # Everything it reads is there all the time, and so would it be.
            if all(n in idle for n in (*(v.node for v in copy.inputs), *copy.control_inputs)):
                copy.add_control_input(anchor)
        results = [self._anchored(copies.value(v), anchor, idle) for v in function.outputs]
        return results, [copies.nodes[n] for n in effects_of(function)]

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
    types: list[DType] = []
    for number, value in enumerate(values):
        declared = listed[number] if isinstance(listed, tuple) and number < len(listed) else None
        element = declared if isinstance(declared, DType) else value.dtype
        if element is None:
            raise Refuse(f"the type of '{value.name}' is not known")
        types.append(element)
    return types


# ---- Functions made of bodies: names, types, and only what they need


_PASSING = Trait.ENTER | Trait.EXIT | Trait.SWITCH | Trait.MERGE | Trait.NEXT_ITERATION | Trait.IDENTITY
"""Ops whose attribute T is the type of what they take and of what they give."""


@dataclass
class NewFunctions:
    """The functions made so far.

    Attributes:
        taken: names of the library that was there before.
        functions: by name; each may call the others.
    """

    taken: Collection[str]
    functions: dict[str, Function] = field(default_factory=dict)

    def add(self, wished: str, function: Function) -> str:
        """Put a function into the library; its name."""
        # Legal in the name of a function, which is also that of an op.
        base = re.sub(r"[^A-Za-z0-9_]", "_", wished)
        name, number = base, 0
        while name in self.taken or name in self.functions:
            number += 1
            name = f"{base}_{number}"
        self.functions[name] = replace(function, name=name)
        return name


def type_of(value: Value) -> DType:
    """The element type of a value, from its shape rule or from the control flow around it.

    Raises:
        Refuse: nobody knows.
    """
    # Around control flow types are the same on all sides, and stated where shape rules are at a loss.
    around = [n for n in (value.node, *value.readers) if has(n.op, _PASSING)]
    known = (value.dtype, *(n.attrs.get("T") for n in around))
    element = next((t for t in known if isinstance(t, DType)), None)
    if element is None:
        raise Refuse(f"the type of '{value.name}' is not known", value.node)
    return element


def declare(function: Function, types: Sequence[DType], scope: str) -> None:
    """Give arguments their types, and names that a FunctionDef may have; take a scope off all names."""
    graph = function.graph
    prefix = f"{scope}/"
    for node in graph:
        node.attrs.pop("_class", None)  # it may name nodes that are not in the function
        inner = node.name.removeprefix(prefix)
        if inner != node.name and LEGAL_NAME.match(inner):
            graph.rename(node, graph.unique_name(inner))
    for value, element in zip(function.inputs, types, strict=True):
        node = value.node
        node.attrs["T"] = element
        # TensorFlow's ArgDef allows [a-z][a-z0-9_]* only.
        letters = re.sub(r"[^a-z0-9_]", "_", node.name.lower())
        wished = letters if letters[:1].isalpha() else f"arg_{letters}"
        if wished != node.name:
            graph.rename(node, graph.unique_name(wished))


def finished(function: Function, arguments: Sequence[DType], results: Sequence[DType]) -> Function:
    """The function without what its results and effects do not need, its types declared.

    Whoever waits for a call waits for the effects that its function declares, not for its results.
    """
    graph = function.graph
    # First, since edges that mean nothing would keep nodes alive.
    drop_idle_control(graph)
    free = effect_free(graph)
    awaited = [n for n in function.control_outputs if n not in free]
    needed = ancestors([*(v.node for v in function.outputs), *awaited])
    graph.remove(*(n for n in graph if n not in needed and n.op != ARGUMENT))
    effects = dict.fromkeys([*awaited, *(n for n in graph if not is_pure(n))])
    return replace(
        function, control_outputs=list(effects), input_types=list(arguments), output_types=list(results)
    )


def without_unread(functions: Sequence[Function]) -> tuple[list[int], list[Function]]:
    """Numbers of the common arguments that the functions use, and the functions with these alone."""
    used = [
        number
        for number in range(len(functions[0].inputs))
        if any(f.inputs[number].node.is_used or f.inputs[number] in f.outputs for f in functions)
    ]
    narrowed: list[Function] = []
    for function in functions:
        # Arguments that no function reads; all functions of one call have the same ones.
        function.graph.remove(*(v.node for i, v in enumerate(function.inputs) if i not in used))
        inputs = [function.inputs[i] for i in used]
        narrowed.append(replace(function, inputs=inputs, input_types=[function.input_types[i] for i in used]))
    return used, narrowed


def is_pure(node: Node) -> bool:
    """True if a node of a finished body does nothing but compute."""
    return node.op == ARGUMENT or is_pure_call(node) or is_stateless(node)


def has_effects(*functions: Function) -> bool:
    """True if one of the bodies does more than compute."""
    return not all(is_pure(node) for function in functions for node in function.graph)


def copied(function: Function, arguments: Sequence[Value], before: Node, origin: str) -> list[Value]:
    """The results of a body that only computes, its nodes copied in front of another node."""
    graph = before.graph
    assert isinstance(graph, Graph)

    def copy(node: Node) -> Node:
        new = graph.add(node.op, name=node.name, attrs=node.attrs, device=node.device, before=before)
        new.origin = origin
        return new

    copies = copy_body(function, arguments, copy, before.name)
    return [copies.value(v) for v in function.outputs]
