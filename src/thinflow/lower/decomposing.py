"""Nodes as simpler ops, where a target has no rule of its own; complex numbers by their parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from thinflow.decompose import complex as complexes
from thinflow.decompose import rules as decomposing
from thinflow.errors import UnsupportedOp
from thinflow.ir.function import Function
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import BOOL, TensorSpec
from thinflow.lower import rules
from thinflow.lower.building import B
from thinflow.lower.lowering import Lowering
from thinflow.lower.slots import Complex, S
from thinflow.ops.traits import Trait, has
from thinflow.program.model import Tensor
from thinflow.typing import Array


def is_complex(node: Node, slots: Mapping[Value, Any]) -> bool:
    """True if a node has to do with complex numbers."""
    # What lists hold does not count: they have no type of their own.
    inputs = [getattr(slots.get(v), "dtype", None) for v in node.inputs]
    outputs = [v.dtype for v in node.outputs] if node.inputs else []
    return any(kind is not None and kind.kind == "c" for kind in (*inputs, *outputs))


class DecomposingLowering(Lowering[B, S]):
    """A run that knows decompositions.

    Attributes:
        has_complex: whether the target has operators of complex numbers, which are tried first.
        wanted: what is read by whoever asked for this run.
    """

    wanted: set[Value]

    has_complex: ClassVar[bool] = False

    def inlined(self, function: Function, slots: Sequence[S]) -> list[S]:
        """A function's results for these arguments, computed here."""
        raise NotImplementedError

    def tensor_of(self, slot: S) -> Any:
        """The tensor that stands for a value, or for nothing."""
        if isinstance(slot, Tensor):
            return slot
        if isinstance(slot, Complex):
            raise UnsupportedOp(f"{self.target.label} has no tensor of complex numbers that were computed")
        tensor = getattr(slot, "tensor", None)
        # An empty list has no tensor: a shapeless one stands in for its type.
        return tensor or self.builder.TENSOR("", None, getattr(slot, "element", slot.dtype), np.zeros(0))

    def _by_rule_or_parts(self, node: Node) -> tuple[Any, ...]:
        """By the target's own rule; where there is none, or it refuses, as simpler ops."""
        if decomposing.find(node.op) is None:
            return super()._apply(node)
        refusal: UnsupportedOp | None = None
        if rules.find(node.op, self.target.name) is not None:
            mark = self.mark()
            try:
                return super()._apply(node)
            except UnsupportedOp as error:
                self.undo(mark)
                refusal = error
        slots = [self.tensor_of(self.operand(node, v)) for v in node.inputs]
        self.builder.begin(node)
        try:
            # Formulas may leave out what nobody reads.
            read = {v.port for v in node.outputs if v.uses or v.is_graph_output or v in self.wanted}
            function, ports = decomposing.decomposition_of(
                node, *self.described(slots), self.builder.INDEX, read
            )
            start = len(self.builder.operators)
            given = dict(zip(ports, self.inlined(function, slots), strict=True))
        except UnsupportedOp as error:
            # The target's own refusal says more to the user than that of a decomposition.
            raise refusal or error from error
        results = tuple(given.get(port) for port in range(max(ports, default=0) + 1))
        self._claim(node, start, results)
        return results

    def _of_complex(self, node: Node) -> tuple[Any, ...]:
        """By the target's own operators of complex numbers, if it has them and they go on; else by parts."""
        slots = [self.read(v) for v in node.inputs]
        refusal: UnsupportedOp | None = None
        if self.has_complex and not any(isinstance(slot, Complex) for slot in slots):
            mark = self.mark()
            try:
                return self._by_rule_or_parts(node)
            except UnsupportedOp as error:
                self.undo(mark)
                refusal = error
        if has(node.op, Trait.PASSES_THROUGH):
            return (slots[0],)
        self.builder.begin(node)
        try:
            if not complexes.has_form(node.op):
                problem = f"{self.target.label} has no form of {node.op} of complex numbers"
                raise UnsupportedOp(problem, node.where)
            return self._by_parts(node, slots)
        except UnsupportedOp as error:
            raise refusal or error from error

    def _by_parts(self, node: Node, slots: Sequence[S]) -> tuple[Any, ...]:
        """The outputs of a node of complex numbers, from the parts of its inputs."""
        operands = [
            [both.real, both.imag]
            if (both := self.parts(slot)) is not None
            else [self.tensor_of(self.operand(node, value))]
            for slot, value in zip(slots, node.inputs, strict=True)
        ]
        self.builder.begin(node)
        flat = [t for operand in operands for t in operand]
        pairs = [len(operand) == 2 for operand in operands]
        function, are_complex = complexes.decomposition_of(
            node, pairs, *self.described(flat), self.builder.INDEX
        )
        start = len(self.builder.operators)
        parts: Iterator[Any] = iter(self.inlined(function, flat))
        results = tuple(Complex(next(parts), next(parts)) if both else next(parts) for both in are_complex)
        self._claim(node, start, results)
        return results

    def parts(self, slot: Any) -> Complex[Any] | None:
        """The parts of what stands for a complex value; None for other values.

        Raises:
            UnsupportedOp: it is complex, and computed in another way.
        """
        if isinstance(slot, Complex) or getattr(slot, "dtype", BOOL).kind != "c":
            return slot if isinstance(slot, Complex) else None
        if not slot.is_constant:
            raise UnsupportedOp(f"its operand has no {self.target.label} form")
        array, element = np.asarray(slot.array()), complexes.part_type(slot.dtype)
        real, imag = (
            self.builder.const(part.copy(), name, element)
            for part, name in ((array.real, "real"), (array.imag, "imag"))
        )
        return Complex(real, imag)

    def _claim(self, node: Node, start: int, results: Sequence[Any]) -> None:
        """Give a node's parts, the operators since `start`, its name: profiles and comparisons go by that."""
        builder = self.builder
        made = set()
        for operator in builder.operators[start:]:
            operator.origin = node.name
            made.update(operator.outputs)
        builder.origin.update(dict.fromkeys(made, node.name))
        # A result that came in as an operand keeps its name.
        for port, tensor in enumerate(results):
            if tensor in made:
                made.remove(tensor)
                tensor.name = builder.unique(node.output(port).name)
                builder.origin[tensor] = node.output(port).name

    def described(self, slots: Sequence[S]) -> tuple[list[TensorSpec], dict[int, Array]]:
        """Types and shapes of values, and the elements of those that are constant, by their numbers."""
        specs = [self.builder.tensor_spec(t) for t in slots]
        constants = {n: t.array() for n, t in enumerate(slots) if isinstance(t, Tensor) and t.is_constant}
        return specs, constants
