"""ONNX programs with their edges, and the constants that rewriting makes."""

from __future__ import annotations

from typing import TypeAlias

from thinflow.ir.types import INT64, DType
from thinflow.onnx.program import Operator, Tensor
from thinflow.program import fusion, wiring
from thinflow.typing import Array

Match: TypeAlias = fusion.Match[Tensor, Operator]
Rewrite: TypeAlias = fusion.Rewrite[Tensor, Operator]


Wiring: TypeAlias = wiring.Wiring[Tensor, Operator]


def new_constant(name: str, array: Array, element: DType = INT64) -> Tensor:
    """A constant of some type."""
    return Tensor(name, tuple(array.shape), element, array)
