"""A subgraph with its edges in both directions, and what fusion asks of operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from thinflow.ir.types import FLOAT, INT32
from thinflow.lower.tflite.program import Operator, Subgraph, Tensor
from thinflow.typing import Array


class Wiring:
    """A subgraph with its edges in both directions, kept right while operators are rewired."""

    def __init__(self, subgraph: Subgraph) -> None:
        self.subgraph = subgraph
        self.changes = 0
        self._producers = subgraph.producers()
        self._readers: dict[Tensor, list[Operator]] = {}
        for operator in subgraph.operators:
            for tensor in operator.inputs:
                if tensor is not None:
                    self._readers.setdefault(tensor, []).append(operator)
        self._wanted = Counter(subgraph.outputs)
        self._gone: set[Operator] = set()

    def producer(self, tensor: Tensor | None) -> Operator | None:
        """Who writes a tensor; None for inputs and constants."""
        return self._producers.get(tensor) if tensor is not None else None

    def is_read_once(self, tensor: Tensor) -> bool:
        """Whether exactly one operator input reads it and nobody outside does."""
        return len(self._readers.get(tensor, ())) == 1 and not self._wanted[tensor]

    def sole_producer(self, tensor: Tensor | None, *codes: str) -> Operator | None:
        """The producer, if it is one of these ops and nobody else reads the tensor."""
        producer = self.producer(tensor)
        if producer is None or tensor is None or producer.code not in codes or len(producer.outputs) != 1:
            return None
        return producer if self.is_read_once(tensor) else None

    def set_input(self, operator: Operator, number: int, tensor: Tensor | None) -> None:
        """Let an operator read another tensor; the list of inputs grows if need be."""
        while len(operator.inputs) <= number:
            operator.inputs.append(None)
        old = operator.inputs[number]
        if old is not None:
            self._readers[old].remove(operator)
        operator.inputs[number] = tensor
        if tensor is not None:
            self._readers.setdefault(tensor, []).append(operator)
        self.changes += 1

    def bypass(self, operator: Operator, source: Tensor) -> None:
        """Take out an operator with one output; whoever read that reads `source` instead."""
        output = operator.outputs[0]
        for reader in list(self._readers.get(output, ())):
            for number, tensor in enumerate(reader.inputs):
                if tensor is output:
                    self.set_input(reader, number, source)
        self.subgraph.outputs = [source if t is output else t for t in self.subgraph.outputs]
        self._wanted = Counter(self.subgraph.outputs)
        self._remove(operator)

    def absorb(self, operator: Operator, into: Operator) -> None:
        """Take out an operator; the one before it writes its output from now on."""
        self._remove(operator)
        for old in into.outputs:
            self._producers.pop(old, None)
        into.outputs = list(operator.outputs)
        self._producers[into.outputs[0]] = into

    def become(self, operator: Operator, code: str, x: Tensor) -> None:
        """Turn an operator into one of one operand; what it read before goes when nobody else reads it."""
        operator.code, operator.options = code, {}
        for number in range(1, len(operator.inputs)):
            self.set_input(operator, number, None)
        self.set_input(operator, 0, x)
        operator.inputs = operator.inputs[:1]

    def _remove(self, operator: Operator) -> None:
        for tensor in operator.inputs:
            if tensor is not None:
                self._readers[tensor].remove(operator)
        for tensor in operator.outputs:
            self._producers.pop(tensor, None)
        operator.inputs = []
        self._gone.add(operator)
        self.changes += 1

    def is_gone(self, operator: Operator) -> bool:
        return operator in self._gone

    def finish(self) -> None:
        """Drop what was taken out from the list of operators."""
        self.subgraph.operators = [o for o in self.subgraph.operators if o not in self._gone]


Rule = Callable[[Wiring, Operator], None]


def activation(operator: Operator) -> str:
    return str(operator.options.get("fused_activation_function", "NONE"))


def with_constant(operator: Operator) -> tuple[Tensor | None, Array | None]:
    """The computed and the constant operand of a binary operator, in either order."""
    x, y = operator.inputs
    if x is not None and x.is_constant:
        x, y = y, x
    if x is None or y is None or x.is_constant or not y.is_constant:
        return None, None
    return x, np.asarray(y.array())


def new_constant(name: str, array: Array) -> Tensor:
    array = np.asarray(array, array.dtype)
    return Tensor(name, tuple(array.shape), INT32 if array.dtype == np.int32 else FLOAT, array)


def keeps_shape(x: Tensor, constant: Array) -> bool:
    """Whether broadcasting x against the constant gives x's shape, whatever the unknown sizes are."""
    if x.shape is None or constant.ndim > len(x.shape):
        return False
    tail = x.shape[len(x.shape) - constant.ndim :]
    return all(c == 1 or c == n for c, n in zip(constant.shape, tail, strict=True))


def is_number(constant: Array, number: float) -> bool:
    return constant.size == 1 and abs(float(constant.reshape(())) - number) < 1e-4
