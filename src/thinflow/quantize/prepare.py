"""Float ONNX programs in the ops that have integer kernels.

FakeQuant(x) becomes x, whose range is then known; a ReduceMean over a picture is a GlobalAveragePool;
x - c and x / c become x + (-c) and x * (1/c); a product of several matrices with a bias, as linear layers of
transformers are, becomes one of all their rows, which is a Gemm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from thinflow.lower.onnx.wiring import Wiring, new_constant
from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.program.wiring import constant_of, trailing_row, with_constant
from thinflow.quantize.kernels import is_float
from thinflow.quantize.kernels.onnx import INT8_KERNELS as KERNELS
from thinflow.quantize.placement import KEPT
from thinflow.quantize.ranges import Range
from thinflow.quantize.trained import Roundings

_TINY = float(np.finfo(np.float32).tiny)


def prepare(program: Program, *, observer: str = "trained") -> dict[Any, Range]:
    """Rewrite a program for quantization, in place.

    Args:
        observer: of the ranges that it states.

    Returns:
        The ranges the model was trained with, by tensor.
    """
    wiring = Wiring(program)
    imported = _without_rounding(wiring, observer)
    for operator in list(program.operators):
        if operator.code == "ReduceMean":
            _pool_all(wiring, operator)
        elif operator.code in ("Sub", "Div"):
            _commute(wiring, operator)
        elif operator.code == "Add" and observer != KEPT:
            _join_rows(wiring, operator, imported)
    wiring.finish()
    return imported


def _without_rounding(wiring: Wiring, observer: str) -> dict[Any, Range]:
    """Take out simulated quantizations; what they are done to has their ranges."""
    stated = {
        o: Range(o.options["low"], o.options["high"], observer)
        for o in wiring.block.operators
        if o.code == "FakeQuant"
    }
    rounded = {o: given for o, given in stated.items() if is_float(o.inputs[0])}
    roundings = Roundings(wiring, rounded, KERNELS if observer == KEPT else None)
    for operator, given in stated.items():
        if operator in rounded and not roundings.take_out(operator):
            if operator.inputs[0] not in roundings.ranges:
                # Rounding cuts off what is beyond, and is all that happens here.
                operator.code, operator.options = "Identity", {}
                continue
            # Another reader sees what is before the rounding: its limits stay, for these numbers only.
            y = operator.outputs[0]
            limits = [
                new_constant(f"{y.name}/{side}", np.asarray(limit, np.float32), y.dtype)
                for side, limit in (("low", given.low), ("high", given.high))
            ]
            wiring.become(operator, "Clip", operator.inputs[0], *limits)
        elif operator not in rounded:
            operator.code, operator.options = "Identity", {}
    return roundings.ranges


def _pool_all(wiring: Wiring, operator: Operator) -> None:
    """A mean over all of a picture [n,c,h,w], whose axes stay or are reshaped away."""
    x, y = operator.inputs[0], operator.outputs[0]
    axes = operator.options.get("axes")
    if axes is None and len(operator.inputs) > 1:
        listed = constant_of(operator.inputs[1])
        axes = None if listed is None else listed.tolist()
    if x is None or x.shape is None or len(x.shape) != 4 or axes is None:
        return
    # NCHW: 2 and 3 are height and width.
    if sorted(int(a) % 4 for a in axes) != [2, 3] or x.dtype.name != "float":
        return
    keeps = bool(operator.options.get("keepdims", 1))
    operator.code, operator.options = "GlobalAveragePool", {}
    wiring.set_inputs(operator, [x])
    if not keeps:
        pooled = Tensor(f"{y.name}/pooled", (*x.shape[:2], 1, 1), y.dtype)
        wiring.set_output(operator, 0, pooled)
        places = new_constant(f"{y.name}/places", np.array([2, 3], np.int64))
        wiring.add(operator, "Squeeze", [pooled, places], y)


def _join_rows(wiring: Wiring, operator: Operator, stated: Mapping[Any, Range]) -> None:
    """x [..., rows, k] @ w [k, n] + bias -> Gemm of all rows.

    ONNX Runtime does so itself, of floats it has dequantized for that, and then multiplies floats.
    """
    product, row = with_constant(operator)
    matmul = wiring.sole_producer(product, "MatMul")
    if matmul is None or row is None or product in stated:
        return
    x, w = matmul.inputs
    sizes, weights = None if x is None else x.shape, constant_of(w)
    if x is None or x.is_constant or sizes is None or len(sizes) < 3 or weights is None or weights.ndim != 2:
        return
    y, (depth, units) = operator.outputs[0], weights.shape
    bias = trailing_row(row, y.shape, units)
    if bias is None or y.shape != (*sizes[:-1], units) or sizes.count(None) > 1 or x.dtype.name != "float":
        return
    count = None if None in sizes else math.prod(n or 0 for n in sizes[:-1])
    name = y.name
    flat = new_constant(f"{name}/rows/shape", np.array([-1, depth], np.int64))
    rows = wiring.add(operator, "Reshape", [x, flat], Tensor(f"{name}/rows", (count, depth), x.dtype))
    offset = new_constant(f"{name}/bias", bias, y.dtype)
    made = Tensor(f"{name}/product", (count, units), y.dtype)
    wiring.add(operator, "Gemm", [rows, w, offset], made)
    shape = [-1 if n is None else n for n in y.shape]
    wiring.become(operator, "Reshape", made, new_constant(f"{name}/shape", np.array(shape, np.int64)))
    wiring.remove(matmul)


def _commute(wiring: Wiring, operator: Operator) -> None:
    """The operation that ONNX Runtime has for integers, with the opposite of a constant."""
    x, c = operator.inputs
    array = constant_of(c)
    if x is None or c is None or x.is_constant or array is None or c.dtype.name != "float":
        return
    # ONNX Runtime knows a GELU by its quotient.
    if any(reader.code == "Erf" for reader in wiring.readers(operator.outputs[0])):
        return
    # The reciprocal of a subnormal number may be infinite.
    if operator.code == "Div" and not (np.isfinite(array) & (np.abs(array) > _TINY)).all():
        return
    # x - c = x + (-c) exactly. x * (1/c) rounds once more than x / c, by far less than eight bits show.
    opposite = -array if operator.code == "Sub" else np.asarray(np.float32(1) / array, np.float32)
    name = operator.outputs[0].name
    operator.code = "Add" if operator.code == "Sub" else "Mul"
    wiring.set_inputs(operator, [x, new_constant(f"{name}/opposite", np.asarray(opposite), c.dtype)])
