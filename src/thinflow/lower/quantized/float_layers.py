"""Float layers between quantized values, found in the operators that were emitted for them.

`quantize_nodes` leaves some layers in float, depthwise convolutions above all. Where both their input and
their result have known quantization parameters, nothing but their weights has to be rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from thinflow.ir.types import FLOAT
from thinflow.typing import Array

_FAR = 64
"""Operators back to look for the one in front: a layer and what follows it are a dozen at most, and a look
over all of them for each result would take quadratic time."""


class _Operator(Protocol):
    code: str

    @property
    def inputs(self) -> Sequence[Any]: ...

    @property
    def outputs(self) -> Sequence[Any]: ...


Op = TypeVar("Op", bound=_Operator)


def recent_producer(operators: Sequence[Op], x: object) -> Op | None:
    """The operator that makes a tensor, if it was emitted lately."""
    return next((o for o in operators[: -_FAR - 1 : -1] if x in o.outputs), None)


def before_bias(operators: Sequence[Op], operator: Op | None, add: str) -> tuple[Op | None, Array]:
    """The operator behind which a bias is added, and the bias [m] or []; `operator` itself if none is.

    Args:
        operators: as emitted.
        operator: the last one.
        add: code of an addition.
    """
    if operator is None or operator.code != add:
        return operator, np.zeros(())
    left, right = operator.inputs
    # Additions commute, and graphs have the bias on either side.
    value, addend = (left, right) if _is_vector(right) else (right, left)
    # An addition of two tensors is no bias: there is no layer to requantize then.
    return (recent_producer(operators, value), reals(addend)) if _is_vector(addend) else (None, np.zeros(()))


def _is_vector(x: Any) -> bool:
    """True for a float constant with one number per channel, or one for all."""
    if x is None or not x.is_constant or x.dtype is not FLOAT:
        return False
    # Leading axes of size 1 broadcast as none do.
    return all(n == 1 for n in np.asarray(x.array()).shape[:-1])


def reals(x: Any) -> Array:
    """The numbers of a constant, float64 [n]."""
    return np.asarray(x.array()).astype(np.float64).reshape(-1)
