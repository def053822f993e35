"""ONNX's quantized ops: operands become real numbers, results are quantized.

x -> scale * (x - zero_point)        y -> clip(round(y / scale) + zero_point)
"""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32, INT64, UINT8, DType, dtype
from thinflow.lift.grids import Grid, codes, keeps, spelled_codes
from thinflow.lift.grids import real as numbers_of
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.math import matmul
from thinflow.lift.onnx.values import NUMBERS, integers, rank, typed
from thinflow.lift.onnx.windows import convolution
from thinflow.lift.rules import Rule, lifts

_DOUBLE = dtype("double")


def _sided(c: Call, parameter: Value, axis: int, count: int) -> Value:
    """A scale or zero point as it meets the tensor: a scalar, or along an axis."""
    shape = parameter.spec.shape
    if shape is None:
        raise UnsupportedOp("the size of its scale is not known")
    # A vector of one element is one scale for all, whatever axis is named.
    if shape in ((), (1,)):
        return c.emit("Reshape", parameter, integers(c, ()), Tshape=INT64)
    if len(shape) > 1:
        raise UnsupportedOp("it has a scale per block")
    sides = [1] * count
    sides[axis % count] = -1
    return c.emit("Reshape", parameter, integers(c, sides), Tshape=INT64)


def _grid(c: Call, scale: int, zero: int, kind: DType | None) -> Grid | None:
    """The grid that two operands state for a value; None if they are computed, or are several."""
    tensors = [c[place].node.tensor for place in (scale, zero) if c.has(place)]
    if kind is None or any(t is None or t.size != 1 for t in tensors) or kind.kind not in "iu":
        return None
    numbers = [t.numpy().reshape(-1)[0] for t in tensors if t is not None]
    return Grid(float(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 0, kind)


def _at_once(c: Call, x: int, scale: int, zero: int, axis: int) -> Value | None:
    """The real numbers of a constant, such as weights, whose scales are constants; None for another one."""
    places = [place for place in (x, scale, zero) if c.has(place)]
    tensors = [c[place].node.tensor for place in places]
    if any(t is None or t.dtype.kind not in "iuf" for t in tensors) or c[scale].dtype is not FLOAT:
        return None
    stored, *rest = [t.numpy() for t in tensors if t is not None]
    if stored.dtype.itemsize > 4 or any(r.ndim > 1 for r in rest):
        return None
    sides = [1] * stored.ndim
    if any(r.size > 1 for r in rest):
        sides[axis % stored.ndim] = -1
    # As `TensorParams.real`: in float64, and rounded once.
    factor, *shift = (r.astype(np.float64).reshape(sides if r.size > 1 else ()) for r in rest)
    steps = stored.astype(np.float64) - (shift[0] if shift else 0)
    return c.constant(np.asarray(steps * factor, np.float32))


def real(c: Call, x: int, scale: int, zero: int, axis: int = 1) -> Value:
    """The real numbers of an operand, whose scale and zero point are other operands; float32."""
    if (known := _at_once(c, x, scale, zero, axis)) is not None:
        return known
    grid = _grid(c, scale, zero, c[x].dtype) if c.lifter.keeps_grids and c[scale].dtype is FLOAT else None
    if grid is not None and grid.is_range:
        return numbers_of(c, c[x], grid)
    count = rank(c, x)
    # float32 holds integers of up to 24 bits exactly.
    y = typed(c, c[x], FLOAT)
    if c.has(zero):
        y = c.emit("Sub", y, typed(c, _sided(c, c[zero], axis, count), FLOAT))
    return c.emit("Mul", y, typed(c, _sided(c, c[scale], axis, count), FLOAT))


def quantized(c: Call, y: Value, scale: Value, zero: Value | None, kind: DType) -> Value:
    """Real numbers quantized to a type; scale and zero point go with them as they are shaped."""
    shift = None if zero is None else typed(c, zero, FLOAT)
    return spelled_codes(c, y, scale, shift, Grid(1.0, 0, kind))


def rounded(c: Call, y: Value, scale: int, zero: int) -> Value:
    """The result quantized with a scale and a zero point among the operands, one of each."""
    # ONNX's type of quantized values where there is no zero point to tell it.
    kind = c[zero].dtype if c.has(zero) else UINT8
    if kind is None:
        raise UnsupportedOp("the type of its zero point is not known")
    if (grid := _grid(c, scale, zero, kind)) is not None and keeps(c, y, grid):
        return codes(c, y, grid)
    shift = _sided(c, c[zero], 0, 1) if c.has(zero) else None
    return quantized(c, y, _sided(c, c[scale], 0, 1), shift, kind)


@lifts("onnx.QuantizeLinear")
def _quantize(c: Call) -> Value:
    asked = NUMBERS.get(c.get("output_dtype", 0))
    kind = c[2].dtype if c.has(2) else asked or UINT8
    if kind is None or kind.kind not in "iu" or asked not in (None, kind):
        raise UnsupportedOp("its quantized values are no integers")
    count, axis = rank(c), c.get("axis", 1)
    y = typed(c, c[0], FLOAT)
    if (grid := _grid(c, 1, 2, kind)) is not None and keeps(c, y, grid):
        return codes(c, y, grid)
    zero = _sided(c, c[2], axis, count) if c.has(2) else None
    return quantized(c, y, _sided(c, c[1], axis, count), zero, kind)


@lifts("onnx.DequantizeLinear")
def _dequantize(c: Call) -> Value:
    """In the type of the scale, unless another is asked for."""
    kind = NUMBERS.get(c.get("output_dtype", 0)) or c[1].dtype or FLOAT
    # A node of its own, as what was quantized has the name that it was quantized under.
    return c.emit("Identity", typed(c, real(c, 0, 1, 2, c.get("axis", 1)), kind))


@lifts("onnx.DynamicQuantizeLinear")
def _dynamic(c: Call) -> list[Value]:
    return list(dynamically_quantized(c))


def dynamically_quantized(c: Call) -> tuple[Value, Value, Value]:
    """The first operand as uint8 values, scale and zero point of the range that holds x and 0."""
    zero = c.constant(np.array(0, np.float32))
    every = integers(c, tuple(range(rank(c))))
    # The range holds zero, so that 0 is quantized exactly.
    low = c.emit("Minimum", c.emit("Min", c[0], every, Tidx=INT64), zero)
    high = c.emit("Maximum", c.emit("Max", c[0], every, Tidx=INT64), zero)
    span = c.emit("Sub", high, low)
    # ONNX's definition divides by a scale of 0 where all are 0; its runtime takes a scale of 1 then.
    scale = c.emit("RealDiv", span, c.constant(np.array(255, np.float32)))
    scale = c.emit(
        "SelectV2", c.emit("Equal", span, zero), c.constant(np.array(1, np.float32)), scale, T=FLOAT
    )
    point = c.emit("Round", c.emit("RealDiv", c.emit("Neg", low), scale))
    bounded = c.emit("Minimum", c.emit("Maximum", point, zero), c.constant(np.array(255, np.float32)))
    shift = c.emit("Cast", bounded, SrcT=FLOAT, DstT=UINT8)
    return quantized(c, c[0], scale, shift, UINT8), scale, shift


@lifts("onnx.QLinearConv", ignores=("kernel_shape", "pads"))
def _conv(c: Call) -> Value:
    """QLinearConv: the bias has the scale of the products."""
    # Weights may have a scale per output channel, their first axis.
    x, w = real(c, 0, 1, 2), real(c, 3, 4, 5, axis=0)
    bias = None
    if c.has(8):
        products = c.emit("Mul", _sided(c, c[1], 0, 1), _sided(c, c[4], 0, 1))
        # The bias is int32 of scale x times scale w, without a zero point.
        bias = c.emit("Mul", typed(c, c[8], FLOAT), products)
    return rounded(c, convolution(c, x, w, bias), 6, 7)


@lifts("onnx.QLinearMatMul")
def _matmul(c: Call) -> Value:
    # A scale per column of the second matrix, which is a unit of the result.
    y = matmul(c, real(c, 0, 1, 2), real(c, 3, 4, 5, axis=-1), (rank(c), rank(c, 3)))
    return rounded(c, y, 6, 7)


def _pairwise(op: str) -> Rule:
    return lambda c: rounded(c, c.emit(op, real(c, 0, 1, 2), real(c, 3, 4, 5)), 6, 7)


def _mapped(op: str) -> Rule:
    return lambda c: rounded(c, c.emit(op, real(c, 0, 1, 2)), 3, 4)


@lifts("onnx.com.microsoft.QLinearGlobalAveragePool")
def _global_average(c: Call) -> Value:
    count = rank(c)
    axes = tuple(range(1, count - 1)) if c.get("channels_last", 0) else tuple(range(2, count))
    y = c.emit("Mean", real(c, 0, 1, 2), integers(c, axes), keep_dims=True, Tidx=INT64)
    return rounded(c, y, 3, 4)


@lifts("onnx.com.microsoft.QLinearConcat")
def _concat(c: Call) -> Value:
    """QLinearConcat: scale and zero point of the result, then tensor, scale, zero point of each part."""
    parts = [real(c, i, i + 1, i + 2) for i in range(2, len(c.xs), 3)]
    y = c.emit("ConcatV2", *parts, c.constant(c.get("axis")), N=len(parts), Tidx=INT32)
    return rounded(c, y, 0, 1)


def _centred(c: Call, place: int, zero: int, axis: int) -> Value:
    """Quantized values less their zero point, exactly."""
    # In double: sums of products of eight-bit integers fit 32 bits, which float32 does not hold exactly.
    y = typed(c, c[place], _DOUBLE)
    if c.has(zero):
        y = c.emit("Sub", y, typed(c, _sided(c, c[zero], axis, rank(c, place)), _DOUBLE))
    return y


@lifts("onnx.ConvInteger", ignores=("kernel_shape", "pads"))
def _conv_integer(c: Call) -> Value:
    return typed(c, convolution(c, _centred(c, 0, 2, 1), _centred(c, 1, 3, 0), None), INT32)


@lifts("onnx.MatMulInteger")
def _matmul_integer(c: Call) -> Value:
    # Zero points may go by row of the first matrix and by column of the second.
    y = matmul(c, _centred(c, 0, 2, -2), _centred(c, 1, 3, -1), (rank(c), rank(c, 1)))
    return typed(c, y, INT32)


lifts("onnx.com.microsoft.QLinearAdd")(_pairwise("AddV2"))
lifts("onnx.com.microsoft.QLinearMul")(_pairwise("Mul"))
lifts("onnx.com.microsoft.QLinearSigmoid")(_mapped("Sigmoid"))
