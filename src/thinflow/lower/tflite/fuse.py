"""Fewer operators for the same result: what LiteRT's kernels can do in one step is put into one operator."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import INT8
from thinflow.lower.tflite import fuse_arithmetic as arithmetic
from thinflow.lower.tflite import fuse_layout as layout
from thinflow.lower.tflite.fuse_quantized import merge_addends, merge_columns
from thinflow.lower.tflite.gelu import FuseGelu, expand_erf
from thinflow.lower.tflite.integer_recurrent import fuse_crossings
from thinflow.lower.tflite.quantized_context import is_quantized
from thinflow.lower.tflite.wiring import activation
from thinflow.program import fusion
from thinflow.tflite.model import Operator, Subgraph

# Where several rules are for one op, the first that fits decides.
RULES = fusion.by_code(
    arithmetic.FuseActivation(),
    arithmetic.FuseLeakyRelu(),
    arithmetic.FuseRelu6(),
    arithmetic.DropNeutral(),
    arithmetic.FusePrelu(),
    arithmetic.FuseHardSwish(),
    FuseGelu(),
    arithmetic.FuseBias(),
    arithmetic.FuseScale(),
    arithmetic.MergeConstants(),
    arithmetic.InvertConstant(),
    layout.FusePad(),
    layout.DropFlattening(),
    arithmetic.FuseInputScale(),
    layout.FuseDilation(),
    layout.MergeReshapes(),
    layout.DropReshape(),
    layout.KeepDims(),
    layout.KeepAxes(),
    layout.MergeTransposes(),
    layout.SimplifyTranspose(),
    layout.DropCast(),
    layout.DropEmptyPad(),
    layout.DropTile(),
    layout.DropSingleJoin(),
)
LAST_RULES = fusion.by_code(arithmetic.ToDepthwise(), arithmetic.PoolToDepthwise())
"""For what the others have left: a convolution nearby takes arithmetic for less."""

_LOWEST, _HIGHEST = -128, 127
_APART = frozenset(("ADD", "MUL"))
"""Ops whose clamp is a pass over memory of its own in XNNPACK."""


def fuse(subgraph: Subgraph, *, matrix_unit: bool | None = None) -> None:
    """Apply every rule until none finds anything, then the last ones; then quantized values and ERF.

    Operators on quantized values stay for the rules about them.

    Args:
        matrix_unit: see `merge_columns`; None for any processor or accelerator, where layers keep their form.
    """
    # Before anything takes the arithmetic of codes apart.
    fuse_crossings(subgraph)
    fusion.fuse(subgraph, RULES, keep=is_quantized)
    # One round: none of these rules is for what they make.
    fusion.fuse(subgraph, LAST_RULES, rounds=1, keep=is_quantized)
    merge_addends(subgraph)
    if matrix_unit is not None:
        merge_columns(subgraph, matrix_unit=matrix_unit)
    drop_clamps(subgraph)
    expand_erf(subgraph)


def drop_clamps(subgraph: Subgraph) -> None:
    """Take activations away that no quantized value could change. O(operators)."""
    for operator in subgraph.operators:
        if operator.code in _APART and _saturates(operator):
            operator.options["fused_activation_function"] = "NONE"


def _saturates(operator: Operator) -> bool:
    """True if the lowest int8 stands for 0 and, with RELU6, the highest one for no more than 6."""
    y, clamp = operator.outputs[0], activation(operator)
    if y.dtype is not INT8 or y.quantization is None or clamp not in ("RELU", "RELU6"):
        return False
    scale, zero = np.float32(y.quantization.scale[0]), int(y.quantization.zero_point[0])
    # Saturation of int8 is the clamp then. 6 is quantized as kernels do, halves away from 0.
    return zero == _LOWEST and (clamp == "RELU" or zero + int(np.float32(6) / scale + 0.5) >= _HIGHEST)
