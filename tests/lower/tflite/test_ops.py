"""Every lowering rule against the reference kernels, through LiteRT."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from tests.lower.tflite.harness import Net, compare, run_litert
from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.ir.types import FLOAT, INT32, INT64, dtype


def f(*shape, low=-2.0, high=2.0):
    rng = np.random.default_rng(zlib.crc32(repr(shape).encode()))
    return rng.uniform(low, high, shape).astype(np.float32)


def i(*shape, low=-5, high=6, element=np.int32):
    rng = np.random.default_rng(zlib.crc32(repr(shape).encode()))
    return rng.integers(low, high, shape).astype(element)


def b(*shape):
    return i(*shape, low=0, high=2).astype(bool)


I32, I64 = np.int32, np.int64


class C:
    """An operand that is a constant of the graph, not fed."""

    def __init__(self, array, element=None):
        self.array = np.asarray(array, element)


def ints(*values):
    return C(list(values), I32)


def conv(**more):
    return {"strides": [1, 1, 1, 1], "padding": "SAME", **more}


BINARY = ("AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "SquaredDifference", "FloorDiv",
          "FloorMod", "DivNoNan")  # fmt: skip
BINARY_INTEGER = (
    "Add", "Sub", "Mul", "Div", "TruncateDiv", "FloorDiv", "FloorMod", "TruncateMod", "Maximum", "Minimum",
    "SquaredDifference",
)  # fmt: skip
COMPARE = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")
UNARY = (
    "Abs", "Neg", "Exp", "Sin", "Cos", "Floor", "Ceil", "Round", "Rint", "Sign", "Sigmoid", "Tanh", "Square",
    "Relu", "Relu6", "Elu", "Selu", "Softplus", "Softsign", "Softmax", "LogSoftmax", "Expm1", "Tan", "Sinh",
    "Cosh", "Atan", "IsNan", "IsFinite", "IsInf", "L2Loss", "ZerosLike", "OnesLike",
)  # fmt: skip
POSITIVE = ("Log", "Sqrt", "Rsqrt", "Reciprocal", "Log1p")
REDUCE = ("Mean", "Sum", "Prod", "Max", "Min", "EuclideanNorm")
NONE = np.zeros(0, np.float32)
MIRROR = [[0, 0], [1, 2], [0, 1], [0, 0]]
STRIDE_2 = [1, 2, 2, 1]

CASES = [
    *((op, [f(2, 3, 4), f(3, 1)], {}) for op in BINARY),
    *((op, [i(2, 3), C(np.int32(3))], {}) for op in BINARY_INTEGER),
    *((op, [i(2, 3), i(3)], {}) for op in COMPARE),
    *((op, [f(2, 5)], {}) for op in UNARY),
    *((op, [f(2, 5, low=0.1)], {}) for op in POSITIVE),
    *((op, [f(2, 5, low=-0.9, high=0.9)], {}) for op in ("Asin", "Acos")),
    *((op, [f(2, 3, 4), ints(1)], {"keep_dims": keep}) for op in REDUCE for keep in (False, True)),
    *((op, [f(2, 3, 4), ints(-1, 0)], {}) for op in REDUCE),
    *((op, [b(2, 3), ints(1)], {}) for op in ("Any", "All")),
    *((op, [f(2, 7, 6, 3)], {"ksize": [1, 3, 2, 1], "strides": [1, 2, 2, 1], "padding": p})
      for op in ("MaxPool", "AvgPool") for p in ("SAME", "VALID")),
    ("MaxPool", [f(1, 5, 5, 2)], {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "EXPLICIT",
                                  "explicit_paddings": [0, 0, 1, 0, 1, 0, 0, 0]}),
    ("Mean", [i(2, 4), ints(0)], {}),
    ("Sum", [i(2, 4), ints(0)], {}),
    ("Pow", [f(3, low=0.1), C(np.float32(2.5))], {}),
    ("Pow", [f(3), C(np.float32(2))], {}),
    ("Xlogy", [C(np.float32([0, 1, 2])), f(3, low=0.1)], {}),
    ("Xdivy", [f(3), f(3, low=0.1)], {}),
    ("Atan2", [f(2, 3), f(3)], {}),
    ("AddN", [f(2, 3), f(2, 3), f(2, 3), f(2, 3)], {}),
    ("ClipByValue", [f(2, 3), C(np.float32(-1)), C(np.float32(1))], {}),
    ("ApproximateEqual", [f(2, 3), f(2, 3)], {"tolerance": 0.1}),
    ("LeakyRelu", [f(2, 3)], {"alpha": 0.1}),
    ("Relu", [i(2, 3)], {}),
    ("Relu6", [i(2, 3, high=12)], {}),
    ("Invert", [i(2, 3)], {}),
    ("BitwiseXor", [i(2, 3), i(3)], {}),
    ("LogicalAnd", [b(2, 3), b(3)], {}),
    ("LogicalOr", [b(2, 3), b(3)], {}),
    ("LogicalNot", [b(2, 3)], {}),
    ("Select", [b(2), f(2, 3), f(2, 3)], {}),
    ("Select", [b(2, 3), f(2, 3), f(2, 3)], {}),
    ("SelectV2", [b(2, 1), f(2, 3), f(3)], {}),
    ("Where", [b(3, 4)], {}),
    ("Where", [f(3, 4)], {}),
    ("Conv2D", [f(2, 7, 6, 3), C(f(3, 2, 3, 4))], conv()),
    ("Conv2D", [f(2, 7, 6, 3), C(f(3, 2, 3, 4))], conv(padding="VALID", strides=[1, 2, 1, 1])),
    ("Conv2D", [f(1, 9, 9, 2), C(f(3, 3, 2, 4))], conv(dilations=[1, 2, 2, 1])),
    ("Conv2D", [f(1, 6, 6, 4), C(f(3, 3, 2, 6))], conv()),
    ("Conv2D", [f(1, 6, 6, 4), C(f(3, 3, 4, 2))], conv(padding="EXPLICIT",
                                                       explicit_paddings=[0, 0, 2, 1, 0, 1, 0, 0])),
    ("Conv2D", [f(1, 6, 6, 4), f(3, 3, 4, 2)], conv()),
    ("DepthwiseConv2dNative", [f(2, 7, 6, 3), C(f(3, 2, 3, 1))], conv()),
    ("DepthwiseConv2dNative", [f(2, 7, 6, 3), C(f(3, 2, 3, 2))], conv(strides=STRIDE_2, padding="VALID")),
    ("DepthwiseConv2dNative", [f(2, 9, 9, 3), C(f(3, 3, 3, 1))], conv(dilations=[1, 2, 2, 1])),
    ("Conv2DBackpropInput", [ints(2, 8, 8, 4), C(f(3, 3, 4, 5)), f(2, 4, 4, 5)], conv(strides=STRIDE_2)),
    ("Conv2DBackpropInput", [ints(1, 9, 9, 2), C(f(3, 3, 2, 3)), f(1, 4, 4, 3)],
     conv(strides=STRIDE_2, padding="VALID")),
    ("Conv3D", [f(1, 4, 5, 6, 2), C(f(2, 3, 3, 2, 3))], {"strides": [1, 1, 2, 1, 1], "padding": "SAME"}),
    ("Conv3DBackpropInputV2", [ints(1, 4, 4, 4, 2), C(f(2, 2, 2, 2, 3)), f(1, 2, 2, 2, 3)],
     {"strides": [1, 2, 2, 2, 1], "padding": "SAME"}),
    ("FusedPadConv2D", [f(1, 5, 5, 2), C(MIRROR, I32), C(f(3, 3, 2, 2))],
     {"mode": "REFLECT", "strides": [1, 1, 1, 1], "padding": "VALID"}),
    ("FusedResizeAndPadConv2D", [f(1, 4, 4, 2), ints(6, 7), C(MIRROR, I32), C(f(3, 3, 2, 2))],
     {"mode": "SYMMETRIC", "strides": [1, 1, 1, 1], "padding": "VALID"}),
    ("_FusedConv2D", [f(1, 5, 5, 2), C(f(3, 3, 2, 4)), C(f(4))], conv(fused_ops=["BiasAdd", "Relu"])),
    ("MatMul", [f(3, 4), C(f(4, 5))], {}),
    ("MatMul", [f(3, 4), f(4, 5)], {}),
    ("MatMul", [f(4, 3), C(f(5, 4))], {"transpose_a": True, "transpose_b": True}),
    ("MatMul", [f(4, 3), f(5, 4)], {"transpose_a": True, "transpose_b": True}),
    ("BatchMatMulV2", [f(2, 3, 4), f(2, 4, 5)], {}),
    ("BatchMatMulV2", [f(2, 3, 4), f(1, 5, 4)], {"adj_y": True}),
    ("BatchMatMulV2", [f(2, 3, 4), C(f(4, 5))], {}),
    ("BiasAdd", [f(2, 3, 4), f(4)], {}),
    ("BiasAdd", [f(2, 3, 4, 5), C(f(3))], {"data_format": "NCHW"}),
    ("FusedBatchNormV3", [f(2, 4, 4, 3), C(f(3)), C(f(3)), C(f(3)), C(f(3, low=0.1))],
     {"is_training": False}),
    ("FusedBatchNormV3", [f(2, 4, 4, 3), C(f(3)), C(f(3)), C(NONE), C(NONE)],
     {"is_training": True, "epsilon": 1e-3}),
    ("FusedBatchNormV3", [f(2, 3, 4, 5), f(3), f(3), C(NONE), C(NONE)],
     {"is_training": True, "data_format": "NCHW"}),
    ("FusedBatchNormV3",
     [f(1, 3, 8, 1), C(np.ones(3, np.float32)), C(np.zeros(3, np.float32)), C(NONE), C(NONE)],
     {"is_training": True, "data_format": "NCHW"}),
    ("GatherV2", [f(2, 3, 4, 5), i(2, 2, low=0, high=4), C(np.int32(2))], {"batch_dims": 1}),
    ("GatherV2", [f(2, 3, 5), i(2, low=0, high=5), C(np.int32(-1))], {"batch_dims": 1}),
    ("DynamicPartition", [f(5, 2), C([0, 2, 1, 0, 2], I32)], {"num_partitions": 3}),
    ("DynamicPartition", [f(2, 3, 2), i(2, 3, low=0, high=2)], {"num_partitions": 2}),
    ("DynamicStitch", [C([0, 3], I32), C([[1, 5]], I32), f(2, 2), f(1, 2, 2)], {"N": 2}),
    ("DynamicStitch", [C([2, 0], I32), C([1], I32), f(2, 3), f(1, 3)], {"N": 2}),
    ("DynamicStitch", [np.array([4, 0], I32), np.array([4, 1], I32), f(2, 3), f(2, 3) + 1], {"N": 2}),
    ("ParallelDynamicStitch", [np.array([4, 0], I32), np.array([1], I32), f(2), f(1)], {"N": 2}),
    ("MatrixBandPart", [f(2, 4, 5), C(np.int64(-1)), C(np.int64(0))], {}),
    ("MatrixBandPart", [f(4, 5), C(np.int32(1)), C(np.int32(2))], {}),
    ("MatrixBandPart", [f(4, 5), C(np.int32(-1)), C(np.int32(-1))], {}),
    ("Einsum", [f(1, 3, 4), C(f(4))], {"equation": "bqh,h->bqh"}),
    ("Einsum", [f(2, 3, 3)], {"equation": "bqq->bq"}),
    ("Einsum", [f(2, 3, 5, 3), f(2, 4)], {"equation": "bqaq,bk->qak"}),
    ("FusedBatchNorm", [f(2, 4, 4, 3), f(3), f(3), f(3), f(3, low=0.1)], {"is_training": False}),
    ("BatchNormWithGlobalNormalization", [f(2, 4, 4, 3), C(f(3)), C(f(3, low=0.1)), C(f(3)), C(f(3))],
     {"variance_epsilon": 1e-3, "scale_after_normalization": True}),
    ("LRN", [f(1, 3, 3, 8)], {"depth_radius": 2, "bias": 1.5, "alpha": 0.3, "beta": 0.6}),
    ("ArgMax", [f(3, 4), C(np.int32(1))], {}),
    ("ArgMin", [f(3, 4), C(np.int32(0))], {"output_type": INT32}),
    ("Cumsum", [f(3, 4), C(np.int32(1))], {"exclusive": True, "reverse": True}),
    ("Reshape", [f(2, 6), ints(3, -1)], {}),
    ("Reshape", [f(1, 1), ints()], {}),
    ("ExpandDims", [f(2, 3), C(np.int32(-1))], {}),
    ("Squeeze", [f(1, 3, 1, 2)], {"squeeze_dims": [2]}),
    ("Squeeze", [f(1, 3, 1, 2)], {}),
    ("Transpose", [f(2, 3, 4), ints(2, 0, 1)], {}),
    ("Shape", [f(2, 3, 4)], {"out_type": INT64}),
    ("Size", [f(2, 3, 4)], {}),
    ("Rank", [f(2, 3, 4)], {}),
    ("Cast", [f(2, 3)], {"SrcT": FLOAT, "DstT": INT32}),
    ("Cast", [i(2, 3)], {"SrcT": INT32, "DstT": FLOAT}),
    ("Cast", [f(2, 3)], {"SrcT": FLOAT, "DstT": dtype("bool")}),
    ("Cast", [f(2, 3)], {"SrcT": FLOAT, "DstT": dtype("half")}),
    ("Pack", [f(2, 3), f(2, 3)], {"axis": 1}),
    ("Pack", [f(2, 3), f(2, 3)], {"axis": -1}),
    ("Unpack", [f(2, 3)], {"axis": 1, "num": 3}),
    ("Concat", [C(np.int32(1)), f(2, 3), f(2, 2)], {}),
    ("ConcatV2", [f(2, 3), C(f(2, 2)), C(np.int32(-1))], {}),
    ("ConcatV2", [f(2, 3), C(np.zeros((0, 3), np.float32)), C(np.int32(0))], {}),
    ("Split", [C(np.int32(1)), f(2, 6)], {"num_split": 3}),
    ("SplitV", [f(2, 6), ints(1, 2, 3), C(np.int32(1))], {"num_split": 3}),
    ("Slice", [f(3, 4), ints(1, 0), ints(2, -1)], {}),
    ("Slice", [f(3, 4), C([1, 0], I64), C([2, -1], I64)], {}),
    ("StridedSlice", [f(4, 5, 6), ints(1, 0), ints(3, 4), ints(1, 2)], {}),
    ("StridedSlice", [f(4, 5, 6), ints(3, 0), ints(0, 4), ints(-1, 2)], {"begin_mask": 2}),
    ("StridedSlice", [f(4, 5, 6), ints(0, 1), ints(0, 3), ints(1, 1)], {"ellipsis_mask": 1}),
    ("StridedSlice", [f(4, 5, 6), ints(1, 0, 2), ints(2, 0, 4), ints(1, 1, 1)],
     {"new_axis_mask": 2, "shrink_axis_mask": 1}),
    ("StridedSlice", [f(4, 5), ints(1, 0, 0, 2), ints(2, 0, 0, 4), ints(1, 1, 1, 1)],
     {"new_axis_mask": 2, "ellipsis_mask": 4, "shrink_axis_mask": 1, "end_mask": 8}),
    ("StridedSlice", [f(4), ints(-2), ints(0), ints(1)], {"shrink_axis_mask": 1}),
    ("StridedSlice", [f(4), ints(0), ints(0), ints(1)], {"new_axis_mask": 1}),
    ("StridedSlice", [f(4, 5), C([0, 1], I64), C([2**62, 3], I64), C([1, 1], I64)], {}),
    ("Gather", [f(4, 3), i(2, 2, low=0, high=4)], {}),
    ("GatherV2", [f(4, 3), i(2, low=0, high=3), C(np.int32(-1))], {}),
    ("GatherV2", [f(2, 4, 3), i(2, 2, low=0, high=4), C(np.int32(1))], {"batch_dims": 1}),
    ("GatherNd", [f(4, 3), C([[0, 1], [3, 2]], I32)], {}),
    ("ScatterNd", [C([[0], [2]], I32), f(2, 3), ints(4, 3)], {}),
    ("SparseToDense", [C([[0, 1], [2, 3]], I32), ints(3, 4), f(2), C(np.float32(-1))], {}),
    ("Pad", [f(2, 3), C([[1, 0], [0, 2]], I32)], {}),
    ("Pad", [f(2, 3), C([[1, 0], [0, 2]], I64)], {}),
    ("PadV2", [f(2, 3), C([[1, 0], [0, 2]], I32), C(np.float32(7))], {}),
    ("MirrorPad", [f(3, 4), C([[1, 0], [0, 2]], I32)], {"mode": "REFLECT"}),
    ("MirrorPad", [f(3, 4), C([[1, 0], [0, 2]], I32)], {"mode": "SYMMETRIC"}),
    ("Tile", [f(2, 3), ints(2, 1)], {}),
    ("Fill", [ints(2, 3), f()], {}),
    ("Range", [C(np.int32(0)), C(np.int32(5)), i(low=1, high=2)], {}),
    ("OneHot", [i(3, low=0, high=4), C(np.int32(4)), C(np.float32(2)), C(np.float32(-1))], {"axis": 0}),
    ("TopKV2", [f(3, 5), C(np.int32(2))], {}),
    ("ReverseV2", [f(2, 3, 4), ints(0, 2)], {}),
    ("Reverse", [f(2, 3, 4), C([True, False, True])], {}),
    ("ReverseSequence", [f(2, 4), C([2, 3], I32)], {"seq_dim": 1, "batch_dim": 0}),
    ("Roll", [f(4, 5), ints(1, -2), ints(0, 1)], {}),
    ("BroadcastTo", [f(3, 1), ints(2, 3, 4)], {}),
    ("SpaceToBatchND", [f(1, 4, 4, 2), ints(2, 2), C([[0, 0], [2, 0]], I32)], {}),
    ("BatchToSpaceND", [f(4, 2, 2, 2), ints(2, 2), C([[0, 1], [0, 0]], I32)], {}),
    ("SpaceToDepth", [f(1, 4, 4, 2)], {"block_size": 2}),
    ("DepthToSpace", [f(1, 2, 2, 8)], {"block_size": 2}),
    *((op, [f(1, 4, 5, 2), ints(7, 9)], {"align_corners": a, "half_pixel_centers": h})
      for op in ("ResizeBilinear", "ResizeNearestNeighbor") for a, h in ((0, 0), (1, 0), (0, 1))),
    ("ResizeBilinear", [i(1, 4, 4, 2, low=0, element=np.uint8), ints(8, 8)], {}),
    ("MatrixDiag", [f(2, 3)], {}),
    ("MatrixSetDiag", [f(2, 3, 3), f(2, 3)], {}),
    ("Unique", [i(8, low=0, high=4)], {}),
    ("SegmentSum", [f(4, 3), C([0, 0, 2, 2], I32)], {}),
    ("SegmentSum", [f(4, 3), i(4, low=1, high=2)], {}),
    ("UnsortedSegmentMax", [f(4, 3), C([1, 0, 1, 1], I32), C(np.int32(2))], {}),
    ("UnsortedSegmentSum", [f(4, 3), i(4, low=0, high=3), C(np.int32(3))], {}),
    ("UnsortedSegmentMin", [f(4, 3), C([1, 0, 1, 1], I32), C(np.int32(2))], {}),
    ("UnsortedSegmentProd", [f(4, 3), C([1, 0, 1, 1], I32), C(np.int32(2))], {}),
    ("AccumulateNV2", [f(2, 3), f(2, 3)], {}),
    ("BatchMatMul", [f(2, 3, 4), f(2, 4, 5)], {}),
    ("BatchMatMulV3", [f(2, 4, 3), f(2, 4, 5)], {"adj_x": True}),
    ("BiasAddV1", [f(2, 4), f(4)], {}),
    ("SpaceToBatch", [f(1, 4, 4, 2), C([[0, 0], [2, 0]], I32)], {"block_size": 2}),
    ("BatchToSpace", [f(4, 2, 2, 2), C([[0, 1], [0, 0]], I32)], {"block_size": 2}),
    ("Bitcast", [f(2, 3)], {"type": INT32}),
    ("BroadcastArgs", [i(3, low=2, high=3), C([1], I32)], {}),
    ("Bucketize", [f(2, 5)], {"boundaries": [-1.0, 0.0, 1.0]}),
    ("FusedBatchNormV2", [f(2, 4, 4, 3), C(f(3)), C(f(3)), C(f(3)), C(f(3, low=0.1))],
     {"is_training": False}),
    ("_FusedBatchNormEx", [f(2, 4, 4, 3), C(f(3)), C(f(3)), C(f(3)), C(f(3, low=0.1)), f(2, 4, 4, 3)],
     {"is_training": False, "activation_mode": "Relu"}),
    ("_FusedDepthwiseConv2dNative", [f(1, 5, 5, 2), C(f(3, 3, 2, 1)), C(f(2))],
     conv(fused_ops=["BiasAdd", "Relu6"])),
    ("MaxPoolV2", [f(1, 4, 4, 2), ints(1, 2, 2, 1), ints(1, 2, 2, 1)], {"padding": "VALID"}),
    ("MatrixDiagV3", [f(2, 3), C(np.int32(0)), C(np.int32(-1)), C(np.int32(-1)), C(np.float32(0))], {}),
    ("MatrixDiagV2", [f(2, 3), C(np.int32(0)), C(np.int32(-1)), C(np.int32(-1)), C(np.float32(0))], {}),
    ("MatrixSetDiagV3", [f(2, 3, 3), f(2, 3), C(np.int32(0))], {}),
    ("MatrixSetDiagV2", [f(2, 3, 3), f(2, 3), C(np.int32(0))], {}),
    ("Mod", [i(2, 3), C(np.int32(4))], {}),
    ("MulNoNan", [f(2, 3), f(3)], {}),
    ("Inv", [f(2, 3, low=0.1)], {}),
    ("RightShift", [i(2, 3), C(np.int32(1))], {}),
    ("TopK", [f(3, 5)], {"k": 2}),
    ("Erf", [np.concatenate([f(40), np.float32([0, -4, 4])])], {}),
    ("Erfc", [f(2, 5)], {}),
    ("Identity", [f(2, 3)], {}),
    ("CheckNumerics", [f(2, 3)], {"message": "no"}),
]  # fmt: skip

BOXES = np.float32([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [0, 2.05, 1, 3.05]])
SCORES = np.float32([0.9, 0.8, 0.7, 0.95])


def build(op, operands, attrs, unknown=""):
    net = Net()
    inputs = []
    for k, operand in enumerate(operands):
        if isinstance(operand, C):
            inputs.append(net.const(operand.array, f"c{k}"))
            continue
        sizes = operand.shape
        shape = {"batch": (None, *sizes[1:])[: len(sizes)], "sizes": (None,) * len(sizes), "rank": None}
        inputs.append(net.feed(operand, f"x{k}", shape=shape.get(unknown, sizes)))
    clean = {k: bool(v) if k in ("align_corners", "half_pixel_centers") else v for k, v in attrs.items()}
    node = net.graph.add(op, inputs, "y", attrs=clean)
    return net, node


def ports(node):
    counts = {"Unpack": node.get("num"), "Split": node.get("num_split"), "SplitV": node.get("num_split")}
    counts["DynamicPartition"] = node.get("num_partitions")
    return counts.get(node.op) or (2 if node.op in ("TopKV2", "Unique") else 1)


NAMES = [f"{n}-{case[0]}" for n, case in enumerate(CASES)]


@pytest.mark.parametrize(("op", "operands", "attrs"), CASES, ids=NAMES)
def test_numerical(op, operands, attrs):
    net, node = build(op, operands, attrs)
    net.check(*(node.output(p) for p in range(ports(node))))


def converted(operand, element):
    if isinstance(operand, C):
        return C(converted(operand.array, element))
    if operand.dtype != np.float32:
        return operand
    return (np.abs(operand) * 2 + 1 if element.kind in "ui" else operand).astype(element)


@pytest.mark.parametrize("element", ["half", "double", "int32", "int64", "uint8", "bool"])
def test_other_types_are_right_or_refused(element):
    """What the tables in `kernels` let pass, LiteRT runs, with the reference's result."""
    wrong = []
    for name, (op, operands, attrs) in zip(NAMES, CASES, strict=True):
        net, node = build(op, [converted(o, dtype(element).numpy()) for o in operands], attrs)
        outputs = [node.output(p) for p in range(ports(node))]
        try:
            with np.errstate(all="ignore"):
                net.reference(*outputs)
            net.lower(*outputs)
        except ThinflowError:
            continue
        try:
            net.check(
                *outputs, rtol=1e-2 if element == "half" else 1e-4, atol=1e-2 if element == "half" else 1e-5
            )
        except (AssertionError, RuntimeError, ValueError) as error:
            wrong.append(f"{name}: {error}")
    assert not wrong


