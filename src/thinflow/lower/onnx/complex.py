"""Complex numbers that go into a program or out of it: with a last axis of two, as ONNX's own DFT has it.

Inside, a complex value is two tensors: ONNX Runtime does not compute with complex numbers.
"""

from __future__ import annotations

from typing import Any

from thinflow.ir.graph import Value
from thinflow.lower.onnx.builder import Builder, shape_of
from thinflow.lower.onnx.terms import Term
from thinflow.lower.slots import Complex
from thinflow.onnx.program import Tensor


def taken_apart(b: Builder, value: Value, slot: Any) -> Any:
    """A complex value that came in as [...,2], as two tensors; anything else as it is."""
    if not isinstance(slot, Tensor) or slot.is_constant or slot not in b.pairs:
        return slot
    b.begin(value.node)
    return parted(b, slot)


def parted(b: Builder, pair: Tensor) -> Complex[Tensor]:
    """Complex numbers [...,2] as two tensors."""
    rank = len(shape_of(pair)) - 1
    # Gather by a number takes the axis away.
    return Complex(*(Term(b, pair).gathered(b.int64(n), rank).tensor for n in (0, 1)))


def put_together(b: Builder, value: Value, slot: Complex[Tensor]) -> Tensor:
    """A complex value as a tensor [...,2] with its name."""
    pair = paired(b, slot)
    pair.name = b.unique(value.name)
    return pair


def paired(b: Builder, slot: Complex[Tensor]) -> Tensor:
    """Complex numbers as a tensor [...,2]."""
    rank = len(shape_of(slot.real, "a complex value that is handed on"))
    columns = [b.unsqueezed(t, [rank]) for t in (slot.real, slot.imag)]
    return b.step("Concat", *columns, shape=(*shape_of(slot.real), 2), axis=rank)
