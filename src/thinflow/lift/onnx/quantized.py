"""ONNX's quantized ops: operands become real numbers, results are quantized.

x -> scale * (x - zero_point)        y -> clip(round(y / scale) + zero_point)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thinflow.decompose.terms import Term, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32, INT64, UINT8, DType, dtype
from thinflow.lift.grids import Grid, codes, keeps, spelled_codes
from thinflow.lift.grids import real as numbers_of
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.casts import narrowed
from thinflow.lift.onnx.formulas import Formula
from thinflow.lift.onnx.math import matmul
from thinflow.lift.onnx.values import NUMBERS, bounded, integers, rank, typed
from thinflow.lift.onnx.windows import convolution
from thinflow.lift.rules import Rule, lifts

_DOUBLE = dtype("double")


def sided(c: Call, parameter: Value, axis: int, x: Value) -> Value:
    """A scale or zero point as it meets the tensor: a scalar, along an axis, or one for each element."""
    shape, sizes = parameter.spec.shape, x.spec.shape
    if shape is None:
        raise UnsupportedOp("the size of its scale is not known")
    # A vector of one element is one scale for all, whatever axis is named.
    if shape in ((), (1,)):
        return c.emit("Reshape", parameter, integers(c, ()), Tshape=INT64)
    if sizes is None:
        raise UnsupportedOp("the number of dimensions of what it quantizes is not known")
    if len(shape) > 1:
        return _of_blocks(c, parameter, axis % len(sizes), sizes)
    sides = [1] * len(sizes)
    sides[axis % len(sizes)] = -1
    return c.emit("Reshape", parameter, integers(c, sides), Tshape=INT64)


def _of_blocks(c: Call, parameter: Value, axis: int, sizes: Sequence[int | None]) -> Value:
    """A scale or zero point for each element, where a block of elements along an axis shares one."""
    width, shape = c.get("block_size", 0), parameter.spec.shape or ()
    if width < 1 or len(shape) != len(sizes) or None in shape or sizes[axis] is None:
        raise UnsupportedOp("it has a scale per block, and the sizes of its blocks are not known")
    known = [n or 0 for n in shape]
    bounded(math.prod(known) * width)
    apart = [*known[: axis + 1], 1, *known[axis + 1 :]]
    y = c.emit("Reshape", parameter, integers(c, apart), Tshape=INT64)
    y = c.emit("Tile", y, integers(c, [width if n == axis + 1 else 1 for n in range(len(apart))]))
    known[axis] *= width
    y = c.emit("Reshape", y, integers(c, known), Tshape=INT64)
    # The last block may reach beyond the end.
    if known[axis] > (sizes[axis] or 0):
        known[axis] = sizes[axis] or 0
        y = c.emit("Slice", y, integers(c, [0] * len(known)), integers(c, known), Index=INT64)
    return y


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
    if stored.dtype.itemsize > 4 or stored.dtype.kind not in "iu" or any(r.ndim > 1 for r in rest):
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
    # float32 holds integers of up to 24 bits exactly.
    y = typed(c, c[x], FLOAT)
    if c.has(zero):
        y = c.emit("Sub", y, sided(c, typed(c, c[zero], FLOAT), axis, c[x]))
    return c.emit("Mul", y, sided(c, typed(c, c[scale], FLOAT), axis, c[x]))


def quantized(c: Call, y: Value, scale: Value, zero: Value | None, kind: DType) -> Value:
    """Real numbers quantized to a type; scale and zero point go with them as they are shaped."""
    shift = None if zero is None else typed(c, zero, FLOAT)
    return spelled_codes(c, y, scale, shift, Grid(1.0, 0, kind))


def rounded(c: Call, y: Value, scale: int, zero: int, axis: int = 0) -> Value:
    """The result quantized with a scale and a zero point among the operands."""
    # Where there is no zero point to tell the type, it is that of what was quantized before.
    kind = c[zero].dtype if c.has(zero) else c[0].dtype
    if kind is None:
        raise UnsupportedOp("the type of its zero point is not known")
    if (grid := _grid(c, scale, zero, kind)) is not None and keeps(c, y, grid):
        return codes(c, y, grid)
    shift = sided(c, c[zero], axis, y) if c.has(zero) else None
    return quantized(c, y, sided(c, c[scale], axis, y), shift, kind)


@lifts("onnx.QuantizeLinear", "onnx.com.microsoft.QuantizeLinear")
def _quantize(c: Call) -> Value:
    asked = NUMBERS.get(c.get("output_dtype", 0))
    kind = c[2].dtype if c.has(2) else asked or UINT8
    if kind is None or asked not in (None, kind) or NUMBERS.get(c.get("precision", 0)) not in (None, FLOAT):
        raise UnsupportedOp("the type that it quantizes to, or computes in, is another than its operands say")
    axis, y = c.get("axis", 1), typed(c, c[0], FLOAT)
    scale = sided(c, typed(c, c[1], FLOAT), axis, y)
    if kind.kind not in "iu":
        # Floats of few bits; their zero point, if there is one, is 0 and says the type.
        c.has(2)
        if not c.flag("saturate", default=True):
            raise UnsupportedOp("it gives infinity or NaN for what is beyond the largest number")
        return narrowed(c, c.emit("RealDiv", y, scale), kind)
    if (grid := _grid(c, 1, 2, kind)) is not None and keeps(c, y, grid):
        return codes(c, y, grid)
    zero = sided(c, c[2], axis, y) if c.has(2) else None
    return quantized(c, y, scale, zero, kind)


@lifts("onnx.DequantizeLinear", "onnx.com.microsoft.DequantizeLinear")
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
    scale, zero = eight_bit_grid(Formula(c).operand(0))
    shift = zero.cast(UINT8).value
    return quantized(c, c[0], scale.value, shift, UINT8), scale.value, shift


def eight_bit_grid(x: Term) -> tuple[Term, Term]:
    """Scale and zero point, float32, of the range that holds x and 0."""
    every = range(len(x.shape))
    # The range holds zero, so that 0 is quantized exactly.
    low, high = x.reduced("Min", *every).minimum(0.0), x.reduced("Max", *every).maximum(0.0)
    span = high - low
    # ONNX's definition divides by a scale of 0 where all are 0; its runtime takes a scale of 1 then.
    scale = where(span.equal(0.0), 1.0, span / 255.0)
    return scale, (-low / scale).apply("Round").clip(0.0, 255.0)


@lifts("onnx.QLinearConv", ignores=("kernel_shape", "pads"))
def _conv(c: Call) -> Value:
    """QLinearConv: the bias has the scale of the products."""
    # Weights may have a scale per output channel, their first axis.
    x, w = real(c, 0, 1, 2), real(c, 3, 4, 5, axis=0)
    bias = None
    if c.has(8):
        products = c.emit("Mul", sided(c, c[1], 0, c[8]), sided(c, c[4], 0, c[8]))
        # The bias is int32 of scale x times scale w, without a zero point.
        bias = c.emit("Mul", typed(c, c[8], FLOAT), products)
    return rounded(c, convolution(c, x, w, bias), 6, 7)


@lifts("onnx.QLinearMatMul")
def _matmul(c: Call) -> Value:
    # A scale per row of the first matrix and the result, per column of the second.
    y = matmul(c, real(c, 0, 1, 2, axis=-2), real(c, 3, 4, 5, axis=-1), (rank(c), rank(c, 3)))
    return rounded(c, y, 6, 7, -2)


def _pairwise(op: str) -> Rule:
    return lambda c: rounded(c, c.emit(op, real(c, 0, 1, 2), real(c, 3, 4, 5)), 6, 7)


def _mapped(op: str) -> Rule:
    return lambda c: rounded(c, c.emit(op, real(c, 0, 1, 2)), 3, 4)


@lifts("onnx.com.microsoft.QLinearGlobalAveragePool")
def _global_average(c: Call) -> Value:
    count = rank(c)
    axes = tuple(range(1, count - 1)) if c.flag("channels_last") else tuple(range(2, count))
    y = c.emit("Mean", real(c, 0, 1, 2), integers(c, axes), keep_dims=True, Tidx=INT64)
    return rounded(c, y, 3, 4)


@lifts("onnx.com.microsoft.QLinearConcat")
def _concat(c: Call) -> Value:
    """QLinearConcat: scale and zero point of the result, then tensor, scale, zero point of each part."""
    parts = [real(c, i, i + 1, i + 2) for i in range(2, len(c.xs), 3)]
    y = c.emit("ConcatV2", *parts, c.constant(c.get("axis")), N=len(parts), Tidx=INT32)
    return rounded(c, y, 0, 1)


def _centred(c: Call, place: int, zero: int, axis: int, kind: DType) -> Value:
    """Quantized values less their zero point, exactly."""
    y = typed(c, c[place], kind)
    if c.has(zero):
        y = c.emit("Sub", y, sided(c, typed(c, c[zero], kind), axis, c[place]))
    return y


def _of_sums(c: Call, axes: tuple[int, ...]) -> DType:
    """The type that holds sums of products of eight bits exactly; they go over these axes of the weights.

    Most fit the 24 bits of float32, which all targets compute in.
    """
    shape, known = c[1].spec.shape or (), c[1].node.tensor
    if any(shape[axis] is None for axis in axes):
        return _DOUBLE
    most = 255 * math.prod(shape[axis] or 0 for axis in axes)
    if known is not None and not c.has(3):
        most = int(np.abs(known.numpy().astype(np.int64)).sum(axis=axes).max(initial=0))
    # Less any zero point, nothing that a weight meets is beyond 255.
    return FLOAT if most * 255 < 1 << 24 else _DOUBLE


@lifts("onnx.ConvInteger", ignores=("kernel_shape", "pads"))
def _conv_integer(c: Call) -> Value:
    kind = _of_sums(c, tuple(range(1, rank(c, 1))))
    return typed(c, convolution(c, _centred(c, 0, 2, 1, kind), _centred(c, 1, 3, 0, kind), None), INT32)


@lifts("onnx.MatMulInteger")
def _matmul_integer(c: Call) -> Value:
    # Zero points may go by row of the first matrix and by column of the second.
    kind = _of_sums(c, (max(rank(c, 1) - 2, 0),))
    x, w = _centred(c, 0, 2, -2, kind), _centred(c, 1, 3, -1, kind)
    return typed(c, matmul(c, x, w, (rank(c), rank(c, 1))), INT32)


lifts("onnx.com.microsoft.QLinearAdd")(_pairwise("AddV2"))
lifts("onnx.com.microsoft.QLinearMul")(_pairwise("Mul"))
lifts("onnx.com.microsoft.QLinearSigmoid")(_mapped("Sigmoid"))
