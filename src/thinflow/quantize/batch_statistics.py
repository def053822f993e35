"""Factors made of the statistics of a batch, which eight bits would blur. For programs of any runtime."""

from __future__ import annotations

import math
from collections.abc import Collection, MutableMapping
from typing import Any

from thinflow.ir.types import Shape
from thinflow.quantize.kernels import Operator


def keep_batch_statistics(
    placement: MutableMapping[Any, str], root: str, arithmetic: Collection[str]
) -> None:
    """Keep float what applies 1/sqrt(variance) of the batch: 8 bits per tensor would blur such factors.

    A factor stays one while arithmetic does not make it larger; x * factor is the last operator to be kept.

    Args:
        placement: operators in the order they run -> why each stays float; "" if it does not. Is changed.
        root: the op that makes a factor of a variance.
        arithmetic: the ops that a factor may go through.
    """
    factors: set[Any] = set()
    # Only values of the dict change while it is walked, never its keys.
    for operator, why in placement.items():
        sizes = [_size(t.shape) for t in operator.inputs if t in factors]
        if operator.code == root:
            factors.update(operator.outputs)
        elif sizes and operator.code in arithmetic:
            if not why:
                placement[operator] = "it applies statistics that are computed at run time"
            # A result larger than its factors is x * factor, an activation like any other: the walk ends
            # there.
            factors.update(t for t in operator.outputs if _size(t.shape) <= max(sizes))
    _keep_variances(placement, root, arithmetic)


def _keep_variances(placement: MutableMapping[Any, str], root: str, arithmetic: Collection[str]) -> None:
    """Keep float what a variance is made of: mean((x - mean(x))^2).

    Squares of small differences vanish in eight bits, and what is left of x behind a mean is small beside x.
    The walk ends at x, which is any tensor of the network: a convolution's result, or a sum of branches.
    """
    maker = {tensor: operator for operator in placement for tensor in operator.outputs}

    def makers(operators: Collection[Any]) -> list[Any]:
        return [maker[t] for operator in operators for t in operator.inputs if t in maker]

    around, means = [o for o in placement if o.code == root], set[Any]()
    while around:  # down to the mean of the squares: adding epsilon, reshaping
        found = makers(around)
        means.update(o for o in found if _is_mean(o))
        around = [o for o in found if o.code in arithmetic and o not in means]
    squares = [o for o in makers(means) if _is_square(o)]
    centred = [o for o in makers(squares) if o.code.upper() == "SUB"]
    averages = [o for o in makers([*squares, *centred]) if _is_mean(o)]
    # A mean without squares under the root is no variance; it stays with what the other rules say.
    for operator in (*squares, *centred, *averages, *(means if squares else ())):
        placement[operator] = placement[operator] or "it is part of a variance that is computed at run time"


def _is_mean(operator: Operator) -> bool:
    """MEAN in LiteRT's words; in ONNX's a ReduceMean, which over a picture is a GlobalAveragePool."""
    return operator.code in ("MEAN", "ReduceMean", "GlobalAveragePool")


def _is_square(operator: Operator) -> bool:
    """x * x, or the square of a difference."""
    if operator.code == "SQUARED_DIFFERENCE":
        return True
    first, *others = operator.inputs
    return operator.code.upper() == "MUL" and bool(others) and first is others[0]


def _size(shape: Shape) -> float:
    """Number of elements; infinite if unknown."""
    if shape is None or None in shape:
        return math.inf
    return math.prod(n or 0 for n in shape)
