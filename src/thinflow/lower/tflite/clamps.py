"""Clamps that codes need none of, because they end there anyway."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import INT8
from thinflow.lower.tflite.program import Operator, Subgraph
from thinflow.lower.tflite.wiring import activation

_LOWEST, _HIGHEST = -128, 127
_APART = frozenset(("ADD", "MUL"))
"""Ops whose clamp is a pass over memory of its own in XNNPACK."""


def drop_clamps(subgraph: Subgraph) -> None:
    """Take activations away that no code could change. O(operators)."""
    for operator in subgraph.operators:
        if operator.code in _APART and _ends_there(operator):
            operator.options["fused_activation_function"] = "NONE"


def _ends_there(operator: Operator) -> bool:
    """Whether the lowest code stands for 0 and, with RELU6, the highest one for no more than 6."""
    y, clamp = operator.outputs[0], activation(operator)
    if y.dtype is not INT8 or y.quantization is None or clamp not in ("RELU", "RELU6"):
        return False
    scale, zero = np.float32(y.quantization.scale[0]), int(y.quantization.zero_point[0])
    return zero == _LOWEST and (clamp == "RELU" or zero + int(np.float32(6) / scale + 0.5) >= _HIGHEST)
