"""Default values of attributes: what an absent attribute means.

They come from the signatures of the op classes. The table holds what these leave out, because no rule or kernel reads it,
and takes back what a signature shares with a sibling op that TensorFlow defines differently.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

from thinflow.ir.attrs import Attr, ShapeAttr
from thinflow.ir.types import FLOAT, INT32, DType
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


@cache
def defaults_of(op: str) -> Mapping[str, Attr] | None:
    """Attribute -> the value its absence means; None for an op thinflow does not know."""
    if op in _TABLE:
        return _TABLE[op]
    definition = registry.find(op)
    if definition is None:
        return None
    found: dict[str, Attr] = {}
    for function in (definition.infer, definition.kernel, definition.cost):
        if function is not None:
            for name, default in registry.signature(function).attrs.items():
                attr = _as_attr(default)
                if attr is not None:
                    found.setdefault(name, attr)
    return found


def is_required(op: str, name: str, value: Attr) -> bool:
    """Whether a node of that op cannot do without the attribute; types count, as rules seldom mention them."""
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
