"""Rules that say newer ops in the words of older ones; `target_runtime` applies them.

A rule belongs to what may be too new: an op (`AddV2`), an attribute that is not at its default
(`Conv2D.dilations`) or a value (`Conv2D.padding=EXPLICIT`). It changes the node in place or puts another in
its place, and refuses before its first edit. What it makes may be too new itself: rules are applied again.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import FLOAT, INT32, DType
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import constant_tensor
from thinflow.rewrite.rule import Refuse


@dataclass(frozen=True)
class DowngradeSite:
    """The node that a rule rewrites, what it reads, and where new nodes go."""

    graph: Graph
    node: Node
    site: Site
    loop: Set[Node] = frozenset()
    """The nodes in loops of TF1; what is made for one of them has to be in there, too."""

    def input(self, index: int) -> Value:
        """A data input.

        Raises:
            Refuse: the node has fewer.
        """
        if index >= len(self.node.inputs):
            raise Refuse(f"it has {len(self.node.inputs)} inputs", self.node)
        return self.node.inputs[index]

    def type(self, name: str = "T") -> DType:
        """A type attribute; float if it is absent."""
        element = self.node.attrs.get(name, FLOAT)
        return element if isinstance(element, DType) else FLOAT

    def add(self, op: str, *inputs: Value, **attrs: Attr) -> Value:
        """A new node in front of this one; its first output."""
        return self.site.add(op, *inputs, name=f"{self.node.name}/{op}", attrs=attrs, device=self.node.device)

    def constant(self, content: Any, name: str) -> Value:
        """A new constant in front of this one."""
        value = self.site.constant(np.asarray(content), f"{self.node.name}/{name}")
        if self.node in self.loop:
            # A constant without inputs is outside of every frame; waiting for a node of the loop takes it in.
            value.node.add_control_input(next(v.node for v in self.node.inputs if v.node in self.loop))
        return value

    def numbers(self, index: int, what: str) -> np.ndarray[Any, Any]:
        """The numbers of an input that has to be constant.

        Raises:
            Refuse: it is not.
        """
        tensor = constant_tensor(self.input(index))
        if tensor is None:
            raise Refuse(f"its {what} is not constant", self.node)
        return tensor.numpy()

    def rank(self, index: int) -> int:
        """The number of axes of an input.

        Raises:
            Refuse: nobody knows.
        """
        shape = self.input(index).spec.shape
        if shape is None:
            raise Refuse(f"the rank of '{self.input(index).name}' is not known", self.node)
        return len(shape)

    def becomes(self, op: str, inputs: int | None = None, drop: str = "", **attrs: Attr) -> None:
        """Turn the node into another op: its first `inputs` inputs, without the attributes in `drop`."""
        # Newer versions add inputs at the end.
        if inputs is not None and inputs < len(self.node.inputs):
            self.node.set_inputs(self.node.inputs[:inputs])
        for name in drop.split():
            self.node.attrs.pop(name, None)
        self.node.attrs.update(attrs)
        self.node.op = op

    def replace(self, value: Value, others: Mapping[int, Value] | None = None) -> None:
        """Put a value made here in the place of output 0, and others in that of higher outputs."""
        self.graph.replace(self.node, value.node, {0: value, **(others or {})})
        for other in (others or {}).values():
            # `replace` moves its node to the old one's place, and so behind others made here that read it.
            if any(source.node is value.node for source in other.node.inputs):
                self.graph.move_before(value.node, other.node)

    def refuse_outputs(self, ports: range) -> None:
        """Raise Refuse if one of these outputs is asked for by name: the older op lacks it."""
        for value in self.node.outputs:
            if value.port in ports and (value.is_graph_output or value.is_graph_input):
                raise Refuse(
                    f"'{value.name}' is asked for by name, and the older op has no such output", self.node
                )

    def zeros_like_all(self, *values: Value) -> Value:
        """A zero of the node's type T in the shape that the values broadcast to."""
        element, total = self.type(), None
        for value in values:
            same = (
                value
                if value.spec.dtype is element
                else self.add("Cast", value, SrcT=_known(value), DstT=element)
            )
            # Adding zeros broadcasts; ZerosLike keeps infinite and NaN values out of it.
            zeros = self.add("ZerosLike", same, T=element)
            total = zeros if total is None else self.add("Add", total, zeros, T=element)
        assert total is not None
        return total


def _known(value: Value) -> DType:
    if value.spec.dtype is None:
        raise Refuse(f"the type of '{value.name}' is not known", value.node)
    return value.spec.dtype


def shape_of(site: DowngradeSite, value: Value) -> Value:
    """The shape of a value at run time, int32."""
    return site.add("Shape", value, T=_known(value), out_type=INT32)


DowngradeRule = Callable[[DowngradeSite], None]
_rules: dict[str, DowngradeRule] = {}


def downgrade(*items: str) -> Callable[[DowngradeRule], DowngradeRule]:
    """Decorator: the rule for an op, `Op.attr` or `Op.attr=value`."""

    def register(rule: DowngradeRule) -> DowngradeRule:
        for item in items:
            if _rules.setdefault(item, rule) is not rule:
                raise RuntimeError(f"{item} has two rules")
        return rule

    return register


@cache
def downgrade_rules() -> Mapping[str, DowngradeRule]:
    """Every rule, by what it is for. Imports all modules of this package once; their decorators register."""
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{__package__}.{module.name}")
    return _rules
