"""Lifting rules for LiteRT's ops. Layouts of weights: LiteRT's schema, reverse of `lower/tflite`."""

from __future__ import annotations

import math
from collections.abc import Callable

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, HALF, INT32, DType
from thinflow.lift import control, recurrent, variables
from thinflow.lift.lifter import Call
from thinflow.lift.windows import (
    activated,
    clipped,
    conv,
    conv_3d,
    depthwise,
    fully_connected,
    matmul,
    pool,
    transpose_conv,
)
from thinflow.tflite.counterparts import Kind, same_in_tensorflow

Rule = Callable[[Call], Value | list[Value]]


def _unary(op: str) -> Rule:
    return lambda c: c.emit(op, c[0])


def _binary(op: str) -> Rule:
    return lambda c: activated(c, c.emit(op, c[0], c[1]))


def _reduction(op: str) -> Rule:
    # LiteRT has no type for axes, which are always int32.
    return lambda c: c.emit(op, c[0], c[1], keep_dims=c.get("keep_dims", False), Tidx=INT32)


def _arg(op: str) -> Rule:
    return lambda c: c.emit(op, c[0], c[1], output_type=c.get("output_type", INT32), Tidx=INT32)


def _reshape(c: Call) -> Value:
    wanted = c.get("new_shape", ())
    # Old converters write a scalar's shape as [0].
    shape = c[1] if c.has(1) else c.constant(() if wanted == (0,) else wanted)
    return c.emit("Reshape", c[0], shape, Tshape=INT32)


def _dynamic_update_slice(c: Call) -> Value:
    """DYNAMIC_UPDATE_SLICE: x with a smaller y written at a place, moved inside where it lies out."""
    shape = c[0].spec.shape
    if shape is None:
        raise UnsupportedOp("the rank of its operand 0 is not known")
    place = c[2] if c[2].dtype is INT32 else c.emit("Cast", c[2], SrcT=c[2].dtype, DstT=INT32)
    whole, part = (c.emit("Shape", c[i], out_type=INT32) for i in (0, 1))
    # Moved back inside, as LiteRT does where TensorFlow's update would be out of range.
    begin = c.emit("Minimum", place, c.emit("Sub", whole, part))
    begin = c.emit("Maximum", begin, c.constant((0,) * len(shape)))
    strides = c.constant((1,) * len(shape))
    return c.emit(
        "TensorStridedSliceUpdate", c[0], begin, c.emit("AddV2", begin, part), strides, c[1], Index=INT32
    )


def _softmax(c: Call) -> Value:
    beta = c.get("beta", 1.0)
    return c.emit("Softmax", c[0] if beta == 1 else c.emit("Mul", c[0], c.constant(beta, c[0])))


def _concatenation(c: Call) -> Value:
    xs = [c[i] for i in range(len(c.xs))]
    y = c.emit("ConcatV2", *xs, c.constant(c.get("axis", 0)), N=len(xs), Tidx=INT32)
    return activated(c, y)


def _prelu(c: Call) -> Value:
    """max(x, 0) + slope * min(x, 0)."""
    zero = c.constant(0.0, c[0])
    return c.emit("AddV2", c.emit("Maximum", c[0], zero), c.emit("Mul", c[1], c.emit("Minimum", c[0], zero)))


def _hard_swish(c: Call) -> Value:
    """x * relu6(x + 3) / 6."""
    bent = c.emit("Relu6", c.emit("AddV2", c[0], c.constant(3.0, c[0])))
    return c.emit("Mul", c.emit("Mul", c[0], bent), c.constant(1 / 6, c[0]))


def _gelu(c: Call) -> Value:
    """x * Phi(x), by the error function or by the approximation with tanh."""
    x = c[0]
    if c.get("approximate", False):
        cube = c.emit("Mul", c.emit("Mul", c.emit("Square", x), x), c.constant(0.044715, x))
        inner = c.emit("Mul", c.emit("AddV2", x, cube), c.constant(math.sqrt(2 / math.pi), x))
        bent = c.emit("Tanh", inner)
    else:
        bent = c.emit("Erf", c.emit("Mul", x, c.constant(math.sqrt(0.5), x)))
    half = c.emit("Mul", x, c.constant(0.5, x))
    return c.emit("Mul", half, c.emit("AddV2", bent, c.constant(1.0, x)))


