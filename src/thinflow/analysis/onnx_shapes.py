"""Shapes of what common ONNX ops give, for files that do not state them. Rules: ONNX's op definitions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from thinflow.analysis.foreign import Operands, ShapeRule
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import (
    BFLOAT16,
    BOOL,
    DOUBLE,
    FLOAT,
    HALF,
    INT8,
    INT32,
    INT64,
    STRING,
    UINT8,
    DType,
    Shape,
    TensorSpec,
)


def _shape(spec: TensorSpec | None) -> tuple[int | None, ...]:
    """The sizes of an operand.

    Raises:
        ValueError: not even the rank is known.
    """
    if spec is None or spec.shape is None:
        raise ValueError("an operand has no known rank")
    return spec.shape


def _same(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    del attrs
    return _shape(xs[0])


def _broadcast(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    del attrs
    shapes = [_shape(x)[::-1] for x in xs]
    return tuple(_joined(sizes) for sizes in zip_longest(*shapes, fillvalue=1))[::-1]


def _joined(sizes: Sequence[int | None]) -> int | None:
    # Broadcasting: a size other than 1 decides; an unknown one may be 1, so a known one wins over it.
    large = [n for n in sizes if n != 1]
    if not large:
        return 1
    return next((n for n in large if n is not None), None)


def _windows(x: tuple[int | None, ...], kernel: Sequence[int], attrs: Mapping[str, Any]) -> list[int | None]:
    """Sizes of the axes that a window slides along, by pads or auto_pad."""
    rank = len(kernel)
    if len(x) != rank + 2:
        raise ValueError("the window and what it slides over have different ranks")
    strides = attrs.get("strides") or (1,) * rank
    dilations = attrs.get("dilations") or (1,) * rank
    pads = attrs.get("pads") or (0,) * (2 * rank)
    mode = attrs.get("auto_pad", b"NOTSET")
    found: list[int | None] = []
    for i, size in enumerate(x[2:]):
        span = (kernel[i] - 1) * dilations[i] + 1
        if size is None:
            found.append(None)
        elif mode in (b"SAME_UPPER", b"SAME_LOWER"):
            # SAME: as many windows as strides fit, whatever the kernel; padding makes up for the rest.
            found.append(-(-size // strides[i]))
        else:
            # Pads are the beginnings of all axes, then their ends.
            around = 0 if mode == b"VALID" else pads[i] + pads[i + rank]
            room = size + around - span
            found.append((-(-room // strides[i]) if attrs.get("ceil_mode") else room // strides[i]) + 1)
    return found


def _conv(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    x, w = _shape(xs[0]), _shape(xs[1])
    # An unknown kernel counts as 1 here, weights being constants nearly always.
    kernel = [k or 1 for k in w[2:]]
    return (x[0], w[0], *_windows(x, kernel, attrs))


def _conv_transpose(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    x, w = _shape(xs[0]), _shape(xs[1])
    rank = len(w) - 2
    if len(x) != len(w):
        raise ValueError("the window and what it slides over have different ranks")
    channels = None if w[1] is None else w[1] * attrs.get("group", 1)
    if attrs.get("output_shape"):
        return (x[0], channels, *attrs["output_shape"][-rank:])
    strides, dilations = attrs.get("strides") or (1,) * rank, attrs.get("dilations") or (1,) * rank
    pads, extra = attrs.get("pads") or (0,) * 2 * rank, attrs.get("output_padding") or (0,) * rank
    if attrs.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        return (x[0], channels, *(None if n is None else n * s for n, s in zip(x[2:], strides, strict=True)))
    found: list[int | None] = []
    for i, size in enumerate(x[2:]):
        span = ((w[2 + i] or 1) - 1) * dilations[i] + 1
        around = pads[i] + pads[i + rank]
        # By the formula of the op's definition: the inverse of a convolution's size, pads cut off.
        found.append(None if size is None else strides[i] * (size - 1) + extra[i] + span - around)
    return (x[0], channels, *found)


def _pool(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    x = _shape(xs[0])
    return (*x[:2], *_windows(x, attrs["kernel_shape"], attrs))


def _global_pool(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    del attrs
    x = _shape(xs[0])
    return (*x[:2], *(1 for _ in x[2:]))


def _gemm(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    a, b = _shape(xs[0]), _shape(xs[1])
    return (a[1 if attrs.get("transA") else 0], b[0 if attrs.get("transB") else 1])


def _matmul(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    a, b = _shape(xs[0]), _shape(xs[1])
    # As numpy's matmul: a vector has no axis to keep.
    if len(a) < 2 or len(b) < 2:
        return a[:-1] + b[:-2] + b[-1:] if len(b) > 1 else a[:-1]
    batch = _broadcast([TensorSpec(None, a[:-2]), TensorSpec(None, b[:-2])], attrs)
    return (*(batch or ()), a[-2], b[-1])


def _flatten(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    x = _shape(xs[0])
    axis = attrs.get("axis", 1)
    parts = x[:axis], x[axis:]
    return tuple(None if None in p else math.prod(n or 0 for n in p) for p in parts)


def _reshape(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    x, wanted = _shape(xs[0]), _ints(xs, 1, attrs, "shape")
    keeps_zero = not attrs.get("allowzero")
    # 0 copies the size at its own place, unless `allowzero` makes it an empty axis.
    sizes = [x[i] if n == 0 and keeps_zero else n for i, n in enumerate(wanted)]
    if -1 in sizes:
        others = [n for n in sizes if n != -1]
        at = sizes.index(-1)
        known = None in x or None in others
        rest = math.prod(n or 0 for n in others)
        sizes[at] = None if known else math.prod(n or 0 for n in x) // max(rest, 1)
    return tuple(sizes)


def _ints(xs: Operands, place: int, attrs: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """Numbers that newer ops take as an input and older ones as an attribute.

    Raises:
        ValueError: they are computed.
    """
    spec = xs[place] if len(xs) > place else None
    found = spec.ints if spec is not None else attrs.get(name)
    if found is None:
        raise ValueError(f"{name} is not constant")
    return tuple(found)


def _transpose(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    x = _shape(xs[0])
    # Without `perm` the axes are reversed.
    return tuple(x[i] for i in attrs.get("perm") or range(len(x) - 1, -1, -1))


def _concat(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    shapes = [_shape(x) for x in xs]
    # Python's modulo: a negative axis counts from the end.
    axis = attrs["axis"] % len(shapes[0])
    along = [s[axis] for s in shapes]
    total = None if None in along else sum(n or 0 for n in along)
    return (*shapes[0][:axis], total, *shapes[0][axis + 1 :])


def _squeeze(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    x = _shape(xs[0])
    has_axes = (len(xs) > 1 and xs[1] is not None) or "axes" in attrs
    axes = _ints(xs, 1, attrs, "axes") if has_axes else [i for i, n in enumerate(x) if n == 1]
    gone = {a % len(x) for a in axes}
    return tuple(n for i, n in enumerate(x) if i not in gone)


def _unsqueeze(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    x, axes = _shape(xs[0]), _ints(xs, 1, attrs, "axes")
    # Axes count in the result.
    rank = len(x) + len(axes)
    places = {a % rank for a in axes}
    left = iter(x)
    return tuple(1 if i in places else next(left) for i in range(rank))


def _pad(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    x, pads = _shape(xs[0]), _ints(xs, 1, attrs, "pads")
    if len(pads) != 2 * len(x):
        raise ValueError("pads of some axes only")
    return tuple(None if n is None else n + pads[i] + pads[i + len(x)] for i, n in enumerate(x))


def _reduction(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    x = _shape(xs[0])
    has_axes = (len(xs) > 1 and xs[1] is not None) or "axes" in attrs
    axes = {a % len(x) for a in _ints(xs, 1, attrs, "axes")} if has_axes else set(range(len(x)))
    return _without(x, axes, attrs)


def _arg(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    x = _shape(xs[0])
    return _without(x, {attrs.get("axis", 0) % len(x)}, attrs)


def _without(x: tuple[int | None, ...], axes: set[int], attrs: Mapping[str, Any]) -> Shape:
    if attrs.get("keepdims", 1):
        return tuple(1 if i in axes else n for i, n in enumerate(x))
    return tuple(n for i, n in enumerate(x) if i not in axes)


def _gather(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    x, indices = _shape(xs[0]), _shape(xs[1])
    axis = attrs.get("axis", 0) % len(x)
    return x[:axis] + indices + x[axis + 1 :]


def _constant_of_shape(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    return _ints(xs, 0, attrs, "shape")


def _constant(xs: Operands, attrs: Mapping[str, Any]) -> Shape:
    del xs
    value = attrs["value"]
    return value.shape if isinstance(value, Tensor) else None


def result_type(op: str, xs: Operands, attrs: Mapping[str, Any]) -> DType | None:
    """The element type of the first output of an op in `RULES`."""
    if op in _BOOLEAN:
        return BOOL
    if op in ("ArgMax", "ArgMin"):
        return INT64
    if op in ("ConvInteger", "MatMulInteger"):
        return INT32
    if op == "Cast":
        return _TYPES.get(attrs["to"])
    # The zero point has the type of the result; without one it is uint8.
    if op == "QuantizeLinear":
        zero = xs[2] if len(xs) > 2 else None
        return UINT8 if zero is None else zero.dtype
    if op == "DynamicQuantizeLinear":
        return UINT8
    if op == ENCODER:
        return next((t for name, t in _ENCODED.items() if name in attrs), None)
    if op in ("Constant", "ConstantOfShape"):
        value = attrs.get("value")
        return value.dtype if isinstance(value, Tensor) else FLOAT
    # The type of a scale, of a branch, of the operand cast to; else of the first operand.
    place = {"DequantizeLinear": 1, "Where": 1, "CastLike": 1}.get(op, 0)
    decisive = xs[place]
    return None if decisive is None else decisive.dtype


_COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
_BOOLEAN = frozenset({*_COMPARISONS, "And", "Not", "Or", "Xor"})
_TYPES = {1: FLOAT, 2: UINT8, 3: INT8, 6: INT32, 7: INT64, 9: BOOL, 10: HALF, 11: DOUBLE, 16: BFLOAT16}
"""Numbers of ONNX's element types that a Cast goes to."""
ENCODER = "ai.onnx.ml.LabelEncoder"
_ENCODED = {"values_strings": STRING, "values_int64s": INT64, "values_floats": FLOAT}
_UNARY = """
    Abs Acos Acosh Asin Asinh Atan Atanh BatchNormalization BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh
    CumSum DequantizeLinear Dropout DynamicQuantizeLinear Elu Erf Exp Floor Gelu HardSigmoid HardSwish Hardmax
    Identity InstanceNormalization GroupNormalization LRN LayerNormalization LeakyRelu Log LogSoftmax
    LpNormalization MeanVarianceNormalization Mish Neg Not QuantizeLinear Reciprocal Relu Round Selu Shrink
    Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Tan Tanh ThresholdedRelu Trilu
"""
_BINARY = """
    Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max
    Mean Min Mod Mul Or PRelu Pow Sub Sum Where Xor
"""
_REDUCTIONS = """
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare
"""
RULES: dict[str, ShapeRule] = {
    **dict.fromkeys(_UNARY.split(), _same),
    ENCODER: _same,
    **dict.fromkeys(_BINARY.split(), _broadcast),
    **dict.fromkeys(_REDUCTIONS.split(), _reduction),
    **dict.fromkeys(("Conv", "ConvInteger"), _conv),
    "ConvTranspose": _conv_transpose,
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), _global_pool),
    "Gemm": _gemm,
    **dict.fromkeys(("MatMul", "MatMulInteger"), _matmul),
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Concat": _concat,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Pad": _pad,
    **dict.fromkeys(("ArgMax", "ArgMin"), _arg),
    "Gather": _gather,
    "ConstantOfShape": _constant_of_shape,
    "Constant": _constant,
}
