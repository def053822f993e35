"""Recurrent cells that TensorFlow runs as one op, as products and elementwise ops.

LiteRT's own LSTM keeps its state from one run to the next and its matrix products do without XNNPACK; a step
made of products and elementwise ops runs in half the time.
"""

from __future__ import annotations

import numpy as np

from thinflow.decompose.loops import while_loop
from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, concat, refuse_unless
from thinflow.ir.types import TensorSpec


def _product(x: Term, h: Term, w: Term, bias: Term) -> Term:
    """[x, h] @ w + bias."""
    return concat([x, h], 1).apply("MatMul", w).apply("BiasAdd", bias)


@decompose("LSTMBlockCell")
def lstm_block_cell(
    x: Term,
    cs: Term,
    h: Term,
    w: Term,
    wci: Term,
    wcf: Term,
    wco: Term,
    bias: Term,
    *,
    forget_bias: float = 1.0,
    cell_clip: float = 3.0,
    use_peephole: bool = False,
) -> tuple[Term, ...]:
    """i, cs, f, o, ci, co and h of one step; the gates of w are i, ci, f, o."""
    units = bias.static_size(0, "the number of units") // 4
    if forget_bias:
        # Into the bias of the product, where it costs nothing.
        bias = bias + np.repeat([0, 0, forget_bias, 0], units)
    # All gates by one product: w holds their matrices side by side.
    i, ci, f, o = _product(x, h, w, bias).split(4, 1)
    if use_peephole:
        i, f = i + cs * wci, f + cs * wcf
    i, ci, f = i.apply("Sigmoid"), ci.apply("Tanh"), f.apply("Sigmoid")
    state = ci * i + cs * f
    if cell_clip > 0:
        state = state.minimum(cell_clip).maximum(-cell_clip)
    # The output gate's peephole sees the new state, those of the other gates the old one.
    o = (o + state * wco if use_peephole else o).apply("Sigmoid")
    co = state.apply("Tanh")
    return i, state, f, o, ci, co, o * co


@decompose("GRUBlockCell")
def gru_block_cell(x: Term, h: Term, w_ru: Term, w_c: Term, b_ru: Term, b_c: Term) -> tuple[Term, ...]:
    """r, u, c and h of one step."""
    r, u = _product(x, h, w_ru, b_ru).apply("Sigmoid").split(2, 1)
    c = _product(x, r * h, w_c, b_c).apply("Tanh")
    return r, u, c, u * h + (1.0 - u) * c


@decompose("BlockLSTM", "BlockLSTMV2")
def block_lstm(
    length: Term,
    x: Term,
    cs: Term,
    h: Term,
    w: Term,
    wci: Term,
    wcf: Term,
    wco: Term,
    bias: Term,
    *,
    forget_bias: float = 1.0,
    cell_clip: float | None = None,
    use_peephole: bool = False,
) -> tuple[Term | None, ...]:
    """A loop of cells over the steps of x [time,batch,inputs]; steps from `length` on give zeros."""
    steps = x.static_size(0, "the number of steps")
    (limit,) = length.ints("the number of steps")
    refuse_unless(limit >= 0, f"a sequence cannot have {limit} steps")
    if x.body.op == "BlockLSTMV2":
        # Its gates are i, f, ci, o; it adds nothing to f, and clips only if it is asked to.
        w, bias = (concat([g[0], g[2], g[1], g[3]], -1) for g in (w.split(4, -1), bias.split(4, -1)))
        forget_bias = 0.0
    clip = (0.0 if x.body.op == "BlockLSTMV2" else 3.0) if cell_clip is None else cell_clip
    ports = [n for n in range(7) if x.body.is_read(n)]

    def step(time: Term, cs: Term, h: Term, x: Term, *weights: Term) -> tuple[list[Term], list[Term]]:
        operands = [t.value for t in (x.gather(time), cs, h, *weights)]
        cell = x.body.add(
            "LSTMBlockCell", operands, ports=7, T=x.dtype,
            forget_bias=forget_bias, cell_clip=clip, use_peephole=use_peephole,
        )  # fmt: skip
        return [cell[1], cell[6]], [cell[n] for n in ports]

    rows = [TensorSpec(x.dtype, h.shape)] * len(ports)
    fixed = [x, w, wci, wcf, wco, bias]
    _, states, _ = while_loop(min(limit, steps), step, [cs, h], fixed, rows, room=steps)
    return tuple(states[ports.index(n)] if n in ports else None for n in range(7))
