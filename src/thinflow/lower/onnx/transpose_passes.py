"""The greatest number of a convolution's result, from the greatest of each channel.

A bias by channel moves the greatest of a channel as it moves all of them, and rounding keeps their order. So

    max(conv), max(transpose(conv) + bias)  ->  max(m), max(m + bias)      m = GlobalMaxPool(conv)

are the same numbers to the last bit, and the images are read once instead of twice.
"""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import FLOAT
from thinflow.lower.onnx.late_reductions import is_whole
from thinflow.lower.onnx.wiring import Wiring, new_constant
from thinflow.onnx.program import Operator, Program, Tensor

_LAST = (0, 2, 3, 1)


def reduce_by_channel(program: Program) -> None:
    """Join such pairs of maxima. O(operators)."""
    wiring = Wiring(program)
    for operator in list(program.operators):
        total = wiring.producer(operator.inputs[0], "Add") if _is_maximum(operator) else None
        if total is not None:
            _join(wiring, operator, total)
    wiring.finish()


def _join(wiring: Wiring, maximum: Operator, total: Operator) -> None:
    """Take both maxima from those of the channels, if there are two."""
    for x, bias in (total.inputs, total.inputs[::-1]):
        conv = _convolution(wiring, x)
        count = None if x is None or not x.shape or x.dtype is not FLOAT else x.shape[-1]
        if conv is None or x is None or count is None or bias is None or bias.shape not in ((), (count,)):
            continue
        others = [o for t in (x, conv.outputs[0]) for o in wiring.readers(t) if _is_maximum(o)]
        if not others:
            return
        greatest = _maxima(wiring, conv, count)
        moved = Tensor(f"{maximum.outputs[0].name}/moved", greatest.shape, FLOAT)
        wiring.add(total, "Add", [greatest, bias], moved)
        for operator, source in ((maximum, moved), *((o, greatest) for o in others)):
            wiring.set_inputs(operator, [source])
            operator.options.pop("axes", None)
        return


def _maxima(wiring: Wiring, conv: Operator, count: int) -> Tensor:
    """The greatest of each channel, [n,c]."""
    y = conv.outputs[0]
    batch = None if y.shape is None else y.shape[0]
    pooled = Tensor(f"{y.name}/maxima", (batch, count, 1, 1), FLOAT)
    wiring.add(conv, "GlobalMaxPool", [y], pooled)
    sizes = new_constant(f"{y.name}/maxima/sizes", np.array([-1, count], np.int64))
    return wiring.add(conv, "Reshape", [pooled, sizes], Tensor(f"{pooled.name}/rows", (batch, count), FLOAT))


def _convolution(wiring: Wiring, x: Tensor | None) -> Operator | None:
    """The convolution whose result x [n,h,w,c] is."""
    transpose = wiring.producer(x, "Transpose")
    is_turned = transpose is not None and tuple(transpose.options["perm"]) == _LAST
    return wiring.producer(transpose.inputs[0], "Conv") if transpose is not None and is_turned else None


def _is_maximum(operator: Operator) -> bool:
    return operator.code == "ReduceMax" and is_whole(operator)
