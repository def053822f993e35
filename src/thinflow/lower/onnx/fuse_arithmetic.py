"""Fusion of arithmetic: biases, factors and bounds move into the operators beside them."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import DOUBLE, FLOAT
from thinflow.lower.onnx.wiring import Match, Rewrite, new_constant
from thinflow.onnx.program import Operator, Tensor
from thinflow.program.fusion import Operand, Step, computed, const, need, only_if, op, value
from thinflow.program.wiring import trailing_row
from thinflow.typing import Array

_FOLDED = ("Conv", "ConvTranspose", "DequantizeLinear")
"""Operators that runtimes fold factor and addend into, one by one, or look for right before them."""


def _has_no_bias(operator: Operator) -> str:
    return "" if len(operator.inputs) <= 2 else f"{operator.code} has a bias already"


def _behind(layers: str, *, op_between: str, axes: tuple[Operand, ...] = ()) -> tuple[Step, Step]:
    """What a layer without a bias gives, and that in another shape."""
    layer = op(layers, value("x"), value("w"), name="layer", where=_has_no_bias)
    return layer, op(op_between, layer, *axes, name="between")


class FuseBias(Rewrite):
    """add(conv(x, w), b) -> conv(x, w, b), b one number per channel or one for all."""

    patterns = tuple(
        op("Add", x, const("b"), any_order=True)
        for x in _behind("Conv|ConvTranspose", op_between="Squeeze", axes=(const("axes"),))
    )

    def replace(self, m: Match) -> None:
        conv, weights, constant = m.operator("layer"), m.tensor("w"), m.array("b")
        rank = None if conv.outputs[0].shape is None else len(conv.outputs[0].shape)
        need(rank is not None and weights.shape is not None, "the ranks are not known")
        assert weights.shape is not None
        only_if(m.output.dtype is weights.dtype)
        groups = int(conv.options.get("group", 1))
        # Filters of a ConvTranspose are [c,m/groups,...].
        count = weights.shape[0] if conv.code == "Conv" else (weights.shape[1] or 0) * groups
        # Broadcasting lines axes up from the end.
        gone = {int(a) % (rank or 1) for a in m.array("axes").ravel()} if "between" in m.operators else set()
        given = iter((1,) * ((rank or 0) - len(gone) - constant.ndim) + constant.shape)
        need(constant.ndim <= (rank or 0) - len(gone), "the addend has more axes than the result")
        sizes = tuple(1 if axis in gone else next(given) for axis in range(rank or 0))
        need(count is not None and len(sizes) == rank, "the number of channels is not known")
        per_channel = sizes[1] in (1, count) and all(n == 1 for a, n in enumerate(sizes) if a != 1)
        need(per_channel, "the addend differs along more than the channels")
        bias = np.ascontiguousarray(np.broadcast_to(constant.reshape(-1), (count or 0,)))
        m.wiring.set_input(conv, 2, new_constant(f"{m.output.name}/bias", bias, weights.dtype))
        m.wiring.absorb(m.head, m.operators.get("between", conv))


class FuseGemm(Rewrite):
    """add(matmul(x, w), b) -> gemm(x, w, b), for matrices of floats and a row b."""

    patterns = tuple(
        op("Add", x, const("b"), any_order=True)
        for x in _behind("MatMul|Gemm", op_between="Reshape|Squeeze|Unsqueeze")
    )

    def replace(self, m: Match) -> None:
        matmul, constant = m.operator("layer"), m.array("b")
        shapes = [m.tensor("x").shape, m.tensor("w").shape, matmul.outputs[0].shape]
        need(all(s is not None and len(s) == 2 for s in shapes), "Gemm takes matrices only")
        _, weights, result = (s or () for s in shapes)
        only_if(matmul.outputs[0].dtype.is_floating)
        # transB: the weights are [n,k].
        units = weights[1 - matmul.options.get("transB", 0)]
        need(units is not None and result[1] == units, "the number of columns is not known")
        between = m.operators.get("between")
        row = trailing_row(constant, (between or matmul).outputs[0].shape, units or 0)
        need(row is not None, "the addend is not one row")
        assert row is not None
        is_as_it_comes = between is None and constant.shape[-1:] in ((), (1,), (units,))
        bias = m.tensor("b") if is_as_it_comes else None
        matmul.code = "Gemm"
        bias = bias or new_constant(f"{m.output.name}/bias", row, m.tensor("b").dtype)
        m.wiring.set_input(matmul, 2, bias)
        m.wiring.absorb(m.head, between or matmul)


class DropNeutral(Rewrite):
    """x + 0, x * 1 and the like."""

    patterns = (
        op("Add|Mul", computed("x"), const("c"), any_order=True),
        op("Sub|Div", computed("x"), const("c")),
    )

    def replace(self, m: Match) -> None:
        shape, constant = m.tensor("x").shape, m.array("c")
        only_if(constant.size == 1 and constant.reshape(()) == (0 if m.head.code in ("Add", "Sub") else 1))
        # Broadcasting with more axes gives x more axes, even if its numbers stay.
        need(shape is not None and constant.ndim <= len(shape), "the constant has more axes than x")
        m.wiring.bypass(m.head, m.tensor("x"))


class FuseClip(Rewrite):
    """min(max(x, low), high) with fixed numbers -> clip(x, low, high)."""

    patterns = (
        op("Min", op("Max", computed("x"), const("low"), any_order=True), const("high"), any_order=True),
        op("Min", op("Relu", value("x")), const("high"), any_order=True),
    )

    def replace(self, m: Match) -> None:
        x, high, dtype = m.tensor("x"), m.array("high"), m.output.dtype
        low = m.array("low") if "low" in m.tensors else np.zeros((), high.dtype)
        only_if(dtype.is_floating)
        need(low.size == high.size == 1 and low <= high, "the bounds are not two numbers in order")
        need(max(low.ndim, high.ndim) <= len(x.shape or ()), "a bound has more axes than x")
        limits = [
            new_constant(f"{m.output.name}/{what}", n.reshape(()), x.dtype)
            for what, n in (("low", low), ("high", high))
        ]
        m.wiring.become(m.head, "Clip", x, *limits)


class FuseRelu(Rewrite):
    """clip(relu(x), low, high) -> clip(x, low, high), for a low from 0."""

    patterns = (op("Clip", op("Relu", value("x")), const("low")),)

    def replace(self, m: Match) -> None:
        need(m.array("low") >= 0, "the lower bound is below 0")
        m.wiring.set_input(m.head, 0, m.tensor("x"))


class FuseChannels(Rewrite):
    """A factor and an addend per channel as one operator.

        add(mul(x, f), a) -> BatchNormalization(x, f, a, mean 0, variance 1)    x [n,c,...], f and a [c,1,...]

    It reads and writes x once instead of twice. Norms in front of an activation look so, as no convolution
    before them takes the factor in.
    """

    patterns = (
        op(
            "Add",
            op("Mul", computed("x"), const("factor"), any_order=True, name="product"),
            const("addend"),
            any_order=True,
        ),
    )

    def replace(self, m: Match) -> None:
        x, readers = m.tensor("x"), m.wiring.readers(m.output)
        only_if(x.dtype in (FLOAT, DOUBLE) and x.shape is not None and len(x.shape) >= 3)
        scale, offset = _per_channel(x, m.array("factor")), _per_channel(x, m.array("addend"))
        need(not m.wiring.producer(x, *_FOLDED), "ONNX Runtime folds both into the layer before")
        need(all(r.code != "QuantizeLinear" for r in readers), "it is quantized, which keeps the two apart")
        need(scale is not None and offset is not None, "factor and addend do not both go by the channel")
        assert scale is not None
        assert offset is not None
        zeros, ones = np.zeros_like(scale), np.ones_like(scale)
        rows = {"scale": scale, "offset": offset, "mean": zeros, "variance": ones}
        constants = [new_constant(f"{m.output.name}/{n}", row, x.dtype) for n, row in rows.items()]
        m.wiring.remove(m.operator("product"))
        m.wiring.become(m.head, "BatchNormalization", x, *constants, epsilon=0.0)


def _per_channel(x: Tensor, array: Array) -> Array | None:
    """The numbers of an operand that differs along axis 1 alone, [c]; None if it is another one."""
    rank = len(x.shape or ())
    sizes = (1,) * (rank - array.ndim) + array.shape
    count = x.shape[1] if x.shape is not None else None
    if count is None or len(sizes) != rank or any(n != 1 for axis, n in enumerate(sizes) if axis != 1):
        return None
    return np.ascontiguousarray(array.reshape(-1)) if sizes[1] == count else None
