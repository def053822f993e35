"""Recurrent cells in one op, decomposed; over a sequence they are the body of a Loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, INT64
from thinflow.lower.onnx.bodies import close
from thinflow.lower.onnx.builder import Builder, number, require, shape_of
from thinflow.lower.onnx.terms import Term
from thinflow.lower.rules import lower
from thinflow.onnx.program import Operator, Program, Tensor


@dataclass(frozen=True)
class _Cell:
    """The weights and options of an LSTM, all but its state.

    Attributes:
        order: of the gates i, f, o and c (the candidate) in w [inputs + units, 4 * units].
        peepholes: of i, f and o; empty for none.
    """

    w: Tensor
    bias: Tensor
    peepholes: tuple[Tensor, ...]
    order: str
    forget_bias: float
    clip: float

    def step(self, b: Builder, x: Tensor, cs: Tensor, h: Tensor) -> list[Tensor]:
        """i, cs, f, o, ci, co and h of one step."""
        units = shape_of(h, "h", 2)[1] or (shape_of(self.bias, "the bias", 1)[0] or 0) // 4
        require(units > 0, "the number of units is not known")
        both = b.step("Concat", x, h, shape=(shape_of(h)[0], None), axis=1)
        product = b.step("MatMul", both, self.w, shape=(shape_of(h)[0], 4 * units))
        total = Term(b, product) + self.bias
        parts = b.step_ports(
            "Split", total.tensor, b.ints([units] * 4), shapes=[h.shape] * 4, elements=[None] * 4, axis=1
        )
        gates = {name: Term(b, part) for name, part in zip(self.order, parts, strict=True)}
        state = Term(b, cs)
        seen = [state * p for p in self.peepholes[:2]]
        i = (gates["i"] + seen[0] if seen else gates["i"]).apply("Sigmoid")
        forget = gates["f"] + self.forget_bias if self.forget_bias else gates["f"]
        f = (forget + seen[1] if seen else forget).apply("Sigmoid")
        ci = gates["c"].apply("Tanh")
        state = ci * i + state * f
        if self.clip > 0:
            state = state.most(-self.clip).least(self.clip)
        # The output gate sees the new state, the other two saw the old one.
        o = (gates["o"] + state * self.peepholes[2] if seen else gates["o"]).apply("Sigmoid")
        co = state.apply("Tanh")
        return [t.tensor for t in (i, state, f, o, ci, co, o * co)]


@lower("BlockLSTM", "BlockLSTMV2", to="onnx")
def block_lstm(
    b: Builder,
    node: Node,
    length: Tensor,
    x: Tensor,
    cs: Tensor,
    h: Tensor,
    w: Tensor,
    wci: Tensor,
    wcf: Tensor,
    wco: Tensor,
    bias: Tensor,
    *,
    forget_bias: float = 1.0,
    cell_clip: float | None = None,
    use_peephole: bool = False,
) -> tuple[Tensor, ...]:
    """One turn of a Loop for each step; zeros stand for the steps from `length` on."""
    peepholes = (wci, wcf, wco) if use_peephole else ()
    is_new = node.op == "BlockLSTMV2"
    # The defaults differ: the older op clips at 3, the newer not at all.
    clip = (0.0 if is_new else 3.0) if cell_clip is None else cell_clip
    cell = _Cell(w, bias, peepholes, "ifco" if is_new else "icfo", 0.0 if is_new else forget_bias, clip)
    steps, _, _ = shape_of(x, "x", 3)
    require(steps is not None and None not in shape_of(h, "h", 2), "sizes of the sequence are not known")
    count = min(int(number(length, "the length")), steps or 0)
    require(count >= 0, f"a sequence cannot have {count} steps")
    states = _looped(b, cell, x, cs, h, count)
    missing = (steps or 0) - count
    pads = b.ints([0, 0, 0, missing, 0, 0])
    shape = (steps, *shape_of(h))
    return tuple(
        b.result(b.step("Pad", t, pads, shape=shape, mode="constant") if missing else t, port)
        for port, t in enumerate(states)
    )


def _looped(b: Builder, cell: _Cell, x: Tensor, cs: Tensor, h: Tensor, count: int) -> list[Tensor]:
    """The states of each step, [count,batch,units]."""
    node = b.node
    inner = b.inside()
    inner.begin(node)
    turn = inner.own("turn", (), INT64)
    going_on = inner.own("going_on", (), BOOL)
    before = [inner.own(name, t.shape, t.dtype) for name, t in (("cs", cs), ("h", h))]
    row = inner.step("Gather", x, turn, shape=shape_of(x)[1:], axis=0)
    made = cell.step(inner, row, *before)
    state = [made[1], made[6]]
    body = Program(
        # State goes round; `made` are scan outputs, which Loop stacks row by row.
        [turn, going_on, *before],
        [going_on, *state, *made],
        inner.operators,
        opset=b.opset,
        name=f"{node.name}/body",
    )
    captured = close([body])
    outputs = [b.own("state", t.shape, t.dtype) for t in state]
    rows = [b.own("rows", (count, *shape_of(h)), t.dtype) for t in made]
    going = b.const(np.array(True), "going_on", BOOL)
    inputs: list[Tensor | None] = [b.int64(count, "count"), going, cs, h, *captured]
    b.operators.append(
        Operator("Loop", inputs, [*outputs, *rows], {}, node.name, {"body": body}, len(captured))
    )
    return rows
