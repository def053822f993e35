"""Simulated quantization.

A node marked by `range_only` becomes a FakeQuant: no op of ONNX, but a note for who quantizes the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from thinflow.ir.graph import Graph, Node
from thinflow.lower.onnx.builder import Builder, number, require, shape_of
from thinflow.lower.onnx.quantization_formulas import along
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor
from thinflow.ops._quantized import round_away
from thinflow.ops.traits import Trait, has
from thinflow.typing import Array

_GRIDS = tuple(f"QuantizeAndDequantize{version}" for version in ("", "V2", "V3", "V4"))


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
    _range_only: bool = False,
) -> Tensor:
    require(low.is_constant and high.is_constant, "min and max are computed while the model runs")
    limits = low.array(), high.array()
    if _range_only:
        return _noted(b, x, *limits, num_bits, narrow_range)
    # TensorFlow's kernel for one range divides by the scale, the others multiply with its reciprocal: the
    # last bit of a float32 may move a number to the next step.
    divides = node.op == "FakeQuantWithMinMaxVars"
    return _fake_quant(b, x, *limits, num_bits, narrow_range, divides=divides)


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
    _range_only: bool = False,
    _grid: bytes | None = None,
) -> Tensor:
    limits = np.float32(min), np.float32(max)
    # The grid of a quantized file: its ends need no moving, and their last bits tell its scale.
    if _range_only and _grid is not None and num_bits == 8 and not x.is_constant:
        return b.emit("FakeQuant", x, low=min, high=max)
    if _range_only and _grid is None:
        return _noted(b, x, *limits, num_bits, narrow_range)
    return _fake_quant(b, x, *limits, num_bits, narrow_range)


@contextmanager
def range_only(graph: Graph) -> Iterator[None]:
    """Lower simulated quantization to notes meanwhile: a FakeQuant with `low` and `high`, moved as the op
    moves them. Weights are rounded now.
    """
    marked = [node for node in graph if node.op in _GRIDS or has(node.op, Trait.FAKE_QUANT)]
    for node in marked:
        node.attrs["_range_only"] = True
    try:
        yield
    finally:
        for node in marked:
            del node.attrs["_range_only"]


def noted_grid(
    b: Builder, x: Tensor, low: Array, high: Array, bits: int, *, signed: bool, narrow: bool, half_up: bool
) -> Tensor:
    """The note for a zero point of 0 in the middle of the range; the ends broadcast against x.

    Raises:
        UnsupportedOp: the range is empty.
    """
    least = float(-(1 << (bits - 1)) + narrow) if signed else 0.0
    most = float((1 << (bits - 1)) - 1 if signed else (1 << bits) - 1)
    # The zero point is fixed, so that the wider side decides how large a step is.
    steps = np.maximum(low / least if least else np.zeros_like(low), high / most)
    require(bool((steps > 0).all()), "the range is empty")
    if not x.is_constant:
        return b.emit("FakeQuant", x, low=float(np.max(steps)) * least, high=float(np.max(steps)) * most)
    in_steps = x.array() / steps
    in_steps = np.floor(in_steps + 0.5) if half_up else np.rint(in_steps)
    return b.const((np.clip(in_steps, least, most) * steps).astype(x.array().dtype), "rounded")


def _noted(b: Builder, x: Tensor, low: Array, high: Array, num_bits: int, narrow_range: bool) -> Tensor:
    low, high, inverse, scale = _steps(low, high, num_bits, narrow_range)
    if not x.is_constant:
        # A note has one range: that which holds the ranges of all channels.
        return b.emit("FakeQuant", x, low=float(np.min(low)), high=float(np.max(high)))
    half = np.float32(0.5)
    shifted = np.maximum(np.minimum(x.array(), high), low) - low
    # As in `_fake_quant`, in its order of float32 operations.
    in_steps = np.floor(shifted * inverse - np.floor(-low * inverse + half) + half)
    return b.const((in_steps * scale).astype(np.float32), "rounded")


def _fake_quant(
    b: Builder,
    x: Tensor,
    low: Array,
    high: Array,
    num_bits: int,
    narrow_range: bool,
    *,
    divides: bool = False,
) -> Tensor:
    """Rounding to the steps of a range, number by number as TensorFlow computes it.

    No QuantizeLinear: that rounds halves to even, where a FakeQuant rounds them up.
    """
    low, high, inverse, scale = _steps(low, high, num_bits, narrow_range)
    in_steps = _clamped(b, x, low, high)
    # For a low end of 0 there is nothing to take off, neither here nor for the zero.
    if low.any():
        in_steps = b.step("Sub", in_steps, b.const(low, "low"))
    in_steps = b.step("Div", in_steps, b.const(scale, "scale")) if divides else in_steps
    in_steps = in_steps if divides else b.step("Mul", in_steps, b.const(inverse, "steps"))
    if low.any():  # first the zero and then the half: another order rounds in other places
        offset = np.floor(-low * inverse + np.float32(0.5))
        in_steps = b.step("Sub", in_steps, b.const(offset, "zero"))
    whole = b.step("Floor", b.step("Add", in_steps, b.const(np.float32(0.5), "half")))
    return b.emit("Mul", whole, b.const(scale, "scale"), like=x)


def _clamped(b: Builder, x: Tensor, low: Array, high: Array) -> Tensor:
    # Clip takes one number for each limit; limits per channel need a Min and a Max.
    if low.size > 1:
        return b.step("Max", b.step("Min", x, b.const(high, "high")), b.const(low, "low"))
    return b.step("Clip", x, b.const(low.reshape(()), "low"), b.const(high.reshape(()), "high"))


def _steps(low: Array, high: Array, num_bits: int, narrow_range: bool) -> tuple[Array, Array, Array, Array]:
    """Low and high end of a range, moved so that 0 is one of its steps; steps per unit, units per step."""
    lowest, highest = np.float32(narrow_range), np.float32(2**num_bits - 1)
    require(bool((np.asarray(high) > low).all()), "max is not above min")
    scale = ((high - low) / (highest - lowest)).astype(np.float32)
    inverse = ((highest - lowest) / (high - low)).astype(np.float32)
    exact = lowest - low / scale
    # 0 is exact only if the zero point is a whole number: both ends move with it, by less than a step.
    zero = np.where(exact < lowest, lowest, np.where(exact > highest, highest, round_away(exact)))
    low = ((lowest - zero) * scale).astype(np.float32)
    high = ((highest - zero) * scale).astype(np.float32)
    return low, high, inverse, scale


# --- a zero point of 0 -----------------------------------------------------------------------


def _rounded(
    b: Builder,
    x: Tensor,
    low: Tensor,
    high: Tensor,
    bits: int,
    signed: bool,
    given: bool,
    half_up: bool,
    narrow: bool,
    axis: int,
    note: bool,
) -> Tensor:
    """x rounded to the steps that some bits make of the range, in the type of x."""
    # TensorFlow's own limits.
    require(1 <= bits <= (61 if signed else 62), f"num_bits is {bits}")
    require(x.dtype.name in ("float", "double"), f"rounding {x.dtype} to a range has no ONNX form")
    value = Term(b, x)
    if note and given and low.is_constant and high.is_constant:
        ends_now = [along(b, t, x, axis).tensor.array() for t in (low, high)]
        return noted_grid(b, x, ends_now[0], ends_now[1], bits, signed=signed, narrow=narrow, half_up=half_up)
    if given:
        ends = [along(b, t, x, axis) for t in (low, high)]
    else:
        rank = len(shape_of(x, "x"))
        others = [a for a in range(rank) if a != axis]
        # Without a given range each run takes that of its own numbers, per axis if one is named.
        ends = [value.reduced(code, *others, keep=axis >= 0) for code in ("ReduceMin", "ReduceMax")]
    least = float(-(1 << (bits - 1)) + (1 if narrow else 0)) if signed else 0.0
    most = float((1 << (bits - 1)) - 1 if signed else (1 << bits) - 1)
    # The scale of a side without numbers is the largest float, so that the other side decides, as in
    # TensorFlow.
    limit = float(np.finfo(x.dtype.numpy()).max)
    by_low = choose(ends[0] * least > 0, least / ends[0], limit)
    by_high = choose(ends[1] * most > 0, most / ends[1], limit)
    decides = by_low < by_high
    scale = choose(decides, by_low, by_high)
    inverse = choose(decides, ends[0] / least, ends[1] / most) if least else ends[1] / most
    if given:
        bottom = choose(decides, ends[0], inverse * least)
        top = choose(decides, inverse * most, ends[1])
        # Measured ranges hold all numbers: only given ones clip.
        value = value.least(top).most(bottom)
    scaled = value * scale
    whole = (scaled + 0.5).floor() if half_up else scaled.rounded()
    return b.result((whole * inverse).tensor)


@lower("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4", to="onnx")
def quantize_and_dequantize(
    b: Builder,
    node: Node,
    x: Tensor,
    low: Tensor,
    high: Tensor,
    *,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    narrow_range: bool = False,
    axis: int = -1,
    _range_only: bool = False,
) -> Tensor:
    up = round_mode == "HALF_UP"
    return _rounded(b, x, low, high, num_bits, signed_input, range_given, up, narrow_range, axis, _range_only)


@lower("QuantizeAndDequantizeV3", to="onnx")
def quantize_and_dequantize_v3(
    b: Builder,
    node: Node,
    x: Tensor,
    low: Tensor,
    high: Tensor,
    bits: Tensor,
    *,
    signed_input: bool = True,
    range_given: bool = True,
    narrow_range: bool = False,
    axis: int = -1,
    _range_only: bool = False,
) -> Tensor:
    count = int(number(bits, "num_bits"))
    return _rounded(b, x, low, high, count, signed_input, range_given, False, narrow_range, axis, _range_only)


@lower("QuantizeAndDequantize", to="onnx")
def quantize_and_dequantize_v1(
    b: Builder,
    node: Node,
    x: Tensor,
    *,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    input_min: float = 0.0,
    input_max: float = 0.0,
    _range_only: bool = False,
) -> Tensor:
    low, high = b.scalar(input_min, x, "low"), b.scalar(input_max, x, "high")
    return _rounded(b, x, low, high, num_bits, signed_input, range_given, False, False, -1, _range_only)
