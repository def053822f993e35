"""Functions for the bodies of loops and branches that are raised: names, types, and only what they need."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.names import LEGAL_NAME
from thinflow.ir.order import ancestors
from thinflow.ir.types import DType
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.flow.dependence import is_pure_call
from thinflow.transforms.shared.effects import drop_idle_control, effect_free, is_stateless

_PASSING = Trait.ENTER | Trait.EXIT | Trait.SWITCH | Trait.MERGE | Trait.NEXT_ITERATION | Trait.IDENTITY
"""Ops whose attribute T is the type of what they take and of what they give."""


@dataclass
class Made:
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
    found = next((t for t in known if isinstance(t, DType)), None)
    if found is None:
        raise Refuse(f"the type of '{value.name}' is not known", value.node)
    return found


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
    kept: list[Function] = []
    for function in functions:
        # Arguments that no function reads; all functions of one call have the same ones.
        function.graph.remove(*(v.node for i, v in enumerate(function.inputs) if i not in used))
        inputs = [function.inputs[i] for i in used]
        kept.append(replace(function, inputs=inputs, input_types=[function.input_types[i] for i in used]))
    return used, kept


def is_pure(node: Node) -> bool:
    """Whether a node of a finished body does nothing but compute."""
    return node.op == ARGUMENT or is_pure_call(node) or is_stateless(node)


def has_effects(*functions: Function) -> bool:
    """Whether one of the bodies does more than compute."""
    return not all(is_pure(node) for function in functions for node in function.graph)


def copied(function: Function, arguments: Sequence[Value], before: Node, origin: str) -> list[Value]:
    """The results of a body that only computes, its nodes copied in front of another node."""
    graph = before.graph
    assert isinstance(graph, Graph)
    given: Mapping[Value, Value] = dict(zip(function.inputs, arguments, strict=True))
    copies: dict[Node, Node] = {}
    for node in function.graph:
        if node.op != ARGUMENT:
            copies[node] = graph.add(
                node.op, name=node.name, attrs=node.attrs, device=node.device, before=before
            )
            copies[node].origin = origin

    def copy_of(value: Value) -> Value:
        return given[value] if value in given else copies[value.node].output(value.port)

    for node, copy in copies.items():
        copy.set_inputs([copy_of(v) for v in node.inputs])
        copy.set_control_inputs([copies[n] for n in node.control_inputs if n in copies])
    return [copy_of(v) for v in function.outputs]
