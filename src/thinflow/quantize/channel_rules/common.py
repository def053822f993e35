"""Rules that operators of both runtimes share."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from thinflow.program.model import Tensor
from thinflow.quantize.channel_rules import Factors, Flow, operands
from thinflow.quantize.kernels import Operator, input_at, is_float
from thinflow.typing import Array


def passes(flow: Flow, operator: Operator) -> Factors:
    """What changes each number alone, so that f(s * x) = s * f(x), or leaves it as it is."""
    return flow.of(input_at(operator, 0))


def moves(flow: Flow, operator: Operator) -> Factors:
    """Reshapes of all kinds."""
    x, y = input_at(operator, 0), operator.outputs[0]
    return flow.reshaped(flow.of(x), x.shape, y.shape)


def adds(flow: Flow, operator: Operator) -> Factors | None:
    """Sums, differences and extremes: all operands have the same factors, and constants follow."""
    y = operator.outputs[0]
    rank = len(y.shape)
    computed = [t for t in operator.reads() if not t.is_constant]
    if not computed or not all(map(is_float, operator.reads())):
        return None
    factors = flow.together(*(flow.of(t, rank) for t in computed))
    for number, tensor in enumerate(operator.inputs):
        if tensor is not None and tensor.is_constant and not flow.adds(operator, number, factors):
            flow.cells.bind(factors)
    return factors


def multiplies(flow: Flow, operator: Operator) -> Factors | None:
    """By a constant, or by another tensor."""
    rank = len(operator.outputs[0].shape)
    a, b = operands(operator, 0, 1)
    if a.is_constant and b.is_constant:
        return None
    if a.is_constant or b.is_constant:
        return flow.times_row(operator, 0 if a.is_constant else 1)
    return flow.products.of(flow.of(a, rank), flow.of(b, rank))


def divides(flow: Flow, operator: Operator) -> Factors | None:
    """By a constant, or by another tensor."""
    rank = len(operator.outputs[0].shape)
    a, b = operands(operator, 0, 1)
    if a.is_constant:
        return None
    if b.is_constant:
        return flow.times_row(operator, 1, divides=True)
    return flow.products.of(flow.of(a, rank), flow.of(b, rank) ^ 1)


def matrices(
    flow: Flow, operator: Operator, *, flips_a: bool = False, flips_b: bool = False, bias: int | None = None
) -> Factors | None:
    """Products of matrices, the second of which may be weights.

    Args:
        flips_a, flips_b: whether rows and columns change places first.
    """
    a, b = operands(operator, 0, 1)
    rank = len(operator.outputs[0].shape)
    if a.is_constant or len(a.shape) < 2 or len(b.shape) < 2:
        return None
    if not b.is_constant:
        left, right = flow.of(a, rank), flow.of(b, rank)
        left = np.swapaxes(left, -1, -2) if flips_a else left
        right = np.swapaxes(right, -1, -2) if flips_b else right
        return None if bias is not None else flow.products.of_matrices(left, right)
    if not flow.is_usable(b):
        return None
    shape = np.asarray(b.array()).shape
    k, n = (shape[-1], shape[-2]) if flips_b else shape[-2:]
    takes, gives = np.arange(k)[:, None], np.arange(n)[None]
    if flips_b:
        takes, gives = takes.T, gives.T
    row = flow.along(a, -2 if flips_a else -1, k)
    return flow.layer(operator, 1, bias, row, rank - 1, takes, gives)


def padded(flow: Flow, x: Tensor, margins: Iterable[tuple[int, int]]) -> Factors | None:
    """Factors where zeros are put around: those of zeros may be any, and 1 is one."""
    factors = flow.of(x)
    widths = [pair if n > 1 else (0, 0) for pair, n in zip(margins, factors.shape, strict=True)]
    # ONNX cuts off where a margin is negative.
    if np.any(np.asarray(widths) < 0):
        return None
    return np.pad(factors, widths) if np.any(widths) else factors


def grouped(outputs: int, inputs: int, groups: int) -> Array:
    """int [outputs, inputs] channels that a grouped layer reads for each of its outputs."""
    first = np.arange(outputs) // max(outputs // groups, 1) * inputs
    return first[:, None] + np.arange(inputs)
