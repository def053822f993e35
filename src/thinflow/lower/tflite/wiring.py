"""LiteRT's subgraphs with their edges, and what fusion asks of LiteRT's operators."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from thinflow.ir.types import FLOAT, INT32
from thinflow.program import fusion, wiring
from thinflow.tflite.model import Operator, Tensor
from thinflow.typing import Array

Wiring: TypeAlias = wiring.Wiring[Tensor, Operator]
Match: TypeAlias = fusion.Match[Tensor, Operator]
Rewrite: TypeAlias = fusion.Rewrite[Tensor, Operator]


def activation(operator: Operator) -> str:
    """The activation that an operator ends in; "NONE" if it has none."""
    return str(operator.options.get("fused_activation_function", "NONE"))


def is_plain(operator: Operator) -> bool:
    """True if an operator ends in no activation."""
    return activation(operator) == "NONE"


def plain(operator: Operator) -> str:
    """The reason why an operator does not give its plain result; "" if it does."""
    return "" if is_plain(operator) else f"'{operator.outputs[0].name}' ends in {activation(operator)}"


def new_constant(name: str, array: Array) -> Tensor:
    """A constant of int32 or float32."""
    # Arithmetic of arrays without axes gives NumPy's scalars, which are none.
    array = np.asarray(array, array.dtype)
    return Tensor(name, tuple(array.shape), INT32 if array.dtype == np.int32 else FLOAT, array)
