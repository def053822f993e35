"""Multiplications of a program's layers with constant weights: what a run of it costs, nearly."""

from __future__ import annotations

import math
from typing import Any

from thinflow.onnx import program as onnx
from thinflow.program.model import Operator
from thinflow.quantize.kernels import Kernels
from thinflow.quantize.kernels import litert as litert_kernels
from thinflow.quantize.kernels import onnx as onnx_kernels
from thinflow.tflite import model as tflite


def multiplications(program: tflite.Program | onnx.Program) -> dict[Operator[Any], int]:
    """Layer of the main block -> multiplications with its constant weights in one run.

    Open sizes count as 1. Loops count once, as only what stands outside of them is counted.
    """
    if isinstance(program, onnx.Program):
        found = {o: _layer(o, onnx_kernels.INT8_KERNELS) for o in program.operators}
    else:
        found = {o: _layer(o, litert_kernels.INT8_KERNELS) for o in program.subgraphs[0].operators}
    return {operator: count for operator, count in found.items() if count}


def _layer(operator: Operator[Any], kernels: Kernels) -> int:
    w = kernels.weights(operator)
    axis = kernels.weight_axis(operator) if w is not None else None
    sizes, y = (w.shape, operator.outputs[0].shape) if w is not None else (None, None)
    if sizes is None or y is None or axis is None or not sizes:
        return 0
    # Each number of the output is a sum over the weights of its channel.
    return math.prod(n or 1 for n in y) * (math.prod(n or 1 for n in sizes) // max(sizes[axis] or 1, 1))
