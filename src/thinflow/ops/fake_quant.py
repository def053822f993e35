"""FakeQuant: floats as a trained eight-bit model would hold them."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops._quantized import F32, round_away, scalar
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


def nudged_range(low: Any, high: Any, bits: int, narrow: bool) -> tuple[Array, Array, Array]:
    """(floor, ceiling, step): the range moved so that zero is one of the 2**bits levels, float32."""
    require(2 <= bits <= 16, f"num_bits is {bits}, must be 2 to 16")
    low, high = np.asarray(low, F32), np.asarray(high, F32)
    # narrow_range leaves the lowest level out, so that the levels lie evenly around zero.
    least, most = F32(1 if narrow else 0), F32((1 << bits) - 1)
    with np.errstate(all="ignore"):
        scale = np.asarray((high - low) / (most - least))
        # Where zero would fall; rounded to a level, as padding with zeros must be exact in the quantized
        # model.
        exact = least - low / scale
        zero = np.where(exact < least, least, np.where(exact > most, most, round_away(exact))).astype(F32)
        return (least - zero) * scale, (most - zero) * scale, scale


def _fake_quant(x: Array, low: Any, high: Any, bits: int, narrow: bool, divide: bool) -> Array:
    """x rounded to the 2**bits levels over a range moved so that zero is one of them; float32."""
    floor, ceiling, scale = nudged_range(low, high, bits, narrow)
    low, high = np.asarray(low, F32), np.asarray(high, F32)
    with np.errstate(all="ignore"):
        inverse = F32((1 << bits) - 1 - narrow) / (high - low)
        offset = np.floor(-floor * inverse + F32(0.5))
        shifted = np.maximum(np.minimum(x, ceiling), floor) - floor
        # TensorFlow's Vars kernel divides by the step, the other two multiply by its inverse; they differ in
        # last bits.
        steps = shifted / scale if divide else shifted * inverse
        y = np.floor(steps - offset + F32(0.5)) * scale
        # A range that was never measured is 0 to 0, and the scale is then 0/0.
        return np.asarray(np.where((low == 0) & (high == 0), F32(0), y), F32)


def _on_grid(x: Array, low: float, high: float, bits: int) -> Array:
    """x rounded to the grid of a quantized file, ties to even as its runtime does; float32.

    The ends are numbers of the grid, so they need no moving; see `lift/grids.py`.
    """
    scale = F32((high - low) / ((1 << bits) - 1))
    with np.errstate(all="ignore"):
        steps = np.rint(np.asarray(x, F32) / scale)
        return np.asarray(np.clip(steps, np.rint(low / scale), np.rint(high / scale)) * scale, F32)


@op("FakeQuantWithMinMaxArgs")
class FakeQuantWithMinMaxArgs(OpDef):
    """x as num_bits bits would hold it, the range being two attributes.   x float -> like x.

    Where `_grid` says that the range is that of a quantized file's codes, ties go to even, as they do there.
    """

    traits = Trait.FAKE_QUANT | Trait.SIMULATES_QUANTIZATION | Trait.ELEMENTWISE

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(
        x: Array,
        *,
        min: float = -6.0,
        max: float = 6.0,
        num_bits: int = 8,
        narrow_range: bool = False,
        _grid: bytes | None = None,
    ) -> Array:
        require(min < max, f"min {min} is not below max {max}")
        if _grid is not None and not narrow_range and 1 < num_bits <= 16:
            return _on_grid(x, min, max, num_bits)
        return _fake_quant(x, F32(min), F32(max), num_bits, narrow_range, divide=False)

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost(flops=7 * (y.size or 0))


@op("FakeQuantWithMinMaxVars")
class FakeQuantWithMinMaxVars(OpDef):
    """x as num_bits bits would hold it.   x float, min, max scalars -> like x.

    Zero is always representable: the range is shifted until it is.
    """

    traits = Trait.FAKE_QUANT | Trait.SIMULATES_QUANTIZATION | Trait.ELEMENTWISE

    @staticmethod
    def infer(x: TensorSpec, low: TensorSpec, high: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array, low: Array, high: Array, *, num_bits: int = 8, narrow_range: bool = False) -> Array:
        return _fake_quant(x, scalar(low), scalar(high), num_bits, narrow_range, divide=True)

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost(flops=7 * (y.size or 0))


@op("FakeQuantWithMinMaxVarsPerChannel")
class FakeQuantWithMinMaxVarsPerChannel(OpDef):
    """FakeQuantWithMinMaxVars with a range per channel.   x float [...,d], min [d], max [d] -> like x."""

    traits = Trait.FAKE_QUANT | Trait.SIMULATES_QUANTIZATION

    @staticmethod
    def infer(x: TensorSpec, low: TensorSpec, high: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array, low: Array, high: Array, *, num_bits: int = 8, narrow_range: bool = False) -> Array:
        require(x.ndim >= 1, "x is a scalar, at least rank 1 is needed")
        for values in (low, high):
            require(
                values.shape == x.shape[-1:],
                f"a range has shape {list(values.shape)}, [{x.shape[-1]}] is needed",
            )
        return _fake_quant(x, low, high, num_bits, narrow_range, divide=False)

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost(flops=7 * (y.size or 0))
