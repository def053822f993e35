"""A block with its edges in both directions, kept right while operators are rewired."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Generic

import numpy as np

from thinflow.ir.types import Shape
from thinflow.program.model import Block, O, Operator, T, Tensor, in_running_order
from thinflow.typing import Array


class Wiring(Generic[T, O]):
    """A block with its edges in both directions. `finish` writes the changes back.

    Attributes:
        changes: how many edits have been made.
    """

    def __init__(self, block: Block[T, O]) -> None:
        self.block = block
        self.changes = 0
        self._producers = block.producers()
        self._readers: dict[T, list[O]] = {}
        for operator in block.operators:
            for tensor in operator.reads():
                self._readers.setdefault(tensor, []).append(operator)
        # Counted, as one tensor may be several outputs.
        self._wanted = Counter(block.outputs)
        self._gone: set[O] = set()
        self._added: list[O] = []

    # --- what is there ------------------------------------------------------------------------------------

    def producer(self, tensor: T | None, *codes: str) -> O | None:
        """The writer of a tensor, if it is one of these ops or none are named; None for inputs, constants."""
        found = None if tensor is None else self._producers.get(tensor)
        return found if found is not None and (not codes or found.code in codes) else None

    def readers(self, tensor: T) -> list[O]:
        """The readers of a tensor, once per reading input."""
        return list(self._readers.get(tensor, ()))

    def is_wanted(self, tensor: T) -> bool:
        """True if it is an output of the block."""
        return bool(self._wanted[tensor])

    def is_read_once(self, tensor: T) -> bool:
        """True if exactly one operator input reads it and nobody outside does."""
        return len(self._readers.get(tensor, ())) == 1 and not self._wanted[tensor]

    def sole_producer(self, tensor: T | None, *codes: str) -> O | None:
        """The producer, if it is one of these ops with one output that nobody else reads."""
        found = self.producer(tensor, *codes)
        if found is None or tensor is None or len(found.outputs) != 1 or not self.is_read_once(tensor):
            return None
        return found

    def is_gone(self, operator: O) -> bool:
        """True if an operator has been taken out."""
        return operator in self._gone

    # --- changes ------------------------------------------------------------------------------------------

    def set_inputs(self, operator: O, inputs: Sequence[T | None]) -> None:
        """Let an operator read other tensors."""
        for tensor in operator.reads():
            self._readers[tensor].remove(operator)
        operator.inputs = list(inputs)
        for tensor in operator.reads():
            self._readers.setdefault(tensor, []).append(operator)
        self.changes += 1

    def set_input(self, operator: O, number: int, tensor: T | None) -> None:
        """Let an operator read another tensor; the list of inputs grows if need be."""
        # Optional inputs at the end may be missing from the list.
        inputs = [*operator.inputs, *[None] * (number + 1 - len(operator.inputs))]
        inputs[number] = tensor
        self.set_inputs(operator, inputs)

    def set_output(self, operator: O, number: int, tensor: T) -> None:
        """Let an operator write another tensor."""
        # Readers of the old tensor stay as they are, without a producer, until the caller gives it another.
        self._producers.pop(operator.outputs[number], None)
        operator.outputs[number] = tensor
        self._producers[tensor] = operator
        self.changes += 1

    def replace(self, old: T, new: T) -> None:
        """Whoever reads `old`, outside too, reads `new` instead."""
        # Each reader once, though it may read the tensor by several inputs: all of them change together.
        for reader in dict.fromkeys(self._readers.get(old, ())):
            self.set_inputs(reader, [new if t is old else t for t in reader.inputs])
        if self._wanted[old]:
            self.block.outputs = [new if t is old else t for t in self.block.outputs]
            self._wanted = Counter(self.block.outputs)

    def become(self, operator: O, code: str, *inputs: T | None, **options: Any) -> None:
        """Turn an operator into another one that writes the same."""
        operator.code, operator.options = code, options
        self.set_inputs(operator, inputs)

    def add(self, like: O, code: str, inputs: Sequence[T | None], output: T, **options: Any) -> T:
        """A new operator for the source node of another; `finish` puts it where it can run. Its output."""
        operator = type(like)(code, [], [output], options, like.origin)
        self._added.append(operator)
        self._producers[output] = operator
        self.set_inputs(operator, inputs)
        return output

    def bypass(self, operator: O, source: T) -> None:
        """Take out an operator with one output; whoever read that reads `source` instead."""
        self.replace(operator.outputs[0], source)
        self.remove(operator)

    def absorb(self, operator: O, into: O) -> None:
        """Take out an operator; the one before it writes its output from now on."""
        self.remove(operator)
        self.set_output(into, 0, operator.outputs[0])

    def remove(self, operator: O) -> None:
        """Take out an operator nobody reads any more."""
        self.set_inputs(operator, [])
        for tensor in operator.outputs:
            # Another operator may write it by now; see `absorb`.
            if self._producers.get(tensor) is operator:
                del self._producers[tensor]
        self._gone.add(operator)

    def finish(self) -> None:
        """Write the operators back: without what was taken out, with what was added, in running order."""
        # New operators are put behind all others, and sorted to where their inputs exist.
        left = [o for o in (*self.block.operators, *self._added) if o not in self._gone]
        self.block.operators = in_running_order(left)
        self._added = []


# --- questions that fusion asks ---------------------------------------------------------------------------


def with_constant(operator: Operator[T]) -> tuple[T | None, Array | None]:
    """The computed and the constant operand of a binary operator, in either order."""
    x, y = operator.inputs
    if x is not None and x.is_constant:
        # Only for operations that do not mind; the caller sees to that.
        x, y = y, x
    if x is None or y is None or x.is_constant or not y.is_constant:
        return None, None
    return x, y.array()


def constant_of(tensor: Tensor | None) -> Array | None:
    """The elements of a constant, None for anything else."""
    return tensor.array() if tensor is not None and tensor.is_constant else None


def keeps_shape(x: Tensor, constant: Array) -> bool:
    """True if broadcasting x against the constant gives x's shape, whatever the unknown sizes are."""
    if x.shape is None or constant.ndim > len(x.shape):
        return False
    tail = x.shape[len(x.shape) - constant.ndim :]
    # An open size (None) equals no size: it may turn out to be 1, and the constant would spread it.
    return all(c == 1 or c == n for c, n in zip(constant.shape, tail, strict=True))


