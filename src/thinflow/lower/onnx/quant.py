"""Simulated quantization."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.lower.onnx.builder import Array, Builder, require
from thinflow.lower.onnx.program import Tensor
from thinflow.lower.rules import lower


@lower("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel", to="onnx")
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
    require(low.is_constant and high.is_constant, "min and max are computed while the model runs")
    return _fake_quant(b, x, low.array(), high.array(), num_bits, narrow_range)


@lower("FakeQuantWithMinMaxArgs", to="onnx")
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
    return _fake_quant(b, x, np.float32(min), np.float32(max), num_bits, narrow_range)


def _fake_quant(b: Builder, x: Tensor, low: Array, high: Array, num_bits: int, narrow_range: bool) -> Tensor:
    """Rounding to the steps of a range, which is moved so that 0 is one of them."""
    lowest, highest = np.float32(narrow_range), np.float32(2**num_bits - 1)
    require(bool((np.asarray(high) > low).all()), "max is not above min")
    scale = ((high - low) / (highest - lowest)).astype(np.float32)
    inverse = ((highest - lowest) / (high - low)).astype(np.float32)
    zero = lowest - low / scale
    zero = np.where(
        zero < lowest, lowest, np.where(zero > highest, highest, np.floor(zero + np.float32(0.5)))
    )
    low = ((lowest - zero) * scale).astype(np.float32)
    high = ((highest - zero) * scale).astype(np.float32)
    inside = b.step("Max", b.step("Min", x, b.const(high, "high")), b.const(low, "low"))
    steps = b.step("Mul", b.step("Sub", inside, b.const(low, "low")), b.const(inverse, "steps"))
    whole = b.step("Floor", b.step("Add", steps, b.const(np.float32(0.5), "half")))
    return b.emit("Add", b.step("Mul", whole, b.const(scale, "scale")), b.const(low, "low"), like=x)
