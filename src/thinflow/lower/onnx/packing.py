"""Packed sequences: the steps that a recurrent op sees, and its outputs as those of a loop.

A loop runs `limit` iterations. A sequence of the batch may end before, or leave steps out: then its state
stays, and what it hands out stays as well or is zero. The ops know lengths only, so steps that are left out
go behind the others, and each output is put where its step was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.ir.types import INT32, INT64
from thinflow.lower.cell_sums import NoCell
from thinflow.lower.onnx.builder import Builder
from thinflow.lower.onnx.cell_steps import Condition
from thinflow.onnx.program import Operator, Tensor


@dataclass
class Packed:
    """The operands of the recurrent ops of a loop.

    Attributes:
        limit: how many iterations, int64 [].
        steps: how many there are, if that is fixed.
        lengths: int32 [batch]; None if all sequences go on to the end.
        is_cut: whether only the first `limit` steps of what is longer are given.
        is_padded: whether one step of zeros stands for none at all.
        order: which step is given at which place, int64 [steps,batch]; None for their own order.
        counted: at each step, how many have been done, int64 [steps,batch], where `order` is.
        mask: bool [steps,batch], where `order` is.
    """

    b: Builder
    limit: Tensor
    steps: int | None
    lengths: Tensor | None = None
    is_cut: bool = False
    is_padded: bool = False
    order: Tensor | None = None
    counted: Tensor | None = None
    mask: Tensor | None = None

    def sequence(self, x: Tensor) -> Tensor:
        """The operand for a sequence [steps,batch,inputs]."""
        b = self.b
        x = self.cut(x)
        if self.order is not None:
            # The ops know lengths only: steps that count go first.
            x = self._gathered(x, self.order)
        if not self.is_padded:
            return x
        # One step of zeros if limit is 0, none else: GRU and RNN end the process for no steps.
        missing = b.step("Max", b.step("Sub", b.int64(1), self.limit), b.int64(0))
        pads = b.joined(b.ints([0, 0, 0]), b.reshaped(missing, (1,)), b.ints([0, 0]))
        return b.step("Pad", x, pads, shape=(None, *(x.shape or ())[1:]), mode="constant")

    def cut(self, x: Tensor) -> Tensor:
        """The steps of x [steps,...] that the loop runs for."""
        if not self.is_cut:
            return x
        count = int(self.limit.array()) if self.limit.is_constant else None
        ends = self.b.reshaped(self.limit, (1,))
        begin, axes = self.b.ints([0]), self.b.ints([0])
        return self.b.step("Slice", x, begin, ends, axes, shape=(count, *(x.shape or ())[1:]))

    def ended(self, end: Tensor, first: Tensor) -> Tensor:
        """The last state [batch,units]: the first one where there has been no step."""
        is_open = self.lengths is None and not self.limit.is_constant
        if self.lengths is None and not is_open:
            return end
        # The op's state of a sequence of length 0 is zeros.
        if is_zero(self.b, first) and (self.lengths is not None or not self.is_padded):
            return end
        return self._chosen(self._any_step(), end, first)

    def _any_step(self) -> Tensor:
        b = self.b
        if self.lengths is None:
            return b.step("Greater", self.limit, b.int64(0), shape=())
        done = b.step("Greater", self.lengths, b.const(np.int32(0)))
        return b.unsqueezed(done, [1])

    def _chosen(self, condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
        return self.b.step("Where", condition, yes, no, shape=yes.shape, element=yes.dtype)

    # --- what is handed out ---------------------------------------------------------------------------------

    def rows(self, rows: Tensor, held: Tensor | None, filled: Tensor) -> Tensor:
        """The result of each iteration [iterations,batch,units].

        Args:
            rows: of the op.
            held: what stands there before the first step that counts [batch,units]; None for zeros.
            filled: the list that the rows go into; all of it may be given.
        """
        count = (filled.shape or (None,))[0]
        # A list of zeros as long as the sequence: what the iterations do not reach is zeros either way.
        is_whole = count is not None and count == self.steps and is_zero(self.b, filled)
        is_exact = self.is_cut or self.limit.is_constant or is_whole
        if self.is_padded or not is_exact:
            rows = self._first_turns(rows)
        if self.order is None:
            if held is not None and self.lengths is not None:
                raise NoCell("what it hands out stays when a sequence has ended")
            return rows
        assert self.mask is not None
        assert self.counted is not None
        b = self.b
        if held is None:
            done, other = self.mask, b.scalar(0, rows, "zero")
        else:
            done, other = b.step("Greater", self.counted, b.int64(0)), held
        # The row of the last step that counted: what was handed out stays until the next one.
        places = b.step("Max", b.step("Sub", self.counted, b.int64(1)), b.int64(0))
        return self._chosen(b.unsqueezed(done, [2]), self._gathered(rows, places), other)

    def _first_turns(self, rows: Tensor) -> Tensor:
        b = self.b
        ends = b.reshaped(self.limit, (1,))
        return b.step("Slice", rows, b.ints([0]), ends, b.ints([0]), shape=(None, *(rows.shape or ())[1:]))

    def last(self, last: Tensor, held: Tensor | None, *, is_zeroed: bool) -> Tensor:
        """The result of the last iteration [batch,units]."""
        b = self.b
        if self.lengths is None:
            return last
        if not is_zeroed:
            assert held is not None
            return self._chosen(self._any_step(), last, held)
        if self.mask is not None:
            at_end = b.step("Gather", self.mask, b.int64(-1), shape=(self.mask.shape or ())[1:], axis=0)
        else:
            at_end = b.step("GreaterOrEqual", b.index(self.lengths), self.limit, shape=self.lengths.shape)
        return self._chosen(b.unsqueezed(at_end, [1]), last, b.scalar(0, last, "zero"))

    def _gathered(self, x: Tensor, places: Tensor) -> Tensor:
        """x [steps,batch,n] with the steps that `places` [steps,batch] says for each sequence."""
        b = self.b
        sizes = b.joined(b.ints([1, 1]), b.ints([(x.shape or (0,))[-1] or 0]))
        # GatherElements takes an index for each element: that of a step is spread over its units.
        index = b.step(
            "Expand", b.unsqueezed(places, [2]), sizes, shape=(*(places.shape or ()), (x.shape or ())[-1])
        )
        return b.step("GatherElements", x, index, shape=x.shape, axis=0)


def packed(
    b: Builder, limit: Tensor, condition: Condition | None, sequences: Sequence[Tensor], *, needs_step: bool
) -> Packed:
    """The operands of recurrent ops.

    Args:
        sequences: [steps,batch,inputs] each.
        needs_step: whether there must be one at least.

    Raises:
        NoCell: the loop reads beyond a sequence.
    """
    counts = {(x.shape or (None,))[0] for x in sequences}
    steps = counts.pop() if len(counts) == 1 else None
    span = Packed(b, limit, steps)
    if limit.is_constant:
        count = int(limit.array())
        if steps is None or count > steps:
            raise NoCell(f"it iterates {count} times over a sequence of {'?' if steps is None else steps}")
        span.is_cut = count < steps
    elif condition is None or condition.lengths is None or not steps:
        span.is_cut, span.is_padded = True, needs_step
    if condition is None:
        return span
    if condition.lengths is not None:
        # Clamped to what the loop does: it ends after `limit` iterations, and a length below 0 is none.
        known = b.step("Min", b.index(condition.lengths), limit, shape=condition.lengths.shape)
        span.lengths = b.cast(b.step("Max", known, b.int64(0), shape=known.shape), INT32)
    else:
        assert condition.mask is not None
        _order(span, condition.mask)
    return span


def _order(span: Packed, mask: Tensor) -> None:
    """Steps where the mask is true first, the others behind them, both in their order."""
    b = span.b
    mask = span.cut(b.squeezed(mask, [2]) if len(mask.shape or ()) == 3 else mask)
    batch = (mask.shape or (None, None))[1]
    live = b.cast(mask, INT64)
    counted = _running(b, live)
    idle = _running(b, b.step("Sub", b.int64(1), live, shape=mask.shape))
    total = b.reduce("ReduceSum", live, [0])
    # A step that counts goes to (steps that count up to it) - 1, another to (all that count + others up to
    # it) - 1.
    behind = b.step("Add", total, idle, shape=mask.shape)
    places = b.step(
        "Sub", b.step("Where", mask, counted, behind, shape=mask.shape, element=INT64), b.int64(1)
    )
    count = b.sliced(b.sizes_of(mask), [0], [1], [0], shape=(1,))
    numbers = b.step("Range", b.int64(0), b.reshaped(count, ()), b.int64(1), shape=(span.steps,))
    spread = b.step("Expand", b.unsqueezed(numbers, [1]), b.sizes_of(mask), shape=mask.shape)
    # places says where each step goes; scattering the numbers of steps there says which one stands at each
    # place.
    span.order = b.step("ScatterElements", spread, places, spread, shape=mask.shape, axis=0)
    span.counted, span.mask = counted, mask
    span.lengths = b.cast(total, INT32)
    span.lengths.shape = (batch,)


def is_zero(b: Builder, tensor: Tensor) -> bool:
    """True if all elements are known to be zero."""
    if tensor.is_constant:
        return not np.any(tensor.array())
    return is_zeros(b.producer(tensor, "ConstantOfShape"))


def is_zeros(maker: Operator | None) -> bool:
    """True if an operator makes zeros."""
    value = maker.options.get("value") if maker is not None and maker.code == "ConstantOfShape" else None
    return isinstance(value, Tensor) and not np.any(value.array())


def _running(b: Builder, x: Tensor) -> Tensor:
    return b.step("CumSum", x, b.int64(0), shape=x.shape)