def trailing_row(constant: Array, shape: Shape, channels: int) -> Array | None:
    """[channels]: what a constant operand adds to, or multiplies, each channel of a tensor of some shape.

    The channels may have become several of the last axes, as they do when heads are split. None if the
    constant differs along anything else, or if its operand grows by it.
    """
    if shape is None or constant.ndim > len(shape):
        return None
    sizes = (1,) * (len(shape) - constant.ndim) + constant.shape
    if constant.size == 1:
        return np.full(channels, constant.reshape(()), constant.dtype)
    for first in range(len(shape) - 1, -1, -1):
        last = shape[first:]
        if None in last:
            return None
        if math.prod(n or 0 for n in last) == channels:
            row = constant.reshape(sizes[first:]) if all(n == 1 for n in sizes[:first]) else None
            fits = row is not None and all(c in (1, n) for c, n in zip(row.shape, last, strict=True))
            if row is None or not fits:
                return None
            return np.ascontiguousarray(np.broadcast_to(row, [n or 0 for n in last])).reshape(-1)
    return None


def is_number(constant: Array, number: float) -> bool:
    """True if a constant is one number, to four digits behind the point."""
    # Constants of formulas (1/6, sqrt(2/pi)) were rounded by whoever wrote them, in float32 or in a text.
    return constant.size == 1 and abs(float(np.reshape(constant, ())) - number) < 1e-4
