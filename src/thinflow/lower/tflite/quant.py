"""Simulated quantization."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Node
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.program import Tensor


def _limit(x: Tensor, what: str) -> float:
    if not x.is_constant or np.asarray(x.array()).size != 1:
        raise UnsupportedOp(f"{what} is computed while the model runs; TFLite wants it fixed")
    return float(np.asarray(x.array()).reshape(()))


@lower("FakeQuantWithMinMaxVars", to="tflite")
def fake_quant_vars(
    b: Builder, node: Node, x: Tensor, low: Tensor, high: Tensor, *, num_bits: int = 8, narrow_range: bool = False
) -> Tensor:
    limits = {"min": _limit(low, "min"), "max": _limit(high, "max")}
    return b.emit("FAKE_QUANT", x, like=x, **limits, num_bits=num_bits, narrow_range=narrow_range)


@lower("FakeQuantWithMinMaxArgs", to="tflite")
def fake_quant_args(
    b: Builder,
    node: Node,
    x: Tensor,
    *,
    min: float = -6.0,
    max: float = 6.0,
    num_bits: int = 8,
    narrow_range: bool = False,
) -> Tensor:
    return b.emit("FAKE_QUANT", x, like=x, min=min, max=max, num_bits=num_bits, narrow_range=narrow_range)
