"""Quantize, requantize, dequantize and simulated quantization."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.analysis.quant_params import QuantParams
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT, QUINT8, DType
from thinflow.lower.quantized.accumulators import RequantTarget, steps_from_low_end
from thinflow.lower.rules import lower
from thinflow.lower.tflite.accumulators import Accumulators, QuantizedValue
from thinflow.lower.tflite.builder import Builder, require
from thinflow.lower.tflite.dynamic_ranges import FloatAccumulators, quantize_dynamically
from thinflow.lower.tflite.quantized import dequantized, with_range
from thinflow.lower.tflite.quantized_context import params_of, quantized_result
from thinflow.lower.tflite.requantized_float_layers import requantized_layer
from thinflow.ops._quantized import encode, is_native
from thinflow.tflite.model import Tensor

Three = tuple[Any, ...]
_EIGHT = ("quint8", "qint8")
_UNSEEN = 0.02
"""Steps that are not worth an ADD before a QUANTIZE: of fifty results one becomes its neighbour."""


@lower("QuantizeV2", to="tflite")
def quantize_v2(
    b: Builder,
    node: Node,
    x: Tensor,
    low: Tensor,
    high: Tensor,
    *,
    T: DType = QUINT8,
    mode: str = "MIN_COMBINED",
    axis: int = -1,
    ensure_minimum_range: float = 0.01,
) -> Three:
    """QUANTIZE where the range is known, or the layer in front in integers; else in float."""
    require(
        mode == "MIN_FIRST" and axis < 0,
        f"LiteRT quantizes as the mode MIN_FIRST does, not {mode}",
    )
    params = b.quantized.params(node.output())
    if params is None:
        require(T is QUINT8 or T.name == "qint8", f"values of {T} need a range that is fixed")
        is_within = _is_end(node, "Min", 1) and _is_end(node, "Max", 2)
        return (quantize_dynamically(b, x, low, high, T, ensure_minimum_range, is_within=is_within),)
    if T.name in _EIGHT:
        to = _target(params_of(b, node.output()))
        return with_range(b, requantized_layer(b, x, to) or _quantized(b, x, to))
    return with_range(b, FloatAccumulators(_clamped(b, x, params)))


def _is_end(node: Node, op: str, number: int) -> bool:
    """True if an end of the range is that of all that is quantized, as the transform finds it."""
    found = node.inputs[number].node
    if found.op != op or len(found.inputs) != 2 or found.inputs[1].node.tensor is None:
        return False
    # `quantize_nodes` measures Min and Max of the flattened tensor.
    flat = found.inputs[0].node
    is_flat = flat.op == "Reshape" and flat.inputs[0] is node.inputs[0]
    sizes = flat.inputs[1].node.tensor if is_flat else None
    return sizes is not None and np.asarray(sizes.numpy()).tolist() == [-1]


def _target(params: QuantParams) -> RequantTarget:
    """The target of QuantizeV2: oneDNN's kernel counts unsigned values from the lower end of the range."""
    if params.dtype is not QUINT8 or is_native():
        return RequantTarget.of(params, _steps_off(params) if params.dtype is not QUINT8 else 0.0)
    # In float32 as the kernel: the zero point before it is rounded. The kernel adds its fraction to every
    # value.
    low, high = np.float32(params.low), np.float32(params.high)
    return RequantTarget.of(params, float(-low * (np.float32(255) / (high - low))) - params.zero_point)


def _quantized(b: Builder, x: Tensor, to: RequantTarget) -> Tensor:
    if abs(to.shift) > _UNSEEN * to.scale:
        x = b.step("ADD", x, b.const(np.float32(to.shift), "offset", FLOAT), shape=x.shape)
    y = quantized_result(b, to)
    b.append("QUANTIZE", [x], [y], {})
    return y


def _clamped(b: Builder, x: Tensor, params: QuantParams) -> Tensor:
    low, high = (b.const(np.float32(end), "limit", FLOAT) for end in (params.low, params.high))
    # A 32-bit step is far below what eight bits show: of quantizing to qint32 only the saturation is left.
    return b.step("MINIMUM", b.step("MAXIMUM", x, low, shape=x.shape), high, shape=x.shape)


@lower("Requantize", to="tflite")
def requantize(
    b: Builder,
    node: Node,
    q: QuantizedValue,
    low: Tensor,
    high: Tensor,
    wanted_low: Tensor,
    wanted_high: Tensor,
) -> Three:
    """The operator that makes the 32-bit accumulators rounds them."""
    params = params_of(b, node.output())
    if isinstance(q, FloatAccumulators):
        return with_range(b, _quantized(b, q.tensor, RequantTarget.of(params)))
    if not isinstance(q, Accumulators):
        raise UnsupportedOp("its 32-bit values are not made by an op that LiteRT rounds in the same step")
    return with_range(b, q.requantized(b, RequantTarget.of(params, _steps_off(params))))


def _steps_off(params: QuantParams) -> float:
    """Steps by which the op's own values lie above those that its readers take them for.

    Values of qint8 are counted from 0, which float32 may round to the one beside the zero point.
    """
    if params.dtype is QUINT8:
        return steps_from_low_end(params)
    ends = np.float32(params.low), np.float32(params.high)
    return float(encode(np.zeros(1), *ends, params.dtype.numpy())[0]) - params.zero_point


@lower("RequantizationRange", "QuantizeDownAndShrinkRange", to="tflite")
def requantization_range(b: Builder, node: Node, q: QuantizedValue, low: Tensor, high: Tensor) -> Tensor:
    """Refused: what is measured in every run would need 32-bit tensors."""
    params_of(b, node.output())
    raise UnsupportedOp("LiteRT has no 32-bit quantized values to measure")


@lower("Dequantize", to="tflite")
def dequantize(
    b: Builder,
    node: Node,
    q: QuantizedValue,
    low: Tensor,
    high: Tensor,
    *,
    mode: str = "MIN_COMBINED",
    axis: int = -1,
    dtype: DType = FLOAT,
) -> Tensor:
    require(
        mode == "MIN_FIRST" and axis < 0,
        f"LiteRT quantizes as the mode MIN_FIRST does, not {mode}",
    )
    require(dtype is FLOAT, f"LiteRT makes float of quantized values, not {dtype}")
    return dequantized(b, q, node.inputs[0])


# ---- Simulated quantization.


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
