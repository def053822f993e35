"""A program with its edges in both directions, kept right while operators are rewired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from thinflow.ir.types import INT64, DType
from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.typing import Array


class Wiring:
    """A program with its edges in both directions.

    New operators go right before or behind others: `finish` puts the list into an order in which it can run.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.opset = program.opset
        self.changes = 0
        self._producers = {t: o for o in program.operators for t in o.outputs}
        self._readers: dict[Tensor, list[Operator]] = {}
        for operator in program.operators:
            for tensor in operator.inputs:
                if tensor is not None:
                    self._readers.setdefault(tensor, []).append(operator)
        self._wanted = Counter(program.outputs)
        self._gone: set[Operator] = set()
        self._added: list[Operator] = []

    def producer(self, tensor: Tensor | None, *codes: str) -> Operator | None:
        """Who writes a tensor, if it is one of these ops; None for inputs and constants."""
        found = None if tensor is None else self._producers.get(tensor)
        return found if found is not None and (not codes or found.code in codes) else None

    def readers(self, tensor: Tensor) -> list[Operator]:
        """Who reads a tensor, once per reading input."""
        return list(self._readers.get(tensor, ()))

    def is_wanted(self, tensor: Tensor) -> bool:
        """Whether it is an output of the program."""
        return bool(self._wanted[tensor])

    def is_read_once(self, tensor: Tensor) -> bool:
        """Whether exactly one operator input reads it and nobody outside does."""
        return len(self._readers.get(tensor, ())) == 1 and not self._wanted[tensor]

    def sole_producer(self, tensor: Tensor | None, *codes: str) -> Operator | None:
        """The producer, if it is one of these ops with one output that nobody else reads."""
        found = self.producer(tensor, *codes)
        if found is None or tensor is None or len(found.outputs) != 1 or not self.is_read_once(tensor):
            return None
        return found

    def set_inputs(self, operator: Operator, inputs: Sequence[Tensor | None]) -> None:
        """Let an operator read other tensors."""
        for tensor in operator.inputs:
            if tensor is not None:
                self._readers[tensor].remove(operator)
        operator.inputs = list(inputs)
        for tensor in operator.inputs:
            if tensor is not None:
                self._readers.setdefault(tensor, []).append(operator)
        self.changes += 1

    def set_input(self, operator: Operator, number: int, tensor: Tensor | None) -> None:
        """Let an operator read another tensor; the list of inputs grows if need be."""
        inputs = [*operator.inputs, *[None] * (number + 1 - len(operator.inputs))]
        inputs[number] = tensor
        self.set_inputs(operator, inputs)

    def replace(self, old: Tensor, new: Tensor) -> None:
        """Whoever reads `old`, outside too, reads `new` instead."""
        for reader in set(self._readers.get(old, ())):
            self.set_inputs(reader, [new if t is old else t for t in reader.inputs])
        if self._wanted[old]:
            self.program.outputs = [new if t is old else t for t in self.program.outputs]
            self._wanted = Counter(self.program.outputs)

    def set_output(self, operator: Operator, number: int, tensor: Tensor) -> None:
        """Let an operator write another tensor."""
        self._producers.pop(operator.outputs[number], None)
        operator.outputs[number] = tensor
        self._producers[tensor] = operator
        self.changes += 1

    def add(
        self, code: str, inputs: Sequence[Tensor | None], output: Tensor, origin: str, **options: Any
    ) -> Tensor:
        """A new operator; returns its output."""
        operator = Operator(code, [], [output], options, origin)
        self._added.append(operator)
        self._producers[output] = operator
        self.set_inputs(operator, inputs)
        return output

    def bypass(self, operator: Operator, source: Tensor) -> None:
        """Take out an operator with one output; whoever read that reads `source` instead."""
        self.replace(operator.outputs[0], source)
        self.remove(operator)

    def absorb(self, operator: Operator, into: Operator) -> None:
        """Take out an operator; the one before it writes its output from now on."""
        self.remove(operator)
        self.set_output(into, 0, operator.outputs[0])

    def remove(self, operator: Operator) -> None:
        """Take out an operator nobody reads any more."""
        self.set_inputs(operator, [])
        for tensor in operator.outputs:
            if self._producers.get(tensor) is operator:
                del self._producers[tensor]
        self._gone.add(operator)

    def is_gone(self, operator: Operator) -> bool:
        return operator in self._gone

    def finish(self) -> None:
        """Write the operators back: without what was taken out, with what was added, in running order."""
        left = [o for o in (*self.program.operators, *self._added) if o not in self._gone]
        self.program.operators = _sorted(left)
        self._added = []


def _sorted(operators: Sequence[Operator]) -> list[Operator]:
    """An order in which operators can run; those that already stand well stay in order."""
    producers = {t: o for o in operators for t in o.outputs}
    done: set[Operator] = set()
    order: list[Operator] = []
    for first in operators:
        stack = [first]
        while stack:
            operator = stack[-1]
            if operator in done:
                stack.pop()
                continue
            missing = [
                p
                for t in operator.inputs
                if t is not None and (p := producers.get(t)) is not None and p not in done
            ]
            if missing:
                stack.extend(missing)
            else:
                done.add(operator)
                order.append(operator)
                stack.pop()
    return order


Rule = Callable[[Wiring, Operator], None]


def constant_of(tensor: Tensor | None) -> Array | None:
    """The elements of a constant, None for anything else."""
    return tensor.data if tensor is not None else None


def with_constant(operator: Operator) -> tuple[Tensor | None, Array | None]:
    """The computed and the constant operand of a binary operator, in either order."""
    x, y = operator.inputs
    if x is not None and x.is_constant:
        x, y = y, x
    if x is None or y is None or x.is_constant or not y.is_constant:
        return None, None
    return x, y.array()


def new_constant(name: str, array: Array, element: DType = INT64) -> Tensor:
    return Tensor(name, tuple(array.shape), element, array)