@pytest.mark.parametrize("unknown", ["batch", "sizes", "rank"])
def test_unknown_sizes_are_right_or_refused(unknown):
    wrong, refused = [], []
    for name, (op, operands, attrs) in zip(NAMES, CASES, strict=True):
        net, node = build(op, operands, attrs, unknown)
        outputs = [node.output(p) for p in range(ports(node))]
        try:
            net.lower(*outputs)
        except UnsupportedOp:
            refused.append(name)
            continue
        try:
            net.check(*outputs)
        except (AssertionError, RuntimeError, ValueError) as error:
            wrong.append(f"{name}: {error}")
    assert not wrong
    assert len(refused) <= {"batch": 2, "sizes": 10, "rank": 40}[unknown], refused


def test_complex_numbers():
    for op in ("Real", "Imag", "ComplexAbs"):
        net, node = build(op, [(f(2, 3) + 1j * f(3, 2).T).astype(np.complex64)], {})
        net.check(node.output())


@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize("batch", [2, None])
def test_statistics_of_a_batch(share, batch):
    net = Net()
    x = net.feed(f(2, 4, 5, 3) + 9, "x", shape=(batch, 4, 5, 3))
    norm = net.op(
        "FusedBatchNormV3", x, f(3), f(3), f(3), f(3, low=0.1), is_training=True, exponential_avg_factor=share
    ).node
    net.check(*(norm.output(port) for port in range(5)))


