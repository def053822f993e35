"""Default values of attributes: what an absent attribute means.

They come from the signatures of the op classes. The table holds what these leave out, because no rule or
kernel reads it, and takes back what a signature shares with a sibling op that TensorFlow defines differently.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

from thinflow.ir.attrs import Attr, ShapeAttr
from thinflow.ir.types import FLOAT, INT32, DType, dtype
from thinflow.ops import registry

_CONV2D: dict[str, Attr] = {
    "use_cudnn_on_gpu": True,
    "explicit_paddings": (),
    "data_format": b"NHWC",
    "dilations": (1, 1, 1, 1),
}
_NORM: dict[str, Attr] = {
    "epsilon": 1e-4,
    "exponential_avg_factor": 1.0,
    "data_format": b"NHWC",
    "is_training": True,
}
_RESIZE: dict[str, Attr] = {"align_corners": False, "half_pixel_centers": False}
_REDUCE: dict[str, Attr] = {"keep_dims": False, "Tidx": INT32}
_BATCH_MATMUL: dict[str, Attr] = {"adj_x": False, "adj_y": False}

# An op in this table has exactly these defaults.
_TABLE: dict[str, dict[str, Attr]] = {
    "Conv2D": _CONV2D,
    "Conv2DBackpropInput": _CONV2D,
    "Conv2DBackpropFilter": _CONV2D,
    "DepthwiseConv2dNative": {k: v for k, v in _CONV2D.items() if k != "use_cudnn_on_gpu"},
    "Conv3D": {"data_format": b"NDHWC", "dilations": (1, 1, 1, 1, 1)},
    "Conv3DBackpropInputV2": {"data_format": b"NDHWC", "dilations": (1, 1, 1, 1, 1), "Tshape": INT32},
    "MatMul": {"transpose_a": False, "transpose_b": False, "grad_a": False, "grad_b": False},
    "BatchMatMul": _BATCH_MATMUL | {"grad_x": False, "grad_y": False},
    "BatchMatMulV2": _BATCH_MATMUL | {"grad_x": False, "grad_y": False},
    "BatchMatMulV3": _BATCH_MATMUL | {"grad_x": False, "grad_y": False},
    "BiasAdd": {"data_format": b"NHWC"},
    "FusedBatchNorm": _NORM,
    "FusedBatchNormV2": _NORM,
    "FusedBatchNormV3": _NORM,
    "BatchNormWithGlobalNormalization": {},
    "ResizeBilinear": _RESIZE,
    "ResizeNearestNeighbor": _RESIZE,
    "ResizeBicubic": _RESIZE,
    "MaxPool": {"explicit_paddings": (), "data_format": b"NHWC", "T": FLOAT},
    "AvgPool": {"data_format": b"NHWC"},
    "Min": _REDUCE,
    "Max": _REDUCE,
    "Mean": _REDUCE,
    "Sum": _REDUCE,
    "Prod": _REDUCE,
    "All": _REDUCE,
    "Any": _REDUCE,
    "Dequantize": {"mode": b"MIN_COMBINED", "narrow_range": False, "axis": -1, "dtype": FLOAT},
    "QuantizeV2": {
        "mode": b"MIN_COMBINED",
        "round_mode": b"HALF_AWAY_FROM_ZERO",
        "narrow_range": False,
        "axis": -1,
        "ensure_minimum_range": 0.01,
    },
    "FakeQuantWithMinMaxVars": {"num_bits": 8, "narrow_range": False},
    "FakeQuantWithMinMaxVarsPerChannel": {"num_bits": 8, "narrow_range": False},
    "Placeholder": {"shape": ShapeAttr(None)},
    "Print": {"message": b"", "first_n": -1, "summarize": 3},
    "StridedSlice": dict.fromkeys(
        ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0
    ),
    "Gather": {"validate_indices": True},
    "GatherV2": {"batch_dims": 0},
    "Cast": {"Truncate": False},
    "Squeeze": {"squeeze_dims": ()},
    "LRN": {"depth_radius": 5, "bias": 1.0, "alpha": 1.0, "beta": 0.5, "T": FLOAT},
    "LeakyRelu": {"alpha": 0.2, "T": FLOAT},
}

# Default types of operands, which no rule needs to be told: "attribute=type: ops".
_TYPES = """
T=float: AdjustContrastv2 AdjustHue AdjustSaturation Complex HSVToRGB MaxPoolV2 NextAfter RGBToHSV
    NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5
