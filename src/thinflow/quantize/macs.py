"""Multiplications of a program's layers with constant weights: what a run of it costs, nearly."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from thinflow.onnx import program as onnx
from thinflow.program.model import Block, Operator
from thinflow.quantize.kernels import Kernels
from thinflow.quantize.kernels import litert as litert_kernels
from thinflow.quantize.kernels import onnx as onnx_kernels
from thinflow.quantize.weights import memory_key
from thinflow.tflite import model as tflite


def multiplications(program: tflite.Program | onnx.Program) -> dict[Operator[Any], int]:
    """Layer of the main block -> multiplications with its constant weights in one run.

    Open sizes count as 1. Loops count once, as only what stands outside of them is counted.
    """
    kernels = kernels_of(program)
    operators: list[Operator[Any]] = [*main_block(program).operators]
    found = {operator: _layer(operator, kernels) for operator in operators}
    return {operator: count for operator, count in found.items() if count}


def recurrent_multiplications(program: tflite.Program | onnx.Program) -> int:
    """Multiplications in LSTMs and the like of one operator in one run; in LiteRT's also those in loops of a
    known number of turns, unrolled ones included.
    """
    if isinstance(program, onnx.Program):
        return sum(_of_one(o, o.inputs[0]) for o in program.operators if "hidden_size" in o.options)
    costs = multiplications(program)
    found = sum(costs[operator] for operator in unrolled_cells(program))
    for operator in program.subgraphs[0].operators:
        if operator.code == "UNIDIRECTIONAL_SEQUENCE_LSTM":
            found += _of_one(operator, operator.outputs[0])
        elif operator.code == "WHILE":
            body = program.subgraphs[operator.options["body_subgraph_index"]]
            each = sum(_layer(inner, litert_kernels.INT8_KERNELS) for inner in body.operators)
            found += each * _turns(program.subgraphs[operator.options["cond_subgraph_index"]])
    return found


def _of_one(operator: Operator[Any], sequence: Any) -> int:
    """Multiplications of an operator whose matrices each row of a sequence goes through."""
    # Steps times batch, or batch times steps.
    rows: int = math.prod(n or 1 for n in ((sequence.shape if sequence is not None else None) or ())[:2])
    weights = [t.array() for t in operator.reads() if t.is_constant]
    matrices = [w for w in weights if w.dtype.kind == "f" and w.ndim in (2, 3) and w.shape[-2] > 1]
    return rows * sum(int(w.size) for w in matrices)


def unrolled_cells(program: tflite.Program) -> list[Operator[Any]]:
    """The layers of the main block whose weights four or more layers read: steps of a recurrent network."""
    kernels, readers = litert_kernels.INT8_KERNELS, dict[tuple[Any, ...], list[Operator[Any]]]()
    for operator in program.subgraphs[0].operators:
        if operator.code == "FULLY_CONNECTED" and (w := kernels.weights(operator)) is not None:
            readers.setdefault(memory_key(np.asarray(w.array())), []).append(operator)
    return [o for layers in readers.values() if len(layers) >= _STEPS for o in layers]


_STEPS = 4
"""Readers of the same weights: two may be the halves of a network that compares, a few its scales."""


def _turns(condition: tflite.Subgraph) -> int:
    """The number that a counter is compared with; 1 if there is none."""
    if len(condition.operators) != 1 or condition.operators[0].code != "LESS":
        return 1
    limit = condition.operators[0].inputs[1]
    is_number = limit is not None and limit.is_constant and limit.array().size == 1
    return max(int(limit.array().reshape(())), 1) if limit is not None and is_number else 1


def kernels_of(program: tflite.Program | onnx.Program, scheme: str = "int8") -> Kernels:
    """The integer kernels of a program's runtime, in a scheme that computes in integers; ONNX has one."""
    return (
        onnx_kernels.INT8_KERNELS if isinstance(program, onnx.Program) else litert_kernels.BY_SCHEME[scheme]
    )


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
    has_gates = kernel is None or kernel.has_matrices
    if kernel is not None and kernel.is_heavy and not has_gates:
        rows = operator.inputs[0].shape if operator.inputs[0] is not None else None
        is_turned = operator.options.get("adj_x") or operator.options.get("transA")
        return math.prod(n or 1 for n in y) * (rows[-2 if is_turned else -1] or 1) if rows else 0
    # Each step and each sample goes through all gates. Tables that are looked up are one matrix.
    if has_gates and re.search("LSTM|GRU|RNN|SVDF", operator.code):
        constants = [t.array() for t in operator.reads() if t.is_constant]
        gates = sum(int(w.size) for w in constants if w.ndim > 1)
        steps: int = math.prod(n or 1 for n in y[:-1])
        return gates * steps
    return 0


def _layer(operator: Operator[Any], kernels: Kernels) -> int:
    w = kernels.weights(operator)
    axis = kernels.weight_axis(operator) if w is not None else None
    # What fills a table or sets a variable gives nothing.
    y = operator.outputs[0].shape if operator.outputs else None
    if w is None or axis is None or y is None:
        return 0
    # Each number of the output is a sum over the weights of its channel.
    sizes: tuple[int, ...] = w.array().shape
    each = math.prod(sizes) // max(sizes[axis], 1)
    positions: int = math.prod(n or 1 for n in y)
    return each * positions