def test_several_ports():
    net = Net()
    x, y = net.feed(f(2, 3), "x", shape=(None, 3)), net.feed(f(4), "y", shape=(None,))
    shapes = net.op("ShapeN", x, y)
    alias = net.op("IdentityN", x, y, name="alias", port=1)
    net.check(shapes, shapes.node.output(1), net.op("Neg", alias))


def test_random_numbers_have_the_shape_and_range():
    net = Net()
    draws = [
        net.op(op, np.int32([50, 40]), name=op, dtype=FLOAT)
        for op in ("RandomUniform", "RandomStandardNormal")
    ]
    x = net.feed(np.float32(0))
    results = run_litert(
        net.lower(*(net.op("AddV2", d, x, name=f"y{k}") for k, d in enumerate(draws))), {"x": np.float32(0)}
    )
    assert results["y0"].shape == (50, 40)
    assert 0 <= results["y0"].min() < 0.1 < 0.9 < results["y0"].max() <= 1
    assert results["y1"].min() < -1.5
    assert abs(results["y1"].mean()) < 0.2


@pytest.mark.parametrize("narrow", [False, True])
def test_fake_quantization(narrow):
    """Steps of a range that is moved so that 0 is one of them."""
    x = f(4, 50, low=-3.0, high=9.0)
    for op, operands, attrs in (
        ("FakeQuantWithMinMaxArgs", [x], {"min": -1.0, "max": 5.0}),
        ("FakeQuantWithMinMaxVars", [x, C(np.float32(-1)), C(np.float32(5))], {}),
    ):
        net, node = build(op, operands, {**attrs, "num_bits": 4, "narrow_range": narrow})
        y = run_litert(net.lower(node.output()), {"x0": x})["y"]
        scale = 6 / (14 if narrow else 15)
        levels = y / scale
        np.testing.assert_allclose(levels, np.round(levels), atol=1e-4)
        inside = (x > -0.8) & (x < 4.8)
        assert np.abs(y - x)[inside].max() <= scale / 2 + 1e-4


