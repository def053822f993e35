"""LiteRT's LSTM and SVDF of eight-bit codes in plain arithmetic of integers, bit by bit.

64 bits hold every product, so only the roundings of the kernels are left to be written: see
`ops/_fixed_point.py`, of which these are the same formulas on tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.decompose.loops import while_loop
from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Body, Term, concat, refuse_unless
from thinflow.ir.types import INT8, INT32, INT64, TensorSpec, dtype
from thinflow.ops._fixed_point import sigmoid_table, tanh_table
from thinflow.ops.integer_lstm import ARRAYS, GATE_BITS, NUMBERS
from thinflow.typing import Array

_INT16 = dtype("int16")
_WORD = 1 << 31
"""Sums are kept in 32 bits."""
_HALF = 1 << 15
"""One more than the largest number of 16 bits; where tables have their middle."""


# --- arithmetic of fixed point ------------------------------------------------------------------------------


def _floored(x: Term, exponent: int) -> Term:
    """The whole number below x / 2^exponent."""
    return x.apply("FloorDiv", 1 << exponent)


def _shifted(x: Term, exponent: int) -> Term:
    """x / 2^exponent, to the nearest, halves away from zero."""
    if not exponent:
        return x
    # Rounded down, a negative half has to begin one lower to end below.
    negative = (x < 0).cast(INT64)
    return _floored(x + (1 << (exponent - 1)) - negative, exponent)


def _wrapped(x: Term, bound: int) -> Term:
    """x as it is kept in 32 bits, where a number as large as the bound would not fit."""
    if bound < _WORD:
        return x
    return (x + _WORD).apply("FloorMod", 2 * _WORD) - _WORD


def _scaled(x: Term, factor: Sequence[int], bound: int) -> Term:
    """x times a multiplier and a shift, rounded twice; |x| is not above the bound."""
    multiplier, shift = factor
    left = max(shift, 0)
    wide = _wrapped(x * (1 << left), bound << left) if left else x
    # No multiplier is -2^31, so that twice the product fits.
    return _shifted(_floored(wide * multiplier + (1 << 30), 31), max(-shift, 0))


def _saturated(x: Term, bits: int) -> Term:
    return x.clip(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _bent(x: Term, table: Term) -> Term:
    """An activation of 16 bits; the table starts at the lowest of these."""
    return table.gather((x + _HALF).cast(INT32)).cast(INT64)


def _known(term: Term) -> Array:
    refuse_unless(term.known is not None, "its weights are computed while the model runs")
    assert term.known is not None
    return term.known.astype(np.int64)


@dataclass(frozen=True)
class _Sums:
    """Codes times a matrix [units,inputs], and a bias; scaled."""

    weights: Array
    bias: Array
    factor: Sequence[int]

    def of(self, x: Term) -> Term:
        matrix, bias = (x.body.constant(a, INT64) for a in (self.weights.T, self.bias))
        # 128 is the largest code.
        bound = int((128 * np.abs(self.weights).sum(axis=1) + np.abs(self.bias)).max(initial=0))
        sums = _wrapped(x.apply("BatchMatMulV2", matrix) + bias, bound)
        return _scaled(sums, self.factor, min(bound, _WORD))


# --- LSTM ---------------------------------------------------------------------------------------------------


class _Gate:
    """One gate: arrays and factors as the op has them."""

    def __init__(self, arrays: Sequence[Term], factors: Sequence[int]) -> None:
        w, r, bias, recurrent_bias, self.peephole, norm, _ = map(_known, arrays)
        refuse_unless(not norm.size, "there is no form of its layer norm in plain ops")
        self.inputs = _Sums(w, bias, factors[:2])
        self.recurrent = _Sums(r, recurrent_bias, factors[2:4])
        self.factor = factors[4:6]

    def sums(self, x: Term, h: Term, cell: Term) -> Term:
        """Input of the gate's activation, of the scaled sums of x."""
        total = _saturated(x + self.recurrent.of(h), 16)
        if self.peephole.size:
            products = cell * cell.body.constant(self.peephole, INT64)
            total = _saturated(total + _scaled(products, self.factor, _HALF * _HALF), 16)
        return total


