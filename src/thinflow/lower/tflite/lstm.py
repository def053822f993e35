"""An LSTM as LiteRT's fused op, where that is faster than a loop.

The op keeps its state between runs, in variables. TensorFlow's starts afresh, so the first state is written
into the variables each time, by operators in front; nothing else needs to reset the model.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import BOOL, FLOAT, INT32
from thinflow.lower.slots import Listed
from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.lists import Slot
from thinflow.lower.tflite.lstm_pattern import Cell, Gate, LoopBody
from thinflow.tflite.model import Operator, Tensor

logger = logging.getLogger(__name__)

_GATES = "ifgo"  # in the order of the op's inputs
FORMS = ("auto", "fused", "loop")


def is_faster(batch: int, inputs: int, units: int, *, collects: bool) -> bool:
    """True if the fused op beats a loop, by a fit to measurements (x86, one thread, LiteRT 2.3).

    Both cost something per step, in microseconds, and per multiplication; the op, which does without
    XNNPACK, more of the latter and for each sequence of the batch by itself.
    """
    # Four gates, each with a matrix for x and one for h.
    products = 4 * units * (inputs + units)
    fused = batch * (0.47 + 9e-5 * products)
    loop = (0.85 if collects else 0.59) + 2.6e-5 * batch * products
    return fused < loop


def fused_loop(
    b: Builder, body: LoopBody, forms: Sequence[Slot], slots: Sequence[Slot], steps: int, form: str
) -> list[Slot] | None:
    """The variables of a loop at its end, by the fused op; None if it stays a loop.

    Args:
        forms: the variables as the body has them.
        slots: what they start with.
        steps: how often it iterates.
        form: one of FORMS; "fused" does without asking what is faster.
    """
    try:
        cell = body.cell()
        collected = _collected(body, cell, forms, steps)
        matrices = _matrices(cell)
    # Not to be this op is no failure: a loop computes anything.
    except UnsupportedOp as error:
        logger.debug("%s stays a loop: %s", b.node.where, error.problem)
        return None
    batch = (cell.result.shape or (None,))[0]
    units, inputs = matrices["i"][0].shape
    collects = "all" in collected.values()
    # An open batch is mostly one sample.
    if form != "fused" and not is_faster(batch or 1, inputs, units, collects=collects):
        logger.debug("%s stays a loop, which is faster for its sizes", b.node.where)
        return None
    starts = _starts(b, body, cell, slots)
    if starts is None:
        logger.debug("%s stays a loop: its batch is open, and so is what it starts with", b.node.where)
        return None
    return _emitted(b, body, cell, matrices, collected, forms, slots, steps, starts)


def _sequence(body: LoopBody, cell: Cell, slots: Sequence[Slot]) -> Tensor:
    places = {a: n for n, a in enumerate(body.arguments) if a is not None}
    source = slots[places[cell.sequence]]
    sequence = source.tensor if isinstance(source, Listed) else source
    assert isinstance(sequence, Tensor), "a sequence that is read has items"
    return sequence


def _starts(b: Builder, body: LoopBody, cell: Cell, slots: Sequence[Slot]) -> tuple[Tensor, Tensor] | None:
    """First output and state; None if an open batch gives them a size that is known too late."""
    first = slots[cell.output], slots[cell.state]
    assert isinstance(first[0], Tensor)
    assert isinstance(first[1], Tensor)
    if (cell.result.shape or (None,))[0] is not None:
        return first[0], first[1]
    sequence = _sequence(body, cell, slots)
    given = _before_transposing(b, sequence)
    # What the sequence was transposed from knows its sizes earlier; its batch comes first, steps are axis 1.
    source, axis = (sequence, 0) if given is None else (given, 1)
    h, c = (start_of(b, start, source, axis) for start in (first[0], first[1]))
    return None if h is None or c is None else (h, c)


def _collected(body: LoopBody, cell: Cell, forms: Sequence[Slot], steps: int) -> dict[int, str]:
    """Variable -> how it collects the output."""
    found: dict[int, str] = {}
    for n in body.changing:
        # Everything else that changes has to be a way to keep h, or the op would not compute it.
        if n in (cell.counter, cell.state, cell.output):
            continue
        kind, form = body.kept(n, cell), forms[n]
        wanted = steps if kind == "all" else 1
        if not kind or not isinstance(form, Listed) or form.count != wanted:
            raise UnsupportedOp(f"variable {n} of the loop is something else")
        found[n] = kind
    rows = cell.sequence.shape[0] if cell.sequence.shape else None
    if rows != steps or steps < 1 or len(cell.sequence.shape or ()) != 3:
        raise UnsupportedOp(f"{steps} steps of a sequence of {rows}")
    return found


Matrices = dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]]


def _matrices(cell: Cell) -> Matrices:
    """Gate -> weights of x [units,inputs] and h [units,outputs], bias [units], peephole [units] or None."""
    inputs = (cell.x.shape or (None,))[-1] or 0
    found: Matrices = {}
    for name, gate in cell.gates.items():
        if not gate.products:
            raise UnsupportedOp(f"gate {name} reads nothing")
        units = len(next(iter(gate.products.values())))
        outputs = units if cell.projection is None else len(cell.projection)
        # A gate need not read both: the op wants matrices all the same.
        x = gate.products.get(cell.x, np.zeros((units, inputs), np.float32))
        others = [m for s, m in gate.products.items() if s is not cell.x]
        h = others[0] if others else np.zeros((units, outputs), np.float32)
        bias = np.broadcast_to(np.asarray(gate.bias, np.float32), units)
        found[name] = x, h, bias, _peephole(gate)
    shapes = {tuple(m.shape for m in parts[:3]) for parts in found.values()}
    if len(shapes) != 1:
        raise UnsupportedOp("its gates differ in size")
    return found


def _peephole(gate: Gate) -> np.ndarray | None:
    return next(iter(gate.peepholes.values()), None)


def _emitted(
    b: Builder,
    body: LoopBody,
    cell: Cell,
    matrices: Matrices,
    collected: dict[int, str],
    forms: Sequence[Slot],
    slots: Sequence[Slot],
    steps: int,
    starts: tuple[Tensor, Tensor],
) -> list[Slot]:
    sequence = _sequence(body, cell, slots)
    state_h, state_c = (
        _variable(b, start, forms[n]) for start, n in zip(starts, (cell.output, cell.state), strict=True)
    )
    names = {
        name: [b.const(np.ascontiguousarray(m), "weights") for m in matrices[name][:3]] for name in _GATES
    }
    # Without peepholes the inputs are left out; with one of them the kernel wants all three.
    has_peephole = any(parts[3] is not None for parts in matrices.values())
    peepholes: list[Tensor | None] = [None] * 3
    if has_peephole:
        peepholes = [_peephole_const(b, matrices[name]) for name in "ifo"]
    projection = None if cell.projection is None else b.const(np.asarray(cell.projection), "projection")
    batch, outputs = cell.result.shape or (None, None)
    given = _before_transposing(b, sequence)
    is_time_major = given is None
    y = b.own("lstm", (steps, batch, outputs) if is_time_major else (batch, steps, outputs), FLOAT)
    operands: list[Tensor | None] = [
        given or sequence,
        # The inputs of UNIDIRECTIONAL_SEQUENCE_LSTM in the order of the schema: x, W, R, peepholes, biases,
        # projection and its bias, both states, and the factors of layer normalization, which are left out.
        *(names[name][0] for name in _GATES),
        *(names[name][1] for name in _GATES),
        *peepholes,
        *(names[name][2] for name in _GATES),
        projection,
        None,
        state_h,
        state_c,
        *[None] * 4,
    ]
    options = {"fused_activation_function": "TANH", "cell_clip": cell.clip, "time_major": is_time_major}
    operator = Operator("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [y], options, origin=b.node.name)
    b.operators.append(operator)
    last = last_row(b, y, steps, 0 if is_time_major else 1)
    rows = y if is_time_major else b.transposed(y, (1, 0, 2))
    results = list(slots)
    # Readers of the loop's other variables get what they would hold after the last iteration.
    results[cell.counter] = b.const(np.int32(steps), "steps")
    results[cell.output] = last
    results[cell.state] = after(b, state_c, last)
    for n, kind in collected.items():
        form = forms[n]
        assert isinstance(form, Listed)
        results[n] = form.with_tensor(rows if kind == "all" else b.reshaped(last, (1, batch, outputs)))
    return results


def _peephole_const(
    b: Builder, parts: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]
) -> Tensor:
    factors = parts[3] if parts[3] is not None else np.zeros(len(parts[0]), np.float32)
    return b.const(np.ascontiguousarray(factors, np.float32), "peephole")


def _variable(b: Builder, start: Tensor, form: Slot) -> Tensor:
    """A variable that has a value at the start of each run. MAXIMUM is never computed ahead."""
    shape = start.shape if start.is_constant else form.shape
    variable = b.own("state", shape, FLOAT)
    variable.is_variable = True
    b.operators.append(Operator("MAXIMUM", [start, start], [variable], origin=b.node.name))
    return variable


def _before_transposing(b: Builder, sequence: Tensor) -> Tensor | None:
    """The sequence with its batch first, if that is what it was transposed from."""
    made = next((o for o in reversed(b.operators) if sequence in o.outputs), None)
    if made is None or made.code != "TRANSPOSE" or made.inputs[0] is None or made.inputs[1] is None:
        return None
    order = made.inputs[1].array() if made.inputs[1].is_constant else None
    return made.inputs[0] if order is not None and order.tolist() == [1, 0, 2] else None


def last_row(b: Builder, y: Tensor, steps: int, axis: int) -> Tensor:
    """The output of the last step [batch,outputs]."""
    at = [steps - 1 if n == axis else 0 for n in range(3)]
    begin, end = b.ints(at, "begin"), b.ints([n + 1 for n in at], "end")
    shape = tuple(n for place, n in enumerate(y.shape or ()) if place != axis)
    # Whole axes by masks, so that an open batch needs no number.
    # 7 is the mask of all three axes, of which this one is taken out.
    others, strides = 7 - (1 << axis), b.ints([1, 1, 1], "strides")
    return b.step(
        "STRIDED_SLICE",
        y,
        begin,
        end,
        strides,
        shape=shape,
        begin_mask=others,
        end_mask=others,
        shrink_axis_mask=1 << axis,
    )


def after(b: Builder, state: Tensor, last: Tensor) -> Tensor:
    """A variable's value once the op has run: chosen by a condition that is false and waits for the op."""
    begin, end = b.ints([0, 0], "begin"), b.ints([0, 1], "end")
    column = (*(last.shape or ())[:1], 1)
    first = b.step(
        "STRIDED_SLICE", last, begin, end, b.ints([1, 1], "strides"), shape=column, begin_mask=1, end_mask=1
    )
    # Codes are compared as plain numbers: the kernel for quantized ones does not take every scale.
    first = first if first.dtype is FLOAT else b.cast(first, INT32)
    # False for any number, NaN too, yet computed from the op's result: the state is read after the op has
    # run.
    never = b.step("LESS", first, first, shape=column, element=BOOL)
    return b.step(
        "SELECT_V2", never, b.scalar(0, state, "zero"), state, shape=state.shape, element=state.dtype
    )