def test_fused_matmul():
    net = Net()
    x, w, bias = net.feed(f(2, 3)), f(3, 4), f(4)
    y = net.op("_FusedMatMul", x, w, bias, fused_ops=["BiasAdd", "Relu"])
    assert net.codes(y) == ["FULLY_CONNECTED"]
    lowered = net.lower(y)
    compare(run_litert(lowered, {"x": f(2, 3)})[y.name], np.maximum(f(2, 3) @ w + bias, 0))


@pytest.mark.parametrize("op", ["NonMaxSuppression", "NonMaxSuppressionV2"])
def test_older_non_max_suppression(op):
    net = Net()
    more = [np.float32(0.5)] if op.endswith("V2") else []
    attrs = {} if more else {"iou_threshold": 0.5}
    y = net.op(op, net.feed(BOXES, "boxes"), net.feed(SCORES, "scores"), np.int32(3), *more, **attrs)
    net.check(y)


def test_non_max_suppression_with_scores():
    net = Net()
    limits = [np.int32(3), np.float32(0.5), np.float32(0.1), np.float32(0.0)]
    y = net.op("NonMaxSuppressionV5", net.feed(BOXES, "boxes"), net.feed(SCORES, "scores"), *limits)
    net.check(*(y.node.output(p) for p in range(3)))


