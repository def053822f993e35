"""The state an LSTM starts with where the batch is open.

LiteRT's op wants its variables in the size of the batch when it is prepared. What writes them first gives
them that size, if it knows its own by then: a size found only when the model runs was seen to damage memory.
So the zeros are computed from a column of the sequence, by operators whose sizes follow from the inputs'.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thinflow.ir.types import BOOL, FLOAT
from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.program import Operator, Tensor

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
    # Zeros of a size that is computed, as zero_state makes them: the only start
    # that can be made in another way.
    if filled is None or filled.code != "FILL" or shape is None or shape[-1] is None:
        return None
    number = filled.inputs[1]
    if number is None or not number.is_constant or np.asarray(number.array()).any():
        return None
    column = _first_column(b, sequence, axis)
    never = b.step("GREATER", column, column, shape=column.shape, element=BOOL)  # so is NaN
    # [batch,1] times zeros [units,1] is [batch,units], by an operator whose
    # size is known when it is prepared.
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
