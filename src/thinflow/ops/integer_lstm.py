"""LiteRT's integer LSTM: codes in, codes out, gates of 16 bits."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thinflow.ir.types import DType, TensorSpec, dtype
from thinflow.ops._fixed_point import (
    inverse_root,
    saturated,
    scaled,
    shifted,
    sigmoid_table,
    tanh_table,
    wrapped,
)
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.typing import Array

INT8: DType = dtype("int8")
INT16: DType = dtype("int16")
ARRAYS, NUMBERS = 7, 9
"""Of a gate: input weights, recurrent weights, their biases, peephole, norm, its bias; and pairs of factors
for input, recurrent, peephole and norm, and the least variance."""
GATE_BITS = 3
"""Integer bits of the input of a gate's activation."""


class _Gate:
    """One gate: its `ARRAYS`, empty for what it does without, and its `NUMBERS`."""

    def __init__(self, arrays: Sequence[Array], factors: Sequence[int]) -> None:
        self.weights, self.recurrent, self.bias, self.recurrent_bias = arrays[:4]
        self.peephole, self.norm, self.norm_bias = arrays[4:]
        self.factors = factors

    def sums(self, x: Array, h: Array, cell: Array) -> Array:
        """Input of the gate's activation, of 16 bits. [batch,units]"""
        # Sums wrap in 32 bits and are then scaled and saturated one by one: LiteRT's order, on which the last
        # bits hang.
        total = saturated(scaled(wrapped(_product(x, self.weights) + self.bias, 32), *self.factors[:2]), 16)
        sums = wrapped(_product(h, self.recurrent) + self.recurrent_bias, 32)
        more = scaled(sums, *self.factors[2:4])
        total = saturated(total + more, 16)
        if self.peephole.size:
            total = saturated(total + scaled(self.peephole * cell, *self.factors[4:6]), 16)
        return np.stack([self._normalized(row) for row in total]) if self.norm.size else total

    def _normalized(self, row: Array) -> Array:
        """A row less its mean and over its deviation, with weights and bias."""
        count = row.size
        # 10 fractional bits. 2^20 // count is exact only for powers of two; LiteRT divides that early, too.
        mean = _cut(int(row.sum()) * 1024, count)
        variance = _cut(int((row * row).sum()) * ((1 << 20) // count) - mean * mean, 1 << 20)
        rescaled = scaled(1024 * row - mean, *inverse_root(variance if variance >= 1 else self.factors[8]))
        weighted = wrapped(rescaled * self.norm + self.norm_bias, 32)
        # Halves away from zero, then cut: C's integer division.
        rounded = np.where(weighted > 0, (weighted + 512) // 1024, -((512 - weighted) // 1024))
        # LiteRT adds the 12 to the shift that the model brings.
        return saturated(scaled(rounded, self.factors[6], self.factors[7] + 12), 16)


def _product(x: Array, w: Array) -> Array:
    """x w^T, through numpy's fast product of doubles: exact, as no sum of codes reaches 2^53."""
    y: Array = x.astype(np.float64) @ w.T.astype(np.float64)
    return y.astype(np.int64)


def _cut(a: int, b: int) -> int:
    """a / b in 32 bits, cut off towards zero."""
    return int(wrapped(np.array(a // b if a >= 0 else -(-a // b)), 32))


@op("LiteRTIntegerLSTM")
class LiteRTIntegerLSTM(OpDef):
    """LiteRT's LSTM of eight-bit codes, bit by bit.

    x [time,batch,inputs] int8, h [batch,outputs] int8, cell [batch,units] int16, then arrays of each gate and
    the weights and bias of a projection -> y [time,batch,outputs] int8, h, cell after the last step.

    Attributes:
        gates: letters among i, f, g, o, in the order of the arrays; without i it is 1 - f.
        factors: `NUMBERS` of each gate.
        ends: factor pair of the hidden state and its zero point, those of the projection, integer bits of the
            cell, limits of cell and projection (0 for none).
        time_major: whether steps come first in x and y; else [batch,time,...].
        scales, zeros: those of a LiteRT file from which the factors follow, as its lifting rule orders them;
            only for writing such a file.
    """

    num_outputs = 3

    @staticmethod
    def infer(x: TensorSpec, h: TensorSpec, cell: TensorSpec, *arrays: TensorSpec) -> tuple[TensorSpec, ...]:
        last = h.shape[-1:] if h.shape else (None,)
        shape = (*x.shape[:2], *last) if x.shape and len(x.shape) == 3 else None
        return TensorSpec(INT8, shape), TensorSpec(INT8, h.shape), TensorSpec(INT16, cell.shape)

    @staticmethod
    def kernel(
        x: Array,
        h: Array,
        cell: Array,
        *arrays: Array,
        gates: str = "ifgo",
        factors: tuple[int, ...] = (),
        ends: tuple[int, ...] = (),
        time_major: bool = True,
        scales: tuple[float, ...] = (),
        zeros: tuple[int, ...] = (),
    ) -> tuple[Array, Array, Array]:
        del scales, zeros  # of the file: factors and arrays say all that is computed
        require(len(arrays) == ARRAYS * len(gates) + 2, "the arrays of its gates are not complete")
        wide = [a.astype(np.int64) for a in arrays]
        made = {
            letter: _Gate(wide[ARRAYS * n : ARRAYS * (n + 1)], factors[NUMBERS * n : NUMBERS * (n + 1)])
            for n, letter in enumerate(gates)
        }
        # int64 throughout: products of 32 and 31 bits must not wrap before they are scaled.
        state, memory = h.astype(np.int64), cell.astype(np.int64)
        steps = []
        axis = 0 if time_major else 1
        for row in np.moveaxis(x, axis, 0).astype(np.int64):
            state, memory = _step(row, state, memory, made, wide[-2:], ends)
            steps.append(state)
        y = np.stack(steps, axis) if steps else np.zeros(np.insert(h.shape, axis, 0))
        return y.astype(np.int8), state.astype(np.int8), memory.astype(np.int16)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, h: TensorSpec, cell: TensorSpec, *arrays: TensorSpec) -> Cost:
        places = math.prod(n or 0 for n in (x.shape or ())[:2])
        macs = places * sum(a.size or 0 for a in arrays if a.shape and len(a.shape) == 2)
        return Cost(2 * macs, macs)


def _step(
    x: Array, h: Array, cell: Array, gates: dict[str, _Gate], projection: Sequence[Array], ends: Sequence[int]
) -> tuple[Array, Array]:
    """The states after one step."""
    (*hidden, hidden_zero, m, shift, zero, cell_bits, cell_limit, limit) = ends
    f = _bent(sigmoid_table(), gates["f"].sums(x, h, cell))
    g = _bent(tanh_table(GATE_BITS), gates["g"].sums(x, h, cell))
    # Coupled gates (CIFG): the input gate is 1 - f, 1 being the largest of 15 fractional bits.
    i = _bent(sigmoid_table(), gates["i"].sums(x, h, cell)) if "i" in gates else (1 << 15) - 1 - f
    # f and i, g have 15 fractional bits, the cell 15 - cell_bits: shifts by 15 and 30 - (15 - cell_bits).
    cell = saturated(shifted(f * cell, 15) + wrapped(shifted(i * g, 15 + cell_bits), 16), 16)
    if cell_limit > 0:
        cell = cell.clip(-cell_limit, cell_limit)
    o = _bent(sigmoid_table(), gates["o"].sums(x, h, cell))
    h = saturated(scaled(o * _bent(tanh_table(cell_bits), cell), *hidden) + hidden_zero, 8)
    weights, bias = projection
    if weights.size:
        h = saturated(scaled(wrapped(_product(h, weights) + bias, 32), m, shift) + zero, 8)
        h = h.clip(-limit, limit) if limit > 0 else h
    return h, cell


def _bent(table: Array, x: Array) -> Array:
    """An activation of 16 bits."""
    # The table starts at the lowest of 16 bits.
    y: Array = table[x + (1 << 15)]
    return y