@pytest.mark.parametrize("op", ["Rsqrt", "Pow"])
def test_inverse_roots_of_zero_are_infinite(op):
    net = Net()
    x = net.feed(np.float32([0, 4, 1e-30]))
    more = [np.float32(-0.5)] if op == "Pow" else []
    assert net.check(net.op(op, x, *more, name="y")) == ["SQRT", "DIV"]
    raised = net.op("AddV2", x, np.float32(1e-3), name="raised")
    assert net.check(net.op(op, raised, *more, name="z")) == ["ADD", "RSQRT"]


def test_float_quotients_are_rounded_down():
    net = Net()
    x = net.feed(np.float32([7, 5.5, -5.5, 6, 1]))
    y = net.op("FloorDiv", x, np.float32([0.1, 2, 2, -3, 0]))
    assert net.check(y) == ["DIV", "FLOOR"]
    assert run_litert(net.lower(y), {"x": np.float32([7, 5.5, -5.5, 6, 1])})[y.name][0] == 70


@pytest.mark.parametrize("pad", [False, True])
def test_non_max_suppression(pad):
    net = Net()
    boxes, scores = net.feed(BOXES, "boxes"), net.feed(SCORES, "scores")
    limits = [np.int32(3), np.float32(0.5), np.float32(0.1)]
    v4 = [net.op("NonMaxSuppressionV4", boxes, scores, *limits, name="v4", pad_to_max_output_size=pad)]
    v4.append(v4[0].node.output(1))
    v3 = net.op("NonMaxSuppressionV3", boxes, scores, *limits, name="v3")
    net.check(*v4, v3)


