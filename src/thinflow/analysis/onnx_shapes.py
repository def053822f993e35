"""Shapes of what common ONNX ops give, for files that do not state them. Rules: ONNX's op definitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest

from thinflow.analysis.foreign_rules import Attributes, Operands, shape_rule, type_of
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

_TYPES = {1: FLOAT, 2: UINT8, 3: INT8, 6: INT32, 7: INT64, 9: BOOL, 10: HALF, 11: DOUBLE, 16: BFLOAT16}
"""Numbers of ONNX's element types that a Cast goes to."""
_ENCODED = {"values_strings": STRING, "values_int64s": INT64, "values_floats": FLOAT}
"""Attributes of a LabelEncoder, and the type of what it gives where it has one."""


def _cast_type(xs: Operands, attrs: Attributes) -> DType | None:
    del xs
    return _TYPES.get(attrs["to"])


def _zero_point_type(xs: Operands, attrs: Attributes) -> DType | None:
    """The type of the zero point; without one it is uint8."""
    del attrs
    zero = xs[2] if len(xs) > 2 else None
    return UINT8 if zero is None else zero.dtype


def _encoded_type(xs: Operands, attrs: Attributes) -> DType | None:
    del xs
    return next((t for name, t in _ENCODED.items() if name in attrs), None)


def _value_type(xs: Operands, attrs: Attributes) -> DType | None:
    del xs
    value = attrs.get("value")
    return value.dtype if isinstance(value, Tensor) else FLOAT


def _named(ops: str) -> list[str]:
    return [f"onnx.{op}" for op in ops.split()]


def _shape(spec: TensorSpec | None) -> tuple[int | None, ...]:
    """The sizes of an operand.

    Raises:
        ValueError: not even the rank is known.
    """
    if spec is None or spec.shape is None:
        raise ValueError("an operand has no known rank")
    return spec.shape


@shape_rule(
    *_named(
        "Abs Acos Acosh Asin Asinh Atan Atanh BatchNormalization BitwiseNot Ceil Celu Clip Cos Cosh "
        "CumSum Dropout Elu Erf Exp Floor Gelu HardSigmoid HardSwish Hardmax Identity "
        "InstanceNormalization GroupNormalization LRN LayerNormalization LeakyRelu Log LogSoftmax "
        "LpNormalization MeanVarianceNormalization Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid "
        "Sign Sin Sinh Softmax Softplus Softsign Sqrt Tan Tanh ThresholdedRelu Trilu"
    )
)
@shape_rule("onnx.Not", gives=BOOL)
@shape_rule("onnx.Cast", gives=_cast_type)
@shape_rule("onnx.CastLike", "onnx.DequantizeLinear", gives=type_of(1))  # of what is cast to, of the scale
@shape_rule("onnx.QuantizeLinear", gives=_zero_point_type)
@shape_rule("onnx.DynamicQuantizeLinear", gives=UINT8)
@shape_rule("onnx.ai.onnx.ml.LabelEncoder", gives=_encoded_type)
def _same(xs: Operands, attrs: Attributes) -> Shape:
    del attrs
    return _shape(xs[0])


@shape_rule("onnx.com.microsoft.extensions.DecodeImage", gives=UINT8)
def _picture(xs: Operands, attrs: Attributes) -> Shape:
    """Rows, columns, colours in the order blue, green, red."""
    del xs, attrs
    return (None, None, 3)


@shape_rule(
    *_named("Add BitShift BitwiseAnd BitwiseOr BitwiseXor Div Max Mean Min Mod Mul PRelu Pow Sub Sum")
)
@shape_rule("onnx.Where", gives=type_of(1))
@shape_rule(*_named("And Equal Greater GreaterOrEqual Less LessOrEqual Or Xor"), gives=BOOL)
def _broadcast(xs: Operands, attrs: Attributes) -> Shape:
    del attrs
    shapes = [_shape(x)[::-1] for x in xs]
    return tuple(_joined(sizes) for sizes in zip_longest(*shapes, fillvalue=1))[::-1]


def _joined(sizes: Sequence[int | None]) -> int | None:
    # Broadcasting: a size other than 1 decides; an unknown one may be 1, so a known one wins over it.
    large = [n for n in sizes if n != 1]
    if not large:
        return 1
    return next((n for n in large if n is not None), None)


