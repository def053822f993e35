"""Formulas over ONNX's tensors."""

from __future__ import annotations

import numpy as np

from thinflow.lower import terms
from thinflow.lower.onnx.builder import Builder
from thinflow.lower.terms import choose
from thinflow.onnx.program import Tensor
from thinflow.program.model import Dims
from thinflow.typing import Array

__all__ = ["Term", "choose"]


class Term(terms.Term[Builder, Tensor]):
    """A tensor with arithmetic, and with what else ONNX's formulas need."""

    def reduced(self, code: str, *axes: int, keep: bool = False) -> Term:
        return Term(self.b, self.b.reduce(code, self.tensor, axes, keep=keep))

    def unsqueezed(self, *axes: int) -> Term:
        return Term(self.b, self.b.unsqueezed(self.tensor, axes))

    def gathered(self, places: Tensor | Array, axis: int = 0) -> Term:
        """The slices at some places of an axis."""
        at = places if isinstance(places, Tensor) else self.b.const(np.asarray(places, np.int64), "places")
        shape: Dims = None
        if self.shape is not None and at.shape is not None:
            axis %= len(self.shape)
            shape = (*self.shape[:axis], *at.shape, *self.shape[axis + 1 :])
        return Term(self.b, self.b.step("Gather", self.tensor, at, shape=shape, axis=axis))