@dataclass(frozen=True)
class _Cell:
    """The step of an LSTM; `ends` as the op has them."""

    gates: dict[str, _Gate]
    projection: _Sums | None
    ends: Sequence[int]

    def step(self, x: dict[str, Term], h: Term, cell: Term) -> tuple[Term, Term]:
        """The states after one step, from the scaled sums of each gate."""
        (*hidden, hidden_zero, _, _, zero, cell_bits, cell_limit, limit) = self.ends
        sigmoid, tanh = (_table(h.body, t) for t in (sigmoid_table(), tanh_table(GATE_BITS)))
        bend = tanh if cell_bits == GATE_BITS else _table(h.body, tanh_table(cell_bits))
        f = _bent(self.gates["f"].sums(x["f"], h, cell), sigmoid)
        g = _bent(self.gates["g"].sums(x["g"], h, cell), tanh)
        i = _bent(self.gates["i"].sums(x["i"], h, cell), sigmoid) if "i" in self.gates else _HALF - 1 - f
        # See `ops/integer_lstm.py` for what the shifts are.
        cell = _saturated(_shifted(f * cell, 15) + _shifted(i * g, 15 + cell_bits), 16)
        cell = cell.clip(-cell_limit, cell_limit) if cell_limit > 0 else cell
        o = _bent(self.gates["o"].sums(x["o"], h, cell), sigmoid)
        h = _saturated(_scaled(o * _bent(cell, bend), hidden, _HALF * _HALF) + hidden_zero, 8)
        if self.projection is not None:
            h = _saturated(self.projection.of(h) + zero, 8)
            h = h.clip(-limit, limit) if limit > 0 else h
        return h, cell


def _table(body: Body, numbers: Array) -> Term:
    return body.constant(numbers.astype(np.int16), _INT16)


@decompose("LiteRTIntegerLSTM")
def integer_lstm(
    x: Term,
    h: Term,
    cell: Term,
    *arrays: Term,
    gates: str = "ifgo",
    factors: Sequence[int] = (),
    ends: Sequence[int] = (),
    time_major: bool = True,
) -> tuple[Term, ...]:
    """A loop over the steps; what does not depend on the step before is computed for all at once."""
    refuse_unless(len(arrays) == ARRAYS * len(gates) + 2, "the arrays of its gates are not complete")
    own = {
        letter: _Gate(arrays[ARRAYS * n : ARRAYS * (n + 1)], factors[NUMBERS * n : NUMBERS * (n + 1)])
        for n, letter in enumerate(gates)
    }
    weights, bias = map(_known, arrays[-2:])
    cells = _Cell(own, _Sums(weights, bias, ends[3:5]) if weights.size else None, ends)
    x = (x if time_major else x.transpose((1, 0, 2))).cast(INT64)
    # Saturated before anything is added to it, as the kernel does.
    sums = [_saturated(gate.inputs.of(x), 16) for gate in own.values()]

    def step(time: Term, h: Term, cell: Term, *given: Term) -> tuple[list[Term], list[Term]]:
        row = {letter: s.gather(time) for letter, s in zip(own, given, strict=True)}
        h, cell = cells.step(row, h, cell)
        return [h, cell], [h.cast(INT8)]

    steps = x.shape[0]
    times = x.sizes().at(0, 0) if steps is None else steps
    first = [h.cast(INT64), cell.cast(INT64)]
    (last, kept), (y,), _ = while_loop(times, step, first, sums, [TensorSpec(INT8, h.shape)])
    return y if time_major else y.transpose((1, 0, 2)), last.cast(INT8), kept.cast(_INT16)


# --- SVDF ---------------------------------------------------------------------------------------------------


@decompose("LiteRTIntegerSVDF")
def integer_svdf(
    x: Term,
    features: Term,
    times: Term,
    bias: Term,
    state: Term,
    *,
    rank: int = 1,
    factors: Sequence[int] = (),
    zeros: Sequence[int] = (),
) -> tuple[Term, ...]:
    """Products with the newest features, which stand behind those of the steps before."""
    weights, memories = _known(features), _known(times)
    filters, memory = memories.shape
    # sum((x - zero) w) = sum(x w) - zero sum(w).
    offset = -zeros[0] * weights.sum(axis=1)
    newest = _saturated(_Sums(weights, offset, factors[:2]).of(x.cast(INT64)), 16).reshape([-1, filters, 1])
    older = state.cast(INT64).reshape([-1, filters, memory])
    kept = concat([older.cut(2, 1, None), newest], 2) if memory > 1 else newest
    parts = (kept * x.body.constant(memories, INT64)).reshape([-1, filters // rank, rank * memory]).sum(2)
    bound = memory * rank * _HALF * _HALF + _WORD
    total = _wrapped(parts + bias.cast(INT64), bound)
    y = _saturated(_scaled(total, factors[2:], _WORD) + zeros[1], 8)
    left = kept.reshape([-1, filters * memory]).cast(_INT16)
    return y.cast(INT8), left
