"""The axis of an output that its classes lie along where nothing says so: that of the last layer."""

from __future__ import annotations

from typing import Any

from thinflow.onnx import program as onnx
from thinflow.program.model import Operator
from thinflow.quantize.kernels import Kernels
from thinflow.quantize.macs import kernels_of, main_block
from thinflow.tflite import model as tflite


def channel_axis(program: tflite.Program | onnx.Program, output: Any) -> int:
    """The axis of an output's channels; -1, the last one, where it is not known. O(operators)."""
    producers, kernels = main_block(program).producers(), kernels_of(program)
    moves: list[list[int]] = []
    operator = producers.get(output)
    while operator is not None and not _is_layer(operator, kernels):
        x, y = operator.inputs[0] if operator.inputs else None, operator.outputs[0]
        # What gives another number of dimensions has its own order of numbers.
        if x is None or not x.shape or len(x.shape) != len(y.shape or ()):
            return -1
        if operator.code.upper() == "TRANSPOSE":
            order = _order(operator)
            if order is None:
                return -1
            moves.append(order)
        elif operator.code.upper() == "RESHAPE":
            return -1
        operator = producers.get(x)
    if operator is None:
        return -1
    axis = _of_layer(program, operator, kernels)
    for order in reversed(moves):
        axis = order.index(axis % len(order))
    return axis


def _is_layer(operator: Operator[Any], kernels: Kernels) -> bool:
    kernel = kernels.table.get(operator.code)
    return kernel is not None and kernel.is_heavy and kernels.weights(operator) is not None


def _of_layer(program: tflite.Program | onnx.Program, operator: Operator[Any], kernels: Kernels) -> int:
    """The axis of the channels that a layer gives: ONNX's convolutions have them behind the batch."""
    weights, rank = kernels.weights(operator), len(operator.outputs[0].shape or ())
    is_first = isinstance(program, onnx.Program) and rank > 2 and weights.array().ndim == rank
    return 1 if is_first else -1


def _order(operator: Operator[Any]) -> list[int] | None:
    """The input's axis at each axis of the output of a transpose; None if it is computed."""
    if "perm" in operator.options:
        return [int(n) for n in operator.options["perm"]]
    given = operator.inputs[1] if len(operator.inputs) > 1 else None
    return [int(n) for n in given.array()] if given is not None and given.is_constant else None
