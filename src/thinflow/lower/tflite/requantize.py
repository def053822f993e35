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
from thinflow.lower.tflite.program import Tensor
from thinflow.lower.tflite.quantized import reals_of, with_range
from thinflow.lower.tflite.sums import Landing, Reals, Slot, Sums
from thinflow.ops._quantized import encode

Three = tuple[Any, ...]
_EIGHT = ("quint8", "qint8")


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
) -> Three:
    """QUANTIZE where the range is known, or the layer in front in integers. Else the reals stay as they
    are: who reads them rounds.
    """
    require(mode == "MIN_FIRST" and axis < 0, f"LiteRT's codes are those of the mode MIN_FIRST, not {mode}")
    grid = b.coding.grid(node.output())
    if grid is None:
        require(T is QUINT8 or T.name == "qint8", f"codes of {T} need a range that is fixed")
        return (Reals(x, (low, high), T),)
    if T.name in _EIGHT:
        grid = grid_of(b, node.output())
        return with_range(b, coded_layer(b, x, grid) or _quantized(b, x, grid))
    return with_range(b, Reals(_clamped(b, x, grid), dtype=T))


def _quantized(b: Builder, x: Tensor, grid: Grid) -> Tensor:
    y = landed(b, grid)
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
        return with_range(b, _quantized(b, q.tensor, grid))
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
