"""Round weights to a few evenly spaced levels, so that the file compresses well. The file itself keeps its size.

    w  ->  lo + step * (floor((w - lo) / step) + 1/2),   step = (hi - lo) / num_steps
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph
from thinflow.ir.tensor import Tensor
from thinflow.rewrite.rule import Refuse, Transform, transform
from thinflow.rewrite.trace import Trace

Array = np.ndarray[Any, Any]
SMALLEST_NORMAL = np.float32(1.1754944e-38)


@transform("round_weights")
@dataclass(frozen=True)
class RoundWeights(Transform):
    """Round float constants to `num_steps` levels."""

    exact = False

    num_steps: int = 256
    minimum_size: int = 16
    preserve_zero: bool = True
    legacy: bool = False

    def __post_init__(self) -> None:
        if self.num_steps < 1:
            raise ParameterError(f"num_steps is {self.num_steps}", hint="give at least 1; 256 is usual")

    def apply(self, graph: Graph, trace: Trace) -> None:
        for node in graph:
            tensor = node.tensor
            if tensor is None or not tensor.dtype.is_floating:
                continue
            if self.legacy and tensor.dtype.name != "float":
                continue
            try:
                rounded = self.round(tensor)
            except Refuse as refusal:
                trace.leave(node, refusal.reason)
                continue
            if rounded is not None:
                trace.changed(node, f"rounded to {self.num_steps} levels")
                node.attrs["value"] = rounded

    def round(self, tensor: Tensor) -> Tensor | None:
        """The rounded tensor; None if rounding changes nothing.

        Raises:
            Refuse: too small, constant, or not finite.
        """
        if tensor.size < self.minimum_size:
            raise Refuse(f"fewer than {self.minimum_size} values")
        values = tensor.numpy()
        if not np.isfinite(values).all():
            raise Refuse("it has values that are not finite")
        if self.legacy:
            return Tensor.from_array(_round_as_original(values, self.num_steps), tensor.dtype)
        wide = values.astype(np.float64)
        low, high = float(wide.min()), float(wide.max())
        if low == high:
            raise Refuse("all its values are equal")
        step = (high - low) / self.num_steps
        bucket = np.minimum(np.floor((wide - low) / step), self.num_steps - 1)
        rounded = (low + step * (bucket + 0.5)).astype(values.dtype)
        if self.preserve_zero:
            rounded = np.where(values == 0, values, rounded)
        return None if np.array_equal(rounded, values) else Tensor.from_array(rounded, tensor.dtype)


def _round_as_original(values: Array, num_steps: int) -> Array:
    """Bit for bit what the Graph Transform Tool does, quirks included: the range reaches up to 0 or a little above."""
    low = np.float32(values.min())
    high = max(SMALLEST_NORMAL, np.float32(values.max()))
    if low == high:
        if abs(low) < 1e-6:
            high = np.float32(low + 1)
        elif low > 0:
            high = np.float32(2 * low)
        else:
            low = np.float32(2 * high)
    step = np.float32((high - low) / np.float32(num_steps))
    bucket = np.floor((values - low) / step)
    return np.asarray(low + step * (bucket + np.float32(0.5)), np.float32)
