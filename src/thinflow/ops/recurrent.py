"""Recurrent layers in one op: a cell's step, or a cell over a whole sequence.

The gates are i (input), f (forget), o (output) and c (the candidate state, called ci); cs is the cell state,
co its tanh. Sources: Hochreiter & Schmidhuber 1997 with the peepholes of Gers & Schmidhuber 2000; Cho et al.
2014.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops._numeric import quiet
from thinflow.ops._shapes import Dim
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.typing import Array

State = tuple[Array, ...]
"""i, cs, f, o, ci, co, h of one step."""


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)), x.dtype)


def _step(
    x: Array,
    cs: Array,
    h: Array,
    w: Array,
    peepholes: State,
    b: Array,
    order: str,
    forget_bias: float,
    clip: float,
) -> State:
    """One step of an LSTM; `order` is the order of the gates in w [inputs + units, 4 * units]."""
    # One product for all four gates: inputs and state side by side meet the weights stacked in the same
    # order.
    gates = dict(zip(order, np.split(np.concatenate([x, h], 1) @ w + b, 4, 1), strict=True))
    wci, wcf, wco = peepholes or (0, 0, 0)
    i = _sigmoid(gates["i"] + cs * wci)
    # V1 adds the forget bias at run time; V2 leaves it to b.
    f = _sigmoid(gates["f"] + x.dtype.type(forget_bias) + cs * wcf)
    ci = np.tanh(gates["c"])
    cs = ci * i + cs * f
    if clip > 0:
        cs = np.clip(cs, x.dtype.type(-clip), x.dtype.type(clip))
    # The output gate looks at the new cell state, after clipping; the other two at the old one.
    o = _sigmoid(gates["o"] + cs * wco)
    co = np.tanh(cs)
    return i, cs, f, o, ci, co, o * co


def _units(h: TensorSpec, b: TensorSpec) -> Dim:
    """Number of units, from the previous output [batch, units] or the bias [4 * units]."""
    if h.shape is not None and h.shape[-1] is not None:
        return h.shape[-1]
    return None if not b.shape or b.shape[0] is None else b.shape[0] // 4


def _cost(y: TensorSpec, steps: TensorSpec, *weights: TensorSpec) -> Cost:
    """Of a cell that runs once for each place of `steps`; some 20 operations a unit besides the products."""
    macs = (steps.size or 0) * sum(w.size or 0 for w in weights)
    return Cost(2 * macs + 20 * (y.size or 0), macs)


@op("LSTMBlockCell")
class LSTMBlockCell(OpDef):
    """One step of an LSTM.   x [batch,inputs], cs, h [batch,units] -> i, cs, f, o, ci, co, h, each like h.

    i, ci, f, o = [x, h] @ w + b, in this order and through sigmoid or tanh; cs' = ci * i + cs * f, within
    ±cell_clip if that is positive; h' = o * tanh(cs'). With use_peephole, cs * wci and cs * wcf take part in
    i and f, and cs' * wco in o.
    """

    num_outputs = 7

    @staticmethod
    def infer(
        x: TensorSpec,
        cs: TensorSpec,
        h: TensorSpec,
        w: TensorSpec,
        wci: TensorSpec,
        wcf: TensorSpec,
        wco: TensorSpec,
        b: TensorSpec,
    ) -> tuple[TensorSpec, ...]:
        batch = x.shape[0] if x.shape else cs.shape[0] if cs.shape else None
        return (TensorSpec(x.dtype, (batch, _units(h, b))),) * 7

    @staticmethod
    @quiet
    def kernel(
        x: Array,
        cs: Array,
        h: Array,
        w: Array,
        wci: Array,
        wcf: Array,
        wco: Array,
        b: Array,
        *,
        forget_bias: float = 1.0,
        cell_clip: float = 3.0,
        use_peephole: bool = False,
    ) -> State:
        peepholes = (wci, wcf, wco) if use_peephole else ()
        return _step(x, cs, h, w, peepholes, b, "icfo", forget_bias, cell_clip)

    @staticmethod
    def cost(
        y: TensorSpec, x: TensorSpec, cs: TensorSpec, h: TensorSpec, w: TensorSpec, *rest: TensorSpec
    ) -> Cost:
        return _cost(y, x.with_shape((x.shape or ())[:1]), w)


class _Sequence(OpDef):
    num_outputs = 7

    @staticmethod
    def infer(
        length: TensorSpec,
        x: TensorSpec,
        cs: TensorSpec,
        h: TensorSpec,
        w: TensorSpec,
        wci: TensorSpec,
        wcf: TensorSpec,
        wco: TensorSpec,
        b: TensorSpec,
    ) -> tuple[TensorSpec, ...]:
        steps, batch = x.shape[:2] if x.shape else (None, None)
        return (TensorSpec(x.dtype, (steps, batch, _units(h, b))),) * 7

    @staticmethod
    def cost(
        y: TensorSpec,
        length: TensorSpec,
        x: TensorSpec,
        cs: TensorSpec,
        h: TensorSpec,
        w: TensorSpec,
        *rest: TensorSpec,
    ) -> Cost:
        return _cost(y, x.with_shape((x.shape or ())[:2]), w)


def _run(length: Array, x: Array, cs: Array, h: Array, *weights: Any) -> State:
    """All steps of an LSTM, stacked; zeros from step `length` on."""
    steps = min(int(length), len(x))
    require(steps >= 0, f"a sequence cannot have {steps} steps")
    # Steps beyond the sequence's length stay zero, as TensorFlow leaves them.
    results = tuple(np.zeros((len(x), *cs.shape), x.dtype) for _ in range(7))
    for t in range(steps):
        state = _step(x[t], cs, h, *weights)
        cs, h = state[1], state[6]
        for result, value in zip(results, state, strict=True):
            result[t] = value
    return results


@op("BlockLSTM")
class BlockLSTM(_Sequence):
    """LSTMBlockCell over `length` [] steps of x [time,batch,inputs] -> its results [time,batch,units]."""

    @staticmethod
    @quiet
    def kernel(
        length: Array,
        x: Array,
        cs: Array,
        h: Array,
        w: Array,
        wci: Array,
        wcf: Array,
        wco: Array,
        b: Array,
        *,
        forget_bias: float = 1.0,
        cell_clip: float = 3.0,
        use_peephole: bool = False,
    ) -> State:
        return _run(
            length, x, cs, h, w, (wci, wcf, wco) if use_peephole else (), b, "icfo", forget_bias, cell_clip
        )


@op("BlockLSTMV2")
class BlockLSTMV2(_Sequence):
    """As BlockLSTM, but with the gates in the order i, f, ci, o, no bias for f, no limit by default."""

    @staticmethod
    @quiet
    def kernel(
        length: Array,
        x: Array,
        cs: Array,
        h: Array,
        w: Array,
        wci: Array,
        wcf: Array,
        wco: Array,
        b: Array,
        *,
        cell_clip: float = 0.0,
        use_peephole: bool = False,
    ) -> State:
        return _run(length, x, cs, h, w, (wci, wcf, wco) if use_peephole else (), b, "ifco", 0.0, cell_clip)


@op("GRUBlockCell")
class GRUBlockCell(OpDef):
    """One step of a GRU.   x [batch,inputs], h [batch,units] -> r, u, c, h, each [batch,units].

    r, u = sigmoid([x, h] @ w_ru + b_ru); c = tanh([x, r * h] @ w_c + b_c); h' = u * h + (1 - u) * c.
    """

    num_outputs = 4

    @staticmethod
    def infer(
        x: TensorSpec, h: TensorSpec, w_ru: TensorSpec, w_c: TensorSpec, b_ru: TensorSpec, b_c: TensorSpec
    ) -> tuple[TensorSpec, ...]:
        batch = x.shape[0] if x.shape else h.shape[0] if h.shape else None
        units = h.shape[1] if h.shape else b_c.shape[0] if b_c.shape else None
        return (TensorSpec(x.dtype, (batch, units)),) * 4

    @staticmethod
    @quiet
    def kernel(x: Array, h: Array, w_ru: Array, w_c: Array, b_ru: Array, b_c: Array) -> State:
        # r before u in TensorFlow; Keras has the update gate first.
        r, u = np.split(_sigmoid(np.concatenate([x, h], 1) @ w_ru + b_ru), 2, 1)
        c = np.tanh(np.concatenate([x, r * h], 1) @ w_c + b_c)
        return r, u, c, u * h + (1 - u) * c

    @staticmethod
    def cost(
        y: TensorSpec, x: TensorSpec, h: TensorSpec, w_ru: TensorSpec, w_c: TensorSpec, *biases: TensorSpec
    ) -> Cost:
        return _cost(y, x.with_shape((x.shape or ())[:1]), w_ru, w_c)