def _l2_normalization(c: Call) -> Value:
    """x / sqrt(max(sum of squares along the last axis, 1e-12))."""
    total = c.emit("Sum", c.emit("Square", c[0]), c.constant((-1,)), keep_dims=True, Tidx=INT32)
    # The lower bound keeps a row of zeros at zero instead of NaN.
    norm = c.emit("Rsqrt", c.emit("Maximum", total, c.constant(1e-12, c[0])))
    return activated(c, c.emit("Mul", c[0], norm))


def _strided_slice(c: Call) -> Value:
    masks = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    if c.get("offset", False):
        raise UnsupportedOp("its ends are counted from its begins")
    return c.emit("StridedSlice", c[0], c[1], c[2], c[3], Index=INT32, **{m: c.get(m, 0) for m in masks})


def _split(c: Call) -> list[Value]:
    # The axis is the first operand in both; the type is that of the second.
    node = c.many("Split", c[0], c[1], num_split=c.get("num_splits"), T=c[1].dtype)
    return [node.output(i) for i in range(c.get("num_splits"))]


def _split_v(c: Call) -> list[Value]:
    node = c.many("SplitV", c[0], c[1], c[2], num_split=c.get("num_splits"), Tlen=INT32)
    return [node.output(i) for i in range(c.get("num_splits"))]


def _pack(c: Call) -> Value:
    xs = [c[i] for i in range(len(c.xs))]
    return c.emit("Pack", *xs, N=len(xs), axis=c.get("axis", 0))


def _unpack(c: Call) -> list[Value]:
    node = c.many("Unpack", c[0], num=c.get("num"), axis=c.get("axis", 0))
    return [node.output(i) for i in range(c.get("num"))]


def _gather(c: Call) -> Value:
    axis = c.constant(c.get("axis", 0))
    return c.emit("GatherV2", c[0], c[1], axis, batch_dims=c.get("batch_dims", 0), Tparams=c[0].dtype)


def _resize(op: str) -> Rule:
    # TensorFlow's attributes and LiteRT's options have the same names and meanings.
    return lambda c: c.emit(
        op,
        c[0],
        c[1],
        align_corners=c.get("align_corners", False),
        half_pixel_centers=c.get("half_pixel_centers", False),
    )


def _cast(c: Call) -> Value:
    target = c.spec.dtype
    return c.emit("Cast", c[0], SrcT=c[0].dtype, DstT=target)


def _dequantize(c: Call) -> Value:
    """DEQUANTIZE: codes are real numbers by now; half precision has no scale."""
    if c[0].dtype is HALF:
        return c.emit("Cast", c[0], SrcT=HALF, DstT=FLOAT)
    if c[0].dtype is not FLOAT:
        raise UnsupportedOp("its operand has no scale")
    return c.emit("Identity", c[0])


def _shape(c: Call) -> Value:
    wanted = c.get("out_type", INT32)
    return c.emit("Shape", c[0], out_type=wanted if isinstance(wanted, DType) else INT32)


def _top_k(c: Call) -> list[Value]:
    node = c.many("TopKV2", c[0], c[1], sorted=True)
    return [node.output(0), node.output(1)]


def _unique(c: Call) -> list[Value]:
    node = c.many("Unique", c[0], out_idx=c.get("idx_out_type", INT32))
    return [node.output(0), node.output(1)]


def _lrn(c: Call) -> Value:
    options = {k: c.get(k, d) for k, d in (("bias", 1.0), ("alpha", 1.0), ("beta", 0.5))}
    return c.emit("LRN", c[0], depth_radius=c.get("radius", 5), **options)


def _add_n(c: Call) -> Value:
    xs = [c[i] for i in range(len(c.xs))]
    return c.emit("AddN", *xs, N=len(xs))


def _plain(op: str, *options: str) -> Rule:
    """The same operands and, by the same names, the same options."""
    return lambda c: c.emit(
        op, *(c[i] for i in range(len(c.xs))), **{k: c.get(k) for k in options if c.get(k) is not None}
    )


