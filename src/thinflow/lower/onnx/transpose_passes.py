"""Passes over the transposes that layouts leave: what is beside one takes less work on its other side.

- Real values that were quantized: their 8-bit values are transposed instead.
- The least or the greatest of a tensor, in the layout in which others read it, too.
- The greatest of a convolution's result, from the greatest of each channel. A bias by channel moves the
  greatest of a channel as it moves all of them, and rounding keeps their order. So

      max(conv), max(transpose(conv) + bias)  ->  max(m), max(m + bias)      m = GlobalMaxPool(conv)

  are the same numbers to the last bit, and the images are read once instead of twice.
"""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import FLOAT
from thinflow.lower.onnx.wiring import Wiring, new_constant
from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.program.wiring import constant_of

_ANY_ORDER = ("ReduceMax", "ReduceMin")
_LAST = (0, 2, 3, 1)


def transpose_bytes(program: Program) -> None:
    """transpose(dequantize(q)) -> dequantize(transpose(q)): a quarter of the bytes are moved."""
    wiring = Wiring(program)
    for operator in program.operators:
        source = operator.inputs[0] if operator.code == "Transpose" else None
        found = wiring.sole_producer(source, "DequantizeLinear")
        # A scale for each channel goes along an axis, which the Transpose would move.
        if found is None or any(t is None or t.shape != () for t in found.inputs[1:]):
            continue
        values, output = found.inputs[0], operator.outputs[0]
        assert values is not None
        moved = Tensor(f"{values.name}/moved", output.shape, values.dtype)
        wiring.set_input(operator, 0, values)
        wiring.set_output(operator, 0, moved)
        wiring.set_input(found, 0, moved)
        wiring.set_output(found, 0, output)
    wiring.finish()


def reduce_late(program: Program) -> None:
    """max(x), transpose(x)  ->  max(flat(transpose(x))): the layout of x itself need not exist then."""
    wiring = Wiring(program)
    for operator in program.operators:
        source = operator.inputs[0] if operator.code in _ANY_ORDER and is_whole(operator) else None
        moved = None if source is None else _transposition(wiring, source)
        if moved is not None:
            # No axes: a flat tensor has one, and all of it is reduced.
            wiring.set_inputs(operator, [_flat(wiring, moved)])
            operator.options.pop("axes", None)
    wiring.finish()


def _transposition(wiring: Wiring, x: Tensor) -> Operator | None:
    """The Transpose that moves the axes of x, or gave x its own, for others as well."""
    found = wiring.producer(x, "Transpose")
    if found is not None:
        # Where only such reductions read it, nobody needs that layout.
        return found if any(o.code not in _ANY_ORDER for o in wiring.readers(x)) else None
    return next((o for o in wiring.readers(x) if o.code == "Transpose"), None)


def _flat(wiring: Wiring, transpose: Operator) -> Tensor:
    """The elements in the order of a transposition. ONNX Runtime moves no Transpose past a Reshape."""
    y = transpose.outputs[0]
    for reader in wiring.readers(y):
        known = constant_of(reader.inputs[1]) if reader.code == "Reshape" else None
        if known is not None and known.tolist() == [-1]:
            return reader.outputs[0]
    flat = Tensor(f"{y.name}/flat", (None,), y.dtype)
    sizes = new_constant(f"{y.name}/all", np.array([-1], np.int64))
    return wiring.add(transpose, "Reshape", [y, sizes], flat)


def is_whole(operator: Operator) -> bool:
    """Whether a reduction leaves a scalar, whatever the order of its operand's axes."""
    axes = operator.options.get("axes")
    if len(operator.inputs) > 1 and operator.inputs[1] is not None:
        listed = constant_of(operator.inputs[1])
        axes = None if listed is None else tuple(listed.tolist())
        if axes is None:
            return False
    shape = operator.inputs[0].shape if operator.inputs[0] is not None else None
    # No axes given means all of them.
    is_all = axes is None or (shape is not None and len({a % len(shape) for a in axes}) == len(shape))
    return is_all and not operator.options.get("keepdims", 1)


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
    # A sum has no order.
    for x, bias in (total.inputs, total.inputs[::-1]):
        conv = _convolution(wiring, x)
        count = None if x is None or not x.shape or x.dtype is not FLOAT else x.shape[-1]
        # A bias by channel must be a row along the last axis, or a number.
        if conv is None or x is None or count is None or bias is None or bias.shape not in ((), (count,)):
            continue
        others = [o for t in (x, conv.outputs[0]) for o in wiring.readers(t) if _is_maximum(o)]
        # For one maximum alone the image is read once in any case.
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
