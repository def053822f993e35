"""Multiplications of a program's layers with constant weights: what a run of it costs, nearly."""

from __future__ import annotations

import math
import re
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


def multiplied(operator: Operator[Any], kernels: Kernels) -> int:
    """Multiplications of any operator in one run: with constant weights, of two computed matrices, or in the
    gates of a recurrent layer; 0 for those that multiply number by number.
    """
    found = _layer(operator, kernels)
    kernel, y = kernels.table.get(operator.code), operator.outputs[0].shape if operator.outputs else None
    if found or not y:
        return found
    if kernel is not None and kernel.is_heavy:
        rows = operator.inputs[0].shape if operator.inputs[0] is not None else None
        is_turned = operator.options.get("adj_x") or operator.options.get("transA")
        return math.prod(n or 1 for n in y) * (rows[-2 if is_turned else -1] or 1) if rows else 0
    # Each step and each sample goes through all gates. Tables that are looked up are one matrix.
    if kernel is None and re.search("LSTM|GRU|RNN|SVDF", operator.code):
        constants = [t.array() for t in operator.reads() if t.is_constant]
        gates = sum(int(w.size) for w in constants if w.ndim > 1)
        steps: int = math.prod(n or 1 for n in y[:-1])
        return gates * steps
    return 0


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