def _windows(x: tuple[int | None, ...], kernel: Sequence[int], attrs: Attributes) -> list[int | None]:
    """Sizes of the axes that a window slides along, by pads or auto_pad."""
    rank = len(kernel)
    if len(x) != rank + 2:
        raise ValueError("the window and what it slides over have different ranks")
    strides = attrs.get("strides") or (1,) * rank
    dilations = attrs.get("dilations") or (1,) * rank
    pads = attrs.get("pads") or (0,) * (2 * rank)
    mode = attrs.get("auto_pad", b"NOTSET")
    counts: list[int | None] = []
    for i, size in enumerate(x[2:]):
        span = (kernel[i] - 1) * dilations[i] + 1
        if size is None:
            counts.append(None)
        elif mode in (b"SAME_UPPER", b"SAME_LOWER"):
            # SAME: as many windows as strides fit, whatever the kernel; padding makes up for the rest.
            counts.append(-(-size // strides[i]))
        else:
            # Pads are the beginnings of all axes, then their ends.
            before, after = (0, 0) if mode == b"VALID" else (pads[i], pads[i + rank])
            room = size + before + after - span
            windows = (-(-room // strides[i]) if attrs.get("ceil_mode") else room // strides[i]) + 1
            # A last window that would begin in the padding behind the input is left out.
            counts.append(
                windows - (bool(attrs.get("ceil_mode")) and (windows - 1) * strides[i] >= size + before)
            )
    return counts


@shape_rule("onnx.Conv")
@shape_rule("onnx.ConvInteger", gives=INT32)
def _conv(xs: Operands, attrs: Attributes) -> Shape:
    x, w = _shape(xs[0]), _shape(xs[1])
    # An unknown kernel counts as 1 here, weights being constants nearly always.
    kernel = [k or 1 for k in w[2:]]
    return (x[0], w[0], *_windows(x, kernel, attrs))


@shape_rule("onnx.ConvTranspose")
def _conv_transpose(xs: Operands, attrs: Attributes) -> Shape:
    x, w = _shape(xs[0]), _shape(xs[1])
    rank = len(w) - 2
    if len(x) != len(w):
        raise ValueError("the window and what it slides over have different ranks")
    channels = None if w[1] is None else w[1] * attrs.get("group", 1)
    if attrs.get("output_shape"):
        return (x[0], channels, *attrs["output_shape"][-rank:])
    strides, dilations = attrs.get("strides") or (1,) * rank, attrs.get("dilations") or (1,) * rank
    pads, extra = attrs.get("pads") or (0,) * 2 * rank, attrs.get("output_padding") or (0,) * rank
    # SAME pads so that each input element makes one stride of outputs.
    if attrs.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        return (x[0], channels, *(None if n is None else n * s for n, s in zip(x[2:], strides, strict=True)))
    sizes: list[int | None] = []
    for i, size in enumerate(x[2:]):
        span = ((w[2 + i] or 1) - 1) * dilations[i] + 1
        around = pads[i] + pads[i + rank]
        # By the formula of the op's definition: the inverse of a convolution's size, pads cut off.
        sizes.append(None if size is None else strides[i] * (size - 1) + extra[i] + span - around)
    return (x[0], channels, *sizes)


@shape_rule("onnx.MaxPool", "onnx.AveragePool", "onnx.LpPool")
def _pool(xs: Operands, attrs: Attributes) -> Shape:
    x = _shape(xs[0])
    return (*x[:2], *_windows(x, attrs["kernel_shape"], attrs))


@shape_rule("onnx.GlobalAveragePool", "onnx.GlobalMaxPool")
def _global_pool(xs: Operands, attrs: Attributes) -> Shape:
    del attrs
    x = _shape(xs[0])
    return (*x[:2], *(1 for _ in x[2:]))


@shape_rule("onnx.Gemm")
def _gemm(xs: Operands, attrs: Attributes) -> Shape:
    a, b = _shape(xs[0]), _shape(xs[1])
    return (a[1 if attrs.get("transA") else 0], b[0 if attrs.get("transB") else 1])


@shape_rule("onnx.MatMul")
@shape_rule("onnx.MatMulInteger", gives=INT32)
def _matmul(xs: Operands, attrs: Attributes) -> Shape:
    a, b = _shape(xs[0]), _shape(xs[1])
    # As numpy's matmul: a vector has no axis to keep.
    if len(a) < 2 or len(b) < 2:
        return a[:-1] + b[:-2] + b[-1:] if len(b) > 1 else a[:-1]
    batch = _broadcast([TensorSpec(None, a[:-2]), TensorSpec(None, b[:-2])], attrs)
    return (*(batch or ()), a[-2], b[-1])


@shape_rule("onnx.Flatten")
def _flatten(xs: Operands, attrs: Attributes) -> Shape:
    x = _shape(xs[0])
    axis = attrs.get("axis", 1)
    parts = x[:axis], x[axis:]
    return tuple(None if None in p else math.prod(n or 0 for n in p) for p in parts)


@shape_rule("onnx.Reshape")
def _reshape(xs: Operands, attrs: Attributes) -> Shape:
    x, target = _shape(xs[0]), _ints(xs, 1, attrs, "shape")
    keeps_zero = not attrs.get("allowzero")
    # 0 copies the size at its own place, unless `allowzero` makes it an empty axis.
    sizes = [x[i] if n == 0 and keeps_zero else n for i, n in enumerate(target)]
    if -1 in sizes:
        others = [n for n in sizes if n != -1]
        at = sizes.index(-1)
        known = None in x or None in others
        rest = math.prod(n or 0 for n in others)
        sizes[at] = None if known else math.prod(n or 0 for n in x) // max(rest, 1)
    return tuple(sizes)


def _ints(xs: Operands, place: int, attrs: Attributes, name: str) -> tuple[int, ...]:
    """Numbers that newer ops take as an input and older ones as an attribute.

    Raises:
        ValueError: they are computed.
    """
    spec = xs[place] if len(xs) > place else None
    numbers = spec.ints if spec is not None else attrs.get(name)
    if numbers is None:
        raise ValueError(f"{name} is not constant")
    return tuple(numbers)


@shape_rule("onnx.Transpose")
def _transpose(xs: Operands, attrs: Attributes) -> Shape:
    x = _shape(xs[0])
    # Without `perm` the axes are reversed.
    return tuple(x[i] for i in attrs.get("perm") or range(len(x) - 1, -1, -1))


@shape_rule("onnx.Concat")
def _concat(xs: Operands, attrs: Attributes) -> Shape:
    shapes = [_shape(x) for x in xs]
    # Python's modulo: a negative axis counts from the end.
    axis = attrs["axis"] % len(shapes[0])
    along = [s[axis] for s in shapes]
    total = None if None in along else sum(n or 0 for n in along)
    return (*shapes[0][:axis], total, *shapes[0][axis + 1 :])


@shape_rule("onnx.Squeeze")
def _squeeze(xs: Operands, attrs: Attributes) -> Shape:
    x = _shape(xs[0])
    has_axes = (len(xs) > 1 and xs[1] is not None) or "axes" in attrs
    axes = _ints(xs, 1, attrs, "axes") if has_axes else [i for i, n in enumerate(x) if n == 1]
    gone = {a % len(x) for a in axes}
    return tuple(n for i, n in enumerate(x) if i not in gone)


@shape_rule("onnx.Unsqueeze")
def _unsqueeze(xs: Operands, attrs: Attributes) -> Shape:
    x, axes = _shape(xs[0]), _ints(xs, 1, attrs, "axes")
    # Axes count in the result.
    rank = len(x) + len(axes)
    places = {a % rank for a in axes}
    left = iter(x)
    return tuple(1 if i in places else next(left) for i in range(rank))


@shape_rule("onnx.Pad")
def _pad(xs: Operands, attrs: Attributes) -> Shape:
    x, pads = _shape(xs[0]), _ints(xs, 1, attrs, "pads")
    if len(pads) != 2 * len(x):
        raise ValueError("pads of some axes only")
    return tuple(None if n is None else n + pads[i] + pads[i + len(x)] for i, n in enumerate(x))


@shape_rule(
    "onnx.ReduceL1",
    "onnx.ReduceL2",
    "onnx.ReduceLogSum",
    "onnx.ReduceLogSumExp",
    "onnx.ReduceMax",
    "onnx.ReduceMean",
    "onnx.ReduceMin",
    "onnx.ReduceProd",
    "onnx.ReduceSum",
    "onnx.ReduceSumSquare",
)
def _reduction(xs: Operands, attrs: Attributes) -> Shape:
    x = _shape(xs[0])
    has_axes = (len(xs) > 1 and xs[1] is not None) or "axes" in attrs
    axes = {a % len(x) for a in _ints(xs, 1, attrs, "axes")} if has_axes else set[int]()
    if not axes and attrs.get("noop_with_empty_axes"):
        return x
    # No axes at all mean every one.
    return _without(x, axes or set(range(len(x))), attrs)


@shape_rule("onnx.ArgMax", "onnx.ArgMin", gives=INT64)
def _arg(xs: Operands, attrs: Attributes) -> Shape:
    x = _shape(xs[0])
    return _without(x, {attrs.get("axis", 0) % len(x)}, attrs)


def _without(x: tuple[int | None, ...], axes: set[int], attrs: Attributes) -> Shape:
    if attrs.get("keepdims", 1):
        return tuple(1 if i in axes else n for i, n in enumerate(x))
    return tuple(n for i, n in enumerate(x) if i not in axes)


@shape_rule("onnx.Gather")
def _gather(xs: Operands, attrs: Attributes) -> Shape:
    x, indices = _shape(xs[0]), _shape(xs[1])
    axis = attrs.get("axis", 0) % len(x)
    return x[:axis] + indices + x[axis + 1 :]


@shape_rule("onnx.ConstantOfShape", gives=_value_type)
def _constant_of_shape(xs: Operands, attrs: Attributes) -> Shape:
    return _ints(xs, 0, attrs, "shape")


@shape_rule("onnx.Constant", gives=_value_type)
def _constant(xs: Operands, attrs: Attributes) -> Shape:
    del xs
    value = attrs["value"]
    return value.shape if isinstance(value, Tensor) else None
