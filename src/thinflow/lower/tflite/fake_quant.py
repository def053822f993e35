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
    b: Builder,
    node: Node,
    x: Tensor,
    low: Tensor,
    high: Tensor,
    *,
    num_bits: int = 8,
    narrow_range: bool = False,
) -> Tensor:
    return _fake_quant(b, x, _limit(low, "min"), _limit(high, "max"), num_bits, narrow_range)


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
    return _fake_quant(b, x, min, max, num_bits, narrow_range)


def _fake_quant(b: Builder, x: Tensor, low: float, high: float, num_bits: int, narrow_range: bool) -> Tensor:
    """FAKE_QUANT, or for a narrow range, which its kernel refuses, the rounding step by step."""
    if not narrow_range:
        return b.emit("FAKE_QUANT", x, like=x, min=low, max=high, num_bits=num_bits)
    # A narrow range leaves out the lowest value, as symmetric int8 weights do.
    lowest, highest = 1.0, float(2**num_bits - 1)
    scale = (high - low) / (highest - lowest)
    # The range moves so that 0 is one of the steps.
    zero = float(np.floor(np.clip(lowest - low / scale, lowest, highest) + 0.5))
    low, high = (lowest - zero) * scale, (highest - zero) * scale
    y = b.step(
        "MINIMUM",
        b.step("MAXIMUM", x, b.scalar(low, x, "low"), shape=x.shape),
        b.scalar(high, x, "high"),
        shape=x.shape,
    )
    y = b.step("SUB", y, b.scalar(low, x, "low"), shape=x.shape)
    y = b.step("MUL", y, b.scalar(1 / scale, x, "steps"), shape=x.shape)
    # floor(x + 0.5) as TensorFlow rounds; ROUND would take halves to the even number.
    y = b.step("FLOOR", b.step("ADD", y, b.scalar(0.5, x, "half"), shape=x.shape), shape=x.shape)
    return b.emit(
        "ADD", b.step("MUL", y, b.scalar(scale, x, "scale"), shape=x.shape), b.scalar(low, x, "low"), like=x
    )
