"""Multiplications of a program's layers with constant weights: what a run of it costs, nearly."""

from __future__ import annotations

import math
from typing import Any

from thinflow.onnx import program as onnx
from thinflow.program.model import Block, Operator
from thinflow.quantize.kernels import Kernels
from thinflow.quantize.kernels import litert as litert_kernels
from thinflow.quantize.kernels import onnx as onnx_kernels
from thinflow.tflite import model as tflite


def multiplications(program: tflite.Program | onnx.Program) -> dict[Operator[Any], int]:
    """Layer of the main block -> multiplications with its constant weights in one run.

    Open sizes count as 1. Loops count once, as only what stands outside of them is counted.
    """
    kernels = kernels_of(program)
    operators: list[Operator[Any]] = [*main_block(program).operators]
    found = {operator: _layer(operator, kernels) for operator in operators}
    return {operator: count for operator, count in found.items() if count}


def kernels_of(program: tflite.Program | onnx.Program) -> Kernels:
    """The integer kernels of a program's runtime, of eight bits."""
    return onnx_kernels.INT8_KERNELS if isinstance(program, onnx.Program) else litert_kernels.INT8_KERNELS


def main_block(program: tflite.Program | onnx.Program) -> Block[Any, Any]:
    """The operators that run when a program does."""
    return program if isinstance(program, onnx.Program) else program.subgraphs[0]


def _layer(operator: Operator[Any], kernels: Kernels) -> int:
    w = kernels.weights(operator)
    axis = kernels.weight_axis(operator) if w is not None else None
    y = operator.outputs[0].shape
    if w is None or axis is None or y is None:
        return 0
    # Each number of the output is a sum over the weights of its channel.
    sizes: tuple[int, ...] = w.array().shape
    each = math.prod(sizes) // max(sizes[axis], 1)
    positions: int = math.prod(n or 1 for n in y)
    return each * positions
