"""Complex numbers that go into a program or out of it: with a last axis of two, as ONNX's own DFT has it.

Inside, a complex value is two tensors: ONNX Runtime does not compute with complex numbers.
"""

from __future__ import annotations

from typing import Any

from thinflow.ir.graph import Value
from thinflow.lower.decomposing import Complex
from thinflow.lower.onnx.builder import Builder, shape_of
from thinflow.lower.onnx.terms import Term
from thinflow.onnx.program import Tensor


def taken_apart(b: Builder, value: Value, slot: Any) -> Any:
    """A complex value that came in as [...,2], as two tensors; anything else as it is."""
    if not isinstance(slot, Tensor) or slot.is_constant or slot not in b.pairs:
        return slot
    b.begin(value.node)
    rank = len(shape_of(slot)) - 1
    pair = Term(b, slot)
    # Gather by a number takes the axis away.
    return Complex(*(pair.gathered(b.int64(n), rank).tensor for n in (0, 1)))


def put_together(b: Builder, value: Value, slot: Complex) -> Tensor:
    """A complex value as a tensor [...,2] with its name."""
    rank = len(shape_of(slot.real, "a complex output"))
    columns = [b.unsqueezed(t, [rank]) for t in (slot.real, slot.imag)]
    shape = (*shape_of(slot.real), 2)
    pair = b.step("Concat", *columns, shape=shape, axis=rank)
    pair.name = b.unique(value.name)
    return pair
