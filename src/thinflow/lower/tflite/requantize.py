"""From reals to codes, from one grid to another, and back to reals."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.analysis.grids import Grid
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT, QUINT8, DType
from thinflow.lower.rules import lower
from thinflow.lower.tflite.between import coded_layer
from thinflow.lower.tflite.builder import Builder, require
from thinflow.lower.tflite.coding import grid_of, landed
from thinflow.lower.tflite.measured import Reals, measured
from thinflow.lower.tflite.program import Tensor
from thinflow.lower.tflite.quantized import reals_of, with_range
from thinflow.lower.tflite.sums import Landing, Slot, Sums
from thinflow.ops._quantized import encode, is_native

Three = tuple[Any, ...]
_EIGHT = ("quint8", "qint8")
_UNSEEN = 0.02
"""Codes that a result may move by unheeded."""


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
    """QUANTIZE where the range is known, or the layer in front in integers. Else the codes are made
    in float.
    """
    require(mode == "MIN_FIRST" and axis < 0, f"LiteRT's codes are those of the mode MIN_FIRST, not {mode}")
    grid = b.coding.grid(node.output())
    if grid is None:
        require(T is QUINT8 or T.name == "qint8", f"codes of {T} need a range that is fixed")
        is_within = _is_end(node, "Min", 1) and _is_end(node, "Max", 2)
        return (measured(b, x, low, high, T, ensure_minimum_range, is_within=is_within),)
    if T.name in _EIGHT:
        to = _landing(grid_of(b, node.output()))
        return with_range(b, coded_layer(b, x, to) or _quantized(b, x, to))
    return with_range(b, Reals(_clamped(b, x, grid)))


def _is_end(node: Node, op: str, number: int) -> bool:
    """Whether an end of the range is that of all that is quantized, as the transform finds it."""
    found = node.inputs[number].node
    if found.op != op or len(found.inputs) != 2 or found.inputs[1].node.tensor is None:
        return False
    flat = found.inputs[0].node
    is_flat = flat.op == "Reshape" and flat.inputs[0] is node.inputs[0]
    sizes = flat.inputs[1].node.tensor if is_flat else None
    return sizes is not None and np.asarray(sizes.numpy()).tolist() == [-1]


def _landing(grid: Grid) -> Landing:
    """Where QuantizeV2 rounds to: oneDNN's kernel counts unsigned codes from the lower end of the range."""
    if grid.dtype is not QUINT8 or is_native():
        return Landing(grid, _offset(grid) if grid.dtype is not QUINT8 else 0.0)
    low, high = np.float32(grid.low), np.float32(grid.high)
    return Landing(grid, float(-low * (np.float32(255) / (high - low))) - grid.zero_point)


def _quantized(b: Builder, x: Tensor, to: Landing) -> Tensor:
    if abs(to.offset) > _UNSEEN:
        x = b.step("ADD", x, b.const(np.float32(to.offset * to.grid.scale), "offset", FLOAT), shape=x.shape)
    y = landed(b, to.grid)
    b.append("QUANTIZE", [x], [y], {})
    return y


def _clamped(b: Builder, x: Tensor, grid: Grid) -> Tensor:
    low, high = (b.const(np.float32(end), "limit", FLOAT) for end in (grid.low, grid.high))
    return b.step("MINIMUM", b.step("MAXIMUM", x, low, shape=x.shape), high, shape=x.shape)


@lower("Requantize", to="tflite")
def requantize(
    b: Builder, node: Node, q: Slot, low: Tensor, high: Tensor, wanted_low: Tensor, wanted_high: Tensor
) -> Three:
    """The operator that makes the 32-bit codes rounds them."""
    grid = grid_of(b, node.output())
    if isinstance(q, Reals):
        return with_range(b, _quantized(b, q.tensor, Landing(grid)))
    if not isinstance(q, Sums):
        raise UnsupportedOp("its 32-bit codes are not made by an op that LiteRT rounds in the same step")
    return with_range(b, q.rounded(b, Landing(grid, _offset(grid))))


def _offset(grid: Grid) -> float:
    """How many steps the op's own grid, which starts at the lower end, lies above that of its readers.

    Codes of qint8 are counted from 0 already, which float32 may round to the code beside that of the grid.
    """
    if grid.dtype is not QUINT8:
        ends = np.float32(grid.low), np.float32(grid.high)
        return float(encode(np.zeros(1), *ends, grid.dtype.numpy())[0]) - grid.zero_point
    return -grid.low / grid.scale - grid.zero_point


@lower("RequantizationRange", "QuantizeDownAndShrinkRange", to="tflite")
def requantization_range(b: Builder, node: Node, q: Slot, low: Tensor, high: Tensor) -> Tensor:
    """Refused: what is measured in every run would need 32-bit codes."""
    grid_of(b, node.output())
    raise UnsupportedOp("LiteRT has no 32-bit codes to measure")


@lower("Dequantize", to="tflite")
def dequantize(
    b: Builder,
    node: Node,
    q: Slot,
    low: Tensor,
    high: Tensor,
    *,
    mode: str = "MIN_COMBINED",
    axis: int = -1,
    dtype: DType = FLOAT,
) -> Tensor:
    require(mode == "MIN_FIRST" and axis < 0, f"LiteRT's codes are those of the mode MIN_FIRST, not {mode}")
    require(dtype is FLOAT, f"LiteRT makes float of codes, not {dtype}")
    return reals_of(b, q, node.inputs[0])
