"""ONNX programs with their edges, and the constants that rewriting makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thinflow.ir.types import INT64, DType
from thinflow.onnx.program import Operator, Tensor
from thinflow.program import wiring
from thinflow.typing import Array


class Wiring(wiring.Wiring[Tensor, Operator]):
    """A program with its edges in both directions."""

    def add(
        self, code: str, inputs: Sequence[Tensor | None], output: Tensor, origin: str, **options: Any
    ) -> Tensor:
        """A new operator; returns its output."""
        return self.insert(Operator(code, list(inputs), [output], options, origin)).outputs[0]


def new_constant(name: str, array: Array, element: DType = INT64) -> Tensor:
    """A constant of some type."""
    return Tensor(name, tuple(array.shape), element, array)