_OTHERS: dict[str, Rule] = {
    "RELU": _unary("Relu"),
    "RELU6": _unary("Relu6"),
    "RSQRT": _unary("Rsqrt"),
    "SQUARE": _unary("Square"),
    "RANK": _unary("Rank"),
    "ZEROS_LIKE": _unary("ZerosLike"),
    "WHERE": _unary("Where"),
    "POW": _binary("Pow"),
    "FLOOR_DIV": _binary("FloorDiv"),
    "ATAN2": _binary("Atan2"),
    "CONV_2D": conv,
    "DEPTHWISE_CONV_2D": depthwise,
    "TRANSPOSE_CONV": transpose_conv,
    "FULLY_CONNECTED": fully_connected,
    "BATCH_MATMUL": matmul,
    "MAX_POOL_2D": pool("MaxPool"),
    "AVERAGE_POOL_2D": pool("AvgPool"),
    "ARG_MAX": _arg("ArgMax"),
    "ARG_MIN": _arg("ArgMin"),
    "RESHAPE": _reshape,
    "SOFTMAX": _softmax,
    "CONCATENATION": _concatenation,
    "PRELU": _prelu,
    "HARD_SWISH": _hard_swish,
    "GELU": _gelu,
    "LEAKY_RELU": _plain("LeakyRelu", "alpha"),
    "RELU_N1_TO_1": lambda c: clipped(c, c[0]),
    "L2_NORMALIZATION": _l2_normalization,
    "LOCAL_RESPONSE_NORMALIZATION": _lrn,
    "PAD": _plain("Pad"),
    "PADV2": _plain("PadV2"),
    "MIRROR_PAD": _plain("MirrorPad", "mode"),
    "TRANSPOSE": _plain("Transpose"),
    "SQUEEZE": lambda c: c.emit("Squeeze", c[0], squeeze_dims=c.get("squeeze_dims", ())),
    "EXPAND_DIMS": _plain("ExpandDims"),
    "SLICE": _plain("Slice"),
    "STRIDED_SLICE": _strided_slice,
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "PACK": _pack,
    "UNPACK": _unpack,
    "GATHER": _gather,
    "GATHER_ND": _plain("GatherNd"),
    "TILE": _plain("Tile"),
    "BROADCAST_TO": _plain("BroadcastTo"),
    "FILL": _plain("Fill"),
    "RANGE": _plain("Range"),
    "REVERSE_V2": _plain("ReverseV2"),
    "SELECT": _plain("Select"),
    "SELECT_V2": _plain("SelectV2"),
    "DYNAMIC_UPDATE_SLICE": _dynamic_update_slice,
    "CUMSUM": _plain("Cumsum", "exclusive", "reverse"),
    "SPACE_TO_DEPTH": _plain("SpaceToDepth", "block_size"),
    "DEPTH_TO_SPACE": _plain("DepthToSpace", "block_size"),
    "SPACE_TO_BATCH_ND": _plain("SpaceToBatchND"),
    "BATCH_TO_SPACE_ND": _plain("BatchToSpaceND"),
    "ONE_HOT": _plain("OneHot", "axis"),
    "SCATTER_ND": _plain("ScatterNd"),
    "RESIZE_BILINEAR": _resize("ResizeBilinear"),
    "RESIZE_NEAREST_NEIGHBOR": _resize("ResizeNearestNeighbor"),
    "CAST": _cast,
    "DEQUANTIZE": _dequantize,
    "SHAPE": _shape,
    "TOPK_V2": _top_k,
    "ADD_N": _add_n,
    "UNIQUE": _unique,
    "REVERSE_SEQUENCE": _plain("ReverseSequence", "seq_dim", "batch_dim"),
    "FAKE_QUANT": _plain("FakeQuantWithMinMaxArgs", "min", "max", "num_bits", "narrow_range"),
    # Operands are real by now and results are put on their grid behind the rule: nothing is left between.
    "QUANTIZE": lambda c: c.emit("Identity", c[0]),
    "CONV_3D": conv_3d,
    # Indices come first in LiteRT.
    "EMBEDDING_LOOKUP": lambda c: c.emit("GatherV2", c[1], c[0], c.constant(0), Tparams=c[1].dtype),
    "RELU_0_TO_1": lambda c: c.emit(
        "Maximum", c.emit("Minimum", c[0], c.constant(1.0, c[0])), c.constant(0.0, c[0])
    ),
    "SEGMENT_SUM": _plain("SegmentSum"),
    "SPARSE_TO_DENSE": _plain("SparseToDense"),
    "MATRIX_DIAG": _plain("MatrixDiag"),
    "BROADCAST_ARGS": _plain("BroadcastArgs"),
}
RULES: dict[str, Rule] = (
    control.RULES
    | recurrent.RULES
    | variables.RULES
    | {
        f"tfl.{name}": rule
        for name, rule in {
            **{code: _unary(op) for code, op in same_in_tensorflow(Kind.UNARY).items()},
            **{code: _binary(op) for code, op in same_in_tensorflow(Kind.BINARY).items()},
            **{code: _reduction(op) for code, op in same_in_tensorflow(Kind.REDUCTION).items()},
            **{code: _plain(op) for code, op in same_in_tensorflow(Kind.UNSORTED_SEGMENTS).items()},
            **_OTHERS,
        }.items()
    }
)