# ---- The state an LSTM starts with where the batch is open.
#
# LiteRT's op wants its variables in the size of the batch when it is prepared. What writes them first gives
# them that size, if it knows its own by then: a size found only when the model runs was seen to damage
# memory. So the zeros are computed from a column of the sequence, by operators whose sizes follow from those
# of the inputs.


_BY_INPUTS = frozenset(
    {
        "ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "RELU", "RELU6",
        "TANH", "LOGISTIC", "ELU", "LEAKY_RELU", "GELU", "HARD_SWISH", "ABS", "NEG", "EXP", "SQRT",
        "RSQRT", "SQUARE", "CAST", "SOFTMAX", "FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D",
        "MAX_POOL_2D", "AVERAGE_POOL_2D", "CONCATENATION", "PACK", "BATCH_MATMUL",
        "UNIDIRECTIONAL_SEQUENCE_LSTM", "GATHER",
    }
)  # fmt: skip
"""Operators that give sizes which follow from those of their inputs alone."""
_BY_NUMBERS = frozenset(
    {
        "TRANSPOSE", "RESHAPE", "SLICE", "STRIDED_SLICE", "PAD", "PADV2", "MEAN", "SUM",
        "REDUCE_MAX", "EXPAND_DIMS", "SQUEEZE", "REVERSE_V2",
    }
)  # fmt: skip
"""Likewise, where all they read behind the first input is constant."""