def test_reshape_to_a_computed_shape():
    net = Net()
    x, shape = net.feed(f(2, 6), "x"), net.feed(np.int32([3, 4]), "shape")
    y = net.op("Reshape", x, shape)
    assert net.check(y) == ["RESHAPE"]


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "reason"),
    [
        ("Conv2D", [f(1, 2, 4, 4), C(f(1, 1, 2, 2))], conv(data_format="NCHW"), "data_format is NCHW"),
        ("MaxPool", [f(1, 2, 4, 4)], {"ksize": [1, 1, 2, 2], "strides": [1, 1, 2, 2], "padding": "VALID",
                                      "data_format": "NCHW"}, "NHWC only"),
        ("Exp", [f(2).astype(np.float64)], {}, "no EXP for double"),
        ("Sum", [i(2, 2, element=np.uint8), ints(0)], {}, "no SUM for uint8"),
        ("Pad", [f(1, 1, 1, 1, 1, 1), C(np.zeros((6, 2), I32))], {}, "rank"),
        ("ConcatV2", [f(2, 2), f(2, 2), np.int32(0)], {}, "computed while the model runs"),
        ("ReverseV2", [f(2, 2), C([5], I32)], {}, "does not fit rank 2"),
        ("NoSuchOp", [f(2)], {}, "no form of NoSuchOp"),
        ("LeakyRelu", [f(2)], {"alpha": [1, 2]}, "not well formed"),
        ("AvgPool", [f(1, 4, 4, 1)], {"ksize": STRIDE_2, "strides": STRIDE_2, "padding": "x"}, "cannot be x"),
        ("MatMul", [f(2, 2)], {}, "1 inputs, 2 are needed"),
        ("AvgPool", [f(1, 4, 4, 4)], {"ksize": [1, 1, 1, 2], "strides": [1, 1, 1, 2], "padding": "VALID"},
         "batch or channels"),
    ],
)  # fmt: skip
def test_refusals(op, operands, attrs, reason):
    net, node = build(op, operands, attrs)
    with pytest.raises(UnsupportedOp, match=reason) as caught:
        net.lower(node.output())
    assert "node 'y'" in str(caught.value)