T=int32: BroadcastArgs InTopK InTopKV2 InvertPermutation
T=uint8: EncodePng
T=bool: Where
T=complex64: Angle ComplexAbs Conj Imag Real
T=qint32: RequantizationRangePerChannel RequantizePerChannel
TI=int64: OneHot
T_threshold=float: NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4
Tactivation=quint8: QuantizedMatMul
Taxis=int64: UniqueV2 UniqueWithCountsV2
Tblock_shape=int32: BatchToSpaceND SpaceToBatchND
Tcomplex=complex64: FFT FFT2D FFT3D IFFT IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D
Tcrops=int32: BatchToSpaceND
Tdim=int32: ExpandDims
Tidx=int32: ArgMax ArgMin BatchToSpace BroadcastTo ConcatV2 Cumprod Cumsum CumulativeLogsumexp EuclideanNorm
    LinSpace Range ReverseV2 SparseSegmentMean SparseSegmentSqrtN SparseSegmentSum
Tindex=int64: MatrixBandPart
Tk=int32: TopKV2
Tlabels=int64: SparseSoftmaxCrossEntropyWithLogits
Tlen=int64: ReverseSequence SplitV
Tmultiples=int32: Tile
Tnumsegments=int32: UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum
    SegmentMaxV2 SegmentMinV2 SegmentProdV2 SegmentSumV2
Tout=complex64: Complex
Tout=float: Angle ComplexAbs Imag Real
Tpaddings=int32: MirrorPad Pad PadV2 SpaceToBatch SpaceToBatchND
Tperm=int32: ConjugateTranspose Transpose
Treal=float: RFFT RFFT2D RFFT3D
Tsegmentids=int32: SparseSegmentMean SparseSegmentSqrtN SparseSegmentSum
Tshape=int32: QuantizedReshape Reshape
index_type=int32: Fill
shape_type=int32: ConcatOffset
"""

# What a signature shares with a sibling or allows to be absent, but TensorFlow does not know or demands.
_NOT_DEFAULTS = {
    "BiasAddV1": {"data_format"},
    "EncodeJpegVariableQuality": {"quality", "progressive", "optimize_size", "chroma_downsampling"},
    "QuantizeDownAndShrinkRange": {"out_type"},
    "QuantizedBatchNormWithGlobalNormalization": {"out_type"},
    "QuantizedBiasAdd": {"out_type"},
    "PartitionedCall": {"output_shapes"},
    "StatefulPartitionedCall": {"output_shapes"},
    "RandomStandardNormal": {"dtype"},
    "RandomUniform": {"dtype"},
    "Requantize": {"out_type"},
    "TruncatedNormal": {"dtype"},
    "_FusedDepthwiseConv2dNative": {"explicit_paddings"},
}


@cache
def _types() -> dict[str, dict[str, Attr]]:
    found: dict[str, dict[str, Attr]] = {}
    for line in _TYPES.replace("\n    ", " ").strip().splitlines():
        head, _, ops = line.partition(": ")
        name, _, element = head.partition("=")
        for op in ops.split():
            found.setdefault(op, {})[name] = dtype(element)
    return found


@cache
def defaults_of(op: str) -> Mapping[str, Attr] | None:
    """Attribute -> the value its absence means; None for an op thinflow does not know."""
    if op in _TABLE:
        return _TABLE[op]
    definition = registry.find(op)
    if definition is None:
        return None
    found: dict[str, Attr] = dict(_types().get(op, {}))
    for function in (definition.infer, definition.kernel, definition.cost):
        if function is not None:
            for name, default in registry.signature(function).attrs.items():
                attr = _as_attr(default)
                if attr is not None and name not in _NOT_DEFAULTS.get(op, ()):
                    found.setdefault(name, attr)
    return found


def is_required(op: str, name: str, value: Attr) -> bool:
    """Whether a node of that op cannot do without the attribute; so types, which rules seldom mention."""
    definition = registry.find(op)
    defaults = defaults_of(op)
    if definition is None or defaults is None or name in defaults or name.startswith("_"):
        return False
    functions = [f for f in (definition.infer, definition.kernel, definition.cost) if f is not None]
    return isinstance(value, DType) or any(name in registry.signature(f).attrs for f in functions)


def _as_attr(default: Any) -> Attr | None:
    """A Python default as an attribute; None where there is none or it says only "absent"."""
    if default is None or default is inspect.Parameter.empty:
        return None
    if isinstance(default, str):
        return default.encode()
    if isinstance(default, tuple):
        items = [_as_attr(item) for item in default]
        return None if any(item is None for item in items) else tuple(items)  # type: ignore[arg-type]
    return default if isinstance(default, (bool, int, float, bytes, DType)) else None