def start_of(b: Builder, start: Tensor, sequence: Tensor, axis: int) -> Tensor | None:
    """A start [batch,units] whose size is known early: itself, or zeros like it; None if there is none.

    Args:
        sequence: its axis `axis` counts the steps, the other one of the first two the batch.
    """
    makers = {t: o for o in b.operators for t in o.outputs}
    if not _is_known_early(sequence, makers):
        return None
    if _is_known_early(start, makers):
        return start
    filled, shape = makers.get(start), start.shape
    # Zeros of a size that is computed, as zero_state makes them: the only start that can be made in another
    # way.
    if filled is None or filled.code != "FILL" or shape is None or shape[-1] is None:
        return None
    number = filled.inputs[1]
    if number is None or not number.is_constant or np.asarray(number.array()).any():
        return None
    column = _first_column(b, sequence, axis)
    never = b.step("GREATER", column, column, shape=column.shape, element=BOOL)  # so is NaN
    # [batch,1] times zeros [units,1] is [batch,units], by an operator whose size is known when it is
    # prepared.
    weights = b.const(np.zeros((shape[-1], 1), np.float32), "nothing")
    return b.step("FULLY_CONNECTED", b.cast(never, FLOAT), weights, None, shape=shape)


def _first_column(b: Builder, sequence: Tensor, axis: int) -> Tensor:
    """The first number of the first step [batch,1]."""
    ends = [0 if n == 1 - axis else 1 for n in range(3)]
    places = (b.ints([0, 0, 0], "begin"), b.ints(ends, "end"), b.ints([1, 1, 1], "strides"))
    shape = ((sequence.shape or (None,) * 3)[1 - axis], 1)
    open_end = 1 << (1 - axis)
    return b.step(
        "STRIDED_SLICE",
        sequence,
        *places,
        shape=shape,
        begin_mask=open_end,
        end_mask=open_end,
        shrink_axis_mask=1 << axis,
    )


def _is_known_early(tensor: Tensor, makers: Mapping[Tensor, Operator]) -> bool:
    """True if its sizes follow from those of the model's inputs, number by number."""
    seen: set[Tensor] = set()
    stack = [tensor]
    while stack:
        now = stack.pop()
        operator = makers.get(now)
        # Without an operator it is an input of the model, or of the subgraph.
        if now in seen or now.is_constant or operator is None:
            continue
        seen.add(now)
        read = [t for t in operator.inputs if t is not None and not t.is_variable]
        if operator.code in _BY_NUMBERS and all(t.is_constant for t in read[1:]):
            stack.append(read[0])
        elif operator.code in _BY_INPUTS:
            stack += read
        else:
            return False
    return True
