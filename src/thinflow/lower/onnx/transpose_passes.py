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
from thinflow.lower.onnx.wiring import Match, Rewrite, Wiring, new_constant
from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.program.fusion import by_code, fuse, only_if, op, value
from thinflow.program.wiring import constant_of

# Extremes are the same in whatever order elements come; sums would round in another order.
_ANY_ORDER = ("ReduceMax", "ReduceMin")
# The order of axes that makes channels-first images channels-last.
_LAST = (0, 2, 3, 1)


def _is_whole(operator: Operator) -> bool:
    """True if a reduction leaves a scalar, whatever the order of its operand's axes."""
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


def _one_scale(dequantize: Operator) -> str:
    # A scale for each channel goes along an axis, which the Transpose would move.
    is_one = all(t is not None and t.shape == () for t in dequantize.inputs[1:])
    return "" if is_one else "each channel has a scale of its own"


class TransposeBytes(Rewrite):
    """transpose(dequantize(q)) -> dequantize(transpose(q)): a quarter of the bytes are moved."""

    patterns = (op("Transpose", op("DequantizeLinear", value("q"), name="dequantize", where=_one_scale)),)

    def replace(self, m: Match) -> None:
        q, output, dequantize = m.tensor("q"), m.output, m.operator("dequantize")
        moved = Tensor(f"{q.name}/moved", output.shape, q.dtype)
        m.wiring.set_input(m.head, 0, q)
        m.wiring.set_output(m.head, 0, moved)
        m.wiring.set_input(dequantize, 0, moved)
        m.wiring.set_output(dequantize, 0, output)


class ReduceLate(Rewrite):
    """max(x), transpose(x)  ->  max(flat(transpose(x))): the layout of x itself need not exist then."""

    patterns = (op("|".join(_ANY_ORDER), value("x"), when=_is_whole),)

    def replace(self, m: Match) -> None:
        moved = _transposition(m.wiring, m.tensor("x"))
        only_if(moved is not None)
        assert moved is not None
        # No axes: a flat tensor has one, and all of it is reduced.
        m.wiring.set_inputs(m.head, [_flat(m.wiring, moved)])
        m.head.options.pop("axes", None)


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


class ReduceByChannel(Rewrite):
    """max(conv), max(transpose(conv) + bias)  ->  max(m), max(m + bias)   with m = GlobalMaxPool(conv)."""

    patterns = (
        op(
            "ReduceMax",
            op("Add", value("x"), value("bias"), any_order=True, name="total", shared=True),
            when=_is_whole,
        ),
    )

    def replace(self, m: Match) -> None:
        wiring, x, bias = m.wiring, m.tensor("x"), m.tensor("bias")
        conv = _convolution(wiring, x)
        count = None if not x.shape or x.dtype is not FLOAT else x.shape[-1]
        # A bias by channel must be a row along the last axis, or a number.
        only_if(conv is not None and count is not None and bias.shape in ((), (count,)))
        assert conv is not None
        assert count is not None
        others = [o for t in (x, conv.outputs[0]) for o in wiring.readers(t) if _is_maximum(o)]
        # For one maximum alone the image is read once in any case.
        only_if(others)
        greatest = _maxima(wiring, conv, count)
        moved = Tensor(f"{m.output.name}/moved", greatest.shape, FLOAT)
        wiring.add(m.operator("total"), "Add", [greatest, bias], moved)
        for operator, source in ((m.head, moved), *((o, greatest) for o in others)):
            wiring.set_inputs(operator, [source])
            operator.options.pop("axes", None)


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
    return operator.code == "ReduceMax" and _is_whole(operator)


_PASSES = tuple(by_code(rule) for rule in (TransposeBytes(), ReduceByChannel(), ReduceLate()))


def rest_transposes(program: Program) -> None:
    """Do what is beside the transposes that are left on their other side. O(operators)."""
    for rules in _PASSES:
        fuse(program, rules, rounds=1)