def test_boxes_without_area_are_chosen_once():
    boxes = np.float32([[0, 0, 1, 1], [0.5, 0, 0.5, 1], [0, 0, 1, 0.9], [0.2, 0.3, 0.2, 0.3], [2, 2, 3, 3]])
    scores = np.float32([0.5, 0.9, 0.3, 0.8, 0.1])
    net = Net()
    net.check(net.op("NonMaxSuppression", net.feed(boxes, "boxes"), net.feed(scores, "scores"), np.int32(5)))


def test_what_wraps_around_or_has_signs():
    net = Net()
    x = net.feed(np.float32([-2.9, 300, -1, 70000]))
    net.check(*(net.op("Cast", x, name=str(t), DstT=dtype(t)) for t in ("uint8", "int8", "uint16", "uint32")))
    big = net.feed(np.array([2**31 - 1, -(2**31), 3], I32), "big")
    net.check(net.op("Pow", big, np.int32(3)))
    with pytest.raises(UnsupportedOp, match="a fixed exponent of 1 to 8"):
        net.lower(net.op("Pow", big, np.int32(-1)))


def test_functions_of_infinities_and_small_numbers():
    net = Net()
    x = net.feed(np.float32([np.inf, -np.inf, np.nan, 1e-5, -1e-5, 0, 5]))
    net.check(net.op("Erf", x))
    net.check(*(net.op(op, x) for op in ("Expm1", "Sinh")), rtol=1e-5, atol=0)


def test_shrinking_takes_no_notice_of_masks():
    net = Net()
    bounds = [np.int32([n]) for n in (-1, 0, 1)]
    x = net.feed(np.int32([5, 6, 7]))
    net.check(net.op("StridedSlice", x, *bounds, begin_mask=1, shrink_axis_mask=1))
