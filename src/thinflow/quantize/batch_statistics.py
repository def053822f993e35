"""Factors made of the statistics of a batch, which eight bits would blur. For programs of any runtime."""

from __future__ import annotations

import math
from collections.abc import Collection, MutableMapping, Sequence
from typing import Any, Protocol, TypeVar

from thinflow.ir.types import Shape


class _Operator(Protocol):
    """What operators of all runtimes have; tensors have a `shape` and are compared by identity."""

    code: str

    @property
    def inputs(self) -> Sequence[Any]: ...
    @property
    def outputs(self) -> Sequence[Any]: ...


Operator = TypeVar("Operator", bound=_Operator)


def keep_batch_statistics(
    placement: MutableMapping[Operator, str], root: str, arithmetic: Collection[str]
) -> None:
    """Keep float what applies 1/sqrt(variance) of the batch: 8 bits per tensor would blur such factors.

    A factor stays one while arithmetic does not make it larger; x * factor is the last operator to be kept.

    Args:
        placement: operators in the order they run -> why each stays float; "" if it does not. Is changed.
        root: the op that makes a factor of a variance.
        arithmetic: the ops that a factor may go through.
    """
    factors: set[Any] = set()
    for operator, why in placement.items():
        sizes = [_size(t.shape) for t in operator.inputs if t in factors]
        if operator.code == root:
            factors.update(operator.outputs)
        elif sizes and operator.code in arithmetic:
            if not why:
                placement[operator] = "it applies statistics that are computed at run time"
            factors.update(t for t in operator.outputs if _size(t.shape) <= max(sizes))


def _size(shape: Shape) -> float:
    """Number of elements; infinite if unknown."""
    if shape is None or None in shape:
        return math.inf
    return math.prod(n or 0 for n in shape)
